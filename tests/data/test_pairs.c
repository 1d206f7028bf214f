/* The generated language and its translation pairs follow their grammar,
 * checked by an independent parser, and an epoch with buckets of several
 * lengths contains each pair once. */
#include "data/data.h"
#include "data/language.h"
#include "data/sampler.h"
#include "lib/datalib.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Sampler ------------------------------------------------------------ */

static void sampler_takes_every_sample_once(void **state)
{
    static const struct vp_sample_group groups[] = {
        { 0, 37, 8 },
        { 1, 0, 4 },
        { 2, 12, 4 },
        { 3, 3, 5 },
    };
    struct vp_sampler *sampler = NULL;
    uint64_t running = 0;
    int moved = 0, in_order = 0, as_before = 0;
    int64_t before[32] = { 0 };

    (void)state;
    assert_int_equal(vp_sampler_create(5, groups, 4, &sampler), VP_OK);
    /* 4 + 0 + 3 + 0 full batches, then a short one of groups 0 and 3 each. */
    assert_int_equal(vp_sampler_batches(sampler), 9);
    assert_int_equal(vp_sampler_samples(sampler), 52);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        int seen[4][40] = { { 0 } };

        for (uint64_t j = 0; j < 9; j++) {
            struct vp_data_slot slot, far, again;

            vp_sampler_slot(sampler, epoch * 9 + j, &slot);
            vp_sampler_slot(sampler, epoch * 9 + 9000,
                            &far); /* evicts cached sums */
            vp_sampler_slot(sampler, epoch * 9 + j, &again);
            assert_int_equal(slot.first_sample, again.first_sample);
            assert_int_equal(slot.group, again.group);
            assert_int_equal(slot.first_sample, running);
            running += (uint64_t)slot.count;
            assert_int_equal(slot.count == groups[slot.group].batch, j < 7);
            moved += j < 4 && slot.group != 0;
            for (int64_t row = 0; row < slot.count; row++) {
                int64_t i = vp_sampler_sample(sampler, &slot, row);
                int64_t place = slot.first + row;

                seen[slot.group][i]++;
                if (slot.group != 0 || place >= 32)
                    continue;
                in_order += i == place;
                as_before += i == before[place];
                before[place] = i;
            }
        }
        for (int g = 0; g < 4; g++) {
            for (int64_t i = 0; i < 40; i++)
                assert_int_equal(seen[g][i], i < groups[g].n_samples);
        }
    }
    assert_true(moved > 10); /* groups are interleaved */
    /* Group 0 is shuffled anew in each epoch: 17 of 640 agree by chance. */
    assert_true(in_order < 45 && as_before < 45);
    vp_sampler_free(sampler);
}

/* ---- Generated language ------------------------------------------------- */

static bool is_one_of(const struct vp_word_range *words, int32_t id)
{
    return id >= words->first && id < words->first + words->n;
}

/* Returns the class of a noun or verb, or -1. */
static int class_of(const struct vp_word_range *kind, int32_t id)
{
    for (int c = 0; c < VP_LANGUAGE_CLASSES; c++) {
        if (is_one_of(&kind[c], id))
            return c;
    }
    return -1;
}

/* Parses a noun phrase. Returns its class. */
static int read_noun(const struct vp_language *l, const int32_t **p)
{
    if (is_one_of(&l->adj, **p))
        (*p)++;
    assert_true(class_of(l->noun, **p) >= 0);
    return class_of(l->noun, *(*p)++);
}

/* Parses a clause by the grammar of language.h. Adds 1 to `*n_far` if another
 * noun stands between subject and verb. */
