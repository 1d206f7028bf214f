/* The bytes of a file from front to back, decompressed if it is compressed by
 * gzip or zstd, which its first bytes tell. Memory does not depend on the size of
 * the file: at most 128 MiB for a window of zstd, less else. */
#ifndef VP_DATA_BYTE_STREAM_H
#define VP_DATA_BYTE_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A frame of zstd that needs a larger window is refused: 2^27 bytes. */
enum { VP_BYTE_STREAM_WINDOW_LOG = 27 };

struct vp_byte_stream;

enum vp_status vp_byte_stream_open(const char *path,
                                   struct vp_byte_stream **out,
                                   struct vp_err *err);
void vp_byte_stream_close(struct vp_byte_stream *stream);
/* Bytes of the file, as it is stored, that were read so far. */
int64_t vp_byte_stream_offset(const struct vp_byte_stream *stream);
bool vp_byte_stream_is_compressed(const struct vp_byte_stream *stream);

/* Reads up to `n` bytes; *n_out is 0 at the end only. Damaged or cut compressed
 * files are refused with the offset in the file. */
enum vp_status vp_byte_stream_read(struct vp_byte_stream *stream, void *out,
                                   size_t n, size_t *n_out, struct vp_err *err);

#endif
