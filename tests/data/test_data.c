/* Permutations, text files and language-model batches: each batch is restored
 * and compared with its text, and mistakes are refused with one line. */
#include "data/data.h"
#include "data/internal.h"
#include "data/walk.h"
#include "lib/datalib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Permutations and splits -------------------------------------------- */

static void permutation_is_a_bijection(void **state)
{
    static const uint64_t sizes[] = { 1,   2,   3,    4,    5,    7,
                                      15,  16,  17,   63,   64,   65,
                                      256, 257, 1000, 4096, 65537 };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(sizes); k++) {
        uint64_t n = sizes[k];
        unsigned char *seen = calloc(n, 1);

        for (uint64_t key = 0; key < 4; key++) {
            memset(seen, 0, n);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t p = vp_permute(key, 10 * key, n, i);

                assert_true(p < n);
                assert_int_equal(seen[p]++, 0);
            }
        }
        free(seen);
    }
    /* The largest domains: each half of the Feistel network has 31 or 32
     * bits. */
    assert_true(vp_permute(1, 2, UINT64_MAX, UINT64_MAX - 1) < UINT64_MAX);
    assert_true(vp_permute(1, 2, UINT64_C(1) << 62, 5) < UINT64_C(1) << 62);
}

static void permutation_depends_on_seed_and_epoch(void **state)
{
    int same_epoch = 0, same_seed = 0, same_high = 0, fixed = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t p = vp_permute(1, 0, 1000, i);

        fixed += p == i;
        same_epoch += p == vp_permute(1, 1, 1000, i);
        same_seed += p == vp_permute(2, 0, 1000, i);
        same_high += p == vp_permute(1 | UINT64_C(1) << 40, 0, 1000, i);
    }
    /* One agreement is expected by chance; nine have a probability of 1e-6. */
    assert_true(fixed < 9 && same_epoch < 9 && same_seed < 9 && same_high < 9);
}

/* Pinned, because resumed runs depend on these numbers. */
static void permutation_is_stable(void **state)
{
    static const uint64_t want[3][10] = {
        { 8, 9, 6, 5, 1, 4, 7, 3, 0, 2 },
        { 6, 0, 1, 9, 4, 8, 7, 2, 5, 3 },
        { 6, 0, 3, 7, 1, 5, 4, 8, 2, 9 },
    };

    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(vp_permute(1, 0, 10, i), want[0][i]);
        assert_int_equal(vp_permute(1, 1, 10, i), want[1][i]);
        assert_int_equal(vp_permute(2, 0, 10, i), want[2][i]);
    }
}

/* Over many epochs each of the 24 orders of four elements is equally
 * frequent. */
static void permutation_is_fair(void **state)
{
    int count[256] = { 0 };
    int n_orders = 0;

    (void)state;
    for (uint64_t epoch = 0; epoch < 24000; epoch++) {
        unsigned order = 0;

        for (uint64_t i = 0; i < 4; i++)
            order = order * 4 + (unsigned)vp_permute(7, epoch, 4, i);
        count[order]++;
    }
    for (int i = 0; i < 256; i++) {
        if (count[i] == 0)
            continue;
        n_orders++;
        assert_in_range(count[i], 850, 1150); /* 1000 +- 4.8 sigma */
    }
    assert_int_equal(n_orders, 24);
}

static void splits_share_no_sample(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 200; n++) {
        unsigned char seen[200] = { 0 };

        for (int split = VP_DATA_TRAIN; split <= VP_DATA_EVAL; split++) {
            for (int64_t k = 0; k < vp_split_count(split, n); k++) {
                int64_t i = vp_split_sample(split, k);

                assert_in_range(i, 0, n - 1);
                assert_int_equal(seen[i]++, 0);
                assert_int_equal(i % 10 == 9, split == VP_DATA_EVAL);
            }
        }
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
    }
}

/* ---- Text files --------------------------------------------------------- */

