/* Copies beside other work, one after the other: on a GPU a stream of its own,
 * elsewhere a thread. Large copies are made in pieces, so that others which
 * share the way wait for a piece at most. */
#ifndef VP_DEVICE_COPIER_H
#define VP_DEVICE_COPIER_H

#include "device/device.h"

struct vp_copier;

/* One copy: vp_copier_begin() may be called again once the last one is made. */
struct vp_copy {
    struct vp_copier *by; /* NULL: none was begun */
    uint64_t number;      /* of those that `by` was given */
    struct vp_event *made;
};

enum { VP_COPY_PIECE = 8 << 20 }; /* bytes: 0.15 ms at 54 GB/s */

/* VP_ERR_UNSUPPORTED: a thread cannot start. */
enum vp_status vp_copier_create(struct vp_device *device,
                                struct vp_copier **out);
/* Copies that were begun are made first. `copier` may be NULL. */
void vp_copier_free(struct vp_copier *copier);

enum vp_status vp_copy_init(struct vp_device *device, struct vp_copy *copy);
void vp_copy_release(struct vp_copy *copy);

/* Copies begun from now on wait for all work that the stream has been given. */
enum vp_status vp_copier_follow(struct vp_copier *copier,
                                struct vp_stream *stream);
/* The host may not use either side before the copy is made. */
enum vp_status vp_copier_begin(struct vp_copier *copier, struct vp_copy *copy,
                               void *dst, const void *src, size_t n_bytes);
/* Work put into the stream from now on waits for the copy; where streams work
 * while the host waits, the host does, for `timeout_ms` at most. */
enum vp_status vp_copy_wait(const struct vp_copy *copy,
                            struct vp_stream *stream, int timeout_ms);

/* For tests: every copy begins up to `most_us` microseconds late, and then fills
 * its source with bytes 0xff, which are NaN in every format: what reads it too
 * late is found out. */
void vp_copier_disturb(struct vp_copier *copier, int most_us, bool overwrite);

#endif
