/* Copies that overlap with computation, one after the other: on an asynchronous
 * device in a stream of the copier, on others by a thread. On an asynchronous
 * device large copies are made in pieces, so that copies of other streams over
 * the same link wait for one piece at most. */
#ifndef VP_DEVICE_COPIER_H
#define VP_DEVICE_COPIER_H

#include "device/device.h"

struct vp_copier;

/* One copy. It may be used for another copy once the last one has ended. */
struct vp_copy {
    struct vp_copier *by; /* NULL: no copy was begun */
    uint64_t number;      /* number of the copy in `by`, from 1 */
    struct vp_event *made;
};

enum { VP_COPY_PIECE = 8 << 20 }; /* bytes: 0.15 ms at 54 GB/s */

/* VP_ERR_NOMEM; VP_ERR_UNSUPPORTED if the thread cannot be started; errors of
 * the device. */
enum vp_status vp_copier_create(struct vp_device *device,
                                struct vp_copier **out);
/* Waits for the copies that were begun. `copier` may be NULL. */
void vp_copier_free(struct vp_copier *copier);

enum vp_status vp_copy_init(struct vp_device *device, struct vp_copy *copy);
void vp_copy_release(struct vp_copy *copy);

/* Copies begun from now on wait for all work that is in `stream` now. */
enum vp_status vp_copier_follow(struct vp_copier *copier,
                                struct vp_stream *stream);
/* Begins a copy. The host may not use `dst` or `src` before the copy has
 * ended. */
enum vp_status vp_copier_begin(struct vp_copier *copier, struct vp_copy *copy,
                               void *dst, const void *src, size_t n_bytes);
/* Makes work that is put into `stream` from now on wait for the copy. If the
 * device is not asynchronous, the calling thread waits instead: VP_ERR_TIMEOUT
 * after `timeout_ms`. Returns at once if no copy was begun. */
enum vp_status vp_copy_wait(const struct vp_copy *copy,
                            struct vp_stream *stream, int timeout_ms);

/* For tests. Delays every copy by up to `most_us` microseconds. With
 * `overwrite`, a copy then fills its source with bytes 0xff, which are NaN in
 * every format: a kernel that reads the source too late gives NaN. */
void vp_copier_disturb(struct vp_copier *copier, int most_us, bool overwrite);

#endif
