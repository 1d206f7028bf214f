/* Reads one text file: decompression, checks or replacement of invalid UTF-8,
 * JSONL. */
#include "data/text_file.h"

#include "base/utf8.h"
#include "data/byte_stream.h"
#include "data/foreign.h"
#include "data/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file is read and checked in chunks, so that a large file that is not text
 * is refused early. */
enum { CHUNK = 1 << 20 };

static enum vp_status reserve(struct vp_text *text, int64_t more,
                              const char *path, struct vp_err *err)
{
    int64_t capacity = text->capacity ? text->capacity : 1 << 16;
    unsigned char *bytes;

    if (more > VP_TEXT_MAX_BYTES - text->n_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: exceeds the limit of %lld MiB of text in all; "
                          "set data_dir to a smaller file or folder",
                          path, (long long)(VP_TEXT_MAX_BYTES >> 20));
    while (capacity < text->n_bytes + more)
        capacity *= 2;
    if (capacity == text->capacity)
        return VP_OK;
    bytes = realloc(text->bytes, (size_t)capacity);
    if (!bytes)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: no memory for %lld bytes of text; set data_dir "
                          "to a smaller file or folder",
                          path, (long long)capacity);
    text->bytes = bytes;
    text->capacity = capacity;
    return VP_OK;
}

/* ---- Rejected files ----------------------------------------------------- */

/* One file that is being read. */
struct file {
    const char *path;
    int64_t start;   /* offset in the text of its first byte */
    int64_t checked; /* offset in the text; all before it is valid */
    bool is_compressed;
};

static enum vp_status refuse_head(const struct file *file,
                                  const struct vp_text *text,
                                  struct vp_err *err)
{
    const struct vp_foreign *foreign = vp_foreign_by_head(
        text->bytes + file->start, (size_t)(text->n_bytes - file->start));

    if (!foreign)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset 0: %s, not text in UTF-8; %s", file->path,
                      foreign->what, foreign->remedy);
}

static long long line_of(const struct file *file, const struct vp_text *text)
{
    long long line = 1;

    for (int64_t i = file->start; i < file->checked; i++)
        line += text->bytes[i] == '\n';
    return line;
}

static enum vp_status refuse_fault(const struct file *file,
                                   const struct vp_text *text,
                                   const struct vp_utf8_fault *fault,
                                   struct vp_err *err)
{
    const unsigned char *bytes = text->bytes + file->checked;
    char shown[16] = "";

    VP_TRY(refuse_head(file, text, err));
    for (size_t i = 0; i < fault->n_bytes; i++)
        snprintf(shown + 3 * i, sizeof(shown) - 3 * i, " %02X", bytes[i]);
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: offset %lld%s (line %lld): %s%s; %s, or set invalid_utf8: replace",
        file->path, (long long)(file->checked - file->start),
        file->is_compressed ? " of the decompressed text" : "",
        line_of(file, text),
        bytes[0] == 0 ? "a NUL byte, which text does not hold"
        : fault->cut  ? "the file ends inside a UTF-8 character:"
                      : "not UTF-8:",
        bytes[0] == 0 ? "" : shown,
        bytes[0] == 0 ? "give text in UTF-8"
                      : "convert the file, for example with 'iconv -f "
                        "WINDOWS-1252 -t UTF-8 FILE -o NEW'");
}

/* Checks the bytes read since the last call. A character that is cut at their
 * end is left to the next call, unless `at_end` is set. */
static enum vp_status check_new(struct file *file, const struct vp_text *text,
                                bool at_end, struct vp_err *err)
{
    size_t n = (size_t)(text->n_bytes - file->checked);
    struct vp_utf8_fault fault;
    size_t n_good = vp_utf8_check(VP_UTF8_TEXT, text->bytes + file->checked, n,
                                  &fault);

    file->checked += (int64_t)n_good;
    if (n_good == n || (fault.cut && !at_end))
        return VP_OK;
    return refuse_fault(file, text, &fault, err);
}

/* ---- Replacing ---------------------------------------------------------- */

static void note_replaced(const struct file *file, struct vp_text *text,
                          int64_t n_faults)
{
    struct vp_utf8_fault fault;
    size_t n_good = vp_utf8_check(VP_UTF8_TEXT, text->bytes + file->start,
                                  (size_t)(text->n_bytes - file->start),
                                  &fault);

    if (text->n_replaced == 0)
        snprintf(text->first_replaced, sizeof(text->first_replaced),
                 "%.400s, offset %llu", file->path, (unsigned long long)n_good);
    text->n_replaced += n_faults;
    text->n_replaced_files++;
}

/* Replaces every fault of the file by U+FFFD. */
static enum vp_status replace_faults(const struct file *file,
                                     struct vp_text *text, struct vp_err *err)
{
    size_t n = (size_t)(text->n_bytes - file->start);
    int64_t n_faults = 0, counted = 0;
    size_t n_out = vp_utf8_replace(VP_UTF8_TEXT, text->bytes + file->start, n,
                                   NULL, &n_faults);
    unsigned char *bytes;

