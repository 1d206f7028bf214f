/* Sequential reading of the lines of a UTF-8 file, which may be compressed by
 * gzip or zstd. Memory depends on the longest line. */
#ifndef VP_DATA_PAIRS_LINE_STREAM_H
#define VP_DATA_PAIRS_LINE_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { VP_LINE_MAX_BYTES = 64 << 20 };

struct vp_line_stream;

/* A line without its line end, LF or CR LF. */
struct vp_line {
    unsigned char *bytes; /* may be written to */
    size_t n_bytes;
    int64_t number; /* from 1 */
    int64_t offset; /* in the decompressed file */
};

/* Borrows `path`. `replace`: NUL bytes and invalid UTF-8 become U+FFFD; false:
 * they are refused. */
enum vp_status vp_line_stream_open(const char *path, bool replace,
                                   struct vp_line_stream **out,
                                   struct vp_err *err);
/* `stream` may be NULL. */
void vp_line_stream_close(struct vp_line_stream *stream);
const char *vp_line_stream_path(const struct vp_line_stream *stream);
/* Returns the number of bytes read so far from the file as it is stored. */
int64_t vp_line_stream_offset(const struct vp_line_stream *stream);

/* Reads the next line, valid until the next call. Returns VP_ERR_END after the
 * last. */
enum vp_status vp_line_stream_next(struct vp_line_stream *stream,
                                   struct vp_line *out, struct vp_err *err);

#endif
