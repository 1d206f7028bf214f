/* Reads pairs from two files, from TSV or from JSONL. */
#include "data/pairs/pair_reader.h"

#include "data/jsonl.h"
#include "data/pairs/line_stream.h"
#include "data/text_file.h"

#include <stdlib.h>
#include <string.h>

struct vp_pair_reader {
    struct vp_pair_options options;
    struct vp_line_stream *stream[2]; /* [1] is NULL with one file */
    int64_t n_empty;
};

enum vp_status vp_pair_reader_open(const struct vp_pair_options *options,
                                   struct vp_pair_reader **out,
                                   struct vp_err *err)
{
    struct vp_pair_reader *reader = calloc(1, sizeof(*reader));
    enum vp_status st = VP_OK;

    if (!reader)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory",
                          options->paths[0]);
    reader->options = *options;
    for (int i = 0; st == VP_OK && i < options->n_paths; i++)
        st = vp_line_stream_open(options->paths[i], options->replace,
                                 &reader->stream[i], err);
    if (st == VP_OK)
        *out = reader;
    else
        vp_pair_reader_close(reader);
    return st;
}

void vp_pair_reader_close(struct vp_pair_reader *reader)
{
    if (!reader)
        return;
    vp_line_stream_close(reader->stream[0]);
    vp_line_stream_close(reader->stream[1]);
    free(reader);
}

int64_t vp_pair_reader_empty(const struct vp_pair_reader *reader)
{
    return reader->n_empty;
}

int64_t vp_pair_reader_offset(const struct vp_pair_reader *reader)
{
    return vp_line_stream_offset(reader->stream[0]) +
           (reader->stream[1] ? vp_line_stream_offset(reader->stream[1]) : 0);
}

static enum vp_status refuse(const struct vp_pair_reader *reader,
                             const struct vp_line *line, size_t at,
                             const char *cause, const char *remedy,
                             struct vp_err *err)
{
    return vp_err_set(
        err, VP_ERR_INVALID, "%s: offset %lld (line %lld): %s; %s",
        reader->options.paths[0], (long long)(line->offset + (int64_t)at),
        (long long)line->number, cause, remedy);
}

static void set_side(struct vp_text_pair *pair, int side,
                     const unsigned char *bytes, size_t n)
{
    pair->bytes[side] = (const char *)bytes;
    pair->n_bytes[side] = n;
}

/* ---- Kinds of files ----------------------------------------------------- */

static enum vp_status next_of_two(struct vp_pair_reader *reader,
                                  struct vp_text_pair *out, struct vp_err *err)
{
    struct vp_line line[2] = { { 0 }, { 0 } };
    enum vp_status st[2];

    for (int side = 0; side < 2; side++) {
        st[side] = vp_line_stream_next(reader->stream[side], &line[side], err);
        if (st[side] != VP_OK && st[side] != VP_ERR_END)
            return st[side];
        set_side(out, side, line[side].bytes, line[side].n_bytes);
    }
    if (st[0] == st[1])
        return st[0];
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: has no line %lld, but %s has one; line i of both "
                      "must be a pair; correct the files",
                      reader->options.paths[st[0] == VP_OK],
                      (long long)line[st[0] != VP_OK].number,
                      reader->options.paths[st[0] != VP_OK]);
}

static enum vp_status cut_tsv(const struct vp_pair_reader *reader,
                              const struct vp_line *line,
                              struct vp_text_pair *out, struct vp_err *err)
{
    const unsigned char *tab = memchr(line->bytes, '\t', line->n_bytes);
    size_t n = tab ? (size_t)(tab - line->bytes) : 0;

    if (!tab || memchr(tab + 1, '\t', line->n_bytes - n - 1))
        return refuse(reader, line, 0,
                      "does not hold two columns with one tab between them",
                      "correct the line", err);
    set_side(out, 0, line->bytes, n);
    set_side(out, 1, tab + 1, line->n_bytes - n - 1);
    return VP_OK;
}

/* Finds the strings of both languages and unescapes them in place. */
static enum vp_status cut_json(const struct vp_pair_reader *reader,
                               const struct vp_line *line,
                               struct vp_text_pair *out, struct vp_err *err)
{
    static const char remedy[] = "correct the line, or name the languages as "
                                 "its keys";
    struct vp_jsonl_fault fault = { 0, NULL }, other;
    size_t at[2], n[2];

    for (int side = 0; side < 2; side++) {
        const char *const keys[] = { "translation",
                                     reader->options.lang[side] };

        if (!vp_jsonl_find(line->bytes, line->n_bytes, keys, 2, &at[side],
                           &n[side], &fault) &&
            !vp_jsonl_find(line->bytes, line->n_bytes, keys + 1, 1, &at[side],
                           &n[side], &other))
            return refuse(reader, line, fault.at, fault.cause, remedy, err);
    }
    for (int side = 0; side < 2; side++) {
        unsigned char *string = line->bytes + at[side];

        if (!vp_jsonl_unescape(string, n[side], reader->options.replace, string,
                               &n[side], &fault))
            return refuse(reader, line, at[side] + fault.at, fault.cause,
                          remedy, err);
        set_side(out, side, string, n[side]);
    }
    return VP_OK;
}

static enum vp_status next_of_one(struct vp_pair_reader *reader,
                                  struct vp_text_pair *out, struct vp_err *err)
{
    struct vp_line line;

    do
        VP_TRY(vp_line_stream_next(reader->stream[0], &line, err));
    while (line.n_bytes == 0);
    return vp_text_is_jsonl(reader->options.paths[0])
               ? cut_json(reader, &line, out, err)
               : cut_tsv(reader, &line, out, err);
}

enum vp_status vp_pair_reader_next(struct vp_pair_reader *reader,
                                   struct vp_text_pair *out, struct vp_err *err)
{
    for (;;) {
        VP_TRY(reader->stream[1] ? next_of_two(reader, out, err)
                                 : next_of_one(reader, out, err));
        if (out->n_bytes[0] > 0 && out->n_bytes[1] > 0)
            return VP_OK;
        reader->n_empty++;
    }
}
