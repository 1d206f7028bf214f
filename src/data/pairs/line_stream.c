/* Lines of a text file, checked to be UTF-8. */
#include "data/pairs/line_stream.h"

#include "base/utf8.h"
#include "data/byte_stream.h"

#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

struct vp_line_stream {
    struct vp_byte_stream *stream;
    const char *path;
    bool replace, at_end;
    unsigned char *bytes; /* bytes before `used` were returned as lines */
    size_t n, capacity, used;
    int64_t number;          /* lines returned so far */
    int64_t offset;          /* decompressed bytes before bytes[used] */
    unsigned char *replaced; /* copy of a line with U+FFFD */
    size_t replaced_capacity;
};

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

enum vp_status vp_line_stream_open(const char *path, bool replace,
                                   struct vp_line_stream **out,
                                   struct vp_err *err)
{
    struct vp_line_stream *stream = calloc(1, sizeof(*stream));
    enum vp_status st;

    if (!stream)
        return fail_memory(path, err);
    stream->path = path;
    stream->replace = replace;
    st = vp_byte_stream_open(path, &stream->stream, err);
    if (st == VP_OK)
        *out = stream;
    else
        free(stream);
    return st;
}

void vp_line_stream_close(struct vp_line_stream *stream)
{
    if (!stream)
        return;
    vp_byte_stream_close(stream->stream);
    free(stream->bytes);
    free(stream->replaced);
    free(stream);
}

const char *vp_line_stream_path(const struct vp_line_stream *stream)
{
    return stream->path;
}

int64_t vp_line_stream_offset(const struct vp_line_stream *stream)
{
    return vp_byte_stream_offset(stream->stream);
}

static enum vp_status refuse(const struct vp_line_stream *stream, size_t at,
                             const char *cause, const char *remedy,
                             struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: offset %lld%s (line %lld): %s; %s", stream->path,
                      (long long)(stream->offset + (int64_t)at),
                      vp_byte_stream_is_compressed(stream->stream)
                          ? " of the decompressed text"
                          : "",
                      (long long)stream->number + 1, cause, remedy);
}

/* Moves the unused bytes to the front of the buffer and reads more after
 * them. */
static enum vp_status read_more(struct vp_line_stream *stream,
                                struct vp_err *err)
{
    size_t n;

    if (stream->used > 0) {
        stream->n -= stream->used;
        memmove(stream->bytes, stream->bytes + stream->used, stream->n);
        stream->used = 0;
    }
    if (stream->n > VP_LINE_MAX_BYTES)
        return refuse(stream, 0, "a line of more than 64 MiB",
                      "give text with one sentence on each line", err);
    if (stream->capacity - stream->n < READ_BYTES) {
        size_t capacity = 2 * stream->capacity + 2 * READ_BYTES;
        unsigned char *bytes = realloc(stream->bytes, capacity);

        if (!bytes)
            return fail_memory(stream->path, err);
        stream->bytes = bytes;
        stream->capacity = capacity;
    }
    VP_TRY(vp_byte_stream_read(stream->stream, stream->bytes + stream->n,
                               READ_BYTES, &n, err));
    stream->at_end = n == 0;
    stream->n += n;
    return VP_OK;
}

/* Copies the line to stream->replaced with U+FFFD for invalid UTF-8. */
static enum vp_status replace_faults(struct vp_line_stream *stream,
                                     struct vp_line *line, struct vp_err *err)
{
    size_t capacity = 3 * line->n_bytes + 1;
    int64_t n_faults = 0;

    if (stream->replaced_capacity < capacity) {
        unsigned char *grown = realloc(stream->replaced, capacity);

        if (!grown)
            return fail_memory(stream->path, err);
        stream->replaced = grown;
        stream->replaced_capacity = capacity;
    }
    line->n_bytes = vp_utf8_replace(VP_UTF8_TEXT, line->bytes, line->n_bytes,
                                    stream->replaced, &n_faults);
    line->bytes = stream->replaced;
    return VP_OK;
}

static enum vp_status check_line(struct vp_line_stream *stream,
                                 struct vp_line *line, struct vp_err *err)
{
    struct vp_utf8_fault fault;
    size_t n = vp_utf8_check(VP_UTF8_TEXT, line->bytes, line->n_bytes, &fault);

    if (n == line->n_bytes)
        return VP_OK;
    if (stream->replace)
        return replace_faults(stream, line, err);
    return refuse(stream, n,
                  line->bytes[n] == 0 ? "a NUL byte, which text does not hold"
                                      : "not UTF-8",
                  "convert the file, for example with 'iconv -f WINDOWS-1252 "
                  "-t UTF-8 FILE -o NEW'",
                  err);
}

enum vp_status vp_line_stream_next(struct vp_line_stream *stream,
                                   struct vp_line *out, struct vp_err *err)
{
    const unsigned char *newline = NULL;
    size_t seen = 0, n;

    for (;;) {
        if (stream->n - stream->used > seen)
            newline = memchr(stream->bytes + stream->used + seen, '\n',
                             stream->n - stream->used - seen);
        if (newline || stream->at_end)
            break;
        seen = stream->n - stream->used;
        VP_TRY(read_more(stream, err));
    }
    if (!newline && stream->n == stream->used)
        return VP_ERR_END;
    out->bytes = stream->bytes + stream->used;
    n = newline ? (size_t)(newline - out->bytes) : stream->n - stream->used;
    out->n_bytes = n > 0 && out->bytes[n - 1] == '\r' ? n - 1 : n;
    out->offset = stream->offset;
    VP_TRY(check_line(stream, out, err));
    if (stream->offset == 0 && out->n_bytes >= 3 &&
        memcmp(out->bytes, "\xEF\xBB\xBF", 3) == 0) {
        out->bytes += 3; /* skip the byte order mark */
        out->n_bytes -= 3;
    }
    out->number = ++stream->number;
    n += newline != NULL;
    stream->used += n;
    stream->offset += (int64_t)n;
    return VP_OK;
}