static void folders_are_walked_in_order(void **state)
{
    struct vp_text text;
    struct vp_err err;

    (void)state;
    mkdir(at("b"), 0777);
    mkdir(at("b/deep"), 0777);
    mkdir(at(".git"), 0777);
    mkdir(at("build-x"), 0777);
    write_text("z.md", "Z"); /* gets a newline */
    write_text("a.c", "A\n");
    write_text("b/deep/x.py", "X\n");
    write_text("b/a.yml", "Y\n");
    write_text("b.txt", "B\n"); /* '.' sorts after the folder "b" */
    write_text("c.cmake", "C\n");
    write_text("empty.sh", "");
    write_text(".hidden.c", "no\n");
    write_text(".git/x.c", "no\n");
    write_text("build-x/x.c", "no\n");
    write_text("picture.m", "no\n");
    write_text("object.o", "no\n");
    write_text("name", "no\n");
    assert_int_equal(symlink(folder, at("loop")), 0);
    assert_int_equal(symlink(at("a.c"), at("link.c")), 0);

    assert_int_equal(vp_text_read(folder, false, &text, &err), VP_OK);
    assert_int_equal(text.n_bytes, 12);
    assert_memory_equal(text.bytes, "A\nY\nX\nB\nC\nZ\n", 12);
    assert_int_equal(text.n_files, 7);
    vp_text_release(&text);
    /* A file that is given directly is read whatever its name. */
    assert_int_equal(vp_text_read(at("name"), false, &text, &err), VP_OK);
    assert_memory_equal(text.bytes, "no\n", 3);
    vp_text_release(&text);
}

static void large_files_are_read_whole(void **state)
{
    static const size_t sizes[] = { 1, 65535, 65536, 65537, 300000 };
    struct vp_text text;
    struct vp_err err;

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(sizes); k++) {
        unsigned char *bytes = write_noise("noise", sizes[k]);

        assert_int_equal(vp_text_read(at("noise"), false, &text, &err), VP_OK);
        assert_int_equal(text.n_bytes, sizes[k]);
        assert_memory_equal(text.bytes, bytes, sizes[k]);
        vp_text_release(&text);
        free(bytes);
    }
}

/* ---- Masked LM ---------------------------------------------------------- */

enum { B = 4, S = 23, N = S - 3, K = 3 }; /* K = 20 * 0.15 */

/* Counts of all scored tokens. */
struct masked_stats {
    double n, hidden, other, kept;
    double at_position[S];
};

/* Restores a masked batch and compares it with the text; counts each window in
 * `seen`. */
static void check_masked(const struct vp_batch *batch,
                         const unsigned char *text, int64_t n_windows,
                         int per_sequence, int *seen,
                         struct masked_stats *stats)
{
    int32_t *tokens = batch->array[VP_ROLE_TOKENS];
    const int32_t *rows = batch->array[VP_ROLE_LABEL_ROWS];
    const int32_t *labels = batch->array[VP_ROLE_LABELS];

    assert_int_equal(batch->n_tokens, batch->n_samples * S);
    for (int64_t r = 0; r < batch->n_samples * per_sequence; r++) {
        int32_t shown = tokens[rows[r]];

        assert_int_equal(rows[r] / S, r / per_sequence);
        if (r > 0)
            assert_true(rows[r] > rows[r - 1]);
        stats->n++;
        stats->hidden += shown == VP_TOKEN_MASK;
        stats->kept += shown == labels[r];
        stats->other += shown != VP_TOKEN_MASK && shown != labels[r];
        stats->at_position[rows[r] % S]++;
        tokens[rows[r]] = labels[r]; /* restores the text */
    }
    for (int64_t i = 0; i < B; i++) {
        const int32_t *row = tokens + i * S;
        bool real = i < batch->n_samples;
        unsigned char window[N];
        int64_t w = 0;

        for (int t = 0; t < S; t++) {
            assert_int_equal(batch->array[VP_ROLE_MASK][i * S + t], real);
            assert_int_equal(batch->array[VP_ROLE_TYPES][i * S + t],
                             real && t > 11);
            if (!real)
                assert_int_equal(row[t], VP_TOKEN_PAD);
        }
        if (!real)
            continue;
        assert_int_equal(row[0], VP_TOKEN_CLS);
        assert_int_equal(row[11], VP_TOKEN_SEP);
        assert_int_equal(row[S - 1], VP_TOKEN_SEP);
        for (int t = 0; t < N; t++)
            window[t] = (unsigned char)(row[t < 10 ? t + 1 : t + 2] -
                                        VP_TOKEN_FIRST);
        while (w < n_windows && memcmp(window, text + w * N, N) != 0)
            w++;
        assert_true(w < n_windows);
        seen[w]++;
    }
}

