/* Token files of four programs give the batches that
 * tests/golden/make_tokens.py stored, runs resume at any batch, damaged files
 * are refused, and memory is bounded. */
#include "data/split_name.h"
#include "data/tokens/item.h"
#include "data/tokens/write.h"
#include "fuzz/token_input.h"
#include "lib/datalib.h"
#include "lib/golden.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/tokens/"

enum { BATCH = 4, SEQ = 8, N_MEGATRON = 74 /* sequences */ };

static const struct vp_dims dims = { BATCH, SEQ, 0, 0 };

static struct vp_data_config config_of(const char *path)
{
    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = VP_DATA_CAUSAL_LM,
        .path = path,
        .vocab = 50257,
        .seed = 7,
        .dims = &dims,
        .n_dims = 1,
    };
}

/* ---- Batches stored by Python ------------------------------------------- */

static const struct gold {
    const char *name, *path;
    enum vp_data_format format;
    int64_t vocab;
    bool ends;
} golds[] = {
    { "llmc", "llmc", VP_FORMAT_AUTO, 50257, false },
    { "llmc", "llmc", VP_FORMAT_LLMC, 0, false },
    { "llama3", "llama3/all.bin", VP_FORMAT_AUTO, 128256, false },
    { "llama3", "llama3", VP_FORMAT_LLMC, 0, false },
    { "nanogpt", "nanogpt", VP_FORMAT_NANOGPT, 65, false },
    { "megatron", "megatron", VP_FORMAT_AUTO, 50257, false },
    { "megatron", "megatron/my_text_document.bin", VP_FORMAT_AUTO, 0, false },
    { "megatron", "megatron/my_text_document.idx", VP_FORMAT_MEGATRON, 50257,
      false },
    { "megatron_ends", "megatron", VP_FORMAT_AUTO, 50257, true },
    { "megatron_wide", "megatron_wide", VP_FORMAT_AUTO, 100000, false },
    { "fairseq", "fairseq", VP_FORMAT_AUTO, 304, false },
    { "legacy", "legacy", VP_FORMAT_FAIRSEQ, 304, false },
};

static void assert_batch(const struct vp_batch *batch, uint64_t m,
                         struct golden *file, const char *split)
{
    char name[32];
    int64_t n_rows, n_counts;
    const int32_t *tokens, *labels, *counts;

    snprintf(name, sizeof(name), "%s.tokens", split);
    tokens = golden_i32(file, name, &n_rows, NULL);
    snprintf(name, sizeof(name), "%s.labels", split);
    labels = golden_i32(file, name, NULL, NULL);
    snprintf(name, sizeof(name), "%s.rows", split);
    counts = golden_i32(file, name, NULL, &n_counts);
    assert_true((int64_t)m < n_counts);
    assert_int_equal(batch->n_samples, counts[m]);
    assert_int_equal(batch->n_tokens, counts[m] * SEQ);
    assert_int_equal(batch->bucket, 0);
    assert_memory_equal(batch->array[VP_ROLE_TOKENS], tokens + m * BATCH * SEQ,
                        BATCH * SEQ * 4);
    assert_memory_equal(batch->array[VP_ROLE_LABELS], labels + m * BATCH * SEQ,
                        BATCH * SEQ * 4);
    for (int64_t i = 0; i < BATCH * SEQ; i++)
        assert_int_equal(batch->array[VP_ROLE_MASK][i],
                         i < batch->n_samples * SEQ);
}

static void check_gold(const struct gold *gold, enum vp_data_split split)
{
    char path[512];
    struct vp_data_config config;
    struct golden *file;
    struct vp_data *data;
    struct vp_batch *batch;
    int64_t n_batches;

    snprintf(path, sizeof(path), GOLDEN "%s", gold->name);
    file = golden_open(path);
    snprintf(path, sizeof(path), GOLDEN "%s", gold->path);
    config = config_of(path);
    config.format = gold->format;
    config.vocab = gold->vocab;
    config.has_document_end = gold->ends;
    config.document_end = 50256;
    config.split = split;
    data = open_data(&config);
    batch = make_batch(data);
    n_batches = vp_data_info(data)->n_batches;
    /* Two epochs, the second half first, as in a resumed run. */
    for (int64_t m = 0; m < 2 * n_batches; m++) {
        uint64_t at = (uint64_t)((m + n_batches + 1) % (2 * n_batches));

        fill(data, at, batch);
        assert_batch(batch, at, file, split == VP_DATA_EVAL ? "eval" : "train");
    }
    vp_batch_free(batch);
    vp_data_close(data);
    golden_close(file);
}

