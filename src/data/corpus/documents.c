/* Reads text and JSONL in blocks, checks UTF-8 and divides documents into
 * parts. */
#include "data/corpus/documents.h"

#include "base/utf8.h"
#include "data/byte_stream.h"
#include "data/foreign.h"
#include "data/jsonl.h"
#include "data/text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 20,  /* per read */
    BLOCK_BYTES = 4 << 20, /* text of a block, unless the file ends before */
    PART_BYTES = 1 << 17,  /* a document is divided into parts of this size */
};

struct vp_document_reader {
    struct vp_byte_stream *stream;
    const struct vp_tokenizer *tokenizer;
    struct vp_document_options options;
    const char *path;
    bool is_jsonl, at_end, inside; /* inside: a document has begun */

    unsigned char *raw; /* bytes read, after the start of a cut character */
    size_t n_raw;
    unsigned char *text; /* valid UTF-8; bytes before `used` are in `block` */
    size_t n, capacity, used;
    int64_t offset;     /* offset of `text` in the decompressed file */
    int64_t line;       /* number of the first line of `text`, from 1 */
    int64_t used_lines; /* lines that end before `used` */
    struct vp_document_block block;
};

static enum vp_status fail_memory(const struct vp_document_reader *reader,
                                  struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs, or cut the "
                      "file into several",
                      reader->path);
}

enum vp_status vp_document_reader_open(
    const char *path, const struct vp_tokenizer *tokenizer,
    const struct vp_document_options *options, struct vp_document_reader **out,
    struct vp_err *err)
{
    struct vp_document_reader *reader;
    enum vp_status st = VP_OK;

    if (vp_foreign_is_tokens(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is by its name a file of token ids, not text; "
                          "name text files",
                          path);
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    reader->path = path;
    reader->tokenizer = tokenizer;
    reader->options = *options;
    reader->is_jsonl = vp_text_is_jsonl(path);
    reader->line = 1;
    /* Up to three bytes of a character may be left from the previous read. */
    reader->raw = malloc(READ_BYTES + 4);
    if (!reader->raw)
        st = fail_memory(reader, err);
    if (st == VP_OK)
        st = vp_byte_stream_open(path, &reader->stream, err);
    if (st == VP_OK)
        *out = reader;
    else
        vp_document_reader_close(reader);
    return st;
}

void vp_document_reader_close(struct vp_document_reader *reader)
{
    if (!reader)
        return;
    if (reader->stream)
        vp_byte_stream_close(reader->stream);
    free(reader->raw);
    free(reader->text);
    free(reader->block.spans);
    free(reader->block.begins);
    free(reader);
}

int64_t vp_document_reader_offset(const struct vp_document_reader *reader)
{
    return vp_byte_stream_offset(reader->stream);
}

/* ---- Refusals ----------------------------------------------------------- */

/* `at`: offset of the fault in `text`; `line`: number of lines before it. */
static enum vp_status refuse(const struct vp_document_reader *reader, size_t at,
                             int64_t line, const char *cause,
                             const char *remedy, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset %lld%s (line %lld): %s; %s", reader->path,
                      (long long)(reader->offset + (int64_t)at),
                      vp_byte_stream_is_compressed(reader->stream)
                          ? " of the decompressed text"
                          : "",
                      (long long)(reader->line + line), cause, remedy);
}

/* Returns the number of lines that end before `at`. */
static int64_t count_lines(const struct vp_document_reader *reader, size_t at)
{
    int64_t n = 0;

    for (size_t i = 0; i < at; i++)
        n += reader->text[i] == '\n';
    return n;
}

/* Refuses a file that begins like a known binary format or another encoding. */
static enum vp_status refuse_head(const struct vp_document_reader *reader,
                                  const unsigned char *bytes, size_t n,
                                  struct vp_err *err)
{
    const struct vp_foreign *foreign = NULL;

