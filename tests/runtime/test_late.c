/* A gradient norm is read only after the event that says it has arrived. The
 * simulated device stores NaN until that event, which would end the run. */
#include "lib/trainlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SUMS = 256, MAX_PENDING = 8 };

struct event {
    struct vp_event base;
    int64_t number;
};

static struct event *event_of(struct vp_event *event)
{
    return (struct event *)event;
}

/* Sums of squares that the device has not yet copied to the host. */
struct pending {
    double *to;
    double sums[MAX_SUMS];
    int n;
    int64_t number;                  /* the last event before the copy */
    int64_t n_forwards, n_backwards; /* launched before the copy */
};

/* State of the calling rank's device. */
static _Thread_local struct vp_backend *rank_backend;
static _Thread_local struct pending pending[MAX_PENDING];
static _Thread_local int n_pending;
static _Thread_local int64_t n_recorded, n_forwards, n_backwards, n_updates;

/* Copies that arrived, and those that arrived after the next forward had been
 * launched. */
static atomic_int n_arrived, n_ahead;
/* Copies that arrived after more than one further backward. */
static atomic_int n_too_late;
static atomic_int bad_update; /* the update that gets infinite sums; 0: none */

/* struct vp_backend begins with its device, so the cast is valid. */
static enum vp_status event_create(struct vp_device *device,
                                   struct vp_event **out)
{
    struct event *event = calloc(1, sizeof(*event));

    rank_backend = (struct vp_backend *)device;
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
    (void)stream;
    event_of(event)->number = ++n_recorded;
    return VP_OK;
}

static void arrive(const struct pending *p)
{
    memcpy(p->to, p->sums, (size_t)p->n * sizeof(*p->sums));
    atomic_fetch_add(&n_arrived, 1);
    atomic_fetch_add(&n_ahead, n_forwards > p->n_forwards);
    atomic_fetch_add(&n_too_late, n_backwards > p->n_backwards + 1);
}

static enum vp_status event_sync(struct vp_event *event, int timeout_ms)
{
    int n_left = 0;

    (void)timeout_ms;
    for (int i = 0; i < n_pending; i++)
        if (pending[i].number < event_of(event)->number)
            arrive(&pending[i]);
        else
            pending[n_left++] = pending[i];
    n_pending = n_left;
    return VP_OK;
}

static bool event_time(struct vp_event *event, int64_t *ns_out)
{
    *ns_out = event_of(event)->number;
    return true;
}

/* Begins a copy of `n` sums to `sums_out`, which holds NaN until the copy
 * arrives. */
static struct pending *expect(int n, double *sums_out)
{
    struct pending *p = &pending[n_pending++];

    if (n_pending > MAX_PENDING || n > MAX_SUMS)
        abort();
    for (int i = 0; i < n_pending - 1; i++)
        if (pending[i].to == sums_out)
            abort();
    *p = (struct pending){ .to = sums_out,
                           .n = n,
                           .number = n_recorded,
                           .n_forwards = n_forwards,
                           .n_backwards = n_backwards };
    for (int i = 0; i < n; i++)
        sums_out[i] = (double)NAN;
    return p;
}

static void spoil(struct pending *p)
{
    if (++n_updates == atomic_load(&bad_update))
        p->sums[0] = (double)INFINITY;
}

static enum vp_status sum_squares(struct vp_backend *backend,
                                  struct vp_stream *stream,
                                  const struct vp_optim_tensor *tensors, int n,
                                  const float *grad, double *sums_out)
{
    struct pending *p = expect(n, sums_out);

    VP_TRY(
        vp_backend_cpu.sum_squares(backend, stream, tensors, n, grad, p->sums));
    spoil(p);
    return VP_OK;
}

/* A backward may include the update: what->update. */
static enum vp_status launch(struct vp_exe *exe, enum vp_list list,
                             const struct vp_launch *what,
                             struct vp_stream *stream)
{
    const struct vp_optim_step *step = what->update;

    n_forwards += list == VP_LIST_F;
    n_backwards += list == VP_LIST_B;
    VP_TRY(vp_backend_cpu.launch(exe, list, what, stream));
    if (!step)
        return VP_OK;
    VP_TRY(sum_squares(rank_backend, stream, step->tensors, step->n_tensors,
                       step->grad, what->squares));
    return vp_backend_cpu.update(rank_backend, stream, step);
}

static struct vp_backend_ops late(void)
{
    static struct vp_device_ops device;
    struct vp_backend_ops ops = vp_backend_cpu;

    device = *ops.device;
    device.event_create = event_create;
    device.event_free = event_free;
    device.event_record = event_record;
    device.event_sync = event_sync;
    device.timed_event_create = event_create;
    device.event_time = event_time;
    ops.device = &device;
    ops.launch = launch;
    ops.sum_squares = sum_squares;
    return ops;
}