    if (n_faults == 0)
        return VP_OK;
    VP_TRY(refuse_head(file, text, err));
    note_replaced(file, text, n_faults);
    VP_TRY(reserve(text, (int64_t)(n_out - n) + 1, file->path, err));
    /* Move the old bytes to the end of the enlarged area, so that writing from
     * its start does not overwrite bytes before they are read. */
    bytes = text->bytes + file->start;
    memmove(bytes + (n_out - n), bytes, n);
    vp_utf8_replace(VP_UTF8_TEXT, bytes + (n_out - n), n, bytes, &counted);
    text->n_bytes += (int64_t)(n_out - n);
    return VP_OK;
}

/* ---- Reading ------------------------------------------------------------ */

/* Reads to the end of the file, also if it grows meanwhile. Leaves capacity for
 * one byte after the text, for finish(). */
static enum vp_status read_stream(struct vp_byte_stream *stream, int64_t expect,
                                  bool replace, struct file *file,
                                  struct vp_text *text, struct vp_err *err)
{
    size_t n;

    /* One byte more than expected, so that the end is detected without growing
     * the buffer. */
    VP_TRY(reserve(text, expect + 1, file->path, err));
    for (;;) {
        int64_t left = text->capacity - text->n_bytes;

        VP_TRY(vp_byte_stream_read(stream, text->bytes + text->n_bytes,
                                   (size_t)(left < CHUNK ? left : CHUNK), &n,
                                   err));
        if (n == 0)
            break;
        text->n_bytes += (int64_t)n;
        if (!replace)
            VP_TRY(check_new(file, text, false, err));
        VP_TRY(reserve(text, 1, file->path, err));
    }
    return replace ? replace_faults(file, text, err)
                   : check_new(file, text, true, err);
}

/* ---- Lines of JSON ------------------------------------------------------ */

static enum vp_status refuse_line(const struct file *file,
                                  const struct vp_text *text, int64_t at,
                                  long long line, const char *cause,
                                  struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset %lld%s (line %lld): %s; correct the line, or "
                      "set text_key (now '%s') to the key of the text",
                      file->path, (long long)(at - file->start),
                      file->is_compressed ? " of the decompressed text" : "",
                      line, cause, text->json_key ? text->json_key : "text");
}

/* Replaces each line of JSONL by its text and a newline, in place: a text is
 * shorter than its line. Empty lines are skipped. */
static enum vp_status take_texts(const struct file *file, bool replace,
                                 struct vp_text *text, struct vp_err *err)
{
    const char *keys[] = { text->json_key ? text->json_key : "text" };
    int64_t end, to = file->start;
    long long line = 1;

    for (int64_t at = file->start; at < text->n_bytes; at = end + 1, line++) {
        const unsigned char *newline = memchr(text->bytes + at, '\n',
                                              (size_t)(text->n_bytes - at));
        struct vp_jsonl_fault fault = { 0, NULL };
        size_t found, n;

        end = newline ? newline - text->bytes : text->n_bytes;
        if (strspn((const char *)text->bytes + at, " \t\r") ==
            (size_t)(end - at))
            continue;
        if (!vp_jsonl_find(text->bytes + at, (size_t)(end - at), keys, 1,
                           &found, &n, &fault))
            return refuse_line(file, text, at + (int64_t)fault.at, line,
                               fault.cause, err);
        if (!vp_jsonl_unescape(text->bytes + at + found, n, replace,
                               text->bytes + to, &n, &fault))
            return refuse_line(file, text, at + (int64_t)(found + fault.at),
                               line, fault.cause, err);
        to += (int64_t)n;
        text->bytes[to++] = '\n';
    }
    text->n_bytes = to;
    return VP_OK;
}

bool vp_text_is_jsonl(const char *path)
{
    size_t n = vp_text_stem(path);

    return (n > 6 && memcmp(path + n - 6, ".jsonl", 6) == 0) ||
           (n > 7 && memcmp(path + n - 7, ".ndjson", 7) == 0);
}

size_t vp_text_stem(const char *path)
{
    size_t n = strlen(path);

    if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
        return n - 3;
    return n > 4 && strcmp(path + n - 4, ".zst") == 0 ? n - 4 : n;
}

/* ---- The whole ---------------------------------------------------------- */

/* Drops a byte order mark, adds a missing last newline, counts the file. */
static void finish(const struct file *file, struct vp_text *text)
{
    unsigned char *bytes = text->bytes + file->start;
    size_t n = (size_t)(text->n_bytes - file->start);

    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        memmove(bytes, bytes + 3, n - 3);
        text->n_bytes -= 3;
        n -= 3;
    }
    if (n > 0 && bytes[n - 1] != '\n')
        text->bytes[text->n_bytes++] = '\n';
    text->n_files++;
    text->n_empty += n == 0;
}

enum vp_status vp_text_append(struct vp_text *text, const char *path,
                              int64_t expect, bool replace, struct vp_err *err)
{
    struct file file = { path, text->n_bytes, text->n_bytes, false };
    struct vp_byte_stream *stream;
    enum vp_status st;

    VP_TRY(vp_byte_stream_open(path, &stream, err));
    file.is_compressed = vp_byte_stream_is_compressed(stream);
    st = read_stream(stream, expect, replace, &file, text, err);
    vp_byte_stream_close(stream);
    VP_TRY(st);
    finish(&file, text);
    return vp_text_is_jsonl(path) && !text->keep_json
               ? take_texts(&file, replace, text, err)
               : VP_OK;
}

void vp_text_release(struct vp_text *text)
{
    free(text->bytes);
    *text = (struct vp_text){ 0 };
}