    if (reader->offset == 0)
        foreign = vp_foreign_by_head(bytes, n);
    if (!foreign)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset 0: %s, not text in UTF-8; %s", reader->path,
                      foreign->what, foreign->remedy);
}

/* Reports the fault at the start of `raw`; all of `text` is valid. */
static enum vp_status refuse_fault(const struct vp_document_reader *reader,
                                   const struct vp_utf8_fault *fault,
                                   struct vp_err *err)
{
    int64_t line = count_lines(reader, reader->n);
    char cause[96] = "not UTF-8:";
    size_t n = strlen(cause);

    if (reader->n == 0)
        VP_TRY(refuse_head(reader, reader->raw, reader->n_raw, err));
    else
        VP_TRY(refuse_head(reader, reader->text, reader->n, err));
    if (reader->raw[0] == 0)
        return refuse(reader, reader->n, line,
                      "a NUL byte, which text does not hold",
                      "give text in UTF-8", err);
    for (size_t i = 0; i < fault->n_bytes; i++, n += 3)
        snprintf(cause + n, sizeof(cause) - n, " %02X", reader->raw[i]);
    return refuse(reader, reader->n, line,
                  fault->cut ? "the file ends inside a UTF-8 character" : cause,
                  "convert the file, for example with 'iconv -f WINDOWS-1252 "
                  "-t UTF-8 FILE -o NEW'",
                  err);
}

/* ---- Reading ------------------------------------------------------------ */

static enum vp_status reserve(struct vp_document_reader *reader, size_t n_more,
                              struct vp_err *err)
{
    size_t capacity = reader->capacity ? reader->capacity : 1 << 16;
    unsigned char *text;

    while (capacity - reader->n < n_more)
        capacity *= 2;
    if (capacity == reader->capacity)
        return VP_OK;
    text = realloc(reader->text, capacity);
    if (!text)
        return fail_memory(reader, err);
    reader->text = text;
    reader->capacity = capacity;
    return VP_OK;
}

/* Moves the first `n` bytes of `raw` to the end of the text. */
static void take_raw(struct vp_document_reader *reader, size_t n)
{
    memcpy(reader->text + reader->n, reader->raw, n);
    reader->n += n;
    reader->n_raw -= n;
    memmove(reader->raw, reader->raw + n, reader->n_raw);
}

/* Moves the valid bytes of `raw` to `text`; a cut character stays in `raw`. */
static enum vp_status check_raw(struct vp_document_reader *reader,
                                struct vp_err *err)
{
    struct vp_utf8_fault fault = { 0, false };

    VP_TRY(reserve(reader, reader->n_raw, err));
    take_raw(reader,
             vp_utf8_check(VP_UTF8_TEXT, reader->raw, reader->n_raw, &fault));
    if (reader->n_raw == 0 || (fault.cut && !reader->at_end))
        return VP_OK;
    return refuse_fault(reader, &fault, err);
}

/* Returns the number of bytes at the end of `raw` that are the start of a
 * character. */
static size_t count_cut(const struct vp_document_reader *reader)
{
    struct vp_utf8_fault fault;

    for (size_t k = 1; k <= 3 && k <= reader->n_raw; k++)
        if (vp_utf8_check(VP_UTF8_TEXT, reader->raw + reader->n_raw - k, k,
                          &fault) == 0 &&
            fault.cut && fault.n_bytes == k)
            return k;
    return 0;
}

/* Like check_raw(), but replaces invalid bytes by U+FFFD. */
static enum vp_status replace_raw(struct vp_document_reader *reader,
                                  struct vp_err *err)
{
    size_t n = reader->n_raw - (reader->at_end ? 0 : count_cut(reader));
    bool first = reader->offset == 0 && reader->n == 0;
    int64_t n_faults = 0;

    VP_TRY(reserve(reader, 3 * n, err));
    reader->n += vp_utf8_replace(VP_UTF8_TEXT, reader->raw, n,
                                 reader->text + reader->n, &n_faults);
    if (n_faults > 0 && first)
        VP_TRY(refuse_head(reader, reader->raw, n, err));
    reader->n_raw -= n;
    memmove(reader->raw, reader->raw + n, reader->n_raw);
    return VP_OK;
}