/* ---- A device that reuses the memory of gradients ----------------------- */

enum { MAX_EXES = 64 };

/* The programs of the newest MAX_EXES executables. */
static struct {
    struct vp_exe *exe;
    const struct vp_program *program;
} exes[MAX_EXES];
static atomic_int n_exes;

/* If set, a tensor is updated as late as possible: when another gradient needs
 * its memory, or at the end of backward. Else it is updated as early as
 * possible. */
static bool at_last;

static enum vp_status compile(struct vp_backend *backend,
                              const struct vp_program *program,
                              struct vp_exe **out, struct vp_err *err)
{
    int i = atomic_fetch_add(&n_exes, 1) % MAX_EXES;

    VP_TRY(vp_backend_cpu.compile(backend, program, out, err));
    exes[i].exe = *out;
    exes[i].program = program;
    return VP_OK;
}

static const struct vp_program *program_of(const struct vp_exe *exe)
{
    int n = atomic_load(&n_exes);

    for (int i = n - 1; i >= 0 && i >= n - MAX_EXES; i--)
        if (exes[i % MAX_EXES].exe == exe)
            return exes[i % MAX_EXES].program;
    abort();
}

/* Returns true if one of the call's `refs` overlaps the `n` floats from `begin`
 * on. */
static bool names(const struct vp_program *program, const struct vp_call *call,
                  const struct vp_ref *refs, int64_t begin, int64_t n)
{
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        int64_t at = refs[i].offset / (int64_t)sizeof(float);
        const struct vp_param *param;

        if (refs[i].space == VP_SPACE_NONE)
            continue;
        param = &program->graph->params[call->op->par[i]];
        if (at < begin + n && begin < at + param->rows * param->cols)
            return true;
    }
    return false;
}

/* Progress of one backward with updates. */
struct backward {
    const struct vp_program *program;
    const struct vp_optim_step *step;
    struct vp_stream *stream;
    struct pending *sums;
    bool done[MAX_SUMS]; /* tensors that were updated */
};

/* Returns the number of calls after which the gradient of `tensor` is final. */
static int calls_until(const struct backward *b, int tensor)
{
    const struct vp_optim_tensor *t = &b->step->tensors[tensor];
    const struct vp_call *calls = b->program->calls[VP_LIST_B];
    int n = b->program->n_calls[VP_LIST_B];

    while (n > 0 &&
           !names(b->program, &calls[n - 1], calls[n - 1].par, t->offset, t->n))
        n--;
    return n;
}

/* Updates a tensor and overwrites its gradient with NaN, which a later reader
 * would notice. */
static enum vp_status use_up(struct backward *b, int tensor)
{
    struct vp_optim_step step = *b->step;
    float *grad = (float *)(uintptr_t)step.grad;

    step.tensors += tensor;
    step.n_tensors = 1;
    VP_TRY(vp_backend_cpu.sum_squares(rank_backend, b->stream, step.tensors, 1,
                                      step.grad, &b->sums->sums[tensor]));
    VP_TRY(vp_backend_cpu.update(rank_backend, b->stream, &step));
    for (int64_t i = 0; i < step.tensors->n; i++)
        grad[step.tensors->grad + i] = NAN;
    b->done[tensor] = true;
    return VP_OK;
}

/* Updates the tensors that can be updated before call number `i`. At the end of
 * backward, `call` is NULL. */
static enum vp_status use_up_some(struct backward *b,
                                  const struct vp_call *call, int i)
{
    for (int k = 0; k < b->step->n_tensors; k++) {
        const struct vp_optim_tensor *t = &b->step->tensors[k];

        if (b->done[k] || calls_until(b, k) > i)
            continue;
        if (!at_last || !call ||
            names(b->program, call, call->dpar, t->grad, t->n))
            VP_TRY(use_up(b, k));
    }
    return VP_OK;
}

static enum vp_status launch_and_use_up(struct vp_exe *exe, enum vp_list list,
                                        const struct vp_launch *what,
                                        struct vp_stream *stream)
{
    struct backward b = { .program = program_of(exe),
                          .step = what->update,
                          .stream = stream };
    int n = b.program->n_calls[list];

    if (!what->update)
        return launch(exe, list, what, stream);
    n_backwards++;
    b.sums = expect(b.step->n_tensors, what->squares);
    for (int i = 0; i < n; i++) {
        VP_TRY(use_up_some(&b, &b.program->calls[list][i], i));
        VP_TRY(vp_backend_cpu.launch_part(exe, list, i, 1, what, stream));
    }
    VP_TRY(use_up_some(&b, NULL, n));
    spoil(b.sums);
    return VP_OK;
}

