#include "lib/tensorlib.h"

#include "lib/literal.h"
#include "runtime/trainer/internal.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_MEMBERS = 4 };

const int members_of[2] = { 2, 4 };

bool on_gpu(void)
{
    return getenv("VP_TEST_DEVICE") != NULL;
}

/* A GPU computes e^x to two units in the last place, and matrix products of
 * other shapes may add in another order. */
static double loss_tolerance(void)
{
    return on_gpu() ? 1e-5 : 1e-6;
}

double norm_tolerance(void)
{
    return on_gpu() ? 1e-4 : 1e-5;
}

void assert_near(double a, double b, double tolerance, const char *what, int i)
{
    if (!(fabs(a - b) <= tolerance * fabs(a)))
        fail_msg("%s %d: %.9g and %.9g differ by %.3g, more than %.3g", what, i,
                 a, b, fabs(a - b) / fabs(a), tolerance);
}

struct setup group_of(const char *model, int members)
{
    struct setup setup = usual;

    setup.model = model;
    setup.members = members;
    setup.threads = 1;
    setup.n_steps = 3;
    return setup;
}

static int n_blocks_of(const struct setup *setup)
{
    struct vp_model_config sizes = small_sizes(setup);

    return (int)vp_model_find(setup->model)->n_blocks(&sizes);
}

void cut_evenly(struct setup *setup, int n_stages, int *partition)
{
    int n = n_blocks_of(setup), each = n / n_stages;

    for (int s = 0; s < n_stages; s++)
        partition[s] = s + 1 < n_stages ? each : n - each * (n_stages - 1);
    setup->n_stages = n_stages;
    setup->partition = partition;
}

/* ---- Equal bits --------------------------------------------------------- */

void check_same_bits(struct setup setup, const struct variant *variants,
                     size_t n_variants, size_t odd)
{
    struct run one, other;

    train(&one, &setup);
    for (size_t v = 0; v < n_variants; v++) {
        const struct variant *with = &variants[v];
        int partition[VP_MAX_STAGES];
        double swap[VP_MAX_STAGES];
        struct setup cut = setup;

        if ((v + odd) % 2 != 0)
            continue;
        cut_evenly(&cut, with->n_stages * with->n_chunks, partition);
        for (int s = 0; s < VP_MAX_STAGES; s++)
            swap[s] = with->swap;
        cut.n_stages = with->n_stages;
        cut.n_chunks = with->n_chunks;
        cut.schedule = with->schedule;
        cut.threads = with->threads;
        cut.recompute = with->recompute;
        cut.swap_ratios = with->swap > 0.0 ? swap : NULL;
        cut.early = with->early;
        cut.in_backward = with->in_backward;
        train(&other, &cut);
        assert_same(&one, &other, setup.n_steps);
    }
}

void check_replicas(struct setup setup)
{
    static const int replicas[] = { 2, 1, 2 };
    struct run one, other;
    int partition[3];

    setup.accumulation = 4;
    cut_evenly(&setup, 3, partition);
    setup.replicas = replicas;
    train(&one, &setup);
    setup.schedule = "gpipe";
    setup.threads = 2;
    setup.bundle_bytes = 4096;
    train(&other, &setup);
    assert_same(&one, &other, setup.n_steps);
}

/* ---- Comparison with one rank ------------------------------------------- */

double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
}

bool has_key_bias(const struct vp_param *param)
{
    for (int i = 0; i < param->n_parts; i++)
        if (param->rows == 3 || strstr(param->part[i].name, "c_attn.bias"))
            return true;
    return false;
}

/* With a learning rate of 1024, the change of the weights in one step is the
 * gradient, up to a factor. */
