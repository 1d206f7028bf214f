/* What a kind of device fills in, for backends and their tests. Users of a
 * device call the functions of device.h, which also says what each one does. */
#ifndef VP_DEVICE_DRIVER_H
#define VP_DEVICE_DRIVER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_device;
struct vp_stream;
struct vp_event;

/* One table for all devices of a kind. Slots do what the function of the same
 * name does; frees are never given NULL. */
struct vp_device_ops {
    bool host_memory; /* vp_device_has_host_memory() */
    void (*attach)(struct vp_device *device);
    const char *(*last_error)(const struct vp_device *device);

    enum vp_status (*alloc)(struct vp_device *device, size_t n_bytes,
                            void **out);
    void (*free)(struct vp_device *device, void *buffer, size_t n_bytes);
    enum vp_status (*host_alloc)(struct vp_device *device, size_t n_bytes,
                                 void **out);
    void (*host_free)(struct vp_device *device, void *buffer);

    enum vp_status (*stream_create)(struct vp_device *device,
                                    struct vp_stream **out);
    /* Optional: a stream for copies alone. NULL: stream_create serves. */
    enum vp_status (*copy_stream_create)(struct vp_device *device,
                                         struct vp_stream **out);
    /* Optional, for tests: the stream does nothing for some time. */
    enum vp_status (*stall)(struct vp_stream *stream, int us);
    void (*stream_free)(struct vp_stream *stream);
    /* Optional. NULL: there is no handle. */
    void *(*stream_handle)(struct vp_stream *stream);
    enum vp_status (*copy)(struct vp_stream *stream, void *dst, const void *src,
                           size_t n_bytes);
    enum vp_status (*stream_wait)(struct vp_stream *stream,
                                  struct vp_event *event);

    enum vp_status (*event_create)(struct vp_device *device,
                                   struct vp_event **out);
    void (*event_free)(struct vp_event *event);
    enum vp_status (*event_record)(struct vp_event *event,
                                   struct vp_stream *stream);
    enum vp_status (*event_sync)(struct vp_event *event, int timeout_ms);
    /* Optional, both or none. NULL: the device is not asynchronous. */
    enum vp_status (*timed_event_create)(struct vp_device *device,
                                         struct vp_event **out);
    bool (*event_time)(struct vp_event *event, int64_t *ns_out);
};

/* The first members of every device's own. A device's table is set when it is
 * opened, the device of streams and events by the functions that create them,
 * after their slots have returned. */
struct vp_device {
    const struct vp_device_ops *ops;
};

struct vp_stream {
    struct vp_device *device;
};

struct vp_event {
    struct vp_device *device;
};

#endif