static void read_clause(const struct vp_language *l, const int32_t **p,
                        int depth, int *n_far)
{
    int class = read_noun(l, p);
    int last = class;

    assert_true(depth <= VP_LANGUAGE_DEPTH);
    if (is_one_of(&l->prep, **p)) {
        (*p)++;
        last = read_noun(l, p);
    }
    for (int k = 0; k < VP_LANGUAGE_BRACKETS; k++) {
        if (**p != l->open[k])
            continue;
        (*p)++;
        read_clause(l, p, depth + 1, n_far);
        assert_int_equal(*(*p)++, l->close[k]);
        break;
    }
    *n_far += last != class;
    assert_int_equal(class_of(l->verb, *(*p)++), class);
    if (class_of(l->noun, **p) >= 0 || is_one_of(&l->adj, **p))
        read_noun(l, p);
}

static void language_follows_its_grammar(void **state)
{
    static const int64_t vocabs[] = { VP_LANGUAGE_MIN_VOCAB, 20, 33, 96, 1000 };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(vocabs); k++) {
        struct vp_language l;
        int n_sentences = 0, n_far = 0;

        vp_language_init(&l, vocabs[k]);
        assert_int_equal(l.adj.first + l.adj.n, vocabs[k]);
        assert_true(l.adj.n >= 1);
        for (uint64_t i = 0; i < 2000; i++) {
            int32_t ids[VP_LANGUAGE_MAX_PAIR + 1], window[12];
            const int32_t *p = ids;
            int64_t n = vp_language_sentences(&l, i, ids);

            ids[n] = -1;
            while (p < ids + n) {
                read_clause(&l, &p, 0, &n_far);
                assert_int_equal(*p++, l.stop);
                n_sentences++;
            }
            assert_ptr_equal(p, ids + n);
            /* A window is the beginning of the sentences, for each length. */
            vp_language_window(&l, i, 12, window);
            vp_language_window(&l, i, 12 - i % 12, ids);
            assert_memory_equal(window, ids, (12 - i % 12) * 4);
        }
        assert_true(n_sentences > 3000);
        /* A noun of another class is between subject and verb in 3 of 8
         * clauses. */
        assert_true(n_far > n_sentences / 4);
    }
}

/* The entropies are those of language.h: one word of context saves 0.9 nat.
 * n_far in the test above shows that more context is needed for the rest. */
static void language_is_learnable(void **state)
{
    enum { V = 96, L = 64 };
    static double one[V], two[V][V];
    struct vp_language l;
    double unigram, bigram = 0, n = 0;

    (void)state;
    vp_language_init(&l, V);
    for (uint64_t i = 0; i < 8000; i++) {
        int32_t ids[L];

        vp_language_window(&l, i, L, ids);
        for (int t = 1; t < L; t++) {
            one[ids[t]]++;
            two[ids[t - 1]][ids[t]]++;
            n++;
        }
    }
    for (int a = 0; a < V; a++) {
        double row = 0;

        for (int b = 0; b < V; b++)
            row += two[a][b];
        bigram += row / n * entropy_of(two[a], V);
    }
    unigram = entropy_of(one, V);
    assert_true(fabs(unigram - 4.06) < 0.05);
    assert_true(fabs(bigram - 3.15) < 0.05);
    for (int id = VP_TOKEN_FIRST; id < V; id++)
        assert_true(one[id] > 0); /* every id occurs */
}

/* ---- Pairs -------------------------------------------------------------- */

static void translation_follows_its_rule(void **state)
{
    /* With 96 ids: stop 4; brackets 5 6, 7 8; nouns from 9, ten of each class;
     * verbs from 49, five of each; prepositions from 69; adjectives from 74.
     * There are 92 words: the counterpart of id w is w + 46, minus 92 for w of
     * 50 or more. */
    static const int32_t from[] = { 74, 9,  69, 20, 5,  30, 59,
                                    6,  49, 40, 4,  19, 54, 4 };
    static const int32_t want[] = { 65, 8,  50, 28, 55, 23, 66,
                                    51, 76, 13, 52, 86, 95, 50 };
    struct vp_language l;
    int32_t got[VP_COUNT_OF(want)];

    (void)state;
    vp_language_init(&l, 96);
    assert_int_equal(l.noun[1].first, 19);
    assert_int_equal(l.verb[0].first, 49);
    assert_int_equal(l.prep.first, 69);
    vp_language_translate(&l, from, VP_COUNT_OF(from), got);
    assert_memory_equal(got, want, sizeof(want));
}

