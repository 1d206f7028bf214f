/* Asynchronous pipelines give the same bits as a literal interpreter of the
 * version rule, and do not pause between minibatches. */
#include "lib/halfdevice.h"
#include "lib/literal.h"
#include "lib/pipelinelib.h"
#include "lib/run_part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- Comparison with the literal interpreter ---------------------------- */

/* Checks that every replica has the interpreter's newest weights. */
static void compare_weights(const struct run *run, const struct literal *lit,
                            const struct async_case *c)
{
    for (int s = 0; s < lit->n_stages; s++)
        for (int r = 0; r < c->replicas[s]; r++)
            assert_same_weights(run, &lit->stages[s].stage, r);
}

/* Checks that each stage skipped the same updates as the interpreter, and adds
 * their number to `n_skipped`. */
static void compare_skipped(const struct run *run, const struct literal *lit,
                            int64_t n_skipped[4])
{
    struct vp_progress progress = vp_trainer_progress(run->trainer);

    for (int s = 0; s < lit->n_stages; s++) {
        int64_t n = lit->stages[s].stage.scale.n_skipped;

        assert_int_equal(progress.scale[s].n_skipped, n);
        assert_int_equal(progress.updates[s], lit->stages[s].stage.newest);
        n_skipped[s] += n;
    }
}

