/* Files of gzip, zstd and JSON lines give the text that
 * tests/golden/make_text.py stored; damaged files are refused, and memory is
 * bounded. */
#include "data/byte_stream.h"
#include "data/jsonl.h"
#include "data/walk.h"
#include "lib/datalib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef VP_HAVE_ZSTD
#include <zstd.h>
#endif

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/text/"

static const struct vp_dims window = { 4, 16, 0, 0 };

static struct vp_data_config config_of(const char *path)
{
    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = VP_DATA_CAUSAL_LM,
        .path = path,
        .seed = 3,
        .dims = &window,
        .n_dims = 1,
    };
}

/* Asserts that both files give the same batches, from the second epoch on. */
static void assert_same_data(const char *path, const char *key,
                             const char *plain)
{
    struct vp_data_config config = config_of(path), other = config_of(plain);
    struct vp_data *a, *b;
    struct vp_batch *x, *y;
    int64_t n;

    config.text_key = key;
    a = open_data(&config);
    b = open_data(&other);
    x = make_batch(a);
    y = make_batch(b);
    n = vp_data_info(a)->n_batches;
    assert_int_equal(n, vp_data_info(b)->n_batches);
    for (int64_t m = 0; m < 2 * n; m++) {
        fill(a, (uint64_t)(m + n), x);
        fill(b, (uint64_t)(m + n), y);
        assert_same_batch(&config, x, y);
    }
    vp_batch_free(x);
    vp_batch_free(y);
    vp_data_close(a);
    vp_data_close(b);
}

static void compressed_text_is_read(void **state)
{
    (void)state;
    assert_same_data(GOLDEN "plain.txt.gz", NULL, GOLDEN "plain.txt");
    assert_same_data(GOLDEN "plain.txt.zst", NULL, GOLDEN "plain.txt");
    assert_same_data(GOLDEN "edge.txt.zst", NULL, GOLDEN "plain.txt");
}

static void lines_of_json_are_read(void **state)
{
    (void)state;
    assert_same_data(GOLDEN "lines.jsonl", NULL, GOLDEN "lines.txt");
    assert_same_data(GOLDEN "lines.jsonl.gz", "text", GOLDEN "lines.txt");
    assert_same_data(GOLDEN "lines.ndjson.zst", NULL, GOLDEN "lines.txt");
    assert_same_data(GOLDEN "body.jsonl", "body", GOLDEN "lines.txt");
}

static void folders_hold_all_of_them(void **state)
{
    struct vp_text text;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("a.txt", "A\n");
    write_text("b.jsonl", "{\"text\": \"B\"}\n");
    write_text("c.txt.gz", "C is not compressed\n");
    write_text("d.gz", "no text by its name");
    write_text("e.tar.gz", "nor this");
    assert_int_equal(vp_text_read(folder, false, &text, &err), VP_OK);
    assert_int_equal(text.n_bytes, 24);
    assert_memory_equal(text.bytes, "A\nB\nC is not compressed\n", 24);
    assert_int_equal(vp_skipped_count(&text.skipped, ".gz"), 2);
    vp_text_release(&text);
}

static void assert_text_line(const char *path, const char *key, bool replace,
                             const char *want)
{
    struct vp_text text;
    struct vp_err err = { .text = "" };

    if (vp_text_read_key(path, replace, key, &text, &err) == VP_OK)
        fail_msg("taken, and not: %s", want);
    if (!strstr(err.text, want))
        fail_msg("'%s' is not in '%s'", want, err.text);
    vp_text_release(&text);
}

static void large_windows_are_refused(void **state)
{
    (void)state;
    assert_text_line(GOLDEN "wide.txt.zst", NULL, false,
                     "wide.txt.zst: offset ");
    assert_text_line(
        GOLDEN "wide.txt.zst", NULL, true,
        ": not valid zstd data, or a window above 128 MiB ("
        "Frame requires too much memory for decoding); compress the "
        "text anew");
}

