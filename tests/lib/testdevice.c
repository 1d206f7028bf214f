#include "lib/testdevice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct vp_backend_ops *test_plugin;

static enum vp_status shared_alloc(struct vp_device *device, size_t n,
                                   void **out)
{
    enum vp_status st = test_plugin->device->host_alloc(device, n, out);

    if (st == VP_OK)
        memset(*out, 0, n);
    return st;
}

static void shared_free(struct vp_device *device, void *buffer, size_t n)
{
    (void)n;
    test_plugin->device->host_free(device, buffer);
}

/* Waits for the stream, then copies: CUDA copies from host to host at once,
 * before earlier work of the stream. Calls functions of the plugin itself,
 * since tests may count calls of other tables. */
static enum vp_status shared_copy(struct vp_stream *stream, void *dst,
                                  const void *src, size_t n)
{
    const struct vp_device_ops *ops = test_plugin->device;
    struct vp_event *done = NULL;
    enum vp_status st = vp_event_create(stream->device, &done);

    if (st == VP_OK)
        st = ops->event_record(done, stream);
    if (st == VP_OK)
        st = ops->event_sync(done, 20000);
    if (st == VP_OK)
        memcpy(dst, src, n);
    if (done)
        ops->event_free(done);
    return st;
}

const struct vp_backend_ops *test_device(void)
{
    static struct vp_device_ops device;
    static struct vp_backend_ops shared;
    const char *name = getenv("VP_TEST_DEVICE");
    struct vp_err err = { .text = "" };

    if (!name)
        return &vp_backend_cpu;
    if (test_plugin)
        return &shared;
    if (vp_backend_load(name, &test_plugin, &err) != VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    device = *test_plugin->device;
    device.alloc = shared_alloc;
    device.free = shared_free;
    device.copy = shared_copy;
    shared = *test_plugin;
    shared.device = &device;
    return &shared;
}

bool can_shard(void)
{
    return test_device()->device->host_memory;
}
