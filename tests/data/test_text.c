/* Text files are accepted, refused or repaired by their bytes, and notices at
 * the start of a run tell what was read and what was skipped. */
#include "data/corpus/bytes.h"
#include "data/data.h"
#include "data/foreign.h"
#include "data/walk.h"
#include "lib/datalib.h"
#include "lib/utf8lib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES(text) text, sizeof(text) - 1
#define LINES "one line of words\nanother line of words\n"

/* Reads the file `name` of the test's folder. */
static enum vp_status read_at(const char *name, bool replace,
                              struct vp_text *text, struct vp_err *err)
{
    *err = (struct vp_err){ .text = "" };
    return vp_text_read(at(name), replace, text, err);
}

/* Asserts that the text at `name` is `want`. */
static void assert_text(const char *name, bool replace, const void *want,
                        size_t n)
{
    struct vp_text text;
    struct vp_err err;

    if (read_at(name, replace, &text, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(text.n_bytes, n);
    assert_memory_equal(text.bytes, want, n);
    vp_text_release(&text);
}

/* Asserts that `name` is refused with one line that contains `want`. */
static void assert_refused(const char *name, bool replace, const char *want)
{
    struct vp_text text;
    struct vp_err err;
    enum vp_status st = read_at(name, replace, &text, &err);

    if (st != VP_ERR_INVALID)
        fail_msg("%s: status %d, not refused", name, (int)st);
    if (!strstr(err.text, want) || strchr(err.text, '\n'))
        fail_msg("'%s' is not in '%s'", want, err.text);
    vp_text_release(&text);
}

/* ---- Invalid bytes ------------------------------------------------------ */

static const struct {
    const char *bytes;
    size_t n;
    const char *want;
} bad_bytes[] = {
    { BYTES("two\nlines\0\n"), "x.txt: offset 9 (line 2): a NUL byte, which "
                               "text does not hold; give text in UTF-8, or set "
                               "invalid_utf8: replace" },
    { BYTES("caf\xE9 au lait\n"),
      "x.txt: offset 3 (line 1): not UTF-8: E9; convert the file, for example "
      "with 'iconv -f WINDOWS-1252 -t UTF-8 FILE -o NEW', or set invalid_utf8: "
      "replace" },
    { BYTES("a\n\n\xE2\x82 b\n"), "offset 3 (line 3): not UTF-8: E2 82;" },
    { BYTES("a\xED\xA0\x80\n"), "offset 1 (line 1): not UTF-8: ED;" },
    { BYTES("a\xC0\xAF\n"), "offset 1 (line 1): not UTF-8: C0;" },
    { BYTES("a\xF4\x90\x80\x80\n"), "offset 1 (line 1): not UTF-8: F4;" },
    { BYTES("the end \xF0\x9F\x98"),
      "offset 8 (line 1): the file ends inside a UTF-8 character: F0 9F 98;" },
    /* The offset counts a byte order mark. */
    { BYTES("\xEF\xBB\xBF"
            "ab\xFF"),
      "offset 5 (line 1): not UTF-8: FF;" },
};

static void bad_bytes_are_refused_by_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad_bytes); i++) {
        write_file("x.txt", bad_bytes[i].bytes, bad_bytes[i].n);
        assert_refused("x.txt", false, bad_bytes[i].want);
    }
    /* In a folder the file is named, and offsets start anew in each file. */
    write_text("a.txt", LINES);
    write_file("x.txt", "\xFF", 1);
    assert_refused(".", false, "/x.txt: offset 0 (line 1): not UTF-8: FF;");
}

/* Files are read in chunks of 1 MiB; a fault across two chunks is found. */
static void no_chunk_hides_a_fault(void **state)
{
    enum { MIB = 1 << 20, N = 3 * MIB + 100 };
    static const int places[] = { MIB - 3, MIB - 2, MIB - 1,     MIB,
                                  MIB + 1, N / 2,   2 * MIB - 2, N - 5 };
    unsigned char *bytes = malloc(N);
    char want[64];

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < VP_COUNT_OF(places); i++) {
        memset(bytes, 'a', N);
        bytes[N - 1] = '\n';
        memcpy(bytes + places[i], "\xF0\x9F\x98\x80", 4);
        write_file("x.txt", bytes, N);
        assert_text("x.txt", false, bytes, N);
        bytes[places[i] + 3] = 'x';
        write_file("x.txt", bytes, N);
        snprintf(want, sizeof(want), "offset %d (line 1): not UTF-8: F0 9F 98;",
                 places[i]);
        assert_refused("x.txt", false, want);
    }
    free(bytes);
}