static void batches_are_what_python_wrote(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(golds); i++) {
        check_gold(&golds[i], VP_DATA_TRAIN);
        check_gold(&golds[i], VP_DATA_EVAL);
    }
}

static void resuming_repeats_batches(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "llmc");

    (void)state;
    check_resuming(&config, 60, 7);
}

static void ids_of_every_width_are_read(void **state)
{
    static const unsigned char bytes[] = { 5,   0,   0,   0,   0,   0,
                                           0,   0,   255, 255, 255, 255,
                                           255, 255, 255, 255 };
    int64_t bad;
    int32_t ids[2];

    (void)state;
    for (int item = VP_ITEM_U8; item <= VP_ITEM_I64; item++) {
        int64_t width = vp_item_bytes(item);
        unsigned char two[16];

        memcpy(two, bytes, (size_t)width);
        memcpy(two + width, bytes, (size_t)width);
        assert_int_equal(vp_item_convert(item, two, 2, 0, 6, ids, &bad), 2);
        assert_int_equal(ids[1], 5);
        assert_int_equal(vp_item_convert(item, two, 2, 1, 6, ids, &bad), 2);
        assert_int_equal(ids[1], 4);
        assert_int_equal(vp_item_convert(item, two, 2, 0, 5, ids, &bad), 0);
        assert_int_equal(bad, 5);
        assert_int_equal(vp_item_convert(item, two, 2, 6, 5, ids, &bad), 0);
        memcpy(two + width, bytes + 8, (size_t)width);
        assert_int_equal(vp_item_convert(item, two, 2, 0, 6, ids, &bad), 1);
        /* Signed types give -1, unsigned ones the largest number. */
        if (item % 2 == 1)
            assert_int_equal(bad, -1);
        else
            assert_true(bad == (width == 8 ? INT64_MAX
                                           : (INT64_C(1) << 8 * width) - 1));
    }
}

