/* BF16 weights with a float master train as floats do, and take the same
 * memory. The simulated device computes losses and gradients by a known
 * formula. */
#include "lib/halfdevice.h"

#include "runtime/trainer/internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, DEPTH = 2, MAX_PARAMS = 128 };

/* ---- The expected training, in floats ----------------------------------- */

/* A parameter as floats: its versions, gradient and moments. */
struct literal_param {
    float *versions[STEPS + 1];
    float *grad, *moment[2];
};

struct literal {
    const struct run *run;
    struct vp_backend *backend;
    struct vp_batch *batch;
    struct literal_param params[MAX_PARAMS];
    int depth, n_skipped;
};

static float *new_floats(const struct run *run, vp_par par)
{
    float *x = calloc((size_t)count_weights(run, par), sizeof(*x));

    assert_non_null(x);
    return x;
}

static void literal_init(struct literal *lit, const struct run *run, int depth)
{
    const struct vp_graph *graph = &run->graphs[0];
    struct vp_err err = { .text = "" };

    *lit = (struct literal){ .run = run, .depth = depth };
    assert_true(graph->n_params <= MAX_PARAMS);
    assert_int_equal(vp_backend_open(&vp_backend_cpu,
                                     &run->config.backend_config, &lit->backend,
                                     &err),
                     VP_OK);
    vp_device_attach(vp_backend_device(lit->backend));
    assert_int_equal(vp_batch_create(run->data, &lit->batch), VP_OK);
    for (vp_par par = 0; par < graph->n_params; par++) {
        struct literal_param *p = &lit->params[par];

        for (int v = 0; v <= STEPS; v++)
            p->versions[v] = new_floats(run, par);
        p->grad = new_floats(run, par);
        p->moment[0] = new_floats(run, par);
        p->moment[1] = new_floats(run, par);
        run->config.init(graph, par, run->config.seed, 0,
                         count_weights(run, par), p->versions[0]);
    }
}

static void literal_release(struct literal *lit)
{
    for (vp_par par = 0; par < lit->run->graphs[0].n_params; par++) {
        struct literal_param *p = &lit->params[par];

        for (int v = 0; v <= STEPS; v++)
            free(p->versions[v]);
        free(p->grad);
        free(p->moment[0]);
        free(p->moment[1]);
    }
    vp_batch_free(lit->batch);
    vp_backend_cpu.close(lit->backend);
}

/* Computes the gradients of `step` from the weight version that it sees.
 * Returns false if one of them is not finite. */
static bool literal_backward(struct literal *lit, int step)
{
    const struct vp_train_config *config = &lit->run->config;
    int seen = step - 1 - lit->depth > 0 ? step - 1 - lit->depth : 0;
    struct vp_mb mb = { .loss_grad = vp_scale_factor(
                            &(struct vp_scale){ config->scale.start, 0, 0 }) };
    struct vp_err err = { .text = "" };
    bool finite = true;

    assert_int_equal(
        vp_data_fill(lit->run->data, (uint64_t)step - 1, lit->batch, &err),
        VP_OK);
    mb.first_sample = lit->batch->first_sample;
    for (vp_par par = 0; par < lit->run->graphs[0].n_params; par++) {
        const float *w = lit->params[par].versions[seen];
        float *grad = lit->params[par].grad;

        for (int64_t i = 0; i < count_weights(lit->run, par); i++) {
            grad[i] = half_gradient(&mb, vp_halves_split(w[i]).high, i);
            finite &= isfinite(grad[i]) != 0;
        }
    }
    return finite;
}

static void literal_update(struct literal *lit, vp_par par, int step_number)
{
    const struct vp_train_config *config = &lit->run->config;
    const struct vp_param *param = &lit->run->graphs[0].params[par];
    struct literal_param *p = &lit->params[par];
    struct vp_optim_tensor tensors[VP_MAX_PART];
    struct vp_optim_step step = {
        .config = config->optim,
        .tensors = tensors,
        .n_tensors = param->n_parts,
        .w_old = p->versions[step_number - 1],
        .w_new = p->versions[step_number],
        .grad = p->grad,
        .moment = { p->moment[0], p->moment[1] },
        .lr = vp_lr_at(&config->lr, step_number),
        .grad_scale = config->scale.start > 0.0f ? 1.0f / config->scale.start
                                                 : 1.0f,
        .t = step_number - lit->n_skipped,
    };

    for (int j = 0; j < param->n_parts; j++) {
        int64_t at = param->part[j].row * param->cols;

        tensors[j] = (struct vp_optim_tensor){
            .offset = at,
            .grad = at,
            .n = param->part[j].rows * param->cols,
            .decay = param->decay,
        };
    }
    assert_int_equal(vp_backend_cpu.update(lit->backend, NULL, &step), VP_OK);
}

/* Makes version `step` from the one before; a skipped step repeats that one. */
static void literal_step(struct literal *lit, int step)
{
    bool finite = literal_backward(lit, step);

    lit->n_skipped += !finite;
    for (vp_par par = 0; par < lit->run->graphs[0].n_params; par++)
        if (finite)
            literal_update(lit, par, step);
        else
            memcpy(lit->params[par].versions[step],
                   lit->params[par].versions[step - 1],
                   (size_t)count_weights(lit->run, par) * sizeof(float));
}

/* ---- Training with BF16 weights ----------------------------------------- */

static struct setup half_setup(enum vp_optim_kind optim, int *depth)
{
    static const int partition[] = { 5 }, replicas[] = { 1 };
    struct setup setup = usual;

