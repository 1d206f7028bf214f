/* The lines of a text file from front to back, in UTF-8; the file may be
 * compressed by gzip or zstd. Memory depends on the longest line. */
#ifndef VP_DATA_PAIRS_LINE_STREAM_H
#define VP_DATA_PAIRS_LINE_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { VP_LINE_MAX_BYTES = 64 << 20 };

struct vp_line_stream;

/* A line without its end, LF or CR LF. */
struct vp_line {
    unsigned char *bytes; /* may be written to */
    size_t n_bytes;
    int64_t number; /* from 1 */
    int64_t offset; /* in the decompressed file */
};

/* Borrows `path`. `replace`: NUL bytes and what is not UTF-8 become U+FFFD;
 * else they are refused. */
enum vp_status vp_line_stream_open(const char *path, bool replace,
                                   struct vp_line_stream **out,
                                   struct vp_err *err);
/* NULL is legal. */
void vp_line_stream_close(struct vp_line_stream *stream);
const char *vp_line_stream_path(const struct vp_line_stream *stream);
/* Bytes of the file, as it is stored, that were read so far. */
int64_t vp_line_stream_offset(const struct vp_line_stream *stream);

/* The next line, valid until the next call. VP_ERR_END: no more. */
enum vp_status vp_line_stream_next(struct vp_line_stream *stream,
                                   struct vp_line *out, struct vp_err *err);

#endif