static void check_async(const char *model, const struct async_case *c,
                        void *bf16, float scale, bool compress,
                        int64_t n_skipped[4])
{
    struct setup setup = scale > 0.0f ? loud(NULL, 0, NULL) : usual;
    struct vp_train_config config;
    struct vp_err err = { .text = "" };
    struct literal lit;
    struct run run;
    double losses[MAX_STEPS], norms[MAX_STEPS], eval_loss;
    struct swap swap;
    int partition[4];
    int n = 24, cut = c->eval_after ? c->eval_after : n;

    set_type(&setup, bf16);
    setup.model = model;
    setup.schedule = c->schedule;
    setup.n_stages = c->n_stages;
    setup.replicas = c->replicas;
    setup.depth = c->give_depth ? c->depth : NULL;
    setup.partition = partition;
    setup.tied = false;
    setup.eval = true;
    setup.threads = 1;
    setup.grad_clip = scale > 0.0f ? setup.grad_clip : 0.5f;
    setup.scale.start = scale;
    setup.compress = compress;
    setup.bundle_bytes = 1 + pipeline_draw(1 << pipeline_draw(16));
    random_partition(partition, c->n_stages, n_blocks_of(&setup));
    random_swap(&setup, &swap);
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    config = run.config;
    literal_open(&lit, &run, &config, c, partition);
    literal_run(&lit, 0, n, losses, norms); /* evaluations do not concern it */
    if (vp_trainer_run(run.trainer, cut, keep_step, &run, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (cut < n) {
        assert_int_equal(vp_trainer_eval(run.trainer, 5, &eval_loss, &err),
                         VP_OK);
        assert_true(eval_loss == literal_eval(&lit, 5, cut));
        if (vp_trainer_run(run.trainer, n - cut, keep_step, &run, &err))
            fail_msg("%s", err.text);
    }
    for (int m = 0; m < n; m++)
        if (run.losses[m] != losses[m])
            fail_msg("%s %s: loss %d is %.17g, not %.17g", model, c->schedule,
                     m, run.losses[m], losses[m]);
    compare_weights(&run, &lit, c);
    compare_skipped(&run, &lit, n_skipped);
    literal_close(&lit);
    run_free(&run);
}

static const struct async_case async_cases[] = {
    { "pipedream", 1, { 1 }, { 0 }, { 0 }, { 1 }, false, 0 },
    { "pipedream", 2, { 1, 1 }, { 0 }, { 1, 0 }, { 1, 1 }, false, 0 },
    { "pipedream",
      4,
      { 1, 1, 1, 1 },
      { 0 },
      { 3, 2, 1, 0 },
      { 1, 1, 1, 1 },
      false,
      8 },
    { "pipedream",
      3,
      { 1, 1, 1 },
      { 4, 2, 1 },
      { 4, 2, 1 },
      { 1, 1, 1 },
      true,
      0 },
    { "pipedream", 3, { 1, 2, 1 }, { 0 }, { 3, 1, 0 }, { 1, 2, 1 }, false, 12 },
    { "pipedream", 3, { 2, 1, 3 }, { 0 }, { 2, 3, 0 }, { 2, 1, 3 }, false, 0 },
    { "pipedream", 3, { 2, 1, 3 }, { 0 }, { 2, 3, 0 }, { 2, 1, 3 }, false, 6 },
    { "pipedream", 1, { 2 }, { 0 }, { 0 }, { 2 }, false, 12 },
    { "pipedream", 1, { 3 }, { 0 }, { 0 }, { 3 }, false, 0 },
    { "macrobatch",
      3,
      { 1, 2, 1 },
      { 0 },
      { 1, 1, 1 },
      { 4, 4, 4 },
      false,
      12 },
    { "macrobatch",
      3,
      { 1, 1, 1 },
      { 0 },
      { 1, 1, 1 },
      { 3, 3, 3 },
      false,
      12 },
    /* Stages that are much deeper than the next one. */
    { "pipedream", 2, { 1, 1 }, { 4, 0 }, { 4, 0 }, { 1, 1 }, true, 10 },
    { "pipedream",
      3,
      { 1, 1, 1 },
      { 9, 9, 1 },
      { 9, 9, 1 },
      { 1, 1, 1 },
      true,
      0 },
    { "pipedream",
      3,
      { 2, 1, 2 },
      { 5, 5, 0 },
      { 5, 5, 0 },
      { 2, 1, 2 },
      true,
      12 },
    { "macrobatch", 2, { 1, 1 }, { 5, 0 }, { 1, 1 }, { 6, 6 }, true, 12 },
};

static void streams_follow_the_version_rule(void **state)
{
    int64_t n_skipped[4] = { 0 };

    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t c = 0; c < VP_COUNT_OF(async_cases); c++)
            check_async(models[m], &async_cases[c], *state, 0.0f, false,
                        n_skipped);
    assert_int_equal(n_skipped[0], 0);
}

static void compressed_streams_too(void **state)
{
    int64_t n_skipped[4] = { 0 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++)
        for (size_t c = 1; c < VP_COUNT_OF(async_cases); c += 3)
            check_async(models[m], &async_cases[c], NULL, 0.0f, true,
                        n_skipped);
}

/* A stage whose gradients overflow keeps its weights; the other stages go
 * on. */
static void stages_overflow_by_themselves(void **state)
{
    const struct async_case *four = &async_cases[2];
    int64_t n_skipped[4] = { 0 };

    (void)state;
    for (int e = 115; e < 118; e++)
        check_async("bert", four, NULL, ldexpf(1.0f, e), false, n_skipped);
    assert_in_range(n_skipped[0], 1, 3 * 24 - 1);
    assert_true(n_skipped[1] != n_skipped[0] || n_skipped[2] != n_skipped[0]);
    for (size_t c = 0; c < VP_COUNT_OF(async_cases); c++)
        for (int e = 115; e < 118; e++)
            check_async("bert", &async_cases[c], NULL, ldexpf(1.0f, e), false,
                        n_skipped);
}

/* ---- Number of waits ---------------------------------------------------- */

static atomic_int n_syncs;

static enum vp_status counting_sync(struct vp_event *event, int timeout_ms)
{
    atomic_fetch_add(&n_syncs, 1);
    return test_device()->device->event_sync(event, timeout_ms);
}

static int count_syncs(const struct setup *setup, int n_minibatches)
{
    struct vp_backend_ops backend = *test_device();
    struct vp_device_ops device = *backend.device;
    struct setup counted = *setup;

    device.event_sync = counting_sync;
    backend.device = &device;
    counted.device = &backend;
    atomic_store(&n_syncs, 0);
    train_until(&counted, n_minibatches, NULL, NULL);
    return atomic_load(&n_syncs);
}

/* The host waits per minibatch for its loss, for a free slot, and for the
 * gradient norm of each stage. It waits for an idle device only once, at the
 * end. */
static void a_stream_does_not_pause(void **state)
{
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;
    int n[3];

    (void)state;
    setup.schedule = "pipedream";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.tied = false;
    for (int i = 0; i < 3; i++)
        n[i] = count_syncs(&setup, 100 * (i + 1));
    assert_int_equal(n[1] - n[0], 100 * (1 + 1 + setup.n_stages));
    assert_int_equal(n[2] - n[1], n[1] - n[0]);
}

int main(void)
{
    bool bf16 = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_follow_the_version_rule),
        cmocka_unit_test(compressed_streams_too),
        cmocka_unit_test(stages_overflow_by_themselves),
        cmocka_unit_test(a_stream_does_not_pause),
        { "streams in bf16", streams_follow_the_version_rule, NULL, NULL,
          &bf16 },
    };

    return run_part(tests, VP_COUNT_OF(tests));
}
