/* The functions of device.h: each calls the entry of the device's table. */
#include "device/device.h"

#include "device/driver.h"

void vp_device_attach(struct vp_device *device)
{
    device->ops->attach(device);
}

const char *vp_device_last_error(const struct vp_device *device)
{
    return device->ops->last_error(device);
}

bool vp_device_has_host_memory(const struct vp_device *device)
{
    return device->ops->host_memory;
}

bool vp_device_is_async(const struct vp_device *device)
{
    return device->ops->event_time != NULL;
}

/* ---- Memory ------------------------------------------------------------- */

enum vp_status vp_device_alloc(struct vp_device *device, size_t n_bytes,
                               void **out)
{
    return device->ops->alloc(device, n_bytes, out);
}

void vp_device_free(struct vp_device *device, void *buffer, size_t n_bytes)
{
    if (buffer)
        device->ops->free(device, buffer, n_bytes);
}

enum vp_status vp_device_host_alloc(struct vp_device *device, size_t n_bytes,
                                    void **out)
{
    return device->ops->host_alloc(device, n_bytes, out);
}

void vp_device_host_free(struct vp_device *device, void *buffer)
{
    if (buffer)
        device->ops->host_free(device, buffer);
}

/* ---- Streams ------------------------------------------------------------ */

enum vp_status vp_stream_create(struct vp_device *device,
                                struct vp_stream **out)
{
    VP_TRY(device->ops->stream_create(device, out));
    (*out)->device = device;
    return VP_OK;
}

void vp_stream_free(struct vp_stream *stream)
{
    if (stream)
        stream->device->ops->stream_free(stream);
}

void *vp_stream_handle(struct vp_stream *stream)
{
    const struct vp_device_ops *ops = stream->device->ops;

    return ops->stream_handle ? ops->stream_handle(stream) : NULL;
}

enum vp_status vp_stream_copy(struct vp_stream *stream, void *dst,
                              const void *src, size_t n_bytes)
{
    return stream->device->ops->copy(stream, dst, src, n_bytes);
}

enum vp_status vp_stream_wait(struct vp_stream *stream, struct vp_event *event)
{
    return stream->device->ops->stream_wait(stream, event);
}

/* ---- Events ------------------------------------------------------------- */

enum vp_status vp_event_create(struct vp_device *device, struct vp_event **out)
{
    VP_TRY(device->ops->event_create(device, out));
    (*out)->device = device;
    return VP_OK;
}

enum vp_status vp_event_create_timed(struct vp_device *device,
                                     struct vp_event **out)
{
    if (!device->ops->timed_event_create)
        return VP_ERR_UNSUPPORTED;
    VP_TRY(device->ops->timed_event_create(device, out));
    (*out)->device = device;
    return VP_OK;
}

void vp_event_free(struct vp_event *event)
{
    if (event)
        event->device->ops->event_free(event);
}

enum vp_status vp_event_record(struct vp_event *event, struct vp_stream *stream)
{
    return event->device->ops->event_record(event, stream);
}

enum vp_status vp_event_sync(struct vp_event *event, int timeout_ms)
{
    return event->device->ops->event_sync(event, timeout_ms);
}

bool vp_event_time(struct vp_event *event, int64_t *ns_out)
{
    return event->device->ops->event_time(event, ns_out);
}