/* A file that is not text is refused before it is read to its end. */
static void large_files_are_refused_early(void **state)
{
    struct vp_text text;
    struct vp_err err;

    (void)state;
    write_text("x.txt", "");
    assert_int_equal(truncate(at("x.txt"), 64 << 20), 0);
    assert_int_equal(read_at("x.txt", false, &text, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "x.txt: offset 0 (line 1): a NUL byte"));
    assert_in_range(text.n_bytes, 1, 1 << 20);
    vp_text_release(&text);
}

static void a_byte_order_mark_is_left_out(void **state)
{
    (void)state;
    write_file("x.txt", BYTES("\xEF\xBB\xBFtext\n"));
    assert_text("x.txt", false, BYTES("text\n"));
    assert_text("x.txt", true, BYTES("text\n"));
    /* A mark is left out at the start of every file, and kept elsewhere. */
    write_file("y.txt", BYTES("\xEF\xBB\xBFmore \xEF\xBB\xBF"));
    assert_text(".", false, BYTES("text\nmore \xEF\xBB\xBF\n"));
    write_file("x.txt", BYTES("\xEF\xBB\xBF"));
    assert_refused("x.txt", false, "x.txt: the text is empty;");
}

static void bytes_are_replaced_if_asked_for(void **state)
{
    enum { N = 200000 };
    unsigned char *bytes = malloc(N), *want = malloc(3 * N + 1);
    int64_t n_faults = 0;
    size_t n_want;
    struct vp_text text;
    struct vp_err err;

    (void)state;
    assert_true(bytes && want);
    write_file("a.txt", BYTES("caf\xE9\0 \xE2\x82"));
    assert_text("a.txt", true,
                BYTES("caf\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\n"));
    /* Replacing random bytes makes the text longer than the first buffer. */
    for (size_t i = 0; i < N; i++)
        bytes[i] =
            (unsigned char)vp_rng(5, VP_RNG_TEST, 0, (uint32_t)i, 0, 0).v[0];
    bytes[0] = 'r';
    bytes[N - 1] = '\n';
    n_want = slow_replace(bytes, N, want, &n_faults);
    write_file("b.txt", bytes, N);
    assert_text("b.txt", true, want, n_want);
    write_text("c.txt", "valid\n");
    assert_int_equal(read_at(".", true, &text, &err), VP_OK);
    assert_int_equal(text.n_bytes, 14 + n_want + 6);
    assert_memory_equal(text.bytes + 14, want, n_want);
    assert_memory_equal(text.bytes + 14 + n_want, "valid\n", 6);
    assert_int_equal(text.n_replaced, 3 + n_faults);
    assert_int_equal(text.n_replaced_files, 2);
    assert_non_null(strstr(text.first_replaced, "/a.txt, offset 3"));
    vp_text_release(&text);
    free(bytes);
    free(want);
}

/* ---- Files in other formats --------------------------------------------- */