    setup.device = half_device();
    setup.dtype = VP_DTYPE_BF16;
    setup.n_steps = STEPS;
    setup.n_stages = 1;
    setup.partition = partition;
    setup.replicas = replicas;
    setup.tied = false;
    setup.accumulation = 1;
    setup.optim = optim;
    setup.schedule = *depth > 0 ? "pipedream" : "1f1b";
    setup.depth = depth;
    return setup;
}

/* Trains both ways and compares. With a loss scale of 2^126 some minibatches
 * overflow. */
static void check_training(enum vp_optim_kind optim, int depth, float scale)
{
    struct setup setup = half_setup(optim, &depth);
    struct vp_err err = { .text = "" };
    struct literal lit;
    struct run run;

    setup.scale.start = scale;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, STEPS, keep_step, &run, &err),
                     VP_OK);
    literal_init(&lit, &run, depth);
    for (int step = 1; step <= STEPS; step++) {
        literal_step(&lit, step);
        assert_int_equal(run.skipped[step - 1], lit.n_skipped);
    }
    assert_int_equal(lit.n_skipped > 0, scale > 0.0f);
    assert_true(lit.n_skipped < STEPS);
    for (vp_par par = 0; par < run.graphs[0].n_params; par++) {
        float *got = trainer_weights(&run, par, 0);

        assert_memory_equal(got, lit.params[par].versions[STEPS],
                            (size_t)count_weights(&run, par) * sizeof(*got));
        free(got);
    }
    literal_release(&lit);
    run_free(&run);
}

static void halves_train_as_floats(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        check_training((enum vp_optim_kind)kind, 0, 0.0f);
        check_training((enum vp_optim_kind)kind, DEPTH, 0.0f);
        check_training((enum vp_optim_kind)kind, 0, 0x1p126f);
        check_training((enum vp_optim_kind)kind, DEPTH, 0x1p126f);
    }
}

/* ---- Weights to and from the device ------------------------------------- */

/* Weights written to a stage are read back unchanged from every version: also
 * values halfway between two BF16 numbers, and those that overflow in BF16. */
static void weights_come_back(void **state)
{
    static const float want[] = { 0x1.01p0f, 0x1.03p0f, -0x1.01p0f, 0x1p-149f,
                                  FLT_MAX,   -0.0f,     INFINITY,   1.0f / 3 };
    enum { N = (int)VP_COUNT_OF(want) };
    int depth = DEPTH;
    struct setup setup = half_setup(VP_OPTIM_SGD, &depth);
    struct vp_err err = { .text = "" };
    struct vp_stage *stage;
    struct run run;
    float got[N];

    (void)state;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    stage = &run.trainer->ranks[0].stages[0].stage;
    assert_int_equal(
        vp_stage_set_weights(stage, stage->tensors[1].offset, N, want), VP_OK);
    for (stage->newest = 0; stage->newest <= DEPTH; stage->newest++) {
        memset(got, 0, sizeof(got));
        assert_int_equal(
            vp_stage_get_weights(stage, stage->tensors[1].offset, N, got),
            VP_OK);
        assert_memory_equal(got, want, sizeof(want));
    }
    stage->newest = 0;
    run_free(&run);
}

static void check_initial_weights(const struct setup *setup)
{
    struct vp_err err = { .text = "" };
    struct run run;

    assert_int_equal(run_create(&run, setup, 0, &err), VP_OK);
    for (vp_par par = 0; par < run.graphs[0].n_params; par++) {
        const struct vp_param *param = &run.graphs[0].params[par];
        int64_t n = count_weights(&run, par);
        float *got = trainer_weights(&run, par, 0);
        float *want = new_floats(&run, par);

        run.config.init(&run.graphs[0],
                        param->tied_to == VP_NONE ? par : param->tied_to,
                        setup->seed, 0, n, want);
        if (param->constant && setup->dtype == VP_DTYPE_BF16)
            vp_dtype_shorten(VP_DTYPE_BF16, want, n);
        assert_memory_equal(got, want, (size_t)n * sizeof(*got));
        free(got);
        free(want);
    }
    run_free(&run);
}

/* A new trainer has the initial weights; constants are rounded, as they have no
 * master. With a vocabulary of 20000, some tensors are long enough that threads
 * make them in pieces. */
static void initial_weights_come_out(void **state)
{
    static const enum vp_dtype dtypes[] = { VP_DTYPE_F32, VP_DTYPE_BF16 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t d = 0; d < VP_COUNT_OF(dtypes); d++)
            for (int threads = 1; threads <= 3; threads += 2) {
                struct setup setup = usual;

                setup.dtype = dtypes[d];
                if (dtypes[d] == VP_DTYPE_BF16)
                    setup.device = half_device();
                setup.model = models[m];
                setup.vocab = 20000;
                setup.threads = threads;
                check_initial_weights(&setup);
            }
}

/* ---- Memory ------------------------------------------------------------- */

static void halves_weigh_as_floats(void **state)
{
    int depth = DEPTH;
    struct setup setup = half_setup(VP_OPTIM_ADAMW, &depth);
    const struct vp_memory *memory;
    struct vp_err err = { .text = "" };
    int64_t version;
    struct run run;

    (void)state;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    memory = &vp_trainer_prices(run.trainer)->memory;
    version = memory->weights / (DEPTH + 1);
    assert_int_equal(memory->moments, version + 2 * 2 * version);
    assert_int_equal(memory->total, (int64_t)n_device_bytes);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_train_as_floats),
        cmocka_unit_test(weights_come_back),
        cmocka_unit_test(initial_weights_come_out),
        cmocka_unit_test(halves_weigh_as_floats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