static void mistakes_in_json_are_explained(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{\"text\": \"a\"}\n[]\n", "offset 14 (line 2): an object belongs" },
        { "{\"body\": \"a\"}\n",
          "offset 0 (line 1): has no such key; correct the line, or set "
          "text_key (now 'text') to the key of the text" },
        { "{\"text\": 1}\n", "offset 9 (line 1): a string in quotes" },
        { "{\"text\": \"a}\n", "offset 12 (line 1): the line ends inside a "
                               "string" },
        { "{\"text\": \"a\"\n", "offset 12 (line 1): ',' or '}' belongs" },
        { "{\"text\": \"a\",\n", "offset 13 (line 1): the line ends inside an "
                                 "object" },
        { "{\"text\": \"a\"} x\n",
          "offset 14 (line 1): one object belongs in" },
        { "{\"text\": \"a\", \"text\": \"b\"}\n", "the key occurs twice" },
        { "{\"text\": \"\\x\"}\n", "offset 11 (line 1): an unknown escape" },
        { "{\"text\": \"\\u00g0\"}\n", "\\u without four digits" },
        { "{\"text\": \"\\u0000\"}\n", "offset 10 (line 1): is a NUL character "
                                       "or half of a surrogate pair" },
        { "{\"text\": \"\\ud83d!\"}\n", "half of a surrogate pair" },
        { "{\"text\": \"\\ude00\"}\n", "half of a surrogate pair" },
        { "{\"text\": \"\\ud83d\\u0041\"}\n", "half of a surrogate pair" },
        { "{\"text\": \"a\tb\"}\n", "a control character in a string" },
        { "{\"a\": [1, 2, \"text\": \"a\"}\n", "',' or ']' belongs here" },
        { "{\"a\": tru, \"text\": \"a\"}\n", "a value belongs here" },
        { "{\"a\": {\"text\": \"a\"}}\n", "has no such key" },
        { "{\"text\" \"a\"}\n", "':' belongs here" },
        { "\xEF\xBB\xBF{\"text\": 1}\n", "(line 1): a string in quotes" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        write_text("x.jsonl", cases[i].text);
        assert_text_line(at("x.jsonl"), NULL, false, cases[i].want);
    }
}

static void bad_characters_may_be_replaced(void **state)
{
    struct vp_text text;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("x.jsonl", "{\"text\": \"a\\u0000b\\ud83dc\\ud83d\\ude00\"}");
    assert_int_equal(vp_text_read(at("x.jsonl"), true, &text, &err), VP_OK);
    assert_int_equal(text.n_bytes, 14);
    assert_memory_equal(text.bytes,
                        "a\xEF\xBF\xBD"
                        "b\xEF\xBF\xBD"
                        "c\xF0\x9F\x98\x80\n",
                        14);
    vp_text_release(&text);
}

static void deep_json_is_refused(void **state)
{
    char line[512] = "{\"a\": ";

    (void)state;
    for (int i = 0; i < 100; i++)
        strncat(line, "[", 2);
    strncat(line, "\n", 2);
    write_text("x.jsonl", line);
    assert_text_line(at("x.jsonl"), NULL, false,
                     "arrays and objects are nested too deeply");
}

/* ---- Damaged files ------------------------------------------------------ */

static size_t slurp(const char *path, unsigned char *out, size_t n)
{
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    n = fread(out, 1, n, file);
    fclose(file);
    return n;
}

/* Cuts the file at 50 lengths, and flips a bit 300 times. */
static void check_damaged(const char *path)
{
    unsigned char good[32768], bad[32768];
    size_t n = slurp(path, good, sizeof(good));
    int n_refused = 0;

    assert_true(n > 100 && n < sizeof(good));
    for (uint32_t i = 0; i < 350; i++) {
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 0, i, 0, 0);
        size_t n_bad = i < 50 ? n - 1 - i : n;
        struct vp_text text;
        struct vp_err err = { .text = "" };

        memcpy(bad, good, n);
        if (i >= 50)
            bad[r.v[0] % n] ^= (unsigned char)(1u << r.v[1] % 8);
        write_file("x.txt", bad, n_bad);
        if (vp_text_read(at("x.txt"), false, &text, &err) != VP_OK) {
            n_refused++;
            assert_non_null(strstr(err.text, "x.txt: offset "));
            assert_non_null(strstr(err.text, "; "));
        } else {
            assert_true(i >= 50); /* a cut is always detected */
        }
        vp_text_release(&text);
    }
    assert_true(n_refused > 300);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    check_damaged(GOLDEN "plain.txt.gz");
    check_damaged(GOLDEN "plain.txt.zst");
}

