/* A run resumed from a state copy that was taken during training has every loss
 * and weight of the run without interruption. */
#include "lib/halfdevice.h"
#include "lib/vault.h"

#include <string.h>
#include <unistd.h>

static const double half_swapped[] = { 0.5, 0.5, 0.5, 0.5 };

/* The state is saved by four stages and resumed by one to four. */
static void test_bsp(void **state)
{
    static const struct {
        const char *model;
        int partition[5][4]; /* by number of stages */
    } cases[] = {
        { "bert", { { 0 }, { 5 }, { 2, 3 }, { 1, 1, 3 }, { 1, 2, 1, 1 } } },
        { "gpt2", { { 0 }, { 6 }, { 2, 4 }, { 1, 2, 3 }, { 1, 2, 1, 2 } } },
    };
    static const struct {
        int n_stages;
        const char *schedule;
        double recompute;
        bool swap;
    } others[] = { { 1, "1f1b", 0.0, false },
                   { 2, "1f1b", 0.0, true },
                   { 3, "gpipe", 0.5, true },
                   { 4, "zb-h1", 0.0, false },
                   { 1, "1f1b", 1.0, false } };

    for (int i = 0; i < 4; i++) {
        struct setup setup = usual;
        struct run whole;
        struct vault *vault = vault_new();

        set_type(&setup, *state);
        setup.model = cases[i / 2].model;
        setup.tied = i % 2;
        setup.n_steps = 7;
        setup.n_stages = 4;
        setup.partition = cases[i / 2].partition[4];
        setup.grad_clip = 0.5f;
        setup.swap_ratios = i >= 2 ? half_swapped : NULL;
        setup.swap_delay_us = 200;
        train_saving(setup, 2, &whole, vault);
        assert_int_equal(vault->n_copies, 3);
        for (int c = 0; c < vault->n_copies; c++)
            for (size_t j = 0; j < VP_COUNT_OF(others); j++) {
                setup.n_stages = others[j].n_stages;
                setup.partition = cases[i / 2].partition[setup.n_stages];
                setup.schedule = others[j].schedule;
                setup.recompute = others[j].recompute;
                setup.swap_ratios = others[j].swap ? half_swapped : NULL;
                check_resume(setup, vault, c, &whole);
            }
        vault_free(vault);
    }
}

struct stream_case {
    const char *schedule;
    int n_stages;
    int partition[4], replicas[4], depth[4];
    int every, n_steps;
};

static const struct stream_case streams[] = {
    { "pipedream", 1, { 5 }, { 1 }, { 0 }, 3, 10 },
    { "pipedream", 2, { 2, 3 }, { 1, 1 }, { 1, 0 }, 1, 9 },
    { "pipedream", 4, { 1, 1, 1, 2 }, { 1, 1, 1, 1 }, { 3, 2, 1, 0 }, 4, 23 },
    { "pipedream", 3, { 1, 2, 2 }, { 1, 1, 1 }, { 4, 2, 1 }, 3, 20 },
    { "pipedream", 3, { 1, 2, 2 }, { 1, 2, 1 }, { 3, 1, 0 }, 5, 24 },
    { "pipedream", 3, { 1, 2, 2 }, { 2, 1, 3 }, { 2, 3, 0 }, 7, 36 },
    { "macrobatch", 3, { 1, 2, 2 }, { 1, 1, 1 }, { 2, 1, 0 }, 4, 24 },
};

static struct setup stream_setup(const struct stream_case *c)
{
    struct setup setup = usual;

    setup.schedule = c->schedule;
    setup.n_stages = c->n_stages;
    setup.partition = c->partition;
    setup.replicas = c->replicas;
    setup.depth = c->depth;
    setup.tied = false;
    setup.threads = 1;
    setup.n_steps = c->n_steps;
    return setup;
}

/* Copies are taken while the pipe is full. */
static void test_asp(void **state)
{
    for (size_t i = 0; i < VP_COUNT_OF(streams); i++) {
        const struct stream_case *c = &streams[i];
        struct setup setup = stream_setup(c);
        struct vault *vault = vault_new();
        struct run whole, plain;

        set_type(&setup, *state);
        setup.swap_ratios = half_swapped;
        setup.swap_delay_us = 200;
        train_saving(setup, c->every, &whole, vault);
        setup.swap_ratios = NULL;
        train(&plain, &setup);
        assert_same(&plain, &whole, setup.n_steps); /* saving changes no bit */
        assert_true(vault->n_copies >= 2);
        for (int k = 0; k < vault->n_copies; k++) {
            setup.swap_ratios = k % 2 ? half_swapped : NULL;
            check_resume(setup, vault, k, &whole);
        }
        vault_free(vault);
    }
}

/* ---- Loss scales -------------------------------------------------------- */

/* A dynamic scale that is still becoming smaller: some updates between the
 * copies are skipped, others are made. */
static void test_dynamic_scale(void **state)
{
    static const int partitions[][4] = {
        { 0 }, { 5 }, { 2, 3 }, { 1, 1, 3 }, { 1, 2, 1, 1 }
    };
    struct setup setup = loud("1f1b", 4, partitions[4]);
    struct vault *vault = vault_new();
    struct run whole;

    set_type(&setup, *state);
    setup.n_steps = *state ? 30 : 15; /* BF16 may overflow for longer */
    setup.scale = (struct vp_scale_config){ 0x1p119f, true };
    train_saving(setup, 2, &whole, vault);
    assert_int_equal(whole.skipped[1], 2);
    assert_in_range(whole.skipped[setup.n_steps - 1], 3, setup.n_steps - 2);
    for (int c = 0; c < vault->n_copies; c++)
        for (int n = 1; n < 5; n++) {
            setup.n_stages = n;
            setup.partition = partitions[n];
            check_resume(setup, vault, c, &whole);
        }
    vault_free(vault);
}

