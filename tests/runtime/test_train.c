/* Training on one stage gives the same bits for any number of threads, any
 * prefetching and recomputation, uses the planned memory, and allocates nothing
 * in a step. */
#include "lib/trainlib.h"

#include "runtime/trainer/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- Counted allocations: malloc() is wrapped at link time -------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static atomic_int n_allocations;

void *__wrap_malloc(size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_realloc(p, n);
}

/* ---- Training on one stage ---------------------------------------------- */

static void one_seed_one_result(void **state)
{
    struct setup setup = usual;
    struct run a, b, other;

    (void)state;
    train(&a, &setup);
    train(&b, &setup);
    assert_same(&a, &b, setup.n_steps);
    assert_true(a.losses[0] != a.losses[1]);
    setup.seed = 4;
    train(&other, &setup);
    assert_true(other.losses[0] != a.losses[0]);
}

static void threads_and_prefetch_change_nothing(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run want, got;

        setup.model = models[m];
        setup.threads = 1;
        setup.prefetch = 0;
        train(&want, &setup);
        for (int threads = 1; threads <= 3; threads++) {
            setup.threads = threads;
            setup.prefetch = threads == 2 ? 1 : 4;
            train(&got, &setup);
            assert_same(&want, &got, setup.n_steps);
        }
    }
}

static void recomputation_changes_nothing(void **state)
{
    static const double ratios[] = { 0.1, 0.3, 0.5, 1.0 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run want, got;

        setup.model = models[m];
        train(&want, &setup);
        for (size_t r = 0; r < VP_COUNT_OF(ratios); r++) {
            setup.recompute = ratios[r];
            setup.tied = usual.tied;
            train(&got, &setup);
            assert_same(&want, &got, setup.n_steps);
        }
    }
}

/* Fast kernels and plain-C kernels agree on the loss, with dropout. */
static void twins_train_alike(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run fast, twin;

        setup.model = models[m];
        train(&fast, &setup);
        setup.reference = true;
        train(&twin, &setup);
        for (int i = 0; i < setup.n_steps; i++)
            assert_true(fabs(fast.losses[i] - twin.losses[i]) <
                        1e-5 * twin.losses[i]);
    }
}

static void loss_falls(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct run run;
        double first = 0.0, last = 0.0;

        setup.model = models[m];
        setup.n_steps = 48;
        setup.accumulation = 1;
        setup.lr = 5e-3f;
        train(&run, &setup);
        for (int i = 0; i < 8; i++) {
            first += run.losses[i] / 8;
            last += run.losses[setup.n_steps - 1 - i] / 8;
        }
        if (!(last < first - 0.15))
            fail_msg("%s: loss %g after %g", models[m], last, first);
    }
}

/* A step allocates nothing, also with shards of the optimizer's state. */
static void a_step_allocates_nothing(void **state)
{
    static const int replicas[] = { 3 };

    (void)state;
    for (size_t m = 0; m < (can_shard() ? 2 : 1) * VP_COUNT_OF(models); m++) {
        struct setup setup = usual;
        struct vp_step_report report;
        struct vp_err err = { .text = "" };
        struct run run;
        int before;

        setup.model = models[m % VP_COUNT_OF(models)];
        if (m >= VP_COUNT_OF(models)) {
            setup.n_stages = 1;
            setup.replicas = replicas;
            setup.shard = true;
            setup.optim = VP_OPTIM_LAMB;
        }
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(vp_trainer_step(run.trainer, &report, &err),
                             VP_OK);
        before = atomic_load(&n_allocations);
        for (int i = 0; i < 4; i++)
            assert_int_equal(vp_trainer_step(run.trainer, &report, &err),
                             VP_OK);
        assert_int_equal(atomic_load(&n_allocations), before);
        run_free(&run);
    }
}

static void memory_is_what_was_planned(void **state)
{
    static const enum vp_optim_kind kinds[] = { VP_OPTIM_SGD, VP_OPTIM_LAMB };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
            struct setup setup = usual;
            struct vp_err err = { .text = "" };
            struct run run;

            setup.model = models[m];
            setup.optim = kinds[k];
            setup.recompute = k ? 0.5 : 0.0;
            setup.eval = k;
            assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
            assert_int_equal(vp_trainer_prices(run.trainer)->memory.total,
                             atomic_load(&n_device_bytes));
            run_free(&run);
        }
}

