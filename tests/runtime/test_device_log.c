/* The timeline and the statistics show the times of the device, although the
 * device works behind the host.
 *
 * The device is the CPU with a simulated clock: a forward takes 1 ms, a
 * backward 2 ms, an update 3 ms, and a copy of swapped values 5 ms beside
 * these. A stream waits for the events that it is told to wait for. The host
 * can read the time of an event only after LAG more events were recorded, or
 * after event_sync(). */
#include "lib/trainlib.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

enum { MS = 1000000, START_MS = 5000, LAG = 9 };

/* Clock and event counters of the simulated device; each rank has its own. */
static _Thread_local int64_t now_ns = (int64_t)START_MS * MS;
static _Thread_local int64_t n_recorded, n_synced;

/* Streams that copy swapped values. */
enum { MAX_COPY_STREAMS = 16 };
static struct vp_stream *_Atomic copy_streams[MAX_COPY_STREAMS];
static atomic_int n_copy_streams;

static enum vp_status copy_stream_create(struct vp_device *device,
                                         struct vp_stream **out)
{
    int i = atomic_fetch_add(&n_copy_streams, 1);

    (void)device;
    assert_true(i < MAX_COPY_STREAMS);
    *out = calloc(1, sizeof(**out));
    copy_streams[i] = *out;
    return *out ? VP_OK : VP_ERR_NOMEM;
}

static bool is_copy_stream(const struct vp_stream *stream)
{
    for (int i = 0; i < n_copy_streams; i++)
        if (copy_streams[i] == stream)
            return true;
    return false;
}

static void stream_free(struct vp_stream *stream)
{
    if (is_copy_stream(stream))
        free(stream);
    else
        vp_backend_cpu.device->stream_free(stream);
}

struct event {
    struct vp_event base;
    int64_t ns, number;
};

static struct event *event_of(struct vp_event *event)
{
    return (struct event *)event;
}

static enum vp_status event_create(struct vp_device *device,
                                   struct vp_event **out)
{
    struct event *event = calloc(1, sizeof(*event));

    (void)device;
    if (!event)
        return VP_ERR_NOMEM;
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
    event_of(event)->ns = now_ns + (is_copy_stream(stream) ? 5 * MS : 0);
    event_of(event)->number = ++n_recorded;
    return VP_OK;
}

static enum vp_status stream_wait(struct vp_stream *stream,
                                  struct vp_event *event)
{
    (void)stream;
    if (event && event_of(event)->ns > now_ns)
        now_ns = event_of(event)->ns;
    return VP_OK;
}

static enum vp_status event_sync(struct vp_event *event, int timeout_ms)
{
    (void)timeout_ms;
    if (event_of(event)->number > n_synced)
        n_synced = event_of(event)->number;
    return VP_OK;
}

static bool event_time(struct vp_event *base, int64_t *ns_out)
{
    const struct event *event = event_of(base);

    if (event->number > n_synced && n_recorded - event->number < LAG)
        return false;
    *ns_out = event->ns;
    return true;
}

static enum vp_status launch(struct vp_exe *exe, enum vp_list list,
                             const struct vp_launch *what,
                             struct vp_stream *stream)
{
    now_ns += list == VP_LIST_F ? MS : list == VP_LIST_B ? 2 * MS : 0;
    return vp_backend_cpu.launch(exe, list, what, stream);
}

static enum vp_status update(struct vp_backend *backend,
                             struct vp_stream *stream,
                             const struct vp_optim_step *step)
{
    now_ns += 3 * MS;
    return vp_backend_cpu.update(backend, stream, step);
}

static struct vp_backend_ops lagging(void)
{
    static struct vp_device_ops device;
    struct vp_backend_ops ops = vp_backend_cpu;

    device = *ops.device;
    n_copy_streams = 0;
    device.copy_stream_create = copy_stream_create;
    device.stream_free = stream_free;
    device.event_create = event_create;
    device.event_free = event_free;
    device.event_record = event_record;
    device.stream_wait = stream_wait;
    device.event_sync = event_sync;
    device.timed_event_create = event_create;
    device.event_time = event_time;
    ops.device = &device;
    ops.launch = launch;
    ops.update = update;
    return ops;
}

/* ---- Runs with a timeline ----------------------------------------------- */

static const int two_stages[] = { 2, 3 };

static struct setup pipe_of(const char *schedule, int n_stages, int n_mb)
{
    struct setup setup = usual;

    setup.schedule = schedule;
    setup.n_stages = n_stages;
    setup.partition = n_stages > 1 ? two_stages : NULL;
    setup.accumulation = n_mb;
    /* Asynchronous stages cannot share tied weights. */
    setup.tied = strcmp(schedule, "pipedream") != 0;
    setup.threads = 1;
    return setup;
}

static void run_traced(struct run *run, const struct setup *setup,
                       struct vp_trace *trace)
{
    struct vp_err err = { .text = "" };