static void compare_gradients(const struct setup *setup)
{
    struct setup step = *setup;
    struct run one, group, start;
    struct vp_err err = { .text = "" };

    step.optim = VP_OPTIM_SGD;
    step.lr = 1024.0f;
    step.n_steps = 1;
    step.members = 1;
    step.sequence_parallel = false;
    assert_int_equal(run_create(&start, &step, 0, &err), VP_OK);
    assert_int_equal(run_create(&one, &step, 0, &err), VP_OK);
    step.members = setup->members;
    step.sequence_parallel = setup->sequence_parallel;
    assert_int_equal(run_create(&group, &step, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(one.trainer, 1, keep_step, &one, &err),
                     VP_OK);
    assert_int_equal(vp_trainer_run(group.trainer, 1, keep_step, &group, &err),
                     VP_OK);
    for (vp_par par = 0; par < one.graphs[0].n_params; par++) {
        const struct vp_param *param = &one.graphs[0].params[par];
        int64_t n = count_weights(&one, par);
        float *w0 = trainer_weights(&start, par, 0);
        float *a = trainer_weights(&one, par, 0);
        float *b = trainer_weights(&group, par, 0);

        if (!param->constant && !has_key_bias(param) &&
            distance(a, b, n) > 1e-5 * distance(a, w0, n))
            fail_msg("%s, %d members: gradient of %s differs by %g of %g",
                     setup->model, setup->members, param->part[0].name,
                     distance(a, b, n), distance(a, w0, n));
        free(w0);
        free(a);
        free(b);
    }
    run_free(&start);
    run_free(&one);
    run_free(&group);
}

void check_numbers(struct setup setup)
{
    struct setup alone = setup;
    struct run one, group;

    alone.members = 1;
    alone.sequence_parallel = false;
    train(&one, &alone);
    train(&group, &setup);
    for (int i = 0; i < setup.n_steps; i++) {
        assert_near(one.losses[i], group.losses[i], loss_tolerance(), "loss",
                    i);
        assert_near(one.norms[i], group.norms[i], norm_tolerance(), "norm", i);
    }
    assert_near(one.eval_loss, group.eval_loss, loss_tolerance(), "evaluation",
                0);
    compare_gradients(&setup);
}

/* ---- Parameters that all members have whole ----------------------------- */

void check_whole_parameters(struct setup setup)
{
    struct vp_err err = { .text = "" };
    int partition[2], n_compared = 0;
    struct run run;

    cut_evenly(&setup, 2, partition);
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, 3, keep_step, &run, &err),
                     VP_OK);
    for (int r = 0; r < run.trainer->pipeline.n_ranks; r++) {
        const struct vp_rank *rank = &run.trainer->ranks[r];
        struct vp_stage *first =
            &run.trainer->ranks[r - rank->member].stages[0].stage;
        struct vp_stage *mine = &rank->stages[0].stage;

        assert_int_equal(vp_stage_wait(first), VP_OK);
        assert_int_equal(vp_stage_wait(mine), VP_OK);
        for (int i = 0; i < mine->n_tensors; i++) {
            const struct vp_optim_tensor *t = &mine->tensors[i];

            if (mine->tensor_params[i]->slice.axis != VP_SLICE_NONE)
                continue;
            assert_memory_equal(
                (float *)vp_stage_weights(mine, mine->newest) + t->offset,
                (float *)vp_stage_weights(first, first->newest) + t->offset,
                (size_t)t->n * sizeof(float));
            n_compared++;
        }
    }
    assert_true(n_compared > 8);
    run_free(&run);
}

/* ---- Asynchronous training ---------------------------------------------- */

/* Exchanges values between the threads of the literal interpreter's members. */
struct ring {
    pthread_barrier_t barrier;
    int n;
    const void *given[MAX_MEMBERS];
};

struct seat {
    struct ring *ring;
    int me;
};