static void names_tell_the_split(void **state)
{
    static const struct {
        const char *name, *valid;
        enum vp_split_name want;
    } cases[] = {
        { "fineweb_val_000000.bin", NULL, VP_NAME_VALID },
        { "fineweb_train_000001.bin", NULL, VP_NAME_TRAIN },
        { "valid1.en-de.en.idx", NULL, VP_NAME_VALID },
        { "dev.json", NULL, VP_NAME_VALID },
        { "x-validation.bin", NULL, VP_NAME_VALID },
        { "test.bin", NULL, VP_NAME_OTHER },
        { "test.bin", "test", VP_NAME_VALID },
        { "val.bin", "test", VP_NAME_OTHER },
        { "newstest2013.jsonl", "newstest2013", VP_NAME_VALID },
        { "newstest2014.jsonl", "newstest2013", VP_NAME_TRAIN },
        { "held_2.bin", "held", VP_NAME_VALID },
        { "held2.bin", "held", VP_NAME_VALID },
        { "value.bin", NULL, VP_NAME_TRAIN },
        { "contest_1.bin", NULL, VP_NAME_TRAIN },
        { "", NULL, VP_NAME_TRAIN },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        assert_int_equal(vp_split_by_name(cases[i].name, cases[i].valid),
                         cases[i].want);
}

/* ---- Damaged files ------------------------------------------------------ */

static unsigned char *slurp(const char *name, size_t *n_out)
{
    char path[512];
    struct stat info;
    unsigned char *bytes;
    FILE *file;

    snprintf(path, sizeof(path), GOLDEN "%s", name);
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    bytes = malloc((size_t)info.st_size + 16);
    assert_non_null(bytes);
    *n_out = fread(bytes, 1, (size_t)info.st_size, file);
    assert_int_equal(*n_out, info.st_size);
    fclose(file);
    return bytes;
}

/* A damage: `n` bytes at `offset` become `number`, and the file becomes
 * `longer` bytes longer, or shorter if negative. */
struct damage {
    int64_t offset;
    int n;
    int64_t number;
    int longer;
};

static void write_damaged(const char *name, const unsigned char *good, size_t n,
                          const struct damage *damage)
{
    unsigned char *bytes = calloc(1, n + 64);

    assert_non_null(bytes);
    memcpy(bytes, good, n);
    memcpy(bytes + damage->offset, &damage->number, (size_t)damage->n);
    write_file(name, bytes, n + (size_t)damage->longer);
    free(bytes);
}

/* Fails unless the file is refused with its name and an offset. */
static void assert_damaged(const char *path, enum vp_data_format format,
                           const struct damage *damage)
{
    struct vp_err err = { .text = "" };

    if (token_fuzz_read(path, format, false, &err) == VP_OK)
        fail_msg("offset %lld, %d bytes of %lld, %d longer: taken",
                 (long long)damage->offset, damage->n,
                 (long long)damage->number, damage->longer);
    if (!strstr(err.text, "offset "))
        fail_msg("no place: %s", err.text);
}

/* 60 damages of the header, the length and the ids. */
static void damaged_llmc_files_are_refused(void **state)
{
    size_t n;
    unsigned char *good = slurp("llmc/tiny_train_000001.bin", &n);
    int n_damages = 0;

    (void)state;
    for (int i = 0; i < 60; i++, n_damages++) {
        struct damage damage =
            i < 10   ? (struct damage){ 0, 1, 0x10 + i, 0 }  /* magic */
            : i < 20 ? (struct damage){ 4, 4, i - 20, 0 }    /* version */
            : i < 30 ? (struct damage){ 8, 4, 333 + i, 0 }   /* count */
            : i < 35 ? (struct damage){ 8, 4, -i, 0 }        /* count */
            : i < 45 ? (struct damage){ 4 * i, 4, i, 0 }     /* zeros */
            : i < 50 ? (struct damage){ 0, 0, 0, -(i - 44) } /* cut */
            : i < 55 ? (struct damage){ 0, 0, 0, i - 49 }    /* long */
                     : (struct damage){ 1024 + 2 * i, 2, 65000, 0 }; /* id */

        write_damaged("x.bin", good, n, &damage);
        assert_damaged(at("x.bin"), VP_FORMAT_AUTO, &damage);
    }
    assert_true(n_damages >= 50);
    free(good);
}

static void damaged_nanogpt_files_are_refused(void **state)
{
    size_t n;
    unsigned char *good = slurp("nanogpt/train.bin", &n);

    (void)state;
    for (int i = 0; i < 50; i++) {
        struct damage damage = i < 10 ? (struct damage){ 0, 0, 0, 1 - 2 * i }
                                      /* odd */
                                      : (struct damage){ 2 * i, 2, 60000 + i,
                                                         0 }; /* id */

        write_damaged("x.bin", good, n, &damage);
        assert_damaged(at("x.bin"), VP_FORMAT_NANOGPT, &damage);
    }
    free(good);
}

static void check_damaged_index(const char *name, const struct damage *damages,
                                int n_damages)
{
    char path[128];
    size_t n, n_bin;
    unsigned char *good, *bin;

    snprintf(path, sizeof(path), "%s.idx", name);
    good = slurp(path, &n);
    snprintf(path, sizeof(path), "%s.bin", name);
    bin = slurp(path, &n_bin);
    write_file("x.bin", bin, n_bin);
    for (int i = 0; i < n_damages; i++) {
        write_damaged("x.idx", good, n, &damages[i]);
        assert_damaged(at("x.idx"), VP_FORMAT_AUTO, &damages[i]);
    }
    /* The .bin is cut, and the index is good. */
    write_file("x.idx", good, n);
    for (int i = 1; i <= 10; i++) {
        write_file("x.bin", bin, n_bin - (size_t)i * n_bin / 11);
        assert_damaged(at("x.idx"), VP_FORMAT_AUTO, &damages[0]);
    }
    free(good);
    free(bin);
}

static void damaged_indexes_are_refused(void **state)
{
    struct damage megatron[50], fairseq[50], legacy[50];

    (void)state;
    for (int i = 0; i < 50; i++) {
        int64_t k = i % 10;
        /* The header has fields at 0, 9, 17, 18 and 26; entries follow. */
        struct damage head =
            i < 8    ? (struct damage){ i, 1, 'z', 0 }
            : i < 10 ? (struct damage){ 9, 8, i, 0 }
            : i < 14 ? (struct damage){ 17, 1, i < 12 ? i - 4 : 200 + i, 0 }
            : i < 18 ? (struct damage){ 18, 8, i < 16 ? 0 : INT64_MAX >> i, 0 }
                     : (struct damage){ 0, 0, 0, i < 20 ? -1 : 3 };

        megatron[i] = i < 22   ? head
                      : i < 25 ? (struct damage){ 26, 8, i, 0 }
                      : i < 35 ? (struct damage){ 34 + 4 * k, 4, 900 + i, 0 }
                      : i < 45
                          ? (struct damage){ 34 + 4 * N_MEGATRON + 8 * k, 8,
                                             7 + 3 * i, 0 }
                          : (struct damage){ 34 + 12 * N_MEGATRON + 8 * (k - 5),
                                             8, i == 45 ? 1 : 1000, 0 };
        fairseq[i] = i < 22   ? head
                     : i < 36 ? (struct damage){ 26 + 4 * k, 4, -i, 0 }
                              : (struct damage){ 26 + 4 * 33 + 8 * k, 8,
                                                 9 - 17 * i, 0 };
        legacy[i] = i < 8    ? (struct damage){ i, 1, 'z', 0 }
                    : i < 10 ? (struct damage){ 8, 8, i, 0 }
                    : i < 13 ? (struct damage){ 16, 8, i - 4, 0 }
                    : i < 15 ? (struct damage){ 24, 8, i, 0 }
                    : i < 18 ? (struct damage){ 32, 8, i, 0 }
                    : i < 20 ? (struct damage){ 40, 8, i, 0 }
                    : i < 22 ? (struct damage){ 0, 0, 0, i < 21 ? -8 : 8 }
                    : i < 32 ? (struct damage){ 48 + 8 * k, 8, 90, 0 }
                    : i < 42
                        ? (struct damage){ 48 + 8 * 34 + 8 * k, 8, 900, 0 }
                        : (struct damage){ 48 + 16 * 34 + 8 * k, 8, 77, 0 };
    }
    check_damaged_index("megatron/my_text_document", megatron, 50);
    check_damaged_index("fairseq/train", fairseq, 50);
    check_damaged_index("legacy/train", legacy, 50);
}

/* ---- Refused files and settings ----------------------------------------- */

static void copy_golden(const char *from, const char *to)
{
    size_t n;
    unsigned char *bytes = slurp(from, &n);

    write_file(to, bytes, n);
    free(bytes);
}

static void nothing_is_guessed(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "nanogpt");

    (void)state;
    assert_line(&config, "nanogpt/train.bin: offset 0: does not begin with the "
                         "number of llm.c's token files (20240520 or "
                         "20240801); copy or write the file anew, or set "
                         "data_format: nanogpt if it holds uint16 ids without "
                         "a header");
    config.path = GOLDEN "nanogpt/meta.pkl";
    assert_line(&config, "meta.pkl: is a Python pickle by its name (.pkl)");
    config.path = GOLDEN "llmc";
    config.format = VP_FORMAT_NANOGPT;
    assert_line(&config, "_000001.bin: offset 0: begins with a header of "
                         "llm.c, but data_format is nanogpt; set data_format: "
                         "llmc");
    config.path = GOLDEN "fairseq";
    config.format = VP_FORMAT_MEGATRON;
    assert_line(&config, "train.idx: is by its size an index of fairseq, but "
                         "data_format is megatron; set data_format: fairseq");
}