static void assert_unused(const int32_t *a, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        assert_int_equal(a[i], -1);
}

/* The text has 93 windows and a rest: 84 windows for training, which fill all
 * batches, and 9 held out, which do not. */
enum { N_WINDOWS = 93, N_TEXT = N_WINDOWS * N + 7 };

static void masked_batches_show_the_text(void **state)
{
    static const struct vp_dims dims[] = { { B, S, 0, B * K },
                                           { B, S, 0, B * S } };
    unsigned char *text = write_noise("noise", N_TEXT);
    struct masked_stats stats = { 0 }, held_out = { 0 };
    struct vp_data_config config = {
        .source = VP_DATA_TEXT,
        .task = VP_DATA_MASKED_LM,
        .path = at("noise"),
        .vocab = 1000,
        .seed = 9,
        .mask_prob = 0.15f,
        .dims = dims,
        .n_dims = 2,
    };

    (void)state;
    for (int split = VP_DATA_TRAIN; split <= VP_DATA_EVAL; split++) {
        int64_t want = split == VP_DATA_TRAIN ? 84 : 9;
        struct vp_data *data;
        struct vp_batch *batch;

        config.split = split;
        data = open_data(&config);
        batch = make_batch(data);
        assert_int_equal(vp_data_info(data)->n_samples, want);
        assert_int_equal(vp_data_info(data)->n_batches, (want + B - 1) / B);
        assert_int_equal(vp_data_info(data)->vocab, 260);
        for (uint64_t epoch = 0; epoch < 200; epoch++) {
            uint64_t n_batches = (uint64_t)vp_data_info(data)->n_batches;
            int seen[N_WINDOWS] = { 0 };

            for (uint64_t j = 0; j < n_batches; j++) {
                fill(data, epoch * n_batches + j, batch);
                assert_int_equal(batch->bucket, 0);
                assert_int_equal(batch->first_sample,
                                 epoch * (uint64_t)want + j * B);
                assert_int_equal(batch->n_samples,
                                 j + 1 < n_batches ? B : (want - 1) % B + 1);
                assert_unused(batch->array[VP_ROLE_LABELS],
                              batch->n_samples * K, B * K);
                assert_unused(batch->array[VP_ROLE_LABEL_ROWS],
                              batch->n_samples * K, B * K);
                check_masked(batch, text, N_WINDOWS, K, seen,
                             split == VP_DATA_TRAIN ? &stats : &held_out);
            }
            for (int w = 0; w < N_WINDOWS; w++)
                assert_int_equal(seen[w],
                                 (w % 10 == 9) == (split == VP_DATA_EVAL));
        }
        vp_batch_free(batch);
        vp_data_close(data);
    }
    /* 50400 scored tokens: sigma is 0.0018 for 0.8 and 0.0013 for 0.1. A random
     * word equals the hidden one in 1 of 256 cases. Held-out samples are masked
     * the same way in every epoch, so their counts prove less. */
    assert_true(stats.n == 200.0 * 84 * K);
    assert_true(held_out.n == 200.0 * 9 * K);
    assert_true(fabs(stats.hidden / stats.n - 0.8) < 0.008);
    assert_true(fabs(stats.other / stats.n - 0.1 * 255 / 256) < 0.006);
    assert_true(fabs(stats.kept / stats.n - 0.1) < 0.006);
    for (int t = 0; t < S; t++) {
        bool special = t == 0 || t == 11 || t == S - 1;

        if (special)
            assert_true(stats.at_position[t] == 0);
        else /* 15 % of 16800: 2520 +- 46 */
            assert_true(fabs(stats.at_position[t] - 2520) < 231);
    }
    free(text);
}

