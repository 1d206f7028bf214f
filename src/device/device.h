/* A device: buffers, copies, streams, events. Backends run programs on it and
 * transports send from its memory; neither needs to know what it is. What a
 * kind of device fills in is in driver.h.
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

struct vp_device; /* an open one; its backend owns it */
struct vp_stream;
struct vp_event;

/* ---- Devices ------------------------------------------------------------ */

/* Prepares the calling thread for work on the device; called by every thread
 * that puts work into a stream. May be called again. */
void vp_device_attach(struct vp_device *device);
/* Describes the last call that failed; "" if there is nothing to add to its
 * status. */
const char *vp_device_last_error(const struct vp_device *device);
/* Returns true if the host can read and write what vp_device_alloc() gives. */
bool vp_device_has_host_memory(const struct vp_device *device);
/* Returns true if the device does its work behind the host, and events can tell
 * when. If false, work is done when the call that asks for it returns. */
bool vp_device_is_async(const struct vp_device *device);

/* ---- Memory ------------------------------------------------------------- */

/* Memory of the device, zeroed. vp_device_free() takes the same n_bytes;
 * `buffer` may be NULL. */
enum vp_status vp_device_alloc(struct vp_device *device, size_t n_bytes,
                               void **out);
void vp_device_free(struct vp_device *device, void *buffer, size_t n_bytes);
/* Memory of the host that the device reaches by itself. `buffer` may be
 * NULL. */
enum vp_status vp_device_host_alloc(struct vp_device *device, size_t n_bytes,
                                    void **out);
void vp_device_host_free(struct vp_device *device, void *buffer);

/* ---- Streams ------------------------------------------------------------ */

enum vp_status vp_stream_create(struct vp_device *device,
                                struct vp_stream **out);
/* `stream` may be NULL. */
void vp_stream_free(struct vp_stream *stream);
/* Returns the stream as libraries made for the device know it (cudaStream_t);
 * NULL if there are no such libraries. */
void *vp_stream_handle(struct vp_stream *stream);
/* Copies between any two addresses of host and device. The host may use its
 * side at once, unless that is from vp_device_host_alloc(). */
enum vp_status vp_stream_copy(struct vp_stream *stream, void *dst,
                              const void *src, size_t n_bytes);
/* Work put into the stream from now on waits for the event; the host does
 * not. An event that was never recorded counts as reached. */
enum vp_status vp_stream_wait(struct vp_stream *stream, struct vp_event *event);

/* ---- Events ------------------------------------------------------------- */

enum vp_status vp_event_create(struct vp_device *device, struct vp_event **out);
/* An event for vp_event_time(). VP_ERR_UNSUPPORTED if the device is not
 * asynchronous. */
enum vp_status vp_event_create_timed(struct vp_device *device,
                                     struct vp_event **out);
/* `event` may be NULL. */
void vp_event_free(struct vp_event *event);
/* The event is reached when all work put into the stream before is done.
 * Forgets where it was recorded before. */
enum vp_status vp_event_record(struct vp_event *event,
                               struct vp_stream *stream);
/* The host waits until the event is reached; VP_ERR_TIMEOUT after `timeout_ms`,
 * 0: it only looks. */
enum vp_status vp_event_sync(struct vp_event *event, int timeout_ms);
/* When a timed event was reached, by vp_clock_ns(); waits for nothing. Returns
 * false if it was not reached yet, or was recorded more than a minute ago. */
bool vp_event_time(struct vp_event *event, int64_t *ns_out);

#endif