/* The rule of text.c on characters, in another implementation. */
static void reverse_line(const char *src, char *out)
{
    size_t n = strlen(src);
    char *to = out + n;

    *to = '\0';
    while (*src) {
        size_t word = strcspn(src, " ");

        to -= word;
        for (size_t i = 0; i < word; i++)
            to[i] = (char)(src[i] >= 'a' && src[i] <= 'z' ? src[i] - 'a' + 'A'
                                                          : src[i]);
        src += word;
        if (*src++ != ' ')
            break;
        *--to = ' ';
    }
}

static int read_ids(const int32_t *ids, int64_t n, char *out)
{
    int len = 0;

    while (len < n && ids[len] >= VP_TOKEN_FIRST) {
        out[len] = (char)(ids[len] - VP_TOKEN_FIRST);
        len++;
    }
    out[len] = '\0';
    return len;
}

static const struct vp_dims text_dims[] = { { 4, 8, 9, 0 },
                                            { 3, 16, 14, 0 },
                                            { 2, 32, 32, 0 } };

/* The lines as read, and the bucket of each. The second bucket has room for 15
 * source ids but only for 13 target ids. */
static const struct {
    const char *line;
    int bucket;
} lines[] = {
    { "a b", 0 },           { "don't b1", 1 },
    { "abc def", 0 },       { "abcd efg", 1 },
    { "ab cd ef gh i", 1 }, { "ab cd ef gh ij", 2 },
    { "x y z", 0 },         { "one two three four", 2 },
    { "p q", 0 },           { "held out line", 1 },
    { "q p", 0 },           { "r s t", 0 },
    { "s t u v w x", 1 },   { "t u", 0 },
};

/* Checks a pair of text. Returns the index of its line. */
static int check_text_pair(const struct vp_batch *batch, int64_t row)
{
    const struct vp_dims *dims = &text_dims[batch->bucket];
    const int32_t *tokens = batch->array[VP_ROLE_TOKENS] + row * dims->seq;
    const int32_t *mask = batch->array[VP_ROLE_MASK] + row * dims->seq;
    const int32_t *input = batch->array[VP_ROLE_TARGET_TOKENS] +
                           row * dims->tgt_seq;
    const int32_t *labels = batch->array[VP_ROLE_LABELS] + row * dims->tgt_seq;
    char src[64], tgt[64], shown[64], want[64];
    int n = read_ids(tokens, dims->seq, src);
    size_t line = 0;

    assert_int_equal(tokens[n], VP_TOKEN_SEP);
    for (int64_t t = 0; t < dims->seq; t++) {
        assert_int_equal(mask[t], t <= n);
        if (t > n)
            assert_int_equal(tokens[t], VP_TOKEN_PAD);
    }
    assert_int_equal(input[0], VP_TOKEN_CLS);
    assert_int_equal(read_ids(input + 1, dims->tgt_seq - 1, shown), n);
    assert_int_equal(read_ids(labels, dims->tgt_seq, tgt), n);
    assert_string_equal(shown, tgt);
    assert_int_equal(labels[n], VP_TOKEN_SEP);
    for (int64_t t = n + 1; t < dims->tgt_seq; t++) {
        assert_int_equal(labels[t], -1);
        assert_int_equal(input[t], VP_TOKEN_PAD);
    }
    reverse_line(src, want);
    assert_string_equal(tgt, want);
    while (line < VP_COUNT_OF(lines) && strcmp(lines[line].line, src) != 0)
        line++;
    assert_true(line < VP_COUNT_OF(lines));
    assert_int_equal(lines[line].bucket, batch->bucket);
    return (int)line;
}