/* Returns the scored positions of a window as bits. */
static uint32_t mask_bits(const struct vp_batch *batch)
{
    uint32_t bits = 0;

    for (int r = 0; r < K; r++)
        bits |= 1u << batch->array[VP_ROLE_LABEL_ROWS][r];
    return bits;
}

static void masks_change_with_epoch_and_seed(void **state)
{
    static const struct vp_dims dims = { 1, S, 0, K };
    int same_epoch = 0, same_seed = 0;
    struct vp_data_config config = {
        .source = VP_DATA_TEXT,
        .task = VP_DATA_MASKED_LM,
        .mask_prob = 0.15f,
        .dims = &dims,
        .n_dims = 1,
        .path = at("noise"),
    };

    (void)state;
    free(write_noise("noise", N)); /* a single window */
    for (uint64_t i = 0; i < 100; i++) {
        uint32_t bits[3];

        for (int k = 0; k < 3; k++) {
            struct vp_data *data;
            struct vp_batch *batch;

            config.seed = k == 2;
            data = open_data(&config);
            batch = make_batch(data);
            assert_int_equal(vp_data_info(data)->n_batches, 1);
            fill(data, k == 1 ? i + 1 : i, batch);
            bits[k] = mask_bits(batch);
            vp_batch_free(batch);
            vp_data_close(data);
        }
        same_epoch += bits[0] == bits[1];
        same_seed += bits[0] == bits[2];
    }
    assert_true(same_epoch < 5 && same_seed < 5); /* 1 of 1140 by chance */
}

/* Returns the sum of a hash of tokens and labels over the samples of an epoch
 * that starts at batch `first`. The order of samples does not matter. */
static uint64_t sum_questions(const struct vp_data *data,
                              struct vp_batch *batch, uint64_t first)
{
    uint64_t n = (uint64_t)vp_data_info(data)->n_batches, sum = 0;

    for (uint64_t m = first; m < first + n; m++) {
        fill(data, m, batch);
        for (int64_t i = 0; i < batch->n_samples; i++) {
            uint64_t hash = 14695981039346656037u;

            for (int t = 0; t < S; t++)
                hash = (hash ^
                        (uint32_t)batch->array[VP_ROLE_TOKENS][i * S + t]) *
                       1099511628211u;
            for (int k = 0; k < K; k++)
                hash = (hash ^
                        (uint32_t)batch->array[VP_ROLE_LABELS][i * K + k]) *
                       1099511628211u;
            sum += hash;
        }
    }
    return sum;
}

/* Held-out samples are masked the same way at every batch size and in every
 * epoch; training samples are not. */
static void held_out_questions_stay(void **state)
{
    struct vp_dims dims = { 1, S, 0, K };
    struct vp_data_config config = {
        .source = VP_DATA_TEXT,
        .task = VP_DATA_MASKED_LM,
        .mask_prob = 0.15f,
        .dims = &dims,
        .n_dims = 1,
        .path = at("noise"),
    };

    (void)state;
    free(write_noise("noise", N_TEXT));
    for (int split = VP_DATA_TRAIN; split <= VP_DATA_EVAL; split++) {
        uint64_t want = 0;

        config.split = split;
        for (int64_t size = 1; size < 12; size++) {
            struct vp_data *data;
            struct vp_batch *batch;
            uint64_t n;

            dims = (struct vp_dims){ size, S, 0, size * K };
            data = open_data(&config);
            batch = make_batch(data);
            n = (uint64_t)vp_data_info(data)->n_batches;
            want = size == 1 ? sum_questions(data, batch, 0) : want;
            assert_int_equal(sum_questions(data, batch, n) == want,
                             split == VP_DATA_EVAL);
            vp_batch_free(batch);
            vp_data_close(data);
        }
    }
}

/* The smallest bucket that holds all labels is used; the last one limits their
 * number. */