static const struct {
    const char *bytes;
    size_t n;
    const char *want;
} heads[] = {
    { BYTES("\xFF\xFEh\0i\0\n\0"),
      "x.txt: offset 0: is UTF-16 (byte order mark FF FE), not text in UTF-8; "
      "convert it with 'iconv -f UTF-16 -t UTF-8 FILE -o NEW'" },
    { BYTES("\xFE\xFF\0h\0i\0\n"), "is UTF-16 (byte order mark FE FF)" },
    { BYTES("\xFF\xFE\0\0h\0\0\0"), "is UTF-32, not text in UTF-8; convert it "
                                    "with 'iconv -f UTF-32" },
    { BYTES("\0\0\xFE\xFF\0\0\0h"), "is UTF-32" },
    { BYTES("h\0e\0l\0l\0o\0\n\0"), "is UTF-16, little endian without a byte "
                                    "order mark, not text in UTF-8; convert it "
                                    "with 'iconv -f UTF-16LE " },
    { BYTES("\0h\0e\0l\0l\0o\0\n"), "big endian without a byte order mark" },
    { BYTES("\x1F\x8B\x08\0\0\0\0\0\0\x03"),
      "offset 10: the file ends inside compressed text; compress the text "
      "anew" },
    { BYTES("\x28\xB5\x2F\xFD\x04\0"),
      "offset 6: the file ends inside compressed text" },
    { BYTES("\xFD"
            "7zXZ\0\0\x04"),
      "is compressed by xz" },
    { BYTES("BZh91AY&SY\xB5\x84"), "is compressed by bzip2" },
    { BYTES("PK\3\4\x14\0"), "is a zip archive" },
    { BYTES("\x89PNG\r\n\x1A\n\0\0\0\rIHDR"), "is a PNG image" },
    { BYTES("\xFF\xD8\xFF\xE0\0\x10JFIF"), "is a JPEG image" },
    { BYTES("%PDF-1.5\n%\xD0\xD4\xC5\xD8\n"), "is a PDF document" },
    { BYTES("PAR1\x15\x04\x15\xC0"), "is a Parquet file" },
    { BYTES("\x93NUMPY\1\0v\0{'descr'"), "is a NumPy array" },
    { BYTES("\x7F"
            "ELF\2\1\1\0"),
      "is a program" },
};

static void known_formats_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(heads); i++) {
        write_file("x.txt", heads[i].bytes, heads[i].n);
        assert_refused("x.txt", false, heads[i].want);
        /* Replacing most bytes would not make it text. */
        assert_refused("x.txt", true, heads[i].want);
    }
    /* The first bytes alone do not make a file binary. */
    write_text("x.txt", "%PDF- is how a PDF begins\n");
    assert_text("x.txt", false, BYTES("%PDF- is how a PDF begins\n"));
    /* A few NUL bytes are not UTF-16. */
    write_file("x.txt", BYTES("a\0b\0cdefghijklmnop\n"));
    assert_refused("x.txt", false, "offset 1 (line 1): a NUL byte");
}

#define ELSEWHERE                                                          \
    "; set data_dir to the folder that holds it, or move the file out of " \
    "data_dir"

/* vp_text_read() refuses token files by their names, also in folders below. */
static void token_files_are_refused_by_name(void **state)
{
    (void)state;
    /* nanoGPT: token files beside the text; the user means those. */
    write_text("input.txt", LINES);
    write_text("train.bin", "any bytes");
    assert_refused(".", false,
                   "/train.bin: is by its name a file of token ids, as "
                   "nanoGPT, Megatron-LM and fairseq write them, not "
                   "text" ELSEWHERE);
    assert_refused("train.bin", false, ELSEWHERE);
    assert_refused("train.bin", true, ELSEWHERE);
    assert_text("input.txt", false, BYTES(LINES));
    /* Megatron-LM. */
    assert_int_equal(unlink(at("train.bin")), 0);
    mkdir(at("deep"), 0777);
    write_text("deep/text_document.idx", "any bytes");
    assert_refused(".", false, "/deep/text_document.idx: is by its name");
    assert_int_equal(unlink(at("deep/text_document.idx")), 0);
    assert_text(".", false, BYTES(LINES));
    /* fairseq: a dictionary beside token files is not text. */
    write_text("deep/dict.en.txt", "word 12\n");
    assert_text("deep/dict.en.txt", false, BYTES("word 12\n"));
    write_text("deep/train.en-de.en.idx", "any bytes");
    assert_refused("deep/dict.en.txt", false,
                   "/deep/dict.en.txt: is by its name a dictionary of fairseq "
                   "beside its files of token ids, not text" ELSEWHERE);
    assert_refused(".", false, "/deep/dict.en.txt: is by its name");
    /* Folders may have such names. */
    assert_int_equal(unlink(at("deep/train.en-de.en.idx")), 0);
    mkdir(at("x.bin"), 0777);
    assert_text("input.txt", false, BYTES(LINES));
    assert_text(".", false, BYTES("word 12\n" LINES));
}