static void drop_byte_order_mark(struct vp_document_reader *reader)
{
    if (reader->n < 3 || memcmp(reader->text, "\xEF\xBB\xBF", 3) != 0)
        return;
    reader->n -= 3;
    reader->offset += 3;
    memmove(reader->text, reader->text + 3, reader->n);
}

/* Reads until there are `n_wanted` bytes of text, or to the end of the file. */
static enum vp_status read_more(struct vp_document_reader *reader,
                                size_t n_wanted, struct vp_err *err)
{
    bool first = reader->offset == 0 && reader->n == 0;

    while (reader->n < n_wanted && !reader->at_end) {
        size_t n;

        VP_TRY(vp_byte_stream_read(reader->stream, reader->raw + reader->n_raw,
                                   READ_BYTES, &n, err));
        reader->n_raw += n;
        reader->at_end = n == 0;
        VP_TRY(reader->options.replace ? replace_raw(reader, err)
                                       : check_raw(reader, err));
    }
    if (first)
        drop_byte_order_mark(reader);
    return VP_OK;
}

/* ---- Parts -------------------------------------------------------------- */

static enum vp_status add_span(struct vp_document_reader *reader,
                               const unsigned char *bytes, size_t n,
                               bool begins, struct vp_err *err)
{
    struct vp_document_block *block = &reader->block;

    if (block->n == block->capacity) {
        int capacity = 2 * block->capacity + 1024;
        struct vp_text_span *spans = realloc(block->spans,
                                             (size_t)capacity * sizeof(*spans));
        bool *flags;

        if (!spans)
            return fail_memory(reader, err);
        block->spans = spans;
        flags = realloc(block->begins, (size_t)capacity * sizeof(*flags));
        if (!flags)
            return fail_memory(reader, err);
        block->begins = flags;
        block->capacity = capacity;
    }
    block->spans[block->n] = (struct vp_text_span){ (const char *)bytes, n };
    block->begins[block->n++] = begins;
    return VP_OK;
}

/* Like vp_tokenizer_cut(); without a tokenizer, divides after the last LF. */
static size_t cut_at(const struct vp_document_reader *reader,
                     const unsigned char *bytes, size_t n)
{
    const unsigned char *last;

    if (reader->tokenizer)
        return vp_tokenizer_cut(reader->tokenizer, bytes, n);
    last = n > 1 ? memrchr(bytes, '\n', n - 1) : NULL;
    return last ? (size_t)(last - bytes) + 1 : 0;
}

/* Returns the length of the next part of `n` bytes of text, or 0 if the text
 * cannot be divided. */
static size_t cut_part(const struct vp_document_reader *reader,
                       const unsigned char *bytes, size_t n)
{
    size_t place = 0, window = PART_BYTES;

    if (n <= PART_BYTES)
        return cut_at(reader, bytes, n);
    for (; place == 0 && window < n; window *= 2) {
        size_t end = window;

        while ((bytes[end] & 0xC0) == 0x80) /* leave the character */
            end--;
        place = cut_at(reader, bytes, end);
    }
    return place ? place : cut_at(reader, bytes, n);
}

/* Adds `n` bytes of text in parts. Unless the text `ends` there, its last part
 * is left for later. *begins: the next part begins a document. *n_out: number
 * of bytes added. */
static enum vp_status add_parts(struct vp_document_reader *reader,
                                const unsigned char *bytes, size_t n, bool ends,
                                bool *begins, size_t *n_out, struct vp_err *err)
{
    size_t at = 0, n_part;

    while (at < n) {
        n_part = n - at > PART_BYTES || !ends
                     ? cut_part(reader, bytes + at, n - at)
                     : 0;
        if (n_part == 0 && !ends)
            break;
        if (n_part == 0)
            n_part = n - at;
        VP_TRY(add_span(reader, bytes + at, n_part, *begins, err));
        *begins = false;
        at += n_part;
    }
    *n_out = at;
    return VP_OK;
}