static void label_buckets_are_chosen_by_need(void **state)
{
    static const struct {
        int64_t n_labels[2];
        int n_dims, want_bucket, want_k;
        float mask_prob;
    } cases[] = {
        { { B * 3, B * S }, 2, 0, 3, 0.15f },
        { { B * 3 - 1, B * S }, 2, 1, 3, 0.15f },
        { { B * 2, B * S }, 2, 1, 3, 0.15f },
        { { B * 2, 0 }, 1, 0, 2, 0.15f }, /* no larger bucket: fewer labels */
        { { B * 5 + 3, 0 }, 1, 0, 5, 0.9f },
        { { B * S, 0 }, 1, 0, N, 1.0f },   /* every text position */
        { { B * S, 0 }, 1, 0, 1, 0.001f }, /* at least one */
    };
    unsigned char *text = write_noise("noise", N_TEXT);

    (void)state;
    for (size_t c = 0; c < VP_COUNT_OF(cases); c++) {
        struct vp_dims dims[2] = { { B, S, 0, cases[c].n_labels[0] },
                                   { B, S, 0, cases[c].n_labels[1] } };
        struct vp_data_config config = {
            .source = VP_DATA_TEXT,
            .task = VP_DATA_MASKED_LM,
            .path = at("noise"),
            .mask_prob = cases[c].mask_prob,
            .dims = dims,
            .n_dims = cases[c].n_dims,
        };
        struct vp_data *data = open_data(&config);
        struct vp_batch *batch = make_batch(data);
        struct masked_stats stats = { 0 };
        int seen[N_WINDOWS] = { 0 };

        fill(data, 0, batch);
        assert_int_equal(batch->bucket, cases[c].want_bucket);
        assert_unused(batch->array[VP_ROLE_LABELS], B * cases[c].want_k,
                      dims[batch->bucket].n_labels);
        check_masked(batch, text, N_WINDOWS, cases[c].want_k, seen, &stats);
        vp_batch_free(batch);
        vp_data_close(data);
    }
    free(text);
}

/* ---- Causal LM ---------------------------------------------------------- */

enum { CB = 5, CS = 16, C_WINDOWS = 38 }; /* 35 for training, 3 held out */

static void check_causal(const struct vp_batch *batch,
                         const unsigned char *text, int *seen)
{
    for (int64_t i = 0; i < CB; i++) {
        const int32_t *tokens = batch->array[VP_ROLE_TOKENS] + i * CS;
        const int32_t *labels = batch->array[VP_ROLE_LABELS] + i * CS;
        bool real = i < batch->n_samples;
        int w = 0, t;

        for (t = 0; t < CS; t++) {
            assert_int_equal(batch->array[VP_ROLE_MASK][i * CS + t], real);
            if (!real) {
                assert_int_equal(tokens[t], VP_TOKEN_PAD);
                assert_int_equal(labels[t], -1);
            }
        }
        for (; real && w < C_WINDOWS; w++) {
            for (t = 0; t < CS; t++) {
                if (tokens[t] != VP_TOKEN_FIRST + text[w * CS + t] ||
                    labels[t] != VP_TOKEN_FIRST + text[w * CS + t + 1])
                    break;
            }
            if (t == CS)
                break;
        }
        assert_true(w < C_WINDOWS);
        seen[w] += real;
    }
}

static void causal_batches_show_the_text(void **state)
{
    static const struct vp_dims dims = { CB, CS, 0, 0 };
    /* The last window needs one byte after it; another window would need
     * more. */
    unsigned char *text = write_noise("noise", C_WINDOWS * CS + 1);
    struct vp_data_config config = {
        .source = VP_DATA_TEXT,
        .task = VP_DATA_CAUSAL_LM,
        .path = at("noise"),
        .dims = &dims,
        .n_dims = 1,
    };

    (void)state;
    for (int split = VP_DATA_TRAIN; split <= VP_DATA_EVAL; split++) {
        int seen[C_WINDOWS] = { 0 };
        struct vp_data *data;
        struct vp_batch *batch;
        int64_t n_batches;

        config.split = split;
        data = open_data(&config);
        batch = make_batch(data);
        n_batches = vp_data_info(data)->n_batches;
        assert_int_equal(n_batches, split == VP_DATA_TRAIN ? 7 : 1);
        assert_null(batch->array[VP_ROLE_TYPES]);
        assert_null(batch->array[VP_ROLE_LABEL_ROWS]);
        for (int64_t m = 0; m < 3 * n_batches; m++) {
            fill(data, (uint64_t)m, batch);
            assert_int_equal(batch->n_tokens, batch->n_samples * CS);
            check_causal(batch, text, seen);
        }
        for (int w = 0; w < C_WINDOWS; w++)
            assert_int_equal(seen[w],
                             (w % 10 == 9) == (split == VP_DATA_EVAL) ? 3 : 0);
        vp_batch_free(batch);
        vp_data_close(data);
    }
    free(text);
}