/* ---- Notices ------------------------------------------------------------ */

static const struct vp_dims window = { 1, 4, 0, 0 }, pair = { 1, 64, 64, 0 };

static struct vp_data *open_task(const char *name, enum vp_data_task task)
{
    struct vp_data_config config = {
        .source = VP_DATA_FILES,
        .task = task,
        .path = at(name),
        .replace_invalid = true,
        .dims = task == VP_DATA_PAIRS ? &pair : &window,
        .n_dims = 1,
    };

    return open_data(&config);
}

/* Asserts that there is one notice about `name` and that it contains `want`, or
 * none if `want` is NULL. */
static void assert_notice(const char *name, enum vp_data_task task,
                          const char *want)
{
    struct vp_data *data = open_task(name, task);
    const char *notice = vp_data_notice(data, 0);

    if (!want) {
        if (notice)
            fail_msg("a notice: %s", notice);
    } else if (!notice || !strstr(notice, want) || strchr(notice, '\n')) {
        fail_msg("'%s' is not in '%s'", want, notice ? notice : "");
    } else if (vp_data_notice(data, 1)) {
        fail_msg("a second notice: %s", vp_data_notice(data, 1));
    }
    vp_data_close(data);
}

static void what_is_not_taken_is_said(void **state)
{
    static const char *const names[] = {
        "b.md",     "c.py",
        "d.rst",    "e.rst",
        "f.tsv",    "g.png",
        "h.gz",     "README",
        "i.tar.gz", "j.txt~",
        "k.",       "l.x y",
        "m.\033",   "n.very_long_extension_of_a_name",
    };
    struct vp_text text;
    struct vp_err err;

    (void)state;
    write_text("a.txt", LINES);
    assert_notice(".", VP_DATA_CAUSAL_LM, NULL);
    write_text(".hidden.rst", LINES);
    assert_notice(".", VP_DATA_CAUSAL_LM, NULL);
    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        write_text(names[i], LINES);
    mkdir(at("build-x"), 0777);
    write_text("build-x/x.c", LINES);
    assert_int_equal(symlink(at("a.txt"), at("link.txt")), 0);
    assert_int_equal(mkfifo(at("pipe.txt"), 0666), 0);
    assert_notice(
        ".", VP_DATA_CAUSAL_LM,
        "/.: 3 files taken as text; not taken: other names 5, .gz 2, .rst 2, "
        ".png 1, .tsv 1, folders build* 1, no extension 1, special files 1, "
        "symbolic links 1; from a folder vpipe takes .c .h .md .txt .py .sh "
        ".cmake .yml .jsonl .ndjson");
    assert_int_equal(read_at(".", false, &text, &err), VP_OK);
    assert_int_equal(text.n_files, 3);
    assert_int_equal(text.skipped.n_files, 15);
    vp_text_release(&text);
}

static void many_kinds_are_summed_up(void **state)
{
    struct vp_skipped skipped = { .n_kinds = 0 };
    char name[16], out[128];

    (void)state;
    for (int i = 0; i < 3 * VP_SKIPPED_KINDS; i++) {
        snprintf(name, sizeof(name), "a.x%d", 10 + i);
        vp_skipped_add(&skipped, name);
    }
    vp_skipped_add(&skipped, "b.x12");
    vp_skipped_print(&skipped, out, sizeof(out));
    assert_string_equal(out, ".x12 2, .x10 1, .x11 1, .x13 1, .x14 1, .x15 1, "
                             ".x16 1, .x17 1, .x18 1, .x19 1, others 86");
    assert_int_equal(vp_skipped_count(&skipped, ".x12"), 2);
    assert_int_equal(vp_skipped_count(&skipped, ".nothing"), 0);
    vp_skipped_print(&skipped, out, 8);
    assert_string_equal(out, ".x12 2,");
}

static void empty_files_are_said(void **state)
{
    (void)state;
    write_text("a.txt", LINES);
    write_text("b.txt", "");
    write_text("c.txt", "\xEF\xBB\xBF");
    assert_notice(".", VP_DATA_CAUSAL_LM,
                  "/.: 3 files taken as text, 2 of them empty");
    write_text("d.rst", "");
    assert_notice(".", VP_DATA_CAUSAL_LM,
                  "/.: 3 files taken as text, 2 of them empty; not taken: .rst "
                  "1; from a folder");
}

