/* Sequential reading of a file, with decompression of gzip and zstd, which are
 * detected by the first bytes. Memory use does not depend on the file size: at
 * most 128 MiB for the window of a zstd frame, 128 kiB otherwise. */
#ifndef VP_DATA_BYTE_STREAM_H
#define VP_DATA_BYTE_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A zstd frame with a window above 2^27 bytes is refused. */
enum { VP_BYTE_STREAM_WINDOW_LOG = 27 };

struct vp_byte_stream;

enum vp_status vp_byte_stream_open(const char *path,
                                   struct vp_byte_stream **out,
                                   struct vp_err *err);
void vp_byte_stream_close(struct vp_byte_stream *stream);
/* Returns the number of bytes read so far from the file as it is stored. */
int64_t vp_byte_stream_offset(const struct vp_byte_stream *stream);
bool vp_byte_stream_is_compressed(const struct vp_byte_stream *stream);

/* Reads up to `n` bytes; *n_out is 0 only at the end of the file. A damaged or
 * truncated compressed file is refused with its offset in the stored file. */
enum vp_status vp_byte_stream_read(struct vp_byte_stream *stream, void *out,
                                   size_t n, size_t *n_out, struct vp_err *err);

#endif
