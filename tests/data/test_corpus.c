/* Token files made from text have the expected ids, and the number of threads
 * changes nothing; an error or a stop leaves no file behind. */
#include "data/corpus/cache.h"

#include "data/corpus/documents.h"
#include "data/tokens/bin.h"
#include "lib/datalib.h"
#include "text/encoder.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"
#define TEXTS VP_SOURCE_DIR "/tests/golden/text/"

static struct vp_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    return vp_tokenizer_open(TOKENIZERS "gpt2", &tokenizer, NULL) != VP_OK;
}

static int close_tokenizer(void **state)
{
    (void)state;
    vp_tokenizer_free(tokenizer);
    return 0;
}

static struct vp_corpus_config config_of(const char *const *paths, int n_paths,
                                         const char *to)
{
    return (struct vp_corpus_config){
        .tokenizer = tokenizer,
        .paths = paths,
        .n_paths = n_paths,
        .begin = vp_corpus_begin_of(tokenizer),
        .n_threads = 2,
        .folder = to,
        .name = "set",
        .shard_tokens = VP_CORPUS_SHARD_TOKENS,
    };
}

static struct vp_corpus_result write_corpus(
    const struct vp_corpus_config *config)
{
    struct vp_corpus_result result = { 0 };
    struct vp_err err = { .text = "" };

    if (vp_corpus_write(config, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    return result;
}

/* Returns the number of names in a folder, including hidden ones. */
static int count_names(const char *path)
{
    DIR *dir = opendir(path);
    int n = -2; /* "." and ".." */

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static unsigned char *read_all(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(64 << 20);

    assert_non_null(file);
    assert_non_null(bytes);
    *n_out = fread(bytes, 1, 64 << 20, file);
    fclose(file);
    return bytes;
}

/* Appends the uint16 ids of a shard to `ids`. */
static void add_shard(struct vp_ids *ids, const char *path)
{
    unsigned char header[VP_BIN_HEADER_BYTES], *bytes;
    size_t n;

    bytes = read_all(path, &n);
    vp_token_bin_header(VP_ITEM_U16, (int64_t)(n - sizeof(header)) / 2, header);
    assert_memory_equal(bytes, header, sizeof(header));
    for (size_t i = sizeof(header); i < n; i += 2) {
        assert_int_equal(vp_ids_reserve(ids, 1), VP_OK);
        ids->at[ids->n++] = bytes[i] | (uint32_t)bytes[i + 1] << 8;
    }
    free(bytes);
}

static void assert_ids(const char *path, const uint32_t *want, size_t n)
{
    struct vp_ids ids = { .n = 0 };

    add_shard(&ids, path);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.at, want, n * sizeof(*want));
    vp_ids_release(&ids);
}

/* ---- Ids of the written shards ------------------------------------------ */

/* Id 0 is <|endoftext|>, which no text is encoded to. */
static void test_literal_ids(void **state)
{
    static const uint32_t train[] = { 0, 65, 346, 0, 65, 0, 66 };
    static const uint32_t begin[] = { 0, 65, 346, 0 }, end[] = { 65, 0, 66 };
    char one[512] = "", two[512] = "";
    const char *paths[] = { one, two };
    char to[512] = "";
    struct vp_corpus_config config = config_of(paths, 2, to);
    struct vp_corpus_result result;

    (void)state;
    write_text("one", "\xEF\xBB\xBF"
                      "a b");
    write_text("two.jsonl", "{\"text\": \"a\"}\n \r\n{\"text\": \"\"}\n"
                            "{\"n\": 1, \"text\": \"\\u0062\"}");
    snprintf(one, sizeof(one), "%s/one", folder);
    snprintf(two, sizeof(two), "%s/two.jsonl", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    result = write_corpus(&config);
    assert_int_equal(result.n_documents, 3);
    assert_int_equal(result.n_tokens, 7);
    assert_int_equal(result.n_train_shards, 1);
    assert_int_equal(result.n_valid_shards, 0);
    assert_int_equal(count_names(to), 1);
    assert_ids(at("out/set_train_000000.bin"), train, VP_COUNT_OF(train));

    config.name = "two";
    config.shard_tokens = 4;
    result = write_corpus(&config);
    assert_int_equal(result.n_train_shards, 2);
    assert_ids(at("out/two_train_000000.bin"), begin, VP_COUNT_OF(begin));
    assert_ids(at("out/two_train_000001.bin"), end, VP_COUNT_OF(end));
}

static void test_special_tokens_are_letters(void **state)
{
    char from[512] = "", to[512] = "";
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_ids ids = { .n = 0 };

    (void)state;
    write_text("text", "a<|endoftext|>b");
    snprintf(from, sizeof(from), "%s/text", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    write_corpus(&config);
    add_shard(&ids, at("out/set_train_000000.bin"));
    assert_int_equal(ids.at[0], 0);
    for (size_t i = 1; i < ids.n; i++)
        assert_int_not_equal(ids.at[i], 0);
    vp_ids_release(&ids);
}

/* Writes random words and blank lines, with one very long line. */
static size_t write_words(const char *name, size_t n)
{
    char *text = malloc(n + 16);
    size_t used = 0;

    assert_non_null(text);
    for (uint32_t i = 0; used < n; i++) {
        static const char *const parts[] = { " the", "re",  "\n", "x\n",
                                             "1",    "\t",  ",",  "\xC3\xA9",
                                             "'s",   "\n\n" };
        uint32_t pick = vp_rng(5, VP_RNG_TEST, 0, i, 0, 0).v[0] % 10;

        /* The second MiB is one line without a place to cut. */
        if (used > 1 << 20 && used < 2 << 20 && pick != 7)
            pick = 0;
        memcpy(text + used, parts[pick], strlen(parts[pick]));
        used += strlen(parts[pick]);
    }
    write_file(name, text, used);
    free(text);
    return used;
}

/* Encodes the file as one text. */
static void encode_whole(const char *path, struct vp_ids *ids)
{
    struct vp_encoder *encoder;
    unsigned char *bytes;
    size_t n;

    bytes = read_all(path, &n);
    assert_int_equal(vp_encoder_create(tokenizer, &encoder), VP_OK);
    vp_encoder_add(encoder, bytes, n, true, ids);
    vp_encoder_free(encoder);
    free(bytes);
}

/* The text has 5 MB, so that it is read in several blocks. */
static void test_threads_change_nothing(void **state)
{
    struct vp_ids whole = { .n = 0 }, ids;
    char from[512] = "", to[512] = "", path[600];
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_corpus_result result;

    (void)state;
    write_words("words", 5 << 20);
    snprintf(from, sizeof(from), "%s/words", folder);
    vp_ids_reserve(&whole, 1);
    whole.at[whole.n++] = 0;
    encode_whole(from, &whole);
    config.shard_tokens = 500009;
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        config.n_threads = n_threads;
        snprintf(to, sizeof(to), "%s/out%d", folder, n_threads);
        result = write_corpus(&config);
        assert_in_range(result.n_train_shards, 3, 20);
        ids = (struct vp_ids){ .n = 0 };
        for (int i = 0; i < result.n_train_shards; i++) {
            snprintf(path, sizeof(path), "%s/set_train_%06d.bin", to, i);
            add_shard(&ids, path);
        }
        assert_int_equal(ids.n, whole.n);
        assert_memory_equal(ids.at, whole.at, ids.n * sizeof(*ids.at));
        vp_ids_release(&ids);
    }
    vp_ids_release(&whole);
}

#if defined(VP_HAVE_ZLIB) && defined(VP_HAVE_ZSTD)
/* The files of a row, made by make_text.py, contain the same text. */
static void test_compressed_files(void **state)
{
    static const char *const files[][3] = {
        { TEXTS "plain.txt", TEXTS "plain.txt.gz", TEXTS "plain.txt.zst" },
        { TEXTS "lines.jsonl", TEXTS "lines.jsonl.gz",
          TEXTS "lines.ndjson.zst" },
    };
    char to[512] = "", path[600];

    (void)state;
    for (int row = 0; row < 2; row++) {
        struct vp_ids ids[3] = { { .n = 0 } };

        for (int i = 0; i < 3; i++) {
            struct vp_corpus_config config = config_of(&files[row][i], 1, to);

            snprintf(to, sizeof(to), "%s/%d-%d", folder, row, i);
            write_corpus(&config);
            snprintf(path, sizeof(path), "%s/set_train_000000.bin", to);
            add_shard(&ids[i], path);
            assert_in_range(ids[i].n, 10, 1000000);
            assert_int_equal(ids[i].n, ids[0].n);
            assert_memory_equal(ids[i].at, ids[0].at,
                                ids[0].n * sizeof(uint32_t));
        }
        for (int i = 0; i < 3; i++)
            vp_ids_release(&ids[i]);
    }
}
#endif

/* A share of a tenth takes the tenth and the twentieth document. */
static void test_share_for_evaluation(void **state)
{
    static const uint32_t valid[] = { 0, 'j' - 'a' + 65, 0, 't' - 'a' + 65 };
    char text[1024] = "", from[512] = "", to[512] = "";
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_corpus_result result;
    size_t n = 0;

    (void)state;
    for (int i = 0; i < 25; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "{\"text\":\"%c\"}\n",
                              'a' + i);
    write_text("letters.jsonl", text);
    snprintf(from, sizeof(from), "%s/letters.jsonl", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    config.valid_parts = VP_CORPUS_PARTS / 10;
    result = write_corpus(&config);
    assert_int_equal(result.n_documents, 25);
    assert_int_equal(result.n_valid_documents, 2);
    assert_int_equal(result.n_tokens, 50);
    assert_int_equal(result.n_valid_tokens, 4);
    assert_int_equal(result.n_valid_shards, 1);
    assert_ids(at("out/set_val_000000.bin"), valid, VP_COUNT_OF(valid));
}

/* ---- Refused text ------------------------------------------------------- */

/* The text is refused with the message `want` after its path, and nothing is
 * written. */
static void refuse(const char *name, const void *bytes, size_t n,
                   int64_t valid_parts, const char *want)
{
    char from[512] = "", to[512] = "";
    const char *paths[] = { from }, *got;
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_corpus_result result;
    struct vp_err err = { .text = "" };

    if (bytes)
        write_file(name, bytes, n);
    snprintf(from, sizeof(from), "%s/%s", folder, name);
    snprintf(to, sizeof(to), "%s/out", folder);
    config.valid_parts = valid_parts;
    assert_int_not_equal(vp_corpus_write(&config, &result, &err), VP_OK);
    assert_false(is_there(to));
    got = strncmp(err.text, from, strlen(from)) == 0 ? err.text + strlen(from)
                                                     : err.text;
    assert_string_equal(got, want);
}

/* The second block contains the error: 400001 lines of 15 bytes, the last one
 * without a text. */
static void refuse_in_second_block(void)
{
    enum { N = 400000, LINE = 15 };
    char *lines = malloc((N + 1) * LINE);

    assert_non_null(lines);
    for (int i = 0; i < N; i++)
        memcpy(lines + i * LINE, "{\"text\": \"\\n\"}\n", LINE);
    memcpy(lines + N * LINE, "{\"texT\": \"\\n\"}\n", LINE);
    refuse("many.jsonl", lines, (N + 1) * LINE, 0,
           ": offset 6000000 (line 400001): has no such key; correct the "
           "line, or set the key of the text (now 'text')");
    free(lines);
}

static void test_refusals(void **state)
{
    static const char iconv[] = "convert the file, for example with 'iconv -f "
                                "WINDOWS-1252 -t UTF-8 FILE -o NEW'";
    char want[512], *big = malloc(3 << 20);

    (void)state;
    refuse("none", NULL, 0, 0,
           ": cannot be read: No such file or directory; check the path");
    refuse("a.bin", "x", 1, 0,
           ": is by its name a file of token ids, not text; name text files");
    refuse("empty", "", 0, 0, ": no text; name files with text");
    refuse("blank.jsonl", "\n\n", 2, 0, ": no text; name files with text");
    refuse("nul", "a\nb\0c", 5, 0,
           ": offset 3 (line 2): a NUL byte, which text does not hold; give "
           "text in UTF-8");
    snprintf(want, sizeof(want), ": offset 2 (line 1): not UTF-8: FF; %s",
             iconv);
    refuse("bytes", "ab\xFF", 3, 0, want);
    snprintf(want, sizeof(want),
             ": offset 1 (line 1): the file ends inside a UTF-8 character; %s",
             iconv);
    refuse("cut", "a\xC3", 2, 0, want);
    /* An error in the third MiB, after characters that cross the ends of reads
     * of 1 MiB. */
    assert_non_null(big);
    for (size_t i = 1; i + 2 < 3 << 20; i += 2)
        memcpy(big + i, "\xC3\xA9", 2);
    big[0] = big[1001] = '\n';
    big[1002] = 'x';
    big[(3 << 20) - 1] = '\xE9';
    snprintf(want, sizeof(want),
             ": offset 3145727 (line 3): the file ends inside a UTF-8 "
             "character; %s",
             iconv);
    refuse("big", big, 3 << 20, 0, want);
    free(big);
    refuse_in_second_block();
    refuse("key.jsonl", "{\"text\": \"a\\nb\"}\n{\"words\": \"a\"}\n", 32, 0,
           ": offset 17 (line 2): has no such key; correct the line, or set "
           "the key of the text (now 'text')");
    refuse("half.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"a", 26, 0,
           ": offset 26 (line 3): the line ends inside a string; correct the "
           "line, or set the key of the text (now 'text')");
    refuse("one", "text", 4, 1000,
           "1 document: too few to set a share aside for evaluation; give "
           "more documents (a text file is one, each line of .jsonl is one), "
           "or no share");
}

static void test_invalid_bytes_are_replaced(void **state)
{
    static const char text[] = "a\xFF"
                               "b\xC3";
    struct vp_ids whole = { .n = 0 };
    char from[512] = "", to[512] = "";
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);

    (void)state;
    write_file("bytes", text, sizeof(text) - 1);
    write_text("replaced", "a\xEF\xBF\xBD"
                           "b\xEF\xBF\xBD");
    snprintf(from, sizeof(from), "%s/bytes", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    config.replace = true;
    write_corpus(&config);
    vp_ids_reserve(&whole, 1);
    whole.at[whole.n++] = 0;
    encode_whole(at("replaced"), &whole);
    assert_ids(at("out/set_train_000000.bin"), whole.at, whole.n);
    vp_ids_release(&whole);
}

/* ---- Stopped and concurrent writers ------------------------------------- */

static bool stop_at_once(void *ctx, const struct vp_corpus_progress *progress)
{
    int *n_calls = ctx;

    assert_true(progress->n_bytes > 0);
    assert_true(progress->n_bytes <= progress->n_bytes_all);
    return ++*n_calls < 2;
}

/* A stopped writer leaves nothing, in a new folder and in one with another
 * file. */
static void test_stopped(void **state)
{
    char from[512] = "", to[512] = "";
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_corpus_result result;
    struct vp_err err = { .text = "" };
    int n_calls = 0;

    (void)state;
    write_words("words", 5 << 20);
    snprintf(from, sizeof(from), "%s/words", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    config.shard_tokens = 100000;
    config.progress = stop_at_once;
    config.ctx = &n_calls;
    assert_int_equal(vp_corpus_write(&config, &result, &err),
                     VP_ERR_INTERRUPTED);
    assert_int_equal(n_calls, 2);
    assert_false(is_there(to));
    assert_int_equal(mkdir(to, 0777), 0);
    write_text("out/other", "x");
    assert_int_equal(vp_corpus_write(&config, &result, &err),
                     VP_ERR_INTERRUPTED);
    assert_int_equal(count_names(to), 1);
}

/* Leftovers of a killed process are removed; files of a process that still
 * holds its lock are not. */
static void test_work_of_others(void **state)
{
    char from[512] = "", to[512] = "", want[1200];
    const char *paths[] = { from };
    struct vp_corpus_config config = config_of(paths, 1, to);
    struct vp_corpus_result result;
    struct vp_err err = { .text = "" };
    int fd;

    (void)state;
    write_text("text", "a");
    snprintf(from, sizeof(from), "%s/text", folder);
    snprintf(to, sizeof(to), "%s/out", folder);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_int_equal(mkdir(at("out/.set.partial"), 0777), 0);
    write_text("out/.set.partial/set_train_000007.bin", "x");
    fd = open(at("out/.set.partial"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(vp_corpus_write(&config, &result, &err), VP_ERR_INVALID);
    snprintf(want, sizeof(want),
             "%s: another process writes 'set' here; wait for it, or choose "
             "another name",
             to);
    assert_string_equal(err.text, want);
    assert_true(is_there(at("out/.set.partial/set_train_000007.bin")));
    close(fd);
    write_corpus(&config);
    assert_int_equal(count_names(to), 1);
    assert_int_equal(vp_corpus_write(&config, &result, &err), VP_ERR_INVALID);
    snprintf(want, sizeof(want),
             "%s/set_train_000000.bin: is there already; remove the shards of "
             "this name, or choose another name or folder",
             to);
    assert_string_equal(err.text, want);
}

/* ---- The cache of encoded text ------------------------------------------ */

static struct vp_corpus_cache_config cache_of(const char *data)
{
    return (struct vp_corpus_cache_config){ .data = data,
                                            .tokenizer = tokenizer,
                                            .n_threads = 2 };
}

static struct vp_corpus_cached cache(
    const struct vp_corpus_cache_config *config)
{
    struct vp_corpus_cached cached;
    struct vp_err err = { .text = "" };

    if (vp_corpus_cache(config, &cached, &err) != VP_OK)
        fail_msg("%s", err.text);
    return cached;
}

static void assert_text(const char *cached, const char *name,
                        const uint32_t *want, size_t n)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", cached, name);
    assert_ids(path, want, n);
}

/* Text is encoded once, and again only if the text or an option changes. */
static void test_cache(void **state)
{
    static const uint32_t train[] = { 0, 65, 0, 66 }, valid[] = { 0, 67 };
    char data[512] = "", place[600];
    struct vp_corpus_cache_config config = cache_of(data);
    struct vp_corpus_cached first, cached;

    (void)state;
    snprintf(data, sizeof(data), "%s/data", folder);
    snprintf(place, sizeof(place), "%s/.vpipe-cache", data);
    assert_int_equal(mkdir(data, 0777), 0);
    write_text("data/a.txt", "a");
    write_text("data/b.jsonl", "{\"text\": \"b\"}\n");
    write_text("data/valid.txt", "c");
    write_text("data/test.txt", "d");
    write_text("data/left.out", "d");
    first = cache(&config);
    assert_true(first.is_new);
    assert_int_equal(first.made.n_documents, 3);
    assert_memory_equal(first.folder, place, strlen(place));
    assert_int_equal(count_names(first.folder), 2);
    assert_text(first.folder, "text_train_000000.bin", train,
                VP_COUNT_OF(train));
    assert_text(first.folder, "text_val_000000.bin", valid, VP_COUNT_OF(valid));
    cached = cache(&config);
    assert_false(cached.is_new);
    assert_string_equal(cached.folder, first.folder);
    assert_int_equal(count_names(place), 1);
    config.valid_split = "left"; /* "valid" belongs to no split now */
    cached = cache(&config);
    assert_true(cached.is_new);
    assert_int_equal(cached.made.n_documents, 2);
    config.valid_split = NULL;
    write_text("data/a.txt", "b");
    cached = cache(&config);
    assert_true(cached.is_new);
    assert_string_not_equal(cached.folder, first.folder);
    assert_int_equal(count_names(place), 3);
    config.replace = true;
    assert_true(cache(&config).is_new);
}

/* A single file is for training, whatever its name. */
static void test_cache_of_one_file(void **state)
{
    static const uint32_t want[] = { 0, 65 };
    char data[512] = "", place[600];
    struct vp_corpus_cache_config config = cache_of(data);
    struct vp_corpus_cached cached;

    (void)state;
    write_text("test.txt", "a");
    snprintf(data, sizeof(data), "%s/test.txt", folder);
    snprintf(place, sizeof(place), "%s/.vpipe-cache/", folder);
    cached = cache(&config);
    assert_memory_equal(cached.folder, place, strlen(place));
    assert_text(cached.folder, "text_train_000000.bin", want,
                VP_COUNT_OF(want));
}

static bool stop_now(void *ctx, const struct vp_corpus_progress *progress)
{
    (void)progress;
    return ++*(int *)ctx < 3;
}

/* Stopped while it waits for another process, then while it encodes. */
static void test_cache_is_stopped(void **state)
{
    char data[512] = "", place[600], left[PATH_MAX + 64];
    struct vp_corpus_cache_config config = cache_of(data);
    struct vp_corpus_cached cached;
    struct vp_err err = { .text = "" };
    int n_calls = 0, fd;

    (void)state;
    write_words("words", 1 << 20);
    snprintf(data, sizeof(data), "%s/words", folder);
    snprintf(place, sizeof(place), "%s/.vpipe-cache", folder);
    assert_int_equal(mkdir(place, 0777), 0);
    fd = open(place, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    config.progress = stop_now;
    config.ctx = &n_calls;
    assert_int_equal(vp_corpus_cache(&config, &cached, &err),
                     VP_ERR_INTERRUPTED);
    assert_int_equal(count_names(place), 0);
    close(fd);
    n_calls = 2;
    assert_int_equal(vp_corpus_cache(&config, &cached, &err),
                     VP_ERR_INTERRUPTED);
    assert_int_equal(count_names(place), 0);
    /* Leftovers of a killed process are not used as a result. */
    snprintf(left, sizeof(left), "%s.partial", cached.folder);
    assert_int_equal(mkdir(left, 0777), 0);
    snprintf(left, sizeof(left), "%s.partial/.text.partial", cached.folder);
    assert_int_equal(mkdir(left, 0777), 0);
    snprintf(left, sizeof(left), "%s.partial/text_train_000009.bin",
             cached.folder);
    fclose(fopen(left, "w"));
    config.progress = NULL;
    assert_true(cache(&config).is_new);
    assert_int_equal(count_names(place), 1);
    assert_int_equal(count_names(cached.folder), 1);
}

/* The wait for a process that holds the lock and writes nothing has a time
 * limit. */
static void test_cache_waits_not_forever(void **state)
{
    char data[512] = "", place[600], want[700];
    struct vp_corpus_cache_config config = cache_of(data);
    struct vp_corpus_cached cached;
    struct vp_err err = { .text = "" };
    int fd;

    (void)state;
    write_text("text", "a");
    snprintf(data, sizeof(data), "%s/text", folder);
    snprintf(place, sizeof(place), "%s/.vpipe-cache", folder);
    assert_int_equal(mkdir(place, 0777), 0);
    fd = open(place, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    config.wait_ms = 300;
    assert_int_equal(vp_corpus_cache(&config, &cached, &err), VP_ERR_TIMEOUT);
    snprintf(want, sizeof(want),
             "%s: another process has locked it and writes nothing; end that "
             "process, and start again",
             place);
    assert_string_equal(err.text, want);
    close(fd);
    assert_true(cache(&config).is_new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(test_literal_ids),
        TEST_IN_FOLDER(test_special_tokens_are_letters),
        TEST_IN_FOLDER(test_threads_change_nothing),
#if defined(VP_HAVE_ZLIB) && defined(VP_HAVE_ZSTD)
        TEST_IN_FOLDER(test_compressed_files),
#endif
        TEST_IN_FOLDER(test_share_for_evaluation),
        TEST_IN_FOLDER(test_refusals),
        TEST_IN_FOLDER(test_invalid_bytes_are_replaced),
        TEST_IN_FOLDER(test_stopped),
        TEST_IN_FOLDER(test_work_of_others),
        TEST_IN_FOLDER(test_cache),
        TEST_IN_FOLDER(test_cache_of_one_file),
        TEST_IN_FOLDER(test_cache_is_stopped),
        TEST_IN_FOLDER(test_cache_waits_not_forever),
    };

    return cmocka_run_group_tests_name("corpus", tests, open_tokenizer,
                                       close_tokenizer);
}
