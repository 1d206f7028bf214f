/* Each swap action gives the streams its waits and copies in the right order.
 * The device is simulated and writes down every call. */
#include "device/driver.h"
#include "runtime/stage/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- A device that writes down every call ------------------------------- */

enum { N = 20 << 20 }; /* bytes: a copy of three pieces */

struct fake_stream {
    struct vp_stream base;
    const char *name;
};

struct fake_event {
    struct vp_event base;
    char reached_by[16]; /* the stream that recorded it */
};

static char said[4096];
static const char *const names[] = { "out", "in" };
static int n_streams;

static void say(const char *what, const char *stream, const char *of)
{
    size_t n = strlen(said);

    snprintf(said + n, sizeof(said) - n, "%s %s%s%s\n", stream, what,
             *of ? " " : "", of);
}

static const char *name_of(struct vp_stream *stream)
{
    return ((struct fake_stream *)stream)->name;
}

static enum vp_status stream_create(struct vp_device *device,
                                    struct vp_stream **out)
{
    struct fake_stream *stream = calloc(1, sizeof(*stream));

    (void)device;
    assert_non_null(stream);
    stream->name = names[n_streams++ % 2];
    *out = &stream->base;
    return VP_OK;
}

static void stream_free(struct vp_stream *stream)
{
    free(stream);
}

static enum vp_status event_create(struct vp_device *device,
                                   struct vp_event **out)
{
    struct fake_event *event = calloc(1, sizeof(*event));

    (void)device;
    assert_non_null(event);
    *out = &event->base;
    return VP_OK;
}

static void event_free(struct vp_event *event)
{
    free(event);
}

static enum vp_status event_record(struct vp_event *event,
                                   struct vp_stream *stream)
{
    struct fake_event *fake = (struct fake_event *)event;

    snprintf(fake->reached_by, sizeof(fake->reached_by), "%s", name_of(stream));
    say("marks", name_of(stream), "");
    return VP_OK;
}

static enum vp_status stream_wait(struct vp_stream *stream,
                                  struct vp_event *event)
{
    say("waits for", name_of(stream), ((struct fake_event *)event)->reached_by);
    return VP_OK;
}

static enum vp_status copy(struct vp_stream *stream, void *dst, const void *src,
                           size_t n_bytes)
{
    (void)dst;
    (void)src;
    say(n_bytes == VP_COPY_PIECE ? "copies a piece" : "copies the rest",
        name_of(stream), "");
    return VP_OK;
}

static enum vp_status host_alloc(struct vp_device *device, size_t n_bytes,
                                 void **out)
{
    (void)device;
    *out = calloc(1, n_bytes);
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static void host_free(struct vp_device *device, void *buffer)
{
    (void)device;
    free(buffer);
}

static enum vp_status event_sync(struct vp_event *event, int timeout_ms)
{
    (void)timeout_ms;
    say("waits for", "host", ((struct fake_event *)event)->reached_by);
    return VP_OK;
}

static bool event_time(struct vp_event *event, int64_t *ns_out)
{
    (void)event;
    (void)ns_out;
    return false;
}

static const struct vp_device_ops ops = {
    .host_alloc = host_alloc,
    .host_free = host_free,
    .stream_create = stream_create,
    .stream_free = stream_free,
    .copy = copy,
    .stream_wait = stream_wait,
    .event_create = event_create,
    .event_free = event_free,
    .event_record = event_record,
    .event_sync = event_sync,
    .event_time = event_time,
};

static void assert_said(const char *want)
{
    assert_string_equal(said, want);
    said[0] = '\0';
}

/* ---- Calls of each action ----------------------------------------------- */

static void each_action_keeps_its_order(void **state)
{
    struct vp_device device = { &ops };
    struct fake_stream compute = { { &device }, "compute" };
    struct vp_program program = { .n_bytes[VP_SPACE_SWAPPED] = N };
    struct vp_stage_message message = { .tensors = NULL };
    struct vp_slot slot = { .message = &message };
    struct vp_stage stage = {
        .device = &device,
        .stream = &compute.base,
        .slots = &slot,
        .plan = { .train = &program,
                  .n_buckets = 1,
                  .n_kinds = 1,
                  .shape = { .n_slots = 1 },
                  .sizes.n_bytes[VP_SPACE_SWAPPED] = N },
    };

    (void)state;
    assert_int_equal(vp_stage_swap_allocate(&stage), VP_OK);
    assert_int_equal(vp_stage_swap_out(&stage, &slot), VP_OK);
    assert_said("compute marks\n" /* F is done */
                "out waits for compute\n"
                "out copies a piece\n"
                "out copies a piece\n"
                "out copies the rest\n"
                "out marks\n");
    assert_int_equal(vp_stage_swap_free(&stage, &slot), VP_OK);
    assert_said("compute waits for out\n"); /* before the next F */
    assert_int_equal(vp_stage_swap_in(&stage, &slot), VP_OK);
    assert_said("compute marks\n" /* the buffer was read */
                "in waits for compute\n"
                "in copies a piece\n"
                "in copies a piece\n"
                "in copies the rest\n"
                "in marks\n");
    assert_int_equal(vp_stage_swap_ready(&stage, &slot), VP_OK);
    assert_said("compute waits for in\n"); /* before R, B and W */
    vp_stage_swap_release(&stage); /* memory is freed after the copies */
    assert_said("out marks\n"
                "host waits for out\n"
                "in marks\n"
                "host waits for in\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_action_keeps_its_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
