/* A loss scale that is a power of two changes no bit of training. Exactly the
 * updates that overflow are skipped. */
#include "lib/trainlib.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Partitions of the usual model, which has 5 blocks, by number of stages. */
static const int partitions[][8] = {
    { 0 }, { 5 }, { 2, 3 }, { 1, 2, 2 }, { 1, 1, 1, 2 },
};

/* ---- Scales without overflow -------------------------------------------- */

static void check_same(struct setup setup, float scale)
{
    struct run without, with;

    train(&without, &setup);
    setup.scale.start = scale;
    train(&with, &setup);
    assert_same(&without, &with, setup.n_steps);
    for (int i = 0; i < setup.n_steps; i++) {
        assert_true(without.scales[i] == 0.0f);
        assert_true(with.scales[i] == scale);
        assert_int_equal(with.skipped[i], 0);
    }
}

static void a_power_of_two_changes_no_bit(void **state)
{
    static const struct {
        const char *schedule;
        int n_stages, n_chunks;
        int replicas[4];
    } cases[] = {
        { "1f1b", 1, 0, { 1 } },
        { "1f1b", 2, 0, { 1, 1 } },
        { "gpipe", 4, 0, { 1, 1, 1, 1 } },
        { "zb-h1", 3, 0, { 1, 1, 1 } },
        { "interleaved", 2, 2, { 1, 1 } },
        { "zb-v", 2, 2, { 1, 1 } },
        { "v-half", 2, 2, { 1, 1 } },
        { "1f1b", 3, 0, { 1, 2, 1 } },
        { "pipedream", 1, 0, { 1 } },
        { "pipedream", 4, 0, { 1, 1, 1, 1 } },
        { "pipedream", 3, 0, { 2, 1, 3 } },
        { "macrobatch", 3, 0, { 1, 1, 1 } },
    };
    static const enum vp_optim_kind optims[] = { VP_OPTIM_ADAMW, VP_OPTIM_LAMB,
                                                 VP_OPTIM_SGD };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        int n = cases[i].n_stages * (cases[i].n_chunks ? cases[i].n_chunks : 1);
        struct setup setup = usual;

        setup.schedule = cases[i].schedule;
        setup.n_stages = cases[i].n_stages;
        setup.n_chunks = cases[i].n_chunks;
        setup.partition = partitions[n];
        setup.replicas = cases[i].n_chunks ? NULL : cases[i].replicas;
        setup.tied = false;
        setup.threads = 1;
        setup.accumulation = 3;
        setup.n_steps = 12;
        setup.optim = optims[i % VP_COUNT_OF(optims)];
        setup.grad_clip = 0.5f;
        setup.clip_per_stage = i % 2;
        check_same(setup, 1024.0f);
        check_same(setup, 0x1p40f);
    }
}

static void tied_weights_are_scaled_too(void **state)
{
    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct setup setup = usual;

        setup.model = models[m];
        setup.grad_clip = 0.5f;
        check_same(setup, 65536.0f);
    }
}

/* ---- Scales that overflow ----------------------------------------------- */

/* Trains by a plain loop over minibatches on one stage. */
struct literal {
    const struct vp_train_config *config;
    struct vp_stage stage;
    struct vp_batch *batch;
    float scale;
    int64_t n_skipped;
};

static float literal_minibatch(struct literal *lit, int accumulation, int m)
{
    const struct vp_train_config *config = lit->config;
    const struct vp_launch_messages none = { NULL, NULL, NULL };
    struct vp_stage *stage = &lit->stage;
    struct vp_slot *slot = &stage->slots[0];
    struct vp_err err;
    float loss[VP_LOSS_COLS];

    assert_int_equal(vp_data_fill(config->data, (uint64_t)m, lit->batch, &err),
                     VP_OK);
    vp_stage_load(stage, slot->message, lit->batch, (uint64_t)m);
    slot->mb = (struct vp_mb){ .seed = config->seed,
                               .first_sample = lit->batch->first_sample,
                               .loss_grad = lit->scale / (float)accumulation,
                               .accumulate = m % accumulation > 0,
                               .train = true };
    vp_stage_run(stage, slot, VP_LIST_F, 0, false, &none);
    vp_stage_fetch_outputs(stage, slot, false);
    vp_stage_run(stage, slot, VP_LIST_B, 0, false, &none);
    vp_stage_take_loss(stage, slot, loss);
    vp_stage_wait(stage);
    return loss[VP_LOSS_MEAN];
}

/* Updates the weights, or halves the scale if a gradient is not finite. Skipped
 * updates do not count in stage->newest, the optimizer's step. */