/* The reported loss is the entropy of the labels of an epoch, for every
 * task. */
static void unigram_loss_is_the_entropy_of_labels(void **state)
{
    static const struct vp_dims dims[] = {
        [VP_DATA_MASKED_LM] = { 8, 32, 0, 8 * 32 },
        [VP_DATA_CAUSAL_LM] = { 8, 32, 0, 0 },
        [VP_DATA_PAIRS] = { 8, 24, 22, 0 },
    };

    (void)state;
    write_text("pairs", "b a\none two three\nfour five six seven\nx y z\n"
                        "a line that does not fit any bucket\n"
                        "again and again\n");
    for (int source = VP_DATA_TEXT; source <= VP_DATA_SYNTHETIC; source++) {
        for (int task = VP_DATA_MASKED_LM; task <= VP_DATA_PAIRS; task++) {
            struct vp_data_config config = {
                .source = source,
                .task = task,
                .path = at("pairs"),
                .mask_prob = 1.0f,
                .dims = &dims[task],
                .n_dims = 1,
            };
            struct vp_data *data = open_data(&config);
            struct vp_batch *batch = make_batch(data);
            double count[260] = { 0 };

            for (int64_t m = 0; m < vp_data_info(data)->n_batches; m++) {
                fill(data, (uint64_t)m, batch);
                for (int64_t i = 0;
                     i < vp_dims_role(&dims[task], VP_ROLE_LABELS); i++) {
                    int32_t label = batch->array[VP_ROLE_LABELS][i];

                    if (label >= 0)
                        count[label]++;
                }
            }
            assert_true(fabs(entropy_of(count, 260) -
                             vp_data_info(data)->unigram_loss) < 1e-9);
            vp_batch_free(batch);
            vp_data_close(data);
        }
    }
}

/* ---- Error messages ----------------------------------------------------- */

static const struct vp_dims good = { 2, 16, 0, 4 }, causal = { 2, 16, 0, 0 },
                            pairs = { 2, 16, 16, 0 }, tiny = { 2, 3, 3, 0 },
                            flat = { 0, 16, 0, 0 }, short_one = { 2, 3, 0, 2 },
                            starved = { 4, 16, 0, 3 }, wide = { 2, 16, 0, 33 },
                            huge = { INT64_C(1) << 40, 1 << 30, 0, 4 };
static const struct vp_dims shrinking[] = { { 2, 16, 0, 8 }, { 2, 16, 0, 4 } };
static const struct vp_dims two[] = { { 2, 16, 0, 0 }, { 2, 32, 0, 0 } };
static const struct vp_dims unsorted[] = { { 2, 16, 16, 0 }, { 2, 8, 8, 0 } };