static void a_mixed_folder_is_refused(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data;

    (void)state;
    copy_golden("llmc/tiny_train_000001.bin", "a.bin");
    write_text("read.me", "text beside is not read\n");
    data = open_data(&config);
    assert_non_null(vp_data_notice(data, 0));
    assert_non_null(strstr(vp_data_notice(data, 0),
                           ": 1 token file taken; not taken: .me 1"));
    vp_data_close(data);
    copy_golden("megatron/my_text_document.idx", "b.idx");
    copy_golden("megatron/my_text_document.bin", "b.bin");
    assert_line(&config, ": holds token files without an index and indexed "
                         "files of Megatron-LM; set data_format to llmc or "
                         "megatron");
    config.format = VP_FORMAT_MEGATRON;
    vp_data_close(open_data(&config));
    config.format = VP_FORMAT_LLMC;
    vp_data_close(open_data(&config));
    config.format = VP_FORMAT_AUTO;
    copy_golden("fairseq/train.idx", "c.idx");
    assert_int_equal(unlink(at("a.bin")), 0);
    assert_line(&config, "indexed files of Megatron-LM and indexed files of "
                         "fairseq");
    assert_int_equal(unlink(at("b.idx")), 0);
    assert_int_equal(unlink(at("b.bin")), 0);
    assert_line(&config, "c.bin: cannot be read: No such file");
}