static void write_lines(void)
{
    FILE *file = fopen(at("lines"), "wb");

    assert_non_null(file);
    for (size_t i = 0; i < VP_COUNT_OF(lines); i++) {
        fputs("word\n \n\n", file); /* not pairs: fewer than two words */
        for (const char *p = lines[i].line; *p; p++)
            fprintf(file, "%c%s", *p, *p == ' ' ? "\t " : "");
        fputs(i % 2 ? "\n" : " \r\n", file);
    }
    fputs("this line is too long for every bucket there is\n", file);
    for (int i = 0; i < 2000; i++)
        fputs("no ", file); /* longer than the longest line allowed */
    fclose(file);
}

static void text_pairs_follow_their_rule(void **state)
{
    char got[32];

    (void)state;
    reverse_line("ab c, Def", got);
    assert_string_equal(got, "DEF C, AB");
    write_lines();
    for (int split = VP_DATA_TRAIN; split <= VP_DATA_EVAL; split++) {
        struct vp_data_config config = {
            .source = VP_DATA_TEXT,
            .task = VP_DATA_PAIRS,
            .path = at("lines"),
            .dims = text_dims,
            .n_dims = 3,
            .split = split,
        };
        struct vp_data *data = open_data(&config);
        struct vp_batch *batch = make_batch(data);
        const struct vp_data_info *info = vp_data_info(data);
        int seen[VP_COUNT_OF(lines)] = { 0 };
        uint64_t running = 0;

        /* Training has 7 + 4 + 2 pairs in batches of 4, 3 and 2; one pair is
         * held out. */
        assert_int_equal(info->n_samples, split == VP_DATA_TRAIN ? 13 : 1);
        assert_int_equal(info->n_batches, split == VP_DATA_TRAIN ? 5 : 1);
        if (split == VP_DATA_TRAIN)
            assert_string_equal(info->what, "text: 1 file, 7 kB, 1 of 14 pairs "
                                            "left out as too long");
        for (int64_t m = 0; m < 4 * info->n_batches; m++) {
            int64_t n_tokens = 0;

            fill(data, (uint64_t)m, batch);
            assert_int_equal(batch->first_sample, running);
            running += (uint64_t)batch->n_samples;
            for (int64_t row = 0; row < batch->n_samples; row++) {
                int line = check_text_pair(batch, row);

                seen[line]++;
                n_tokens += 2 * (int64_t)(strlen(lines[line].line) + 1);
            }
            assert_int_equal(batch->n_tokens, n_tokens);
        }
        for (size_t i = 0; i < VP_COUNT_OF(lines); i++)
            assert_int_equal(seen[i],
                             (i == 9) == (split == VP_DATA_EVAL) ? 4 : 0);
        vp_batch_free(batch);
        vp_data_close(data);
    }
}

/* ---- Generated pairs ---------------------------------------------------- */

static const struct vp_dims pair_dims[] = { { 32, 8, 8, 0 },
                                            { 16, 16, 16, 0 },
                                            { 8, 32, 32, 0 } };
static const struct vp_data_config pair_config = {
    .source = VP_DATA_SYNTHETIC,
    .task = VP_DATA_PAIRS,
    .vocab = 64,
    .seed = 3,
    .dims = pair_dims,
    .n_dims = 3,
};

/* Fails unless the target of a row translates its source; rows beyond n_samples
 * must be padding. */
static void check_row(const struct vp_language *l, const struct vp_batch *batch,
                      int64_t row)
{
    int64_t seq = pair_dims[batch->bucket].seq, n = 0;
    const int32_t *tokens = batch->array[VP_ROLE_TOKENS] + row * seq;
    const int32_t *labels = batch->array[VP_ROLE_LABELS] + row * seq;
    int32_t want[64];

    if (row >= batch->n_samples) {
        for (int64_t t = 0; t < seq; t++) {
            assert_int_equal(batch->array[VP_ROLE_MASK][row * seq + t], 0);
            assert_int_equal(batch->array[VP_ROLE_TARGET_TOKENS][row * seq + t],
                             VP_TOKEN_PAD);
            assert_int_equal(tokens[t], VP_TOKEN_PAD);
            assert_int_equal(labels[t], -1);
        }
        return;
    }
    while (tokens[n] != VP_TOKEN_SEP)
        n++;
    assert_true(n < seq && (batch->bucket == 0 || n + 1 > seq / 2));
    vp_language_translate(l, tokens, n, want);
    want[n] = VP_TOKEN_SEP;
    assert_memory_equal(labels, want, (n + 1) * 4);
}

