/* Trainers with warm-up depths given by hand use the priced memory and do not
 * deadlock. test_pipeline.c compares their losses, test_depths.c their
 * schedules. */
#include "lib/trainlib.h"
#include "runtime/trainer/internal.h"

#include <string.h>

static struct setup deep_setup(const int *depth, const int *replicas)
{
    static const int partition[] = { 2, 3 };
    struct setup setup = usual;

    setup.schedule = "pipedream";
    setup.n_stages = 2;
    setup.partition = partition;
    setup.depth = depth;
    setup.replicas = replicas;
    setup.tied = false;
    return setup;
}

/* The priced memory of all ranks is allocated, to the byte. */
static void deep_stages_take_the_memory_planned(void **state)
{
    static const struct {
        int depth[2], replicas[2];
    } cases[] = { { { 1, 0 }, { 1, 1 } },
                  { { 4, 0 }, { 1, 1 } },
                  { { 30, 2 }, { 1, 1 } },
                  { { 6, 0 }, { 2, 1 } },
                  { { 8, 1 }, { 1, 3 } } };
    int64_t boundary[VP_COUNT_OF(cases)];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct setup setup = deep_setup(cases[i].depth, cases[i].replicas);
        const struct vp_stage_price *prices;
        struct vp_err err = { .text = "" };
        int64_t sum = 0;
        struct run run;

        if (run_create(&run, &setup, 0, &err) != VP_OK)
            fail_msg("%s", err.text);
        prices = vp_trainer_prices(run.trainer);
        for (int s = 0; s < 2; s++)
            sum += cases[i].replicas[s] * prices[s].memory.total;
        assert_int_equal(sum, atomic_load(&n_device_bytes));
        boundary[i] = prices[1].memory.boundary;
        run_free(&run);
    }
    /* Boundary memory is activations only: rings of 2 and of 5 buffers. */
    assert_int_equal(2 * boundary[1], 5 * boundary[0]);
}

/* A deadlock is found before training starts, for any depth. */
static void deep_deadlocks_are_refused(void **state)
{
    static const int depths[][2] = { { 0, 1 }, { 100, 101 }, { 700, 800 } };
    static const int replicas[] = { 1, 1 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(depths); i++) {
        struct setup setup = deep_setup(depths[i], replicas);
        struct vp_err err = { .text = "" };
        struct run run;

        assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "waits forever for 1SEND_GRAD0"));
        run_free(&run);
    }
}

static bool count_step(void *ctx, const struct vp_step_report *report)
{
    *(int64_t *)ctx = report->step;
    return true;
}

/* A minibatch is reported at the end of its round. The ring of results must
 * hold all minibatches of a round that is longer than VP_RESULT_RING. */
static void rounds_longer_than_the_result_ring(void **state)
{
    static const int depth[] = { 1000, 0 }, replicas[] = { 9, 1 };
    struct setup setup = deep_setup(depth, replicas);
    struct vp_err err = { .text = "" };
    int64_t n_steps = 0;
    struct run run;

    (void)state;
    assert_true(replicas[0] * (depth[0] + 1) > VP_RESULT_RING);
    setup.schedule = "macrobatch";
    setup.threads = 1;
    setup.timeout_ms = 5000;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(run.trainer->pipeline.n_notes, VP_RESULT_RING);
    if (vp_trainer_run(run.trainer, 9020, count_step, &n_steps, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(n_steps, 9020);
    run_free(&run);
}

/* Stage 1 updates after every minibatch. The ring of notes must hold all
 * updates that may happen before the first report. */
static void notes_on_updates_have_room(void **state)
{
    static const int depth[] = { 500, 0 }, replicas[] = { 9, 1 };
    struct setup setup = deep_setup(depth, replicas);
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    setup.threads = 1;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(run.trainer->pipeline.n_results, 2 * (9 * 501 + 9));
    assert_true(run.trainer->pipeline.n_notes >
                run.trainer->pipeline.n_results);
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_stages_take_the_memory_planned),
        cmocka_unit_test(deep_deadlocks_are_refused),
        cmocka_unit_test(rounds_longer_than_the_result_ring),
        cmocka_unit_test(notes_on_updates_have_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
