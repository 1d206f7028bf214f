/* A device: buffers, copies, streams, events. Backends run programs on it and
 * transports send from its memory, with the same calls for every kind of device.
 * driver.h has the table of functions that a kind of device implements.
 *
 * A device may be asynchronous: a call puts work into a stream and returns
 * before the work is done. Work in one stream is done in order; events order
 * the work of several streams, also of several devices of one kind. */
#ifndef VP_DEVICE_DEVICE_H
#define VP_DEVICE_DEVICE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_device; /* an open device; its backend owns it */
struct vp_stream;
struct vp_event;

/* ---- Devices ------------------------------------------------------------ */

/* Prepares the calling thread for work on the device; called by every thread
 * that puts work into a stream. May be called again. */
void vp_device_attach(struct vp_device *device);
/* Describes the last call that failed; "" if there is nothing to add to its
 * status. */
const char *vp_device_last_error(const struct vp_device *device);
/* Returns true if the host can read and write memory of vp_device_alloc(). */
bool vp_device_has_host_memory(const struct vp_device *device);
/* Returns true if the device works while the host goes on, and has timed
 * events. If false, work is done when the call that puts it into a stream
 * returns. */
bool vp_device_is_async(const struct vp_device *device);

/* ---- Memory ------------------------------------------------------------- */

/* Allocates memory of the device, filled with zeros. vp_device_free() takes the
 * same n_bytes; `buffer` may be NULL. */
enum vp_status vp_device_alloc(struct vp_device *device, size_t n_bytes,
                               void **out);
void vp_device_free(struct vp_device *device, void *buffer, size_t n_bytes);
/* Allocates memory of the host that the device accesses directly (pinned
 * memory). `buffer` may be NULL. */
enum vp_status vp_device_host_alloc(struct vp_device *device, size_t n_bytes,
                                    void **out);
void vp_device_host_free(struct vp_device *device, void *buffer);

/* ---- Streams ------------------------------------------------------------ */

enum vp_status vp_stream_create(struct vp_device *device,
                                struct vp_stream **out);
/* `stream` may be NULL. */
void vp_stream_free(struct vp_stream *stream);
/* Returns the native handle of the stream for libraries of the device
 * (cudaStream_t); NULL if the device has no such handles. */
void *vp_stream_handle(struct vp_stream *stream);
/* Copies between any two addresses of host and device. The host may use its
 * side when this returns, except memory of vp_device_host_alloc(), which is in
 * use until the copy is done. */
enum vp_status vp_stream_copy(struct vp_stream *stream, void *dst,
                              const void *src, size_t n_bytes);
/* Makes work that is put into the stream from now on wait for the event; the
 * host does not wait. An event that was never recorded counts as reached. */
enum vp_status vp_stream_wait(struct vp_stream *stream, struct vp_event *event);

/* ---- Events ------------------------------------------------------------- */

enum vp_status vp_event_create(struct vp_device *device, struct vp_event **out);
/* An event for vp_event_time(). VP_ERR_UNSUPPORTED if the device is not
 * asynchronous. */
enum vp_status vp_event_create_timed(struct vp_device *device,
                                     struct vp_event **out);
/* `event` may be NULL. */
void vp_event_free(struct vp_event *event);
/* Records the event: it is reached when all work that is in the stream now is
 * done. Replaces an earlier record. */
enum vp_status vp_event_record(struct vp_event *event,
                               struct vp_stream *stream);
/* Waits on the host until the event is reached; VP_ERR_TIMEOUT after
 * `timeout_ms` milliseconds, with 0 at once. */
enum vp_status vp_event_sync(struct vp_event *event, int timeout_ms);
/* Writes the time at which a timed event was reached, by vp_clock_ns(). Does
 * not wait. Returns false if the event was not reached yet, or was recorded
 * more than a minute ago. */
bool vp_event_time(struct vp_event *event, int64_t *ns_out);

#endif