static void ring_sum(void *ctx, const struct vp_op *op, float *data, int64_t n)
{
    struct seat *seat = ctx;
    struct ring *ring = seat->ring;
    float *sum = calloc((size_t)n, sizeof(*sum));

    (void)op;
    ring->given[seat->me] = data;
    pthread_barrier_wait(&ring->barrier);
    for (int64_t i = 0; i < n; i++) {
        sum[i] = ((const float *)ring->given[0])[i];
        for (int k = 1; k < ring->n; k++)
            sum[i] += ((const float *)ring->given[k])[i];
    }
    pthread_barrier_wait(&ring->barrier);
    memcpy(data, sum, (size_t)n * sizeof(*sum));
    free(sum);
}

static void ring_exchange(void *ctx, const struct vp_op *op, const void *mine,
                          size_t n_bytes, void *all)
{
    struct seat *seat = ctx;
    struct ring *ring = seat->ring;

    (void)op;
    ring->given[seat->me] = mine;
    pthread_barrier_wait(&ring->barrier);
    for (int k = 0; k < ring->n; k++)
        memcpy((char *)all + (size_t)k * n_bytes, ring->given[k], n_bytes);
    pthread_barrier_wait(&ring->barrier);
}

/* Sets the rows of other members to NaN, since this member must not read
 * them. */
static void ring_reduce_scatter(void *ctx, const struct vp_op *op, float *data,
                                int64_t n, int64_t slice)
{
    const struct seat *seat = ctx;

    ring_sum(ctx, op, data, n);
    for (int64_t i = 0; i < n; i++)
        if (i / slice != seat->me)
            data[i] = NAN;
}

static void ring_all_gather(void *ctx, const struct vp_op *op, const void *mine,
                            void *all, int64_t n, int64_t slice)
{
    struct seat *seat = ctx;
    struct ring *ring = seat->ring;

    (void)op;
    ring->given[seat->me] = mine;
    pthread_barrier_wait(&ring->barrier);
    for (int64_t i = 0; i < n; i++)
        ((char *)all)[i] = ((const char *)ring->given[i / slice])[i % slice];
    pthread_barrier_wait(&ring->barrier);
}

static enum vp_status ring_status(void *ctx)
{
    (void)ctx;
    return VP_OK;
}

struct reader {
    pthread_t thread;
    struct seat seat;
    struct vp_members members;
    const struct async_case *how;
    const struct run *run;
    const int *partition;
    struct literal lit;
    double losses[MAX_STEPS], norms[MAX_STEPS];
};

static void *read_literally(void *arg)
{
    struct reader *reader = arg;

    literal_open_member(&reader->lit, reader->run, &reader->run->config,
                        reader->how, reader->partition, &reader->members);
    literal_run(&reader->lit, 0, reader->run->n_steps, reader->losses,
                reader->norms);
    return NULL;
}

/* Checks that the weights of stage `s` consist of the slices of the
 * interpreter's members. */
static void compare_weights(const struct run *run, struct reader *readers,
                            int n_members, int s)
{
    const struct vp_graph *graph = &run->graphs[0];
    const struct vp_layout *layout =
        &readers[0].lit.stages[s].stage.plan.train[0].layout;

    for (int e = 0; e < layout->n_entries; e++) {
        vp_par par = layout->entries[e].par;
        const struct vp_param *param = &graph->params[par];
        int64_t n = count_weights(run, par),
                n_slice = param->rows * param->cols;
        float *got = trainer_weights(run, par, 0);
        float *want = calloc((size_t)n, sizeof(*want));
        float *slice = calloc((size_t)n_slice, sizeof(*slice));

        for (int t = 0; t < n_members; t++) {
            int64_t at = 0;

            assert_int_equal(vp_stage_get_weights(
                                 &readers[t].lit.stages[s].stage,
                                 layout->entries[e].offset / 4, n_slice, slice),
                             VP_OK);
            for (int i = 0; i < param->n_parts; i++) {
                struct vp_shape shape = vp_param_whole(param, i);

                vp_slice_put(param, i, t, n_members,
                             slice + param->part[i].row * param->cols,
                             want + at);
                at += shape.rows * shape.cols;
            }
        }
        assert_memory_equal(got, want, (size_t)n * sizeof(*want));
        free(got);
        free(want);
        free(slice);
    }
}