static struct vp_backend_ops using_up(int64_t linger)
{
    struct vp_backend_ops ops = late();

    ops.updates_early = true;
    ops.grad_linger = linger;
    ops.compile = compile;
    ops.launch = launch_and_use_up;
    return ops;
}

/* ---- Comparing runs ----------------------------------------------------- */

static const int two_stages[] = { 2, 3 }, four_stages[] = { 1, 1, 1, 2 };

static struct setup pipe_of(const char *schedule, int n_stages, int n_chunks)
{
    struct setup setup = usual;
    bool stream = strcmp(schedule, "pipedream") == 0;

    setup.schedule = schedule;
    setup.n_stages = n_stages;
    setup.n_chunks = n_chunks;
    setup.partition = n_stages * n_chunks == 4 ? four_stages
                      : n_stages > 1           ? two_stages
                                               : NULL;
    setup.accumulation = stream ? 1 : 4;
    setup.tied = !stream || n_stages == 1;
    setup.threads = 1;
    setup.n_steps = 6;
    return setup;
}

static const struct {
    const char *schedule;
    int n_stages, n_chunks;
} pipes[] = {
    { "1f1b", 1, 1 },        { "1f1b", 4, 1 }, { "gpipe", 2, 1 },
    { "interleaved", 2, 2 }, { "zb-v", 2, 2 }, { "pipedream", 1, 1 },
    { "pipedream", 4, 1 },
};

static void it_changes_no_bit(void **state)
{
    struct vp_backend_ops ops = late();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(pipes); i++) {
        struct setup setup = pipe_of(pipes[i].schedule, pipes[i].n_stages,
                                     pipes[i].n_chunks);
        struct run known, unknown, early;

        train(&known, &setup);
        setup.device = &ops;
        ops.updates_early = false;
        train(&unknown, &setup);
        assert_same(&known, &unknown, setup.n_steps);
        ops.updates_early = true;
        train(&early, &setup);
        assert_same(&known, &early, setup.n_steps);
    }
}

static int64_t gradients_of(const struct setup *setup)
{
    struct vp_err err = { .text = "" };
    int64_t n_bytes = 0;
    struct run run;

    assert_int_equal(run_create(&run, setup, 0, &err), VP_OK);
    for (int s = 0; s < vp_trainer_n_stages(run.trainer); s++)
        n_bytes += vp_trainer_prices(run.trainer)[s].memory.gradients;
    run_free(&run);
    return n_bytes;
}

/* With one backward per update, and no need for the norm of all gradients,
 * gradients share memory. Training gives the same bits with fewer bytes of
 * gradients; a schedule with a separate W keeps all of them. */
static void gradients_are_used_up(void **state)
{
    struct vp_backend_ops ops = using_up(1);

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(pipes) * VP_COUNT_OF(models); i++) {
        size_t pipe = i % VP_COUNT_OF(pipes);
        struct setup setup = pipe_of(pipes[pipe].schedule, pipes[pipe].n_stages,
                                     pipes[pipe].n_chunks);
        bool split = strcmp(pipes[pipe].schedule, "zb-v") == 0;
        struct run known, early;
        int64_t n_bytes;

        setup.model = models[i / VP_COUNT_OF(pipes)];
        if (strcmp(setup.model, "bert") != 0 && setup.partition)
            continue; /* the partitions are those of bert */
        setup.accumulation = 1;
        train(&known, &setup);
        n_bytes = gradients_of(&setup);
        setup.device = &ops;
        for (int last = 0; last < 2; last++) {
            at_last = last;
            train(&early, &setup);
            assert_same(&known, &early, setup.n_steps);
        }
        if (split)
            assert_int_equal(gradients_of(&setup), n_bytes);
        else
            assert_true(gradients_of(&setup) < n_bytes);
    }
}

static void gradients_stay_where_they_must(void **state)
{
    struct vp_backend_ops ops = using_up(1);
    struct setup usually = pipe_of("1f1b", 2, 1), setup;
    const int replicas[] = { 1, 2 };
    int64_t n_bytes = gradients_of(&usually);

    (void)state;
    usually.device = &ops;
    assert_int_equal(gradients_of(&usually), n_bytes);
    usually.accumulation = 1;
    assert_true(gradients_of(&usually) < n_bytes);
    setup = usually;
    setup.grad_clip = 1.0f;
    assert_int_equal(gradients_of(&setup), n_bytes);
    setup = usually;
    setup.scale.start = 8.0f;
    assert_int_equal(gradients_of(&setup), n_bytes);
    setup = usually;
    setup.optim = VP_OPTIM_LAMB;
    assert_int_equal(gradients_of(&setup), n_bytes);
    setup = usually;
    setup.replicas = replicas;
    assert_true(gradients_of(&setup) > gradients_of(&usually));
    /* The first stage, which has no replicas, still saves memory. */
    assert_true(gradients_of(&setup) < n_bytes);
}