static void weights_are_named(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    write_file("pytorch_model.bin", "PK\3\4 and more", 13);
    assert_line(&config, "pytorch_model.bin: offset 0: is a zip archive, as "
                         "PyTorch writes weights: vpipe reads no pickles, "
                         "since they can run programs; set data_dir to token "
                         "files");
    write_file("pytorch_model.bin", "\x8A\xD8\x34\x01 and more", 13);
    assert_line(&config, "is a file of llm.c with questions");
    write_file("x.idx", "HUFFIDX\0\0 and more", 18);
    write_file("x.bin", "", 0);
    config.path = at("x.idx");
    assert_line(&config, "x.idx: offset 0: is an index of fairseq's Huffman "
                         "coding, which vpipe does not read; write the data "
                         "with --dataset-impl mmap");
}

static void other_tasks_are_refused(void **state)
{
    static const struct vp_dims masked = { 4, 8, 0, 8 };
    struct vp_data_config config = config_of(GOLDEN "llmc");

    (void)state;
    config.task = VP_DATA_MASKED_LM;
    config.mask_prob = 0.15f;
    config.dims = &masked;
    assert_line(&config, "llmc: token files hold running text; set model_type "
                         "to gpt2 or cpm, or data_dir to other data");
}

static void splits_are_found_by_name(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    copy_golden("llmc/tiny_train_000001.bin", "a_test.bin");
    assert_line(&config, ": no token files for training (*.bin, by their "
                         "names); set data_dir to such files");
    copy_golden("llmc/tiny_train_000001.bin", "a_train.bin");
    config.split = VP_DATA_EVAL;
    config.valid_split = "dev";
    assert_line(&config, ": no token files for evaluation (*.bin, by their "
                         "names, valid_split dev); change valid_split");
    config.valid_split = "test";
    vp_data_close(open_data(&config));
}

static void short_files_are_refused(void **state)
{
    struct vp_data_config config = config_of(at("x.bin"));

    (void)state;
    write_file("x.bin", "0123456789ABCDEF", 16);
    config.format = VP_FORMAT_NANOGPT;
    assert_line(&config, "x.bin: 8 tokens in 1 file do not fill one window of "
                         "9; add files or lower seq_length");
}

/* ---- Changing and large files ------------------------------------------- */

static void a_file_that_changes_is_refused(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_err err = { .text = "" };
    struct vp_data *data;
    struct vp_batch *batch;

    (void)state;
    copy_golden("llmc/tiny_train_000001.bin", "a.bin");
    data = open_data(&config);
    batch = make_batch(data);
    fill(data, 0, batch);
    assert_int_equal(truncate(at("a.bin"), 1024), 0);
    assert_int_equal(vp_data_fill(data, 1, batch, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "batch 1: "));
    assert_non_null(strstr(err.text, "/a.bin: offset "));
    assert_non_null(strstr(err.text, "the file ends here; it had 1690 bytes"));
    vp_batch_free(batch);
    vp_data_close(data);
}

