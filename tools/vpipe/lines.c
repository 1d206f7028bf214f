/* Reads a text file in blocks of whole lines. */
#include "lines.h"

#include "base/nearest.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 22 };

enum vp_status lines_open(struct lines *lines, const char *path,
                          struct vp_err *err)
{
    char remedy[VP_PATH_REMEDY_BYTES];

    *lines = (struct lines){ .path = path };
    lines->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!lines->file)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be opened: %s; %s", path,
                          strerror(errno),
                          vp_path_remedy(path, "check the path", remedy));
    return VP_OK;
}

void lines_close(struct lines *lines)
{
    if (lines->file && lines->file != stdin)
        fclose(lines->file);
    free(lines->bytes);
    free(lines->spans);
    *lines = (struct lines){ .path = NULL };
}

static enum vp_status out_of_memory(const struct lines *lines,
                                    struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory for a line; close other programs or "
                      "cut the line",
                      lines->path);
}

/* Reads one more block. Sets *end_out to true at the end of the file. */
static enum vp_status read_block(struct lines *lines, bool *end_out,
                                 struct vp_err *err)
{
    size_t capacity = 2 * lines->capacity + BLOCK_BYTES, k;
    char *bytes;

    if (lines->capacity - lines->n < BLOCK_BYTES) {
        bytes = realloc(lines->bytes, capacity);
        if (!bytes)
            return out_of_memory(lines, err);
        lines->bytes = bytes;
        lines->capacity = capacity;
    }
    k = fread(lines->bytes + lines->n, 1, BLOCK_BYTES, lines->file);
    lines->n += k;
    *end_out = k < BLOCK_BYTES;
    if (ferror(lines->file))
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read: %s; check the file", lines->path,
                          strerror(errno));
    return VP_OK;
}

static enum vp_status add_span(struct lines *lines, const char *bytes, size_t n,
                               struct vp_err *err)
{
    int capacity = 2 * lines->spans_capacity + 1024;
    struct vp_text_span *spans;

    if (lines->n_spans == lines->spans_capacity) {
        spans = realloc(lines->spans, (size_t)capacity * sizeof(*spans));
        if (!spans)
            return out_of_memory(lines, err);
        lines->spans = spans;
        lines->spans_capacity = capacity;
    }
    lines->spans[lines->n_spans++] = (struct vp_text_span){ bytes, n };
    return VP_OK;
}

/* Splits the bytes read so far into lines. With `end`, the rest is a line,
 * too. */
static enum vp_status cut(struct lines *lines, bool end, struct vp_err *err)
{
    const char *at = lines->bytes, *stop = lines->bytes + lines->n, *next;

    while (at < stop && (next = memchr(at, '\n', (size_t)(stop - at)))) {
        VP_TRY(add_span(lines, at, (size_t)(next - at), err));
        at = next + 1;
    }
    if (end && at < stop) {
        VP_TRY(add_span(lines, at, (size_t)(stop - at), err));
        at = stop;
    }
    lines->used = (size_t)(at - lines->bytes);
    return VP_OK;
}

enum vp_status lines_next(struct lines *lines, struct vp_err *err)
{
    bool end = false;

    lines->n_lines += lines->n_spans;
    lines->n_spans = 0;
    lines->n -= lines->used;
    if (lines->n > 0)
        memmove(lines->bytes, lines->bytes + lines->used, lines->n);
    lines->used = 0;
    while (lines->n_spans == 0 && !end) {
        VP_TRY(read_block(lines, &end, err));
        VP_TRY(cut(lines, end, err));
    }
    return lines->n_spans > 0 ? VP_OK : VP_ERR_END;
}