static const struct {
    const char *name; /* file in the test's folder, or NULL */
    int source, task, split;
    int64_t vocab;
    float mask_prob;
    const struct vp_dims *dims;
    int n_dims;
    const char *cause, *remedy;
} mistakes[] = {
    { NULL, VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "no text is given", "set data_dir" },
    { "missing", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "missing: No such file", "set data_dir" },
    { "empty", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "empty: the text is empty", "set data_dir" },
    { "bare", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "bare: no text files here (not taken: .o 1), and no shards", ".md .txt" },
    { "pipe", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "pipe: neither a file nor a folder", "set data_dir" },
    { "sparse", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "sparse: exceeds the limit of 1024 MiB", "smaller" },
    { "16", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 1,
      "16: 16 bytes of text do not fill one window of 17", "seq_length" },
    { "16", VP_DATA_TEXT, VP_DATA_PAIRS, 0, 0, 0, &pairs, 1,
      "16: no line has 2 words", "set data_dir" },
    { "long", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, VP_DATA_EVAL, 0, 0, &causal, 1,
      "2 samples are too few to hold out a tenth", "seq_length" },
    { "long", VP_DATA_TEXT, VP_DATA_CAUSAL_LM, 0, 259, 0, &causal, 1,
      "vocab is 259, but text needs 260", "set vocab to 260" },
    { "long", VP_DATA_TEXT, VP_DATA_PAIRS, 0, 0, 0, &tiny, 1,
      "none of 1 pairs fits 3 source and 3 target", "raise seq_length" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_CAUSAL_LM, 0, 18, 0, &causal, 1,
      "vocab is 18", "set it between 19" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_CAUSAL_LM, 0, 0, 0, &flat, 1,
      "bucket 0 is 0 x 16", "batch_size" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_CAUSAL_LM, 0, 0, 0, &causal, 0,
      "0 batch shapes", "give 1 to" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_CAUSAL_LM, 0, 0, 0, two, 2,
      "2 buckets are given", "give 1" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_CAUSAL_LM, 0, 0, 0, &good, 1,
      "n_labels 4, which do not fit causal LM", "set both to 0" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, &causal, 1,
      "do not fit masked LM", "max_pred" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, &huge, 1,
      "over 2^31 rows", "batch_size" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.0f, &good, 1,
      "mask_prob is 0", "0.15" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, NAN, &good, 1,
      "mask_prob is nan", "0.15" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, &short_one, 1,
      "seq_length is 3", "4 or more" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, &starved, 1,
      "3 label rows for 4 sequences", "max_pred" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, &wide, 1,
      "33 label rows for 2 sequences of 16", "max_pred" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_MASKED_LM, 0, 0, 0.15f, shrinking, 2,
      "bucket 1 does not", "ascending" },
    { NULL, VP_DATA_SYNTHETIC, VP_DATA_PAIRS, 0, 0, 0, unsorted, 2,
      "bucket 1 is shorter", "shortest first" },
};

static void mistakes_are_explained(void **state)
{
    (void)state;
    write_text("empty", "");
    write_text("16", "0123456789abcde\n");
    write_text("long", "two words\n-----------------------------\n");
    mkdir(at("bare"), 0777);
    write_text("bare/object.o", "x");
    assert_int_equal(mkfifo(at("pipe"), 0666), 0);
    write_text("sparse", "");
    assert_int_equal(truncate(at("sparse"), VP_TEXT_MAX_BYTES), 0);
    for (size_t k = 0; k < VP_COUNT_OF(mistakes); k++) {
        struct vp_data_config config = {
            .source = mistakes[k].source,
            .task = mistakes[k].task,
            .split = mistakes[k].split,
            .vocab = mistakes[k].vocab,
            .mask_prob = mistakes[k].mask_prob,
            .dims = mistakes[k].dims,
            .n_dims = mistakes[k].n_dims,
            .path = mistakes[k].name ? at(mistakes[k].name) : NULL,
        };
        struct vp_data *data = NULL;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_INVALID);
        assert_null(data);
        if (!strstr(err.text, mistakes[k].cause) ||
            !strstr(err.text, mistakes[k].remedy) || strchr(err.text, '\n'))
            fail_msg("case %d: %s", (int)k, err.text);
        assert_int_equal(vp_data_open(&config, &data, NULL), VP_ERR_INVALID);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_depends_on_seed_and_epoch),
        cmocka_unit_test(permutation_is_stable),
        cmocka_unit_test(permutation_is_fair),
        cmocka_unit_test(splits_share_no_sample),
        TEST_IN_FOLDER(folders_are_walked_in_order),
        TEST_IN_FOLDER(large_files_are_read_whole),
        TEST_IN_FOLDER(masked_batches_show_the_text),
        TEST_IN_FOLDER(masks_change_with_epoch_and_seed),
        TEST_IN_FOLDER(held_out_questions_stay),
        TEST_IN_FOLDER(label_buckets_are_chosen_by_need),
        TEST_IN_FOLDER(causal_batches_show_the_text),
        TEST_IN_FOLDER(unigram_loss_is_the_entropy_of_labels),
        TEST_IN_FOLDER(mistakes_are_explained),
    };

    return cmocka_run_group_tests_name("data", tests, NULL, NULL);
}