static void rest_behind_is_refused(void **state)
{
    unsigned char bytes[32768];
    size_t n = slurp(GOLDEN "plain.txt.gz", bytes, sizeof(bytes));

    (void)state;
    memcpy(bytes + n, "rest", 4);
    write_file("x.gz", bytes, n + 4);
    assert_text_line(at("x.gz"), NULL, false, ": not valid gzip data");
    n = slurp(GOLDEN "plain.txt.zst", bytes, sizeof(bytes));
    memcpy(bytes + n, "rest", 4);
    write_file("x.zst", bytes, n + 4);
    assert_text_line(at("x.zst"), NULL, false, ": not valid zstd data");
}

/* A stream read byte by byte returns the whole text and then its end. */
static void streams_end(void **state)
{
    struct vp_byte_stream *stream = NULL;
    struct vp_err err = { .text = "" };
    unsigned char byte, all[32768];
    size_t n = slurp(GOLDEN "plain.txt", all, sizeof(all)), n_read;

    (void)state;
    assert_int_equal(vp_byte_stream_open(GOLDEN "plain.txt.zst", &stream, &err),
                     VP_OK);
    assert_true(vp_byte_stream_is_compressed(stream));
    for (size_t i = 0; i <= n; i++) {
        assert_int_equal(vp_byte_stream_read(stream, &byte, 1, &n_read, &err),
                         VP_OK);
        assert_int_equal(n_read, i < n);
        if (i < n)
            assert_int_equal(byte, all[i]);
    }
    vp_byte_stream_close(stream);
}

#ifdef VP_HAVE_ZSTD
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

/* Writes `n_bytes` of text, compressed to a much smaller file. */
static void write_large(const char *name, int64_t n_bytes)
{
    static char part[1 << 20];
    static unsigned char packed[1 << 20];
    FILE *file = fopen(at(name), "wb");

    assert_non_null(file);
    for (size_t i = 0; i < sizeof(part); i++)
        part[i] = i % 64 == 63 ? '\n' : (char)('a' + i / 64 % 26);
    for (; n_bytes > 0; n_bytes -= (int64_t)sizeof(part)) {
        size_t n = ZSTD_compress(packed, sizeof(packed), part, sizeof(part), 1);

        assert_false(ZSTD_isError(n));
        assert_int_equal(fwrite(packed, 1, n, file), n);
    }
    assert_int_equal(fclose(file), 0);
}

/* VP_LARGE_MIB sets the size of the file, 128 MiB by default. */
static void memory_does_not_grow_with_the_file(void **state)
{
    const char *given = getenv("VP_LARGE_MIB");
    int64_t n_bytes = (given ? strtol(given, NULL, 10) : 128) << 20, n_all = 0;
    struct vp_byte_stream *stream = NULL;
    struct vp_err err = { .text = "" };
    static unsigned char out[1 << 16];
    long before, most = 0;
    size_t n = 1;

    (void)state;
    write_large("x.zst", n_bytes);
    before = anonymous_kb();
    assert_int_equal(vp_byte_stream_open(at("x.zst"), &stream, &err), VP_OK);
    for (int i = 0; n > 0; i++) {
        assert_int_equal(
            vp_byte_stream_read(stream, out, sizeof(out), &n, &err), VP_OK);
        n_all += (int64_t)n;
        if (i % 256 == 0 && anonymous_kb() > most)
            most = anonymous_kb();
    }
    assert_int_equal(n_all, n_bytes);
    assert_in_range(most - before + 1024, 0, 1024 + 4096);
    vp_byte_stream_close(stream);
}
#endif

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_text_is_read),
        cmocka_unit_test(lines_of_json_are_read),
        TEST_IN_FOLDER(folders_hold_all_of_them),
        cmocka_unit_test(large_windows_are_refused),
        TEST_IN_FOLDER(mistakes_in_json_are_explained),
        TEST_IN_FOLDER(bad_characters_may_be_replaced),
        TEST_IN_FOLDER(deep_json_is_refused),
        TEST_IN_FOLDER(damaged_files_are_refused),
        TEST_IN_FOLDER(rest_behind_is_refused),
        cmocka_unit_test(streams_end),
#ifdef VP_HAVE_ZSTD
        TEST_IN_FOLDER(memory_does_not_grow_with_the_file),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