static void test_scale_in_asp(void **state)
{
    for (size_t i = 0; i < VP_COUNT_OF(streams); i++) {
        const struct stream_case *c = &streams[i];
        struct setup setup = stream_setup(c);
        struct vault *vault = vault_new();
        struct run whole;

        set_type(&setup, *state);
        setup.init = loud_init;
        setup.scale.start = 0x1p116f;
        train_saving(setup, c->every, &whole, vault);
        assert_true(whole.skipped[setup.n_steps - 1] > 0);
        for (int k = 0; k < vault->n_copies; k++)
            check_resume(setup, vault, k, &whole);
        vault_free(vault);
    }
}

/* The number of updates without overflow, after which a scale grows, is resumed
 * too. */
static void test_scale_counts_on(void **state)
{
    struct setup setup = loud("1f1b", 2, streams[1].partition);
    struct vault *vault = vault_new();
    struct source source = { vault, 0 };
    struct vp_loader loader = { .ctx = &source, .load = load };
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    setup.n_steps = 3;
    setup.scale = (struct vp_scale_config){ 1024.0f, true };
    train_saving(setup, 3, &run, vault);
    loader.progress = vault->copies[0].progress;
    for (int s = 0; s < 2; s++) {
        assert_int_equal(loader.progress.scale[s].in_a_row, 3);
        loader.progress.scale[s].in_a_row = 1998;
    }
    setup.loader = &loader;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    run.n_steps = 3;
    assert_int_equal(vp_trainer_run(run.trainer, 4, keep_step, &run, &err),
                     VP_OK);
    assert_true(run.scales[3] == 1024.0f && run.scales[4] == 1024.0f);
    assert_true(run.scales[5] == 2048.0f && run.scales[6] == 2048.0f);
    run_free(&run);
    vault_free(vault);
}

/* Training in two calls gives the same bits as in one. */
static void test_two_runs_are_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(streams); i++) {
        const struct stream_case *c = &streams[i];
        struct setup setup = stream_setup(c);
        struct vp_err err = { .text = "" };
        struct run whole, parts;
        int first = 12; /* whole rounds in all cases */

        if (first >= c->n_steps)
            first = 6;
        train(&whole, &setup);
        assert_int_equal(run_create(&parts, &setup, 0, &err), VP_OK);
        assert_int_equal(
            vp_trainer_run(parts.trainer, first, keep_step, &parts, &err),
            VP_OK);
        assert_int_equal(vp_trainer_run(parts.trainer, c->n_steps - first,
                                        keep_step, &parts, &err),
                         VP_OK);
        parts.weights = hash_weights(&parts);
        assert_same(&parts, &whole, c->n_steps);
        run_free(&parts);
    }
}

/* A trainer can also be saved between two calls, when it is idle. */
static void test_idle(void **state)
{
    const struct stream_case *c = &streams[2];
    struct setup setup = stream_setup(c);
    struct vault *vault = vault_new();
    struct vp_saver saver = { vault, 0, vault_begin, vault_room, NULL };
    struct vp_err err = { .text = "" };
    struct run whole, run;

    set_type(&setup, *state);
    train(&whole, &setup);
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    vault_open(vault, &run);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vp_trainer_run(run.trainer, 2, keep_step, &run, &err),
                         VP_OK);
        assert_int_equal(vp_trainer_save(run.trainer, &saver, &err), VP_OK);
        vault_commit(vault);
    }
    run_free(&run);
    for (int k = 0; k < 3; k++)
        check_resume(setup, vault, k, &whole);
    vault_free(vault);
}

/* An error of the saver or the loader ends the run with its message. */
static enum vp_status refuse_begin(void *ctx, int64_t step, int timeout_ms,
                                   struct vp_err *err)
{
    (void)ctx;
    (void)timeout_ms;
    return vp_err_set(err, VP_ERR_IO, "no room for step %d", (int)step);
}

static enum vp_status refuse_load(void *ctx, const struct vp_state_item *item,
                                  float *out, struct vp_err *err)
{
    (void)ctx;
    (void)out;
    return vp_err_set(err, VP_ERR_INVALID, "broken '%s'", item->name);
}

static void test_errors(void **state)
{
    struct vp_saver saver = { NULL, 2, refuse_begin, vault_room, NULL };
    struct vp_loader loader = { .load = refuse_load };
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    setup.saver = &saver;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_OK);
    assert_int_equal(vp_trainer_run(run.trainer, 4, keep_step, &run, &err),
                     VP_ERR_IO);
    assert_string_equal(err.text, "no room for step 2");
    run_free(&run);
    setup.saver = NULL;
    setup.loader = &loader;
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "broken '"));
    run_free(&run);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bsp),
        cmocka_unit_test(test_asp),
        cmocka_unit_test(test_dynamic_scale),
        cmocka_unit_test(test_scale_in_asp),
        cmocka_unit_test(test_scale_counts_on),
        cmocka_unit_test(test_two_runs_are_one),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_errors),
        { "test_bsp in bf16", test_bsp, NULL, NULL, &bf16 },
        { "test_asp in bf16", test_asp, NULL, NULL, &bf16 },
        { "test_dynamic_scale in bf16", test_dynamic_scale, NULL, NULL, &bf16 },
        { "test_scale_in_asp in bf16", test_scale_in_asp, NULL, NULL, &bf16 },
        { "test_idle in bf16", test_idle, NULL, NULL, &bf16 },
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
