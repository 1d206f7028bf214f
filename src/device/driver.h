/* The table of functions that a kind of device implements, for backends and
 * their tests. Users of a device call the functions of device.h, where each is
 * described. */
#ifndef VP_DEVICE_DRIVER_H
#define VP_DEVICE_DRIVER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_device;
struct vp_stream;
struct vp_event;

/* One table for all devices of a kind. Each entry implements the function of
 * the same name in device.h; the entries that free are never called with
 * NULL. */
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
    /* Optional: creates a stream for copies only. NULL: stream_create is
     * used. */
    enum vp_status (*copy_stream_create)(struct vp_device *device,
                                         struct vp_stream **out);
    /* Optional, for tests: delays the stream by `us` microseconds. NULL: no
     * delay. */
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

/* First members of the structs in which a driver keeps its devices, streams and
 * events. The driver sets `ops` when it opens a device; device.c sets `device`
 * of streams and events after the entry that creates them has returned. */
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