static void generated_pairs_fill_their_buckets(void **state)
{
    struct vp_data *data = open_data(&pair_config);
    struct vp_batch *batch = make_batch(data);
    const struct vp_data_info *info = vp_data_info(data);
    int n_batches[3] = { 0 }, n_short = 0, n_changes = 0, last = -1;
    uint64_t running = 0;
    struct vp_language l;

    (void)state;
    vp_language_init(&l, 64);
    assert_int_equal(info->vocab, 64);
    for (int64_t m = 0; m < info->n_batches; m++) {
        int64_t rows;

        fill(data, (uint64_t)m, batch);
        rows = pair_dims[batch->bucket].batch;
        assert_int_equal(batch->first_sample, running);
        running += (uint64_t)batch->n_samples;
        n_batches[batch->bucket]++;
        n_short += batch->n_samples < rows;
        n_changes += batch->bucket != last;
        last = batch->bucket;
        for (int64_t row = 0; row < rows; row++)
            check_row(&l, batch, row);
    }
    assert_int_equal(running, info->n_samples);
    assert_true(n_short <= 3);
    for (int b = 0; b < 3; b++)
        assert_true(n_batches[b] > 50);
    assert_true(n_changes > info->n_batches / 4); /* lengths are interleaved */
    vp_batch_free(batch);
    vp_data_close(data);
}

/* ---- Several threads ---------------------------------------------------- */

struct filler {
    pthread_t handle;
    struct vp_data *data;
    struct vp_batch *batch;
    int first;
    uint64_t sums[64];
};

static uint64_t sum_batch(const struct vp_batch *batch)
{
    int64_t n = vp_dims_role(&pair_dims[batch->bucket], VP_ROLE_TOKENS);
    uint64_t sum = batch->first_sample;

    for (int64_t i = 0; i < n; i++)
        sum = sum * 31 + (uint64_t)batch->array[VP_ROLE_TOKENS][i];
    return sum;
}

/* Fills batches of four epochs, so that threads are in different epochs. */
static void *fill_some(void *arg)
{
    struct filler *filler = arg;
    uint64_t n = (uint64_t)vp_data_info(filler->data)->n_batches;

    for (int k = 0; k < 64; k++) {
        int i = (k + filler->first) % 64;

        if (vp_data_fill(filler->data, n / 2 * (uint64_t)i / 8, filler->batch,
                         NULL) == VP_OK)
            filler->sums[i] = sum_batch(filler->batch);
    }
    return NULL;
}

static void threads_may_fill_at_once(void **state)
{
    struct vp_data *data = open_data(&pair_config);
    struct filler fillers[4];

    (void)state;
    for (int t = 0; t < 4; t++) {
        fillers[t] = (struct filler){ .data = data,
                                      .first = 16 * t,
                                      .batch = make_batch(data) };
        assert_int_equal(
            pthread_create(&fillers[t].handle, NULL, fill_some, &fillers[t]),
            0);
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(fillers[t].handle, NULL);
        assert_memory_equal(fillers[t].sums, fillers[0].sums,
                            sizeof(fillers[0].sums));
        vp_batch_free(fillers[t].batch);
    }
    vp_data_close(data);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampler_takes_every_sample_once),
        cmocka_unit_test(language_follows_its_grammar),
        cmocka_unit_test(language_is_learnable),
        cmocka_unit_test(translation_follows_its_rule),
        TEST_IN_FOLDER(text_pairs_follow_their_rule),
        cmocka_unit_test(generated_pairs_fill_their_buckets),
        cmocka_unit_test(threads_may_fill_at_once),
    };

    return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