    if (run_create(run, setup, 0, &err) != VP_OK ||
        vp_trainer_run(run->trainer, setup->n_steps, keep_step, run, &err) !=
            VP_OK)
        fail_msg("%s", err.text);
    if (vp_trainer_trace(run->trainer, "lag", trace, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static int64_t length(const struct vp_trace_event *event)
{
    return event->end_ns - event->start_ns;
}

static int64_t work_of(enum vp_action_kind kind)
{
    switch (kind) {
    case VP_ACTION_F:
        return MS;
    case VP_ACTION_B:
        return 2 * MS;
    case VP_ACTION_UPDATE:
        return 3 * MS;
    default:
        return 0;
    }
}

/* Checks that the events of a rank are in order and last as long as the
 * simulated device needs. */
static void check_events(const struct vp_trace_rank *rank)
{
    int64_t last = 0;

    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];
        bool receives = e->kind == VP_ACTION_RECV_ACT ||
                        e->kind == VP_ACTION_RECV_GRAD;

        assert_true(e->start_ns >= last);
        if (receives)
            assert_true(length(e) == e->wait_ns);
        else
            assert_true(length(e) == work_of(e->kind));
        last = e->end_ns;
    }
}

static void one_stage_has_the_times_of_its_device(void **state)
{
    struct vp_backend_ops ops = lagging();
    struct setup setup = pipe_of("1f1b", 1, 3);
    const struct vp_stage_stats *stats;
    struct vp_trace trace;
    struct run run;

    (void)state;
    setup.device = &ops;
    run_traced(&run, &setup, &trace);
    stats = vp_trainer_stats(run.trainer);
    check_events(&trace.ranks[0]);
    /* Each step has 3 F, 3 B, REDUCE and UPDATE. */
    assert_int_equal(trace.ranks[0].n_events, setup.n_steps * (3 + 3 + 2));
    assert_int_equal(trace.end_ns - trace.begin_ns,
                     setup.n_steps * (3 * 3 + 3) * MS);
    assert_int_equal(stats->n_forward, 3 * setup.n_steps);
    assert_int_equal(stats->forward_ns, 3 * setup.n_steps * MS);
    assert_int_equal(stats->backward_ns, 6 * setup.n_steps * MS);
    /* The host's waiting time is subtracted, which is real time. */
    assert_in_range(stats->update_ns, 2 * setup.n_steps * MS,
                    3 * setup.n_steps * MS);
    vp_trace_release(&trace);
    run_free(&run);
}

/* Returns the time from the first F to the last B. Updates are left out: they
 * wait for each other on the host, which has another clock. */
static int64_t span_of_group(const struct vp_trace *trace)
{
    int64_t begin = INT64_MAX, end = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace->ranks[r].events[i];

            if (e->kind == VP_ACTION_F && e->start_ns < begin)
                begin = e->start_ns;
            if (e->kind == VP_ACTION_B && e->end_ns > end)
                end = e->end_ns;
        }
    return end - begin;
}

/*  F F B F B F B   B     stage 0, minibatches of 1 + 2 ms
 *    F B F B F B F B     stage 1: (n_mb + 1) * 3 ms in all */
static void a_pipeline_shows_its_bubbles(void **state)
{
    enum { N_MB = 4 };
    struct vp_backend_ops ops = lagging();
    struct setup setup = pipe_of("1f1b", 2, N_MB);
    const struct vp_stage_stats *stats;
    struct vp_trace trace;
    struct run run;

    (void)state;
    setup.device = &ops;
    setup.n_steps = 1;
    run_traced(&run, &setup, &trace);
    stats = vp_trainer_stats(run.trainer);
    for (int r = 0; r < 2; r++)
        check_events(&trace.ranks[r]);
    assert_int_equal(span_of_group(&trace), (N_MB + 1) * 3 * MS);
    /* Stage 0 waits only for its first gradient. */
    assert_int_equal(stats[0].forward_ns, N_MB * MS);
    assert_int_equal(stats[0].backward_ns, N_MB * 2 * MS);
    assert_int_equal(stats[0].grad.receive_ns, 3 * MS);
    assert_int_equal(stats[1].act.receive_ns, 0);
    vp_trace_release(&trace);
    run_free(&run);
}

/* The time in which the device waits for copies is recorded as waiting, not as
 * work. */
static void copies_are_waited_for(void **state)
{
    static const double all[] = { 1.0 };
    struct vp_backend_ops ops = lagging();
    struct setup setup = pipe_of("gpipe", 1, 6);
    int64_t wait_ns = 0;
    struct vp_trace trace;
    struct run run;

    (void)state;
    setup.device = &ops;
    setup.n_steps = 1;
    setup.swap_ratios = all;
    run_traced(&run, &setup, &trace);
    for (int i = 0; i < trace.ranks[0].n_events; i++) {
        const struct vp_trace_event *e = &trace.ranks[0].events[i];

        if (e->kind != VP_ACTION_SWAP_FREE && e->kind != VP_ACTION_SWAP_READY)
            continue;
        assert_int_equal(e->wait_ns, length(e));
        wait_ns += e->wait_ns;
    }
    /* Each forward but the first waits for the buffer of a copy. */
    assert_true(wait_ns >= 5 * 5 * MS);
    assert_true(vp_trainer_stats(run.trainer)->wait_ns >= wait_ns);
    vp_trace_release(&trace);
    run_free(&run);
}

static void looking_changes_no_bit(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "pipedream" };
    struct vp_backend_ops ops = lagging();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = pipe_of(schedules[i], 2, 3);
        struct run host, device;

        if (strcmp(schedules[i], "pipedream") == 0)
            setup.accumulation = 1;
        train(&host, &setup);
        setup.device = &ops;
        train(&device, &setup);
        assert_same(&host, &device, setup.n_steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_has_the_times_of_its_device),
        cmocka_unit_test(a_pipeline_shows_its_bubbles),
        cmocka_unit_test(copies_are_waited_for),
        cmocka_unit_test(looking_changes_no_bit),
    };

    if (getenv("VP_TEST_DEVICE")) /* this test brings its own device */
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