static long anonymous_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kb = -1;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1)
            break;
    fclose(file);
    return kb;
}

/* A sparse file of 12 GB, of which the disk holds nothing. */
static void memory_does_not_grow_with_the_file(void **state)
{
    enum { WIDE = 1024 };
    static const struct vp_dims wide = { 8, WIDE, 0, 0 };
    const int64_t n = INT64_C(3000000000);
    struct vp_data_config config = config_of(at("x.bin"));
    struct vp_data *data;
    struct vp_batch *batch;
    long before;

    (void)state;
    write_text("x.bin", "");
    assert_int_equal(truncate(at("x.bin"), 2 * n * 2), 0);
    config.format = VP_FORMAT_NANOGPT;
    config.dims = &wide;
    before = anonymous_kb();
    data = open_data(&config);
    batch = make_batch(data);
    for (uint64_t m = 0; m < 60; m++)
        fill(data, m * 10007, batch);
    assert_int_equal(vp_data_info(data)->n_samples,
                     (2 * n - 1) / WIDE - (2 * n - 1) / WIDE / 10);
    assert_in_range(anonymous_kb() - before + 1024, 0, 1024 + 2048);
    vp_batch_free(batch);
    vp_data_close(data);
}

/* ---- Several threads ---------------------------------------------------- */

enum { N_FILES = 40, N_THREADS = 4 }; /* more files than are kept open */

struct reader {
    const struct vp_data *data;
    int number;
    uint64_t sum;
};

static void *read_many(void *arg)
{
    struct reader *reader = arg;
    struct vp_batch *batch = make_batch(reader->data);

    for (uint64_t m = 0; m < 60; m++) {
        fill(reader->data, (m * 7 + (uint64_t)reader->number * 15) % 60, batch);
        for (int i = 0; i < BATCH * SEQ; i++)
            reader->sum += (uint64_t)batch->array[VP_ROLE_TOKENS][i];
    }
    vp_batch_free(batch);
    return NULL;
}

static void threads_share_open_files(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct reader readers[N_THREADS];
    pthread_t threads[N_THREADS];
    struct vp_data *data;

    (void)state;
    for (int i = 0; i < N_FILES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d.bin", i);
        copy_golden(i % 2 ? "llmc/tiny_train_000001.bin"
                          : "llmc/tiny_val_000000.bin",
                    name);
    }
    data = open_data(&config);
    for (int i = 0; i < N_THREADS; i++) {
        readers[i] = (struct reader){ data, i, 0 };
        assert_int_equal(
            pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].sum > 0 && readers[i].sum == readers[0].sum);
    }
    vp_data_close(data);
}

/* ---- Writing token files ------------------------------------------------ */

/* Writes the ids of a file that Python wrote: the bytes must be equal. */
static void check_writer(const char *name, int64_t vocab, int width)
{
    struct vp_token_writer *writer = NULL;
    struct vp_err err = { .text = "" };
    size_t n, n_ids;
    unsigned char *want = slurp(name, &n), got[4096];
    FILE *file;

    n_ids = (n - 1024) / (size_t)width;
    assert_int_equal(
        vp_token_writer_open(at("w.bin"), vocab, 1000, &writer, &err), VP_OK);
    for (size_t i = 0; i < n_ids; i++) {
        int32_t id = 0;

        memcpy(&id, want + 1024 + i * (size_t)width, (size_t)width);
        assert_int_equal(vp_token_writer_add(writer, &id, 1, &err), VP_OK);
        assert_int_equal(access(at("w.bin"), F_OK), -1);
    }
    assert_int_equal(vp_token_writer_close(writer, &err), VP_OK);
    assert_int_equal(access(at("w.bin.partial"), F_OK), -1);
    file = fopen(at("w.bin"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof(got), file), n);
    assert_memory_equal(got, want, n);
    fclose(file);
    assert_int_equal(unlink(at("w.bin")), 0);
    free(want);
}