static double literal_update(struct literal *lit, int64_t step)
{
    const struct vp_train_config *config = lit->config;
    struct vp_stage *stage = &lit->stage;
    double norm;

    vp_stage_sum_grads(stage);
    vp_stage_wait_sums(stage);
    norm = vp_optim_norm(stage->tensors, stage->n_tensors, stage->sums);
    if (!isfinite(norm)) {
        lit->scale *= 0.5f;
        lit->n_skipped++;
        return (double)INFINITY;
    }
    norm /= (double)lit->scale;
    vp_stage_update(stage, vp_lr_at(&config->lr, step),
                    vp_optim_clip_scale(norm, config->optim.grad_clip) /
                        lit->scale);
    vp_stage_wait(stage);
    return norm;
}

/* Computes the same hash as hash_weights(). */
static uint64_t hash_stage(const struct run *run, const struct vp_stage *stage)
{
    uint64_t hash = HASH_START;

    for (vp_par par = 0; par < run->graphs[0].n_params; par++) {
        float *w = stage_weights(run, stage, par);

        hash = hash_floats(hash, w, count_weights(run, par));
        free(w);
    }
    return hash;
}

static void literal_train(struct run *want, const struct setup *setup)
{
    struct vp_stage_shape shape = { .n_slots = 1, .n_versions = 1 };
    struct run run;
    struct literal lit = { .config = &run.config, .scale = setup->scale.start };
    struct vp_stage_spec spec = { 0 };
    struct vp_stage_config config;
    struct vp_backend *backend;
    struct vp_err err = { .text = "" };

    assert_int_equal(run_create(&run, setup, 0, &err), VP_OK);
    spec.n_blocks = run.graphs[0].n_blocks;
    assert_int_equal(vp_backend_open(test_device(), &run.config.backend_config,
                                     &backend, &err),
                     VP_OK);
    vp_device_attach(vp_backend_device(backend));
    assert_int_equal(vp_batch_create(run.data, &lit.batch), VP_OK);
    config = vp_train_stage_config(&run.config, &run.config.backend_config);
    assert_int_equal(vp_stage_init(&lit.stage, &config, backend,
                                   &(struct vp_stage_choices){ .spec = spec },
                                   &shape, &err),
                     VP_OK);
    assert_int_equal(vp_stage_allocate(&lit.stage, &err), VP_OK);
    want->eval_loss = 0.0; /* there is no evaluation */
    for (int i = 0, m = 0; i < setup->n_steps; i++) {
        want->scales[i] = lit.scale;
        want->losses[i] = 0.0;
        for (int a = 0; a < setup->accumulation; a++)
            want->losses[i] += (double)literal_minibatch(
                                   &lit, setup->accumulation, m++) /
                               setup->accumulation;
        want->norms[i] = literal_update(&lit, i + 1);
        want->skipped[i] = lit.n_skipped;
    }
    want->weights = hash_stage(&run, &lit.stage);
    vp_stage_release(&lit.stage);
    vp_batch_free(lit.batch);
    test_device()->close(backend);
    run_free(&run);
}

/* Returns true if the first two updates were skipped, and a later one after an
 * update that was made. */
static bool skips_late(const struct run *run, int n_steps)
{
    bool late = false;

    for (int i = 1; i < n_steps; i++)
        late |= run->skipped[i] > run->skipped[i - 1] && run->skipped[i] <= i;
    return late && run->skipped[1] == 2;
}

/* Returns a power of two whose first two updates overflow and whose third does
 * not, or 0 if there is none. The scale at which kernels overflow depends on
 * the machine and on the batch. */
static float find_start(struct setup setup)
{
    struct run run = { .skipped = { 0 } };

    setup.n_steps = 3;
    for (int exponent = 110; exponent < 126; exponent++) {
        float start = ldexpf(1.0f, exponent);

        setup.scale = (struct vp_scale_config){ start, true };
        literal_train(&run, &setup);
        if (run.skipped[2] == 2)
            return start;
    }
    return 0.0f;
}

/* Finds a seed and a scale with which an update overflows after one that did
 * not: some seeds have a later gradient that is larger than the first ones. */
static void find_late(struct setup *setup, struct run *want)
{
    /* 1.0625^12 is about 2: the scales reach the next power of two. */
    const int n_scales = 12;

    for (setup->seed = 1; setup->seed <= 16; setup->seed++) {
        float scale = find_start(*setup);

        for (int i = 0; scale > 0.0f && i < n_scales; i++, scale *= 1.0625f) {
            setup->scale = (struct vp_scale_config){ scale, true };
            literal_train(want, setup);
            if (skips_late(want, setup->n_steps))
                return;
        }
    }
    fail_msg("no scale comes down late");
}