/* HDF5 shards in a folder below are not read, and the message says so. */
static void stray_shards_are_said(void **state)
{
    struct vp_text text;
    struct vp_err err;

    (void)state;
    mkdir(at("shards"), 0777);
    write_text("shards/a_training.hdf5", "any bytes");
    assert_int_equal(read_at(".", false, &text, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "/.: no text files here (not taken: .hdf5 "
                                     "1), and no shards named *training*.hdf5 "
                                     "directly in it; set data_dir to a folder "
                                     "with shards"));
    vp_text_release(&text);
    write_text("README.md", LINES);
    assert_notice(
        ".", VP_DATA_CAUSAL_LM,
        "1 file taken as text; not taken: .hdf5 1; from a folder vpipe "
        "takes .c .h .md .txt .py .sh .cmake .yml .jsonl .ndjson, or shards named "
        "*training*.hdf5 or *training*.h5 directly in it");
}

/* If the text is too short, the message lists skipped files, which may be the
 * ones that were meant. */
static void too_little_text_names_the_other_files(void **state)
{
    static const struct vp_dims long_one = { 1, 4000, 0, 0 };
    struct vp_data_config config = {
        .source = VP_DATA_FILES,
        .task = VP_DATA_CAUSAL_LM,
        .path = folder,
        .dims = &long_one,
        .n_dims = 1,
    };
    struct vp_data *data;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("README.md", LINES);
    write_text("books.h5", "any bytes");
    assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "40 bytes of text do not fill one window "
                                     "of 4001; add text or lower seq_length; "
                                     "not taken: .h5 1"));
    assert_int_equal(vp_data_open(&config, &data, NULL), VP_ERR_INVALID);
}

static void replaced_bytes_are_said(void **state)
{
    (void)state;
    write_file("x.txt", BYTES("caf\xE9 and \xE9t\xE9\n"));
    assert_notice("x.txt", VP_DATA_CAUSAL_LM,
                  "invalid_utf8 is replace: U+FFFD replaces 3 NUL "
                  "bytes or invalid UTF-8 sequences in 1 file, the first in ");
    assert_notice("x.txt", VP_DATA_CAUSAL_LM, "/x.txt, offset 3");
}

static void markup_is_said(void **state)
{
    (void)state;
    write_text("x.csv", "{\"text\": \"some words\"}\n");
    assert_notice("x.csv", VP_DATA_CAUSAL_LM,
                  "/x.csv: is read as plain text, its markup included; vpipe "
                  "has no reader for this format");
    write_text("x.rst", LINES);
    assert_notice("x.rst", VP_DATA_CAUSAL_LM, NULL);
}

/* Pairs made up from one text are called an exercise. */
static void an_exercise_is_called_so(void **state)
{
    struct vp_data_config made = {
        .source = VP_DATA_SYNTHETIC,
        .task = VP_DATA_PAIRS,
        .vocab = 64,
        .dims = &pair,
        .n_dims = 1,
    };
    struct vp_data *data;

    (void)state;
    write_text("x.txt", LINES);
    assert_notice("x.txt", VP_DATA_PAIRS,
                  "/x.txt: the target of each line is made up from it (its "
                  "words in reverse order, a-z in upper case): an exercise, "
                  "not a translation data set; lines with fewer than 2 words "
                  "or more than 1024 bytes are left out");
    assert_notice("x.txt", VP_DATA_CAUSAL_LM, NULL);
    data = open_data(&made);
    assert_null(vp_data_notice(data, 0));
    vp_data_close(data);
}

/* An error of the file is reported before one of the vocabulary. */
static void the_file_comes_before_the_vocabulary(void **state)
{
    struct vp_data_config config = {
        .source = VP_DATA_FILES,
        .task = VP_DATA_CAUSAL_LM,
        .path = at("x.bin"),
        .vocab = 128,
        .dims = &window,
        .n_dims = 1,
    };
    struct vp_data *data;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("x.bin", LINES);
    assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "set data_format: nanogpt"));
}