static void too_little_memory_is_refused(void **state)
{
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;
    int64_t need;

    (void)state;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    need = vp_trainer_prices(run.trainer)->memory.total;
    run_free(&run);
    assert_int_equal(run_create(&run, &setup, (size_t)need, &err), VP_OK);
    run_free(&run);
    assert_int_equal(run_create(&run, &setup, (size_t)need - 1, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "memory_limit"));
    assert_int_equal(atomic_load(&n_device_bytes), 0);
    run_free(&run);
}

/* An evaluation does not disturb training, and its loss does not depend on the
 * time of the call. */
static void evaluation_leaves_training_alone(void **state)
{
    struct setup setup = usual;
    struct vp_step_report report;
    struct vp_err err = { .text = "" };
    struct run want, run;
    double first, again;

    (void)state;
    train(&want, &setup);
    setup.eval = true;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    for (int i = 0; i < setup.n_steps; i++) {
        assert_int_equal(vp_trainer_eval(run.trainer, 3, &first, &err), VP_OK);
        assert_int_equal(vp_trainer_eval(run.trainer, 3, &again, &err), VP_OK);
        assert_true(first == again);
        assert_int_equal(vp_trainer_step(run.trainer, &report, &err), VP_OK);
        assert_true(report.loss == want.losses[i]);
    }
    assert_true(hash_weights(&run) == want.weights);
    run_free(&run);
}

/* ---- Non-finite values -------------------------------------------------- */

static void poison(struct run *run, const char *name)
{
    struct vp_stage *stage = &run->trainer->ranks[0].stages[0].stage;
    const float poison = NAN;

    for (int i = 0; i < stage->n_tensors; i++)
        if (strcmp(stage->tensor_names[i], name) == 0) {
            assert_int_equal(vp_stage_set_weights(
                                 stage, stage->tensors[i].offset, 1, &poison),
                             VP_OK);
            return;
        }
    fail_msg("no parameter %s", name);
}

static void a_nan_is_traced_to_its_operator(void **state)
{
    static const struct {
        const char *param, *op;
        int block;
    } cases[] = {
        { "bert.embeddings.LayerNorm.weight", "layernorm", 0 },
        { "bert.encoder.layer.0.intermediate.dense.weight", "linear", 1 },
        { "bert.encoder.layer.0.output.LayerNorm.weight", "layernorm", 2 },
        { "cls.predictions.bias", "linear", 4 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct setup setup = usual;
        struct vp_step_report report;
        struct vp_err err = { .text = "" };
        struct run run;
        char want[64];

        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_int_equal(vp_trainer_step(run.trainer, &report, &err), VP_OK);
        poison(&run, cases[i].param);
        assert_int_equal(vp_trainer_step(run.trainer, &report, &err),
                         VP_ERR_NONFINITE);
        snprintf(want, sizeof(want), "operator %s in stage 0, block %d",
                 cases[i].op, cases[i].block);
        if (!strstr(err.text, want) || !strstr(err.text, "minibatch 2;"))
            fail_msg("wanted '%s', got '%s'", want, err.text);
        run_free(&run);
    }
}

static void divergence_is_named(void **state)
{
    struct setup setup = usual;
    struct vp_step_report report;
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;
    struct run run;

    (void)state;
    setup.optim = VP_OPTIM_SGD;
    setup.lr = 1e30f;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    for (int i = 0; i < 8 && st == VP_OK; i++)
        st = vp_trainer_step(run.trainer, &report, &err);
    assert_int_equal(st, VP_ERR_NONFINITE);
    assert_non_null(strstr(err.text, "lower learning_rate"));
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_seed_one_result),
        cmocka_unit_test(threads_and_prefetch_change_nothing),
        cmocka_unit_test(recomputation_changes_nothing),
        cmocka_unit_test(twins_train_alike),
        cmocka_unit_test(loss_falls),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(evaluation_leaves_training_alone),
        cmocka_unit_test(a_nan_is_traced_to_its_operator),
        cmocka_unit_test(divergence_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