static void written_files_are_those_of_llmc(void **state)
{
    struct vp_token_writer *writer = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    check_writer("llmc/tiny_train_000001.bin", 50257, 2);
    check_writer("llmc/tiny_train_000001.bin", 65536, 2);
    check_writer("llama3/all.bin", 128256, 4);
    /* An abandoned file is removed. */
    assert_int_equal(vp_token_writer_open(at("w.bin"), 10, 0, &writer, &err),
                     VP_OK);
    vp_token_writer_abandon(writer);
    assert_int_equal(access(at("w.bin.partial"), F_OK), -1);
    assert_int_equal(
        vp_token_writer_open(at("w.bin"), 10, INT64_C(1) << 60, &writer, &err),
        VP_ERR_IO);
    assert_non_null(
        strstr(err.text, "MiB left; free some, or write elsewhere"));
    assert_int_equal(vp_token_writer_open(at("no/w.bin"), 10, 0, &writer, &err),
                     VP_ERR_IO);
}

/* ---- Mutated files ------------------------------------------------------ */

/* Flips bits of good files, and cuts some: each is refused with one line or
 * read. */
static void mutated_files_do_no_harm(void **state)
{
    static const struct {
        const char *name;
        bool indexed;
        enum vp_data_format format;
    } files[] = {
        { "llmc/tiny_train_000002", false, VP_FORMAT_AUTO },
        { "llama3/all", false, VP_FORMAT_AUTO },
        { "nanogpt/train", false, VP_FORMAT_NANOGPT },
        { "megatron/my_text_document", true, VP_FORMAT_AUTO },
        { "fairseq/train", true, VP_FORMAT_AUTO },
        { "legacy/train", true, VP_FORMAT_AUTO },
    };
    int n_taken = 0, n_refused = 0;

    (void)state;
    for (uint32_t i = 0; i < 600; i++) {
        size_t f = i % VP_COUNT_OF(files), n;
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 0, i, 0, 0);
        struct vp_err err = { .text = "" };
        char path[128];
        unsigned char *bytes;

        if (files[f].indexed) {
            snprintf(path, sizeof(path), "%s.bin", files[f].name);
            copy_golden(path, "x.bin");
        }
        snprintf(path, sizeof(path), "%s%s", files[f].name,
                 files[f].indexed ? ".idx" : ".bin");
        bytes = slurp(path, &n);
        for (uint32_t k = 0; k <= r.v[1] % 3; k++) {
            struct vp_rng4 s = vp_rng(2, VP_RNG_TEST, 0, i, k, 0);

            bytes[s.v[0] % (s.v[3] % 2 ? n : 80)] ^= (unsigned char)(1u
                                                                     << s.v[1] %
                                                                            8);
        }
        n -= r.v[2] % 8 == 0 ? r.v[3] % n : 0;
        write_file(files[f].indexed ? "x.idx" : "x.bin", bytes, n);
        free(bytes);
        if (token_fuzz_read(at(files[f].indexed ? "x.idx" : "x.bin"),
                            files[f].format, i % 12 >= 6, &err) == VP_OK)
            n_taken++;
        else
            n_refused++;
        if (files[f].indexed)
            unlink(at("x.idx"));
    }
    assert_true(n_taken > 30 && n_refused > 150);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_what_python_wrote),
        cmocka_unit_test(resuming_repeats_batches),
        cmocka_unit_test(ids_of_every_width_are_read),
        cmocka_unit_test(names_tell_the_split),
        TEST_IN_FOLDER(damaged_llmc_files_are_refused),
        TEST_IN_FOLDER(damaged_nanogpt_files_are_refused),
        TEST_IN_FOLDER(damaged_indexes_are_refused),
        cmocka_unit_test(nothing_is_guessed),
        TEST_IN_FOLDER(a_mixed_folder_is_refused),
        TEST_IN_FOLDER(weights_are_named),
        cmocka_unit_test(other_tasks_are_refused),
        TEST_IN_FOLDER(splits_are_found_by_name),
        TEST_IN_FOLDER(short_files_are_refused),
        TEST_IN_FOLDER(a_file_that_changes_is_refused),
        TEST_IN_FOLDER(memory_does_not_grow_with_the_file),
        TEST_IN_FOLDER(threads_share_open_files),
        TEST_IN_FOLDER(written_files_are_those_of_llmc),
        TEST_IN_FOLDER(mutated_files_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