/* A gradient norm is read after the next forward was launched, except for the
 * last one. */
static void the_device_has_work_meanwhile(void **state)
{
    struct vp_backend_ops ops = late();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(pipes); i++) {
        struct setup setup = pipe_of(pipes[i].schedule, pipes[i].n_stages,
                                     pipes[i].n_chunks);
        int n_stages = pipes[i].n_stages * pipes[i].n_chunks;
        struct run run;

        setup.device = &ops;
        atomic_store(&n_arrived, 0);
        atomic_store(&n_ahead, 0);
        atomic_store(&n_too_late, 0);
        train(&run, &setup);
        assert_int_equal(atomic_load(&n_too_late), 0);
        assert_int_equal(atomic_load(&n_arrived), setup.n_steps * n_stages);
        if (strcmp(pipes[i].schedule, "pipedream") != 0)
            assert_int_equal(atomic_load(&n_ahead),
                             (setup.n_steps - 1) * n_stages);
        else /* a stream ends with backwards without forwards */
            assert_true(atomic_load(&n_ahead) > 0);
    }
}

static void a_clipped_update_waits(void **state)
{
    struct vp_backend_ops ops = late();
    struct setup setup = pipe_of("1f1b", 2, 1);
    struct run known, waited;

    (void)state;
    setup.grad_clip = 0.5f;
    train(&known, &setup);
    setup.device = &ops;
    atomic_store(&n_ahead, 0);
    train(&waited, &setup);
    assert_same(&known, &waited, setup.n_steps);
    assert_int_equal(atomic_load(&n_ahead), 0);
}

static void a_bad_gradient_ends_the_run(void **state)
{
    struct vp_backend_ops ops = late();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(pipes); i++) {
        struct setup setup = pipe_of(pipes[i].schedule, pipes[i].n_stages,
                                     pipes[i].n_chunks);
        /* The first update of the third step; a rank makes one update per chunk
         * in a step. */
        int bad = 1 + 2 * pipes[i].n_chunks;
        struct vp_err err = { .text = "" };
        struct run run;
        char want[32];

        snprintf(want, sizeof(want), "minibatch %d;",
                 3 * setup.accumulation - 1);
        setup.device = &ops;
        atomic_store(&bad_update, bad);
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_int_equal(
            vp_trainer_run(run.trainer, setup.n_steps, keep_step, &run, &err),
            VP_ERR_NONFINITE);
        atomic_store(&bad_update, 0);
        if (!strstr(err.text, "non-finite gradient of ") ||
            !strstr(err.text, want))
            fail_msg("%s: wanted '%s', got '%s'", setup.schedule, want,
                     err.text);
        assert_in_range(run.n_steps, 0, 2);
        run_free(&run);
    }
}

/* ---- Saving ------------------------------------------------------------- */

static float room[1 << 16];

/* The rank calls this before it copies any tensor. */
static enum vp_status begin(void *ctx, int64_t step, int timeout_ms,
                            struct vp_err *err)
{
    (void)timeout_ms;
    ++*(int *)ctx;
    if (n_pending > 0)
        return vp_err_set(err, VP_ERR_INVALID, "step %d was not checked",
                          (int)step);
    return VP_OK;
}

static float *room_of(void *ctx, int item)
{
    (void)ctx;
    (void)item;
    return room;
}

static void what_is_saved_was_looked_at(void **state)
{
    struct vp_backend_ops ops = late();
    struct setup setup = pipe_of("1f1b", 1, 1);
    int n_saved = 0;
    struct vp_saver saver = { &n_saved, 2, begin, room_of, NULL };
    struct run known, run;

    (void)state;
    train(&known, &setup);
    setup.device = &ops;
    setup.saver = &saver;
    train(&run, &setup);
    assert_same(&known, &run, setup.n_steps);
    assert_int_equal(n_saved, 3);
    ops = using_up(1);
    train(&run, &setup);
    assert_same(&known, &run, setup.n_steps);
    assert_int_equal(n_saved, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_changes_no_bit),
        cmocka_unit_test(gradients_are_used_up),
        cmocka_unit_test(gradients_stay_where_they_must),
        cmocka_unit_test(the_device_has_work_meanwhile),
        cmocka_unit_test(a_clipped_update_waits),
        cmocka_unit_test(a_bad_gradient_ends_the_run),
        cmocka_unit_test(what_is_saved_was_looked_at),
    };

    if (getenv("VP_TEST_DEVICE")) /* this test brings its own device */
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
