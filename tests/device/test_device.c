/* Each device call reaches the function table of its own device: two kinds of
 * devices count their calls. */
#include "device/device.h"
#include "device/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Two kinds of devices ----------------------------------------------- */

struct device {
    struct vp_device base;
    int n_attached, n_buffers, n_host_buffers, n_copies, n_waits;
    int n_streams, n_events, n_timed, n_records, n_syncs;
};

static struct device *of(struct vp_device *device)
{
    return (struct device *)device;
}

static void attach(struct vp_device *device)
{
    of(device)->n_attached++;
}

static const char *last_error(const struct vp_device *device)
{
    return ((const struct device *)device)->n_attached ? "attached" : "";
}

static enum vp_status alloc(struct vp_device *device, size_t n_bytes,
                            void **out)
{
    of(device)->n_buffers++;
    *out = calloc(1, n_bytes);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void free_buffer(struct vp_device *device, void *buffer, size_t n_bytes)
{
    (void)n_bytes;
    assert_non_null(buffer);
    of(device)->n_buffers--;
    free(buffer);
}

static enum vp_status host_alloc(struct vp_device *device, size_t n_bytes,
                                 void **out)
{
    of(device)->n_host_buffers++;
    *out = calloc(1, n_bytes);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void host_free(struct vp_device *device, void *buffer)
{
    assert_non_null(buffer);
    of(device)->n_host_buffers--;
    free(buffer);
}

static enum vp_status stream_create(struct vp_device *device,
                                    struct vp_stream **out)
{
    of(device)->n_streams++;
    *out = calloc(1, sizeof(**out));
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void stream_free(struct vp_stream *stream)
{
    of(stream->device)->n_streams--;
    free(stream);
}

static void *stream_handle(struct vp_stream *stream)
{
    return stream;
}

static enum vp_status copy(struct vp_stream *stream, void *dst, const void *src,
                           size_t n_bytes)
{
    of(stream->device)->n_copies++;
    memcpy(dst, src, n_bytes);
    return VP_OK;
}

static enum vp_status stream_wait(struct vp_stream *stream,
                                  struct vp_event *event)
{
    assert_non_null(event);
    of(stream->device)->n_waits++;
    return VP_OK;
}

static enum vp_status event_create(struct vp_device *device,
                                   struct vp_event **out)
{
    of(device)->n_events++;
    *out = calloc(1, sizeof(**out));
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static enum vp_status timed_event_create(struct vp_device *device,
                                         struct vp_event **out)
{
    of(device)->n_timed++;
    return event_create(device, out);
}

static void event_free(struct vp_event *event)
{
    of(event->device)->n_events--;
    free(event);
}

static enum vp_status event_record(struct vp_event *event,
                                   struct vp_stream *stream)
{
    assert_non_null(stream);
    of(event->device)->n_records++;
    return VP_OK;
}

static enum vp_status event_sync(struct vp_event *event, int timeout_ms)
{
    of(event->device)->n_syncs++;
    return timeout_ms == 0 ? VP_ERR_TIMEOUT : VP_OK;
}

static bool event_time(struct vp_event *event, int64_t *ns_out)
{
    *ns_out = of(event->device)->n_records;
    return true;
}

/* Functions of the table that must not be called: they return an error. */

static enum vp_status wrong_wait(struct vp_stream *stream,
                                 struct vp_event *event)
{
    (void)stream;
    (void)event;
    return VP_ERR_INVALID;
}

static enum vp_status wrong_record(struct vp_event *event,
                                   struct vp_stream *stream)
{
    (void)event;
    (void)stream;
    return VP_ERR_INVALID;
}

#define COMMON                                                                \
    .attach = attach, .last_error = last_error, .alloc = alloc,               \
    .free = free_buffer, .host_alloc = host_alloc, .host_free = host_free,    \
    .stream_create = stream_create, .stream_free = stream_free, .copy = copy, \
    .event_create = event_create, .event_free = event_free,                   \
    .event_sync = event_sync

/* `plain` leaves out all optional functions. */
static const struct vp_device_ops plain = {
    COMMON,
    .host_memory = true,
    .stream_wait = stream_wait,
    .event_record = wrong_record,
};
static const struct vp_device_ops full = {
    COMMON,
    .stream_wait = wrong_wait,
    .stream_handle = stream_handle,
    .event_record = event_record,
    .timed_event_create = timed_event_create,
    .event_time = event_time,
};

/* ---- Tests -------------------------------------------------------------- */

static void test_memory_belongs_to_its_device(void **state)
{
    struct device a = { .base = { &plain } }, b = { .base = { &full } };
    void *buffer, *host;

    (void)state;
    vp_device_attach(&b.base);
    assert_int_equal(b.n_attached, 1);
    assert_string_equal(vp_device_last_error(&a.base), "");
    assert_string_equal(vp_device_last_error(&b.base), "attached");
    assert_true(vp_device_has_host_memory(&a.base));
    assert_false(vp_device_has_host_memory(&b.base));
    assert_int_equal(vp_device_alloc(&a.base, 8, &buffer), VP_OK);
    assert_int_equal(vp_device_host_alloc(&b.base, 8, &host), VP_OK);
    assert_int_equal(a.n_buffers, 1);
    assert_int_equal(b.n_host_buffers, 1);
    assert_int_equal(a.n_host_buffers + b.n_buffers, 0);
    vp_device_free(&a.base, buffer, 8);
    vp_device_host_free(&b.base, host);
    assert_int_equal(a.n_buffers + b.n_host_buffers, 0);
}

/* A stream and an event of different devices: the wait goes to the device of
 * the stream, the record to the device of the event. */
static void test_streams_wait_and_events_are_recorded(void **state)
{
    struct device a = { .base = { &plain } }, b = { .base = { &full } };
    struct vp_stream *stream;
    struct vp_event *event;
    int from = 7, to = 0;

    (void)state;
    assert_int_equal(vp_stream_create(&a.base, &stream), VP_OK);
    assert_int_equal(vp_event_create(&b.base, &event), VP_OK);
    assert_int_equal(vp_event_record(event, stream), VP_OK);
    assert_int_equal(b.n_records, 1);
    assert_int_equal(vp_stream_wait(stream, event), VP_OK);
    assert_int_equal(a.n_waits, 1);
    assert_int_equal(vp_event_sync(event, 1), VP_OK);
    assert_int_equal(vp_event_sync(event, 0), VP_ERR_TIMEOUT);
    assert_int_equal(b.n_syncs, 2);
    assert_int_equal(vp_stream_copy(stream, &to, &from, sizeof(to)), VP_OK);
    assert_int_equal(a.n_copies, 1);
    assert_int_equal(to, 7);
    vp_event_free(event);
    vp_stream_free(stream);
    assert_int_equal(b.n_timed + b.n_events + a.n_streams, 0);
}

static void test_what_is_optional_may_be_missing(void **state)
{
    struct device a = { .base = { &plain } }, b = { .base = { &full } };
    struct vp_stream *one, *two;
    struct vp_event *event = NULL;
    int64_t ns = -1;

    (void)state;
    assert_int_equal(vp_stream_create(&a.base, &one), VP_OK);
    assert_int_equal(vp_stream_create(&b.base, &two), VP_OK);
    assert_null(vp_stream_handle(one));
    assert_ptr_equal(vp_stream_handle(two), two);
    assert_false(vp_device_is_async(&a.base));
    assert_true(vp_device_is_async(&b.base));
    assert_int_equal(vp_event_create_timed(&a.base, &event),
                     VP_ERR_UNSUPPORTED);
    assert_null(event);
    assert_int_equal(vp_event_create_timed(&b.base, &event), VP_OK);
    assert_int_equal(b.n_timed, 1);
    assert_true(vp_event_time(event, &ns));
    assert_int_equal(ns, 0);
    vp_event_free(event);
    vp_stream_free(one);
    vp_stream_free(two);
    assert_int_equal(a.n_streams + b.n_streams + b.n_events, 0);
}

static void test_nothing_may_be_freed(void **state)
{
    struct device a = { .base = { &plain } };

    (void)state;
    vp_device_free(&a.base, NULL, 8);
    vp_device_host_free(&a.base, NULL);
    vp_stream_free(NULL);
    vp_event_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_belongs_to_its_device),
        cmocka_unit_test(test_streams_wait_and_events_are_recorded),
        cmocka_unit_test(test_what_is_optional_may_be_missing),
        cmocka_unit_test(test_nothing_may_be_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