void check_asp(struct setup setup)
{
    static const struct async_case how = { "pipedream", 3,
                                           { 1, 1, 1 }, { 2, 1, 0 },
                                           { 2, 1, 0 }, { 1, 1, 1 },
                                           false,       0 };
    struct vp_err err = { .text = "" };
    struct reader *readers = calloc(2, sizeof(*readers));
    struct ring ring = { .n = 2 };
    struct run run;
    int partition[3];

    cut_evenly(&setup, 3, partition);
    setup.schedule = "pipedream";
    setup.tied = false;
    setup.accumulation = 1;
    setup.n_steps = 9;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    if (vp_trainer_run(run.trainer, setup.n_steps, keep_step, &run, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    pthread_barrier_init(&ring.barrier, NULL, 2);
    for (int t = 0; t < 2; t++) {
        readers[t] = (struct reader){ .seat = { &ring, t },
                                      .how = &how,
                                      .run = &run,
                                      .partition = partition };
        readers[t].members = (struct vp_members){
            .n = 2,
            .me = t,
            .ctx = &readers[t].seat,
            .sum = ring_sum,
            .exchange = ring_exchange,
            .status = ring_status,
            .reduce_scatter = ring_reduce_scatter,
            .all_gather = ring_all_gather,
        };
        pthread_create(&readers[t].thread, NULL, read_literally, &readers[t]);
    }
    for (int t = 0; t < 2; t++)
        pthread_join(readers[t].thread, NULL);
    for (int i = 0; i < setup.n_steps; i++)
        assert_memory_equal(&run.losses[i], &readers[0].losses[i],
                            sizeof(double));
    for (int s = 0; s < 3; s++)
        compare_weights(&run, readers, 2, s);
    for (int t = 0; t < 2; t++)
        literal_close(&readers[t].lit);
    pthread_barrier_destroy(&ring.barrier);
    run_free(&run);
    free(readers);
}

/* ---- State -------------------------------------------------------------- */

static enum vp_status snapshot_begin(void *ctx, int64_t step, int timeout_ms,
                                     struct vp_err *err)
{
    (void)ctx;
    (void)step;
    (void)timeout_ms;
    (void)err;
    return VP_OK;
}

static float *snapshot_room(void *ctx, int item)
{
    return ((struct snapshot *)ctx)->data[item];
}

static enum vp_status snapshot_load(void *ctx, const struct vp_state_item *item,
                                    float *out, struct vp_err *err)
{
    const struct snapshot *snapshot = ctx;

    for (int i = 0; i < snapshot->n; i++) {
        const struct vp_state_item *have = &snapshot->items[i];

        if (strcmp(have->name, item->name) == 0 && have->kind == item->kind &&
            have->age == item->age && have->rows == item->rows &&
            have->cols == item->cols) {
            memcpy(out, snapshot->data[i],
                   (size_t)(item->rows * item->cols) * sizeof(float));
            return VP_OK;
        }
    }
    return vp_err_set(err, VP_ERR_INVALID, "no '%s'", item->name);
}

void snapshot_fill(struct snapshot *snapshot, const struct run *run)
{
    struct vp_saver saver = { snapshot, 0, snapshot_begin, snapshot_room,
                              NULL };
    struct vp_state_item *items;
    struct vp_err err = { .text = "" };

    memset(snapshot, 0, sizeof(*snapshot));
    snapshot->n = vp_trainer_state(run->trainer, &items);
    assert_in_range(snapshot->n, 1, MAX_SNAPSHOT_ITEMS);
    for (int i = 0; i < snapshot->n; i++) {
        size_t n = (size_t)(items[i].rows * items[i].cols);

        snapshot->items[i] = items[i];
        snapshot->items[i].name = strdup(items[i].name);
        snapshot->data[i] = malloc(n * sizeof(float));
        for (size_t k = 0; k < n; k++)
            snapshot->data[i][k] = NAN;
    }
    free(items);
    snapshot->progress = vp_trainer_progress(run->trainer);
    assert_int_equal(vp_trainer_save(run->trainer, &saver, &err), VP_OK);
}

void snapshot_empty(struct snapshot *snapshot)
{
    for (int i = 0; i < snapshot->n; i++) {
        free(snapshot->data[i]);
        free((char *)snapshot->items[i].name);
    }
}

static void snapshots_are_equal(const struct snapshot *a,
                                const struct snapshot *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->items[i].name, b->items[i].name);
        assert_int_equal(a->items[i].rows, b->items[i].rows);
        assert_int_equal(a->items[i].cols, b->items[i].cols);
        assert_memory_equal(a->data[i], b->data[i],
                            (size_t)(a->items[i].rows * a->items[i].cols) *
                                sizeof(float));
    }
}