/* A file of bytes holds exactly the text that would be in memory: plain and
 * compressed text, lines of JSON, files without a last newline. Batches are the
 * same, too. */
static void bytes_in_a_file_are_the_same_text(void **state)
{
    static const char *const names[] = { "plain.txt.zst", "lines.jsonl",
                                         "lines.jsonl.gz", "plain.txt" };
    struct vp_dims dims = { 2, 16, 0, 0 };
    struct vp_err err = { .text = "" };
    char in[6][300], bytes[300];
    const char *paths[6];
    struct vp_corpus_result result;
    struct vp_text text = { 0 };
    struct vp_corpus_config config = { .paths = paths, .n_paths = 6 };
    struct vp_data_config held = { .source = VP_DATA_FILES,
                                   .task = VP_DATA_CAUSAL_LM,
                                   .path = folder,
                                   .seed = 1,
                                   .dims = &dims,
                                   .n_dims = 1 },
                          streamed;
    struct vp_data *a, *b;
    struct vp_batch *x, *y;
    FILE *file;
    int64_t n = 0;

    (void)state;
    write_text("a.txt", "\xEF\xBB\xBFno newline at the end");
    free(write_noise("b.txt", 300000));
    for (int i = 0; i < 6; i++) {
        if (i < 2)
            snprintf(in[i], sizeof(in[i]), "%s/%s", folder,
                     i ? "b.txt" : "a.txt");
        else
            snprintf(in[i], sizeof(in[i]),
                     VP_SOURCE_DIR "/tests/golden/text/%s", names[i - 2]);
        paths[i] = in[i];
        assert_int_equal(vp_text_append(&text, in[i], 0, false, &err), VP_OK);
    }
    snprintf(bytes, sizeof(bytes), "%s/.bytes", folder);
    if (vp_corpus_write_bytes(&config, bytes, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    file = fopen(bytes, "rb");
    assert_non_null(file);
    for (; n < text.n_bytes; n++)
        if (getc(file) != text.bytes[n])
            fail_msg("byte %lld of %lld", (long long)n,
                     (long long)text.n_bytes);
    assert_int_equal(getc(file), EOF);
    fclose(file);
    vp_text_release(&text);

    config.n_paths = 2;
    assert_int_equal(vp_corpus_write_bytes(&config, bytes, &result, &err),
                     VP_OK);
    streamed = held;
    streamed.text_bytes = bytes;
    a = open_data(&held);
    b = open_data(&streamed);
    x = make_batch(a);
    y = make_batch(b);
    assert_int_equal(vp_data_info(a)->n_batches, vp_data_info(b)->n_batches);
    assert_true(vp_data_info(a)->unigram_loss == vp_data_info(b)->unigram_loss);
    for (uint64_t m = 0; m < 2000; m += 7) {
        fill(a, m, x);
        fill(b, m, y);
        assert_same_batch(&held, x, y);
    }
    vp_batch_free(x);
    vp_batch_free(y);
    vp_data_close(a);
    vp_data_close(b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(bad_bytes_are_refused_by_place),
        TEST_IN_FOLDER(no_chunk_hides_a_fault),
        TEST_IN_FOLDER(large_files_are_refused_early),
        TEST_IN_FOLDER(a_byte_order_mark_is_left_out),
        TEST_IN_FOLDER(bytes_are_replaced_if_asked_for),
        TEST_IN_FOLDER(known_formats_are_named),
        TEST_IN_FOLDER(token_files_are_refused_by_name),
        TEST_IN_FOLDER(what_is_not_taken_is_said),
        cmocka_unit_test(many_kinds_are_summed_up),
        TEST_IN_FOLDER(empty_files_are_said),
        TEST_IN_FOLDER(stray_shards_are_said),
        TEST_IN_FOLDER(too_little_text_names_the_other_files),
        TEST_IN_FOLDER(replaced_bytes_are_said),
        TEST_IN_FOLDER(markup_is_said),
        TEST_IN_FOLDER(an_exercise_is_called_so),
        TEST_IN_FOLDER(the_file_comes_before_the_vocabulary),
        TEST_IN_FOLDER(bytes_in_a_file_are_the_same_text),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
