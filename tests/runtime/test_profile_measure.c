/* Measuring a profile does not disturb training. With kernels that sleep, the
 * measured seconds are the slept ones, and a schedule simulated with them takes
 * as long as a real step. */
#include "runtime/profile/profile_measure.h"

#include "lib/sleepdevice.h"
#include "lib/trainlib.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static struct vp_profile_request request_of(const struct run *run)
{
    return (struct vp_profile_request){
        .config = &run->config,
        .facts = { "a device", "1", "", "2", "" },
        .n_repeats = 3,
        .n_ranks = 2,
    };
}

static void measure(const struct vp_profile_request *request,
                    struct vp_arena *arena, struct vp_device_profile *out)
{
    struct vp_err err = { .text = "" };

    if (vp_profile_measure(request, arena, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void create(struct run *run, const struct setup *setup)
{
    struct vp_err err = { .text = "" };

    if (run_create(run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Contents of a profile ---------------------------------------------- */

static int n_distinct(const struct vp_block_key *keys, int n)
{
    int n_distinct = 0;

    for (int i = 0; i < n; i++) {
        bool seen = false;

        for (int j = 0; j < i; j++)
            seen |= keys[i].low == keys[j].low && keys[i].high == keys[j].high;
        n_distinct += !seen;
    }
    return n_distinct;
}

static void assert_block(const struct vp_graph *graph, int b,
                         const struct vp_profile_block *block)
{
    uint64_t sets[VP_PROFILE_MAX_SETS];

    assert_non_null(block);
    assert_true(block->alone.f > 0.0 && block->alone.b > 0.0);
    assert_true(block->alone.w >= 0.0);
    assert_memory_equal(&block->alone, &block->beside_copies,
                        sizeof(block->alone)); /* this device has no copies */
    assert_int_equal(block->n_sets, vp_profile_candidates(graph, b, sets));
    for (int i = 0; i < block->n_sets; i++) {
        assert_true(block->sets[i].ops == sets[i]);
        assert_true(block->sets[i].seconds >= 0.0);
    }
}

/* Checks that the profile has every block of the model, repeated ones once, and
 * that its text can be read back. */
static void assert_shape(const struct run *run,
                         const struct vp_device_profile *profile)
{
    const struct vp_graph *graph = &run->graphs[0];
    struct vp_block_key keys[64];
    struct vp_arena arena = { NULL };
    struct vp_device_profile again;
    struct vp_err err = { .text = "" };
    char *text;

    assert_int_equal(vp_profile_keys(graph, keys), VP_OK);
    assert_int_equal(profile->n_blocks, n_distinct(keys, graph->n_blocks));
    for (int b = 0; b < graph->n_blocks; b++)
        assert_block(graph, b, vp_profile_find(profile, keys[b]));
    assert_int_equal(profile->batch, graph->batch);
    assert_true(profile->capacity >= 1.0 && profile->capacity <= 2.0);
    assert_int_equal(profile->n_loads, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(profile->loads[i].n_ranks, i + 1);
        assert_true(profile->loads[i].f > 0.0 && profile->loads[i].b > 0.0 &&
                    profile->loads[i].update > 0.0);
    }
    assert_true(profile->same_host.seconds > 0.0 &&
                profile->same_host.seconds < 0.1);
    assert_true(profile->same_host.bytes_per_second > 1e6);
    assert_true(profile->copy_out == 0.0 && profile->copy_in_both == 0.0);
    assert_int_equal(vp_profile_print(profile, &text), VP_OK);
    if (vp_profile_parse(text, strlen(text), "p.json", &arena, &again, &err) !=
        VP_OK)
        fail_msg("%s\n%s", err.text, text);
    assert_int_equal(again.n_blocks, profile->n_blocks);
    assert_string_equal(again.facts.build, "2");
    vp_arena_release(&arena);
    free(text);
}

static void shape_of_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct vp_arena arena = { NULL };
        struct vp_device_profile profile;
        struct run run;
        struct vp_profile_request request;

        setup.model = models[m];
        setup.threads = 1;
        setup.layers = 3;
        create(&run, &setup);
        request = request_of(&run);
        measure(&request, &arena, &profile);
        assert_shape(&run, &profile);
        vp_arena_release(&arena);
        run_free(&run);
    }
}

/* With a time limit that is over at once the profile is complete, but times of
 * sets are estimated. */
static void time_limit(void **state)
{
    struct setup setup = usual;
    struct vp_arena arena = { NULL };
    struct vp_device_profile profile;
    struct vp_profile_request request;
    struct run run;

    (void)state;
    setup.threads = 1;
    create(&run, &setup);
    request = request_of(&run);
    request.seconds = 1e-9;
    request.n_repeats = 64;
    measure(&request, &arena, &profile);
    assert_shape(&run, &profile);
    for (int i = 0; i < profile.n_blocks; i++) {
        const struct vp_profile_block *block = &profile.blocks[i];

        assert_true(block->sets[block->n_sets - 1].seconds <=
                    1.001 * block->alone.f);
    }
    vp_arena_release(&arena);
    run_free(&run);
}

/* ---- Measuring beside training ------------------------------------------ */

/* Measuring between two steps of a run changes no bit of it. */
static void neutral(void **state)
{
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;
    struct run plain, measured;
    struct vp_profile_request request;
    struct vp_arena arena = { NULL };
    struct vp_device_profile profile;
    struct vp_err err = { .text = "" };

    (void)state;
    setup.schedule = "1f1b";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.threads = 1;
    train(&plain, &setup);
    create(&measured, &setup);
    request = request_of(&measured);
    measure(&request, &arena, &profile);
    for (int i = 0; i < setup.n_steps; i++) {
        assert_int_equal(
            vp_trainer_run(measured.trainer, 1, keep_step, &measured, &err),
            VP_OK);
        if (i == 1)
            measure(&request, &arena, &profile);
    }
    measured.weights = hash_weights(&measured);
    assert_same(&plain, &measured, setup.n_steps);
    vp_arena_release(&arena);
    run_free(&measured);
}

/* Ranks run on their own cores; the thread that measures has the same affinity
 * afterwards as before. */
static void pinned(void **state)
{
    static const int cores[] = { 0, 1 };
    struct setup setup = usual;
    struct vp_profile_request request;
    struct vp_arena arena = { NULL };
    struct vp_device_profile profile;
    struct vp_train_config config;
    cpu_set_t before, after;
    struct run run;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    if (CPU_COUNT(&before) < 2) {
        print_message("skipped: needs two cores\n");
        skip();
    }
    setup.threads = 1;
    create(&run, &setup);
    config = run.config;
    config.plan.devices = cores;
    request = request_of(&run);
    request.config = &config;
    measure(&request, &arena, &profile);
    assert_shape(&run, &profile);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    vp_arena_release(&arena);
    run_free(&run);
}

/* ---- Kernels that sleep ------------------------------------------------- */

enum { N_TRIES = 4 };

#define NS_PER_FLOP 6.0
#define NS_PER_WEIGHT 100.0

/* Returns true if `got` is within 5 % of `want`, plus the time to wake a
 * thread. */
static bool is_near(const char *what, double got, double want)
{
    bool near = fabs(got - want) <= 0.05 * want + 2e-4;

    if (!near)
        print_message("%s: %.6f s, slept %.6f s\n", what, got, want);
    return near;
}

static double flops_of(const struct vp_graph *graph, int b, enum vp_phase phase)
{
    const struct vp_block *block = &graph->blocks[b];
    double sum = 0.0;

    for (int i = block->first_op; i < block->first_op + block->n_ops; i++)
        sum += vp_op_flops(graph, &graph->ops[i], phase);
    return sum;
}

static double weights_of(const struct vp_graph *graph, int b)
{
    double n = 0.0;

    for (vp_par par = 0; par < graph->n_params; par++)
        if (graph->params[par].block == b)
            n += (double)(graph->params[par].rows * graph->params[par].cols);
    return n;
}

static struct setup sleeping(void)
{
    struct setup setup = usual;

    setup.device = sleep_device(NS_PER_FLOP, NS_PER_WEIGHT);
    setup.threads = 1;
    setup.layers = 4;
    setup.vocab = 400;
    setup.tied = false;
    return setup;
}

/* The profile of sleeping kernels, measured once because it takes seconds. */
static struct vp_device_profile slept;
static struct vp_arena slept_arena;

static int measure_sleeping(void **state)
{
    struct setup setup = sleeping();
    struct vp_profile_request request;
    struct run run;

    (void)state;
    create(&run, &setup);
    request = request_of(&run);
    request.n_repeats = 7;
    measure(&request, &slept_arena, &slept);
    run_free(&run);
    return 0;
}

static int release_sleeping(void **state)
{
    (void)state;
    vp_arena_release(&slept_arena);
    slept_arena = (struct vp_arena){ NULL };
    return 0;
}

static bool is_block_near(const struct vp_graph *graph, int b,
                          const struct vp_profile_block *at)
{
    double unit = 1e-9 * NS_PER_FLOP, f = unit * flops_of(graph, b, VP_PHASE_F);
    double w = unit * flops_of(graph, b, VP_PHASE_W);
    double all = w + unit * flops_of(graph, b, VP_PHASE_B);

    assert_true(f > 1e-3);
    return is_near("F", at->alone.f, f) && is_near("W", at->alone.w, w) &&
           is_near("B and W", at->alone.b + at->alone.w, all) &&
           is_near("update", at->update,
                   1e-9 * NS_PER_WEIGHT * weights_of(graph, b)) &&
           at->sets[at->n_sets - 1].seconds < 1.05 * f + 2e-4;
}

static bool are_blocks_near(const struct vp_graph *graph)
{
    struct vp_block_key keys[64];

    assert_int_equal(vp_profile_keys(graph, keys), VP_OK);
    for (int b = 0; b < graph->n_blocks; b++)
        if (!is_block_near(graph, b, vp_profile_find(&slept, keys[b])))
            return false;
    /* Sleeping threads do not slow each other down. Updates are short: the time
     * to wake a thread is a large part, so their limit is wider. */
    return slept.capacity > 1.9 &&
           is_near("F under load", slept.loads[1].f, 1) &&
           is_near("B under load", slept.loads[1].b, 1) &&
           fabs(slept.loads[1].update - 1.0) < 0.15;
}

static void sleeping_blocks(void **state)
{
    struct setup setup = sleeping();
    int n_tries = 1;
    struct run run;

    create(&run, &setup);
    /* A busy machine may wake a thread late, so the measurement is repeated. */
    while (!are_blocks_near(&run.graphs[0])) {
        assert_true(++n_tries <= N_TRIES);
        release_sleeping(state);
        measure_sleeping(state);
    }
    run_free(&run);
}

static void stage_costs(const struct vp_graph *graph, const int *partition,
                        int n_stages, struct vp_stage_costs *out)
{
    struct vp_block_key keys[64];
    int b = 0;

    assert_int_equal(vp_profile_keys(graph, keys), VP_OK);
    memset(out, 0, (size_t)n_stages * sizeof(*out));
    for (int s = 0; s < n_stages; s++)
        for (int end = b + partition[s]; b < end; b++) {
            const struct vp_profile_block *at = vp_profile_find(&slept,
                                                                keys[b]);

            out[s].f += at->alone.f;
            out[s].b += at->alone.b;
            out[s].w += at->alone.w;
            out[s].update += at->update;
        }
}

static bool keep_seconds(void *ctx, const struct vp_step_report *report)
{
    double *seconds = ctx;

    /* Keeps the fastest step: slower ones were disturbed. */
    if (seconds[0] == 0.0 || report->seconds < seconds[0])
        seconds[0] = report->seconds;
    return true;
}

/* Compares the simulated and the real time of a step of `schedule`. */
static void compare_schedule(const char *schedule, int n_stages, int n_chunks,
                             const int *partition)
{
    struct setup setup = sleeping();
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_plan_time time;
    struct vp_err err = { .text = "" };
    double seconds = 0.0;
    struct run run;

    setup.schedule = schedule;
    setup.n_stages = n_stages;
    setup.n_chunks = n_chunks;
    setup.partition = partition;
    setup.accumulation = 8;
    setup.grad_clip = 1e9f; /* clipping makes all ranks end a step together */
    create(&run, &setup);
    stage_costs(&run.graphs[0], partition, n_stages * n_chunks, costs);
    assert_int_equal(vp_plan_seconds(vp_trainer_schedule(run.trainer),
                                     &(struct vp_sched_costs){
                                         .stages = costs,
                                         .latency = slept.same_host.seconds },
                                     &time, &err),
                     VP_OK);
    assert_int_equal(
        vp_trainer_run(run.trainer, 5, keep_seconds, &seconds, &err), VP_OK);
    print_message("%s: simulated %.4f s, measured %.4f s (%+.1f %%)\n",
                  schedule, time.seconds, seconds,
                  100.0 * (seconds / time.seconds - 1.0));
    assert_true(fabs(seconds / time.seconds - 1.0) < 0.05);
    run_free(&run);
}

static void sleeping_schedules(void **state)
{
    static const int even[] = { 3, 2, 2, 2 }, uneven[] = { 1, 4, 2, 2 };
    static const int chunks[] = { 1, 1, 1, 1, 1, 1, 1, 2 };

    (void)state;
    compare_schedule("gpipe", 4, 1, even);
    compare_schedule("1f1b", 4, 1, even);
    compare_schedule("1f1b", 4, 1, uneven);
    compare_schedule("zb-h1", 4, 1, even);
    compare_schedule("interleaved", 4, 2, chunks);
}

/* ---- A device with its own memory --------------------------------------- */

/* Copies of 32 MiB and more sleep, at COPY_RATE bytes per second, and slow
 * kernels down by SLOWED. */
#define COPY_RATE 2e9
#define SLOWED 1.25

static atomic_llong copied_ns; /* time of the last begin or end of a copy */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Returns true if a copy began or ended in the last 40 ms. Copies of a load
 * follow each other, but its thread may have to wait for a core between two. */
static bool is_copying(void)
{
    return now_ns() - atomic_load(&copied_ns) < 40000000;
}

struct clock_event {
    struct vp_event base;
    int64_t ns;
};

static enum vp_status own_event_create(struct vp_device *device,
                                       struct vp_event **out)
{
    struct clock_event *event = calloc(1, sizeof(*event));

    (void)device;
    assert_non_null(event);
    *out = &event->base;
    return VP_OK;
}

static void own_event_free(struct vp_event *event)
{
    free(event);
}

static enum vp_status own_event_record(struct vp_event *event,
                                       struct vp_stream *stream)
{
    (void)stream;
    ((struct clock_event *)event)->ns = now_ns();
    return VP_OK;
}

static enum vp_status own_event_sync(struct vp_event *event, int timeout_ms)
{
    (void)event;
    (void)timeout_ms;
    return VP_OK;
}

static bool own_event_time(struct vp_event *event, int64_t *ns_out)
{
    *ns_out = ((struct clock_event *)event)->ns;
    return true;
}

static enum vp_status own_copy(struct vp_stream *stream, void *dst,
                               const void *src, size_t n_bytes)
{
    if (n_bytes < (size_t)32 << 20)
        return vp_backend_cpu.device->copy(stream, dst, src, n_bytes);
    atomic_store(&copied_ns, now_ns());
    sleep_ns((double)n_bytes * 1e9 / COPY_RATE);
    atomic_store(&copied_ns, now_ns());
    return VP_OK;
}

static enum vp_status own_launch(struct vp_exe *exe, enum vp_list list,
                                 const struct vp_launch *launch,
                                 struct vp_stream *stream)
{
    (void)launch;
    (void)stream;
    sleep_ns(sleep_list_ns(exe, list) * (is_copying() ? SLOWED : 1.0));
    return VP_OK;
}

static void own_memory(void **state)
{
    struct vp_backend_ops ops = *sleep_device(NS_PER_FLOP, NS_PER_WEIGHT);
    struct vp_device_ops device = *vp_backend_cpu.device;
    struct setup setup = usual;
    struct vp_arena arena = { NULL };
    struct vp_device_profile profile;
    struct vp_profile_request request;
    struct run run;

    (void)state;
    device.host_memory = false;
    device.copy = own_copy;
    device.event_create = device.timed_event_create = own_event_create;
    device.event_free = own_event_free;
    device.event_record = own_event_record;
    device.event_sync = own_event_sync;
    device.event_time = own_event_time;
    ops.device = &device;
    ops.launch = own_launch;
    setup.device = &ops;
    setup.threads = 1;
    create(&run, &setup);
    request = request_of(&run);
    request.n_repeats = 5;
    request.n_ranks = 1;
    measure(&request, &arena, &profile);
    assert_true(profile.capacity == 1.0);
    assert_true(fabs(profile.copy_out / COPY_RATE - 1.0) < 0.05);
    assert_true(fabs(profile.copy_in / COPY_RATE - 1.0) < 0.05);
    assert_true(profile.copy_out_both > 0.0 && profile.copy_in_both > 0.0);
    assert_true(fabs(profile.same_host.bytes_per_second / (0.5 * COPY_RATE) -
                     1.0) < 0.05);
    for (int i = 0; i < profile.n_blocks; i++) {
        const struct vp_profile_block *block = &profile.blocks[i];
        const struct vp_profile_set *all = &block->sets[block->n_sets - 1];

        assert_true(fabs(block->beside_copies.f / block->alone.f - SLOWED) <
                    0.05);
        assert_true(fabs(block->beside_copies.w / block->alone.w - SLOWED) <
                    0.05);
        assert_true(fabs(all->beside_copies / all->seconds - SLOWED) < 0.05);
    }
    vp_arena_release(&arena);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_of_models), cmocka_unit_test(time_limit),
        cmocka_unit_test(neutral),         cmocka_unit_test(pinned),
        cmocka_unit_test(sleeping_blocks), cmocka_unit_test(sleeping_schedules),
        cmocka_unit_test(own_memory),
    };

    prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds; inherited by rank threads */
    return cmocka_run_group_tests(tests, measure_sleeping, release_sleeping);
}
