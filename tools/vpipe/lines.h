/* Reads a text file in blocks of whole lines. Lines end at LF only. */
#ifndef VP_TOOLS_LINES_H
#define VP_TOOLS_LINES_H

#include "text/batch_encoder.h"

#include <stdio.h>

struct lines {
    FILE *file;
    const char *path;
    char *bytes;
    size_t n, capacity;
    size_t used; /* bytes of the lines of the last block */
    struct vp_text_span *spans;
    int n_spans, spans_capacity;
    int64_t n_lines; /* in the blocks before the last one */
};

/* Opens a file; "-" is the standard input. Messages begin with the path, which
 * must outlive `lines`. Close also after a failure. */
enum vp_status lines_open(struct lines *lines, const char *path,
                          struct vp_err *err);
/* Reads the next lines into `spans`, without their LF; they are valid until the
 * next call. Returns VP_ERR_END if there are no more. */
enum vp_status lines_next(struct lines *lines, struct vp_err *err);
void lines_close(struct lines *lines);

#endif