static void a_dynamic_scale_comes_down(void **state)
{
    static const struct {
        const char *schedule;
        int n_stages, n_chunks;
    } cases[] = {
        { "1f1b", 1, 0 },  { "1f1b", 2, 0 },        { "1f1b", 4, 0 },
        { "gpipe", 4, 0 }, { "interleaved", 2, 2 }, { "zb-h1", 3, 0 },
        { "zb-v", 2, 2 },  { "v-min", 2, 2 },
    };
    struct setup setup = loud("1f1b", 1, NULL);
    struct run want, got;

    (void)state;
    setup.n_steps = 16;
    find_late(&setup, &want);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        int n = cases[i].n_stages * (cases[i].n_chunks ? cases[i].n_chunks : 1);

        setup.schedule = cases[i].schedule;
        setup.n_stages = cases[i].n_stages;
        setup.n_chunks = cases[i].n_chunks;
        setup.partition = partitions[n];
        train(&got, &setup);
        assert_same(&want, &got, setup.n_steps);
        assert_memory_equal(want.scales, got.scales,
                            (size_t)setup.n_steps * sizeof(float));
        assert_memory_equal(want.skipped, got.skipped,
                            (size_t)setup.n_steps * sizeof(int64_t));
    }
}

static void a_skipped_update_leaves_the_weights(void **state)
{
    static const char *const schedules[] = { "1f1b", "pipedream" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = loud(schedules[i], 2, partitions[2]);
        struct vp_err err = { .text = "" };
        uint64_t before;
        struct run run;

        setup.scale.start = 0x1p120f;
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        before = hash_weights(&run);
        assert_int_equal(vp_trainer_run(run.trainer, 5, keep_step, &run, &err),
                         VP_OK);
        assert_true(isinf(run.norms[4]));
        /* In an asynchronous run both stages count their skipped updates. */
        assert_int_equal(run.skipped[4], i ? 10 : 5);
        assert_true(hash_weights(&run) == before);
        run_free(&run);
    }
}

/* ---- Ending the run ----------------------------------------------------- */

static void fifty_in_a_row_end_the_run(void **state)
{
    static const char *const schedules[] = { "1f1b", "pipedream" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct setup setup = loud(schedules[i], 2, partitions[2]);
        struct vp_err err = { .text = "" };
        struct run run;

        setup.scale.start = 0x1p120f;
        assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
        assert_int_equal(vp_trainer_run(run.trainer, 60, keep_step, &run, &err),
                         VP_ERR_NONFINITE);
        assert_string_equal(
            err.text,
            "50 updates in a row were skipped, the last with loss_scale "
            "1.329228e+36: gradients are not finite; lower learning_rate or "
            "loss_scale, or use another precision");
        assert_true(run.n_steps < 50);
        run_free(&run);
    }
}

/* Runs with a learning rate that makes the weights overflow. Returns the number
 * of steps before the run ended, and its message in `err`. */
static int diverge(float scale, struct vp_err *err)
{
    struct setup setup = loud("1f1b", 2, partitions[2]);
    struct run run;
    int n_steps;

    setup.optim = VP_OPTIM_SGD;
    setup.lr = 1e30f;
    setup.grad_clip = 0.0f;
    if (scale > 0.0f)
        setup.scale.start = scale;
    assert_int_equal(run_create(&run, &setup, 0, err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, 9, keep_step, &run, err),
                     VP_ERR_NONFINITE);
    n_steps = run.n_steps;
    run_free(&run);
    return n_steps;
}

/* Without a loss scale the first overflow ends the run. */
static void without_a_scale_nothing_is_skipped(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_true(diverge(0.0f, &err) < 9);
    assert_non_null(strstr(err.text, "non-finite"));
}

/* A non-finite loss ends the run, even with a loss scale. */
static void a_bad_loss_ends_the_run(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    diverge(1024.0f, &err);
    assert_non_null(strstr(err.text, "non-finite output of operator"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_of_two_changes_no_bit),
        cmocka_unit_test(tied_weights_are_scaled_too),
        cmocka_unit_test(a_dynamic_scale_comes_down),
        cmocka_unit_test(a_skipped_update_leaves_the_weights),
        cmocka_unit_test(fifty_in_a_row_end_the_run),
        cmocka_unit_test(without_a_scale_nothing_is_skipped),
        cmocka_unit_test(a_bad_loss_ends_the_run),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