void snapshot_resume(struct setup setup, const struct snapshot *snapshot,
                     int members, const double *losses, bool exact)
{
    struct vp_loader loader = { .ctx = (void *)snapshot,
                                .progress = snapshot->progress,
                                .load = snapshot_load };
    struct snapshot again;
    struct vp_err err = { .text = "" };
    struct run run;
    int from = (int)snapshot->progress.step;

    setup.members = members;
    setup.sequence_parallel = setup.sequence_parallel && members > 1;
    setup.loader = &loader;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    snapshot_fill(&again, &run);
    snapshots_are_equal(snapshot, &again);
    snapshot_empty(&again);
    run.n_steps = from;
    assert_int_equal(vp_trainer_run(run.trainer, 3, keep_step, &run, &err),
                     VP_OK);
    for (int i = from; i < from + 3; i++)
        assert_near(losses[i], run.losses[i], exact ? 0.0 : loss_tolerance(),
                    "loss", i);
    run_free(&run);
}

/* ---- Memory ------------------------------------------------------------- */

void check_memory(struct setup setup)
{
    struct vp_err err = { .text = "" };
    int64_t want = 0;
    struct run run;
    int partition[2];

    cut_evenly(&setup, 2, partition);
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    for (int s = 0; s < 2; s++)
        want += vp_trainer_prices(run.trainer)[s].memory.total * setup.members;
    if (vp_device_has_host_memory(run.trainer->ranks[0].device))
        assert_int_equal(atomic_load(&n_device_bytes), want);
    run_free(&run);
}

/* ---- Faults ------------------------------------------------------------- */

static enum vp_fault happen(void *ctx, int rank, const struct vp_action *action)
{
    const struct accident *accident = ctx;

    return rank == accident->rank && action->kind == accident->kind &&
                   action->mb == 1
               ? accident->fault
               : VP_FAULT_NONE;
}

void check_accident(struct setup setup, struct accident accident,
                    const char *const *places, int n_places)
{
    bool waits = false;
    struct vp_err err = { .text = "" };
    int partition[2];
    struct run run;
    char want[64];

    cut_evenly(&setup, 2, partition);
    setup.fault = happen;
    setup.fault_ctx = &accident;
    /* A GPU loads its kernels at their first use. */
    setup.timeout_ms = on_gpu() ? 5000 : 1000;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_true(vp_trainer_run(run.trainer, 2, keep_step, &run, &err) != VP_OK);
    if (accident.fault == VP_FAULT_ERROR)
        snprintf(want, sizeof(want),
                 "rank %d, stage %d, minibatch 1: ", accident.rank,
                 accident.rank / 2);
    else
        snprintf(want, sizeof(want), "rank %d is ", accident.rank);
    if (!strstr(err.text, want))
        fail_msg("'%s' does not say '%s'", err.text, want);
    for (int i = 0; i < n_places; i++) {
        snprintf(want, sizeof(want), "waits in %s", places[i]);
        waits |= strstr(err.text, want) != NULL;
    }
    assert_true(waits || accident.fault != VP_FAULT_STALL);
    run_free(&run);
}