/* Adds the text of a line of JSONL, which is unescaped in place. */
static enum vp_status add_line(struct vp_document_reader *reader, size_t at,
                               size_t end, int64_t number, struct vp_err *err)
{
    const char *key = reader->options.text_key ? reader->options.text_key
                                               : "text";
    struct vp_jsonl_fault fault = { 0, NULL };
    unsigned char *line = reader->text + at;
    size_t found, n, n_added, n_blank = 0;
    bool begins = true;
    char remedy[256];

    while (n_blank < end - at && strchr(" \t\r", line[n_blank]))
        n_blank++;
    if (n_blank == end - at)
        return VP_OK;
    snprintf(remedy, sizeof(remedy),
             "correct the line, or set the key of the text (now '%.100s')",
             key);
    if (!vp_jsonl_find(line, end - at, &key, 1, &found, &n, &fault))
        return refuse(reader, at + fault.at, number, fault.cause, remedy, err);
    if (!vp_jsonl_unescape(line + found, n, reader->options.replace,
                           line + found, &n, &fault))
        return refuse(reader, at + found + fault.at, number, fault.cause,
                      remedy, err);
    if (n == 0 && reader->options.keep_empty)
        return add_span(reader, line, 0, true, err);
    return add_parts(reader, line + found, n, true, &begins, &n_added, err);
}

static enum vp_status cut_lines(struct vp_document_reader *reader,
                                struct vp_err *err)
{
    size_t at = 0;

    for (int64_t line = 0; at < reader->n; line++) {
        unsigned char *newline = memchr(reader->text + at, '\n',
                                        reader->n - at);
        size_t end = newline ? (size_t)(newline - reader->text) : reader->n;

        if (!newline && !reader->at_end)
            break;
        VP_TRY(add_line(reader, at, end, line, err));
        at = end + (newline != NULL);
        reader->used = at;
        reader->used_lines = line + 1;
    }
    return VP_OK;
}

static enum vp_status cut_text(struct vp_document_reader *reader,
                               struct vp_err *err)
{
    bool begins = !reader->inside;

    VP_TRY(add_parts(reader, reader->text, reader->n, reader->at_end, &begins,
                     &reader->used, err));
    reader->inside = !begins;
    reader->used_lines = count_lines(reader, reader->used);
    return VP_OK;
}

/* Drops the text of the previous block. */
static void drop_used(struct vp_document_reader *reader)
{
    reader->line += reader->used_lines;
    reader->offset += (int64_t)reader->used;
    reader->n -= reader->used;
    if (reader->n > 0)
        memmove(reader->text, reader->text + reader->used, reader->n);
    reader->used = 0;
    reader->used_lines = 0;
    reader->block.n = 0;
}

enum vp_status vp_document_reader_next(struct vp_document_reader *reader,
                                       const struct vp_document_block **out,
                                       struct vp_err *err)
{
    size_t n_wanted = BLOCK_BYTES;

    for (;;) {
        drop_used(reader);
        if (reader->at_end && reader->n == 0)
            return VP_ERR_END;
        VP_TRY(read_more(reader, n_wanted, err));
        VP_TRY(reader->is_jsonl ? cut_lines(reader, err)
                                : cut_text(reader, err));
        if (reader->block.n > 0)
            break;
        /* Either all lines were empty, or more bytes are needed for a line or
         * for a text that can be divided. */
        if (reader->used == 0 && reader->n >= VP_DOCUMENT_MAX_BYTES)
            return refuse(reader, 0, 0,
                          reader->is_jsonl
                              ? "a line of more than 256 MiB"
                              : "256 MiB of text that cannot be cut",
                          "give shorter lines", err);
        n_wanted = reader->used > 0 ? BLOCK_BYTES : 2 * reader->n;
    }
    *out = &reader->block;
    return VP_OK;
}
