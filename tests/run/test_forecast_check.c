/* A forecast simulated from the first steps of a run is within 5 % of the time
 * of the other steps, with kernels that sleep. */
#include "run/forecast_check.h"

#include "lib/sleepdevice.h"
#include "lib/trainlib.h"

#include <stdlib.h>
#include <sys/prctl.h>

enum { N_TRIES = 5 };

struct watched {
    struct vp_forecast_check check;
    struct vp_trainer *trainer;
};

static bool watch(void *ctx, const struct vp_step_report *report)
{
    struct watched *watched = ctx;

    vp_forecast_check_step(&watched->check, watched->trainer, report);
    return true;
}

struct kind {
    const char *schedule;
    int n_chunks, n_steps;
    double recompute;
    const int *replicas, *partition;
};

/* Trains. Returns true if step time and bubble are within 5 % of the
 * forecast. */
static bool is_as_forecast(const struct kind *kind)
{
    static const int even[] = { 3, 2, 2, 2 };
    static const struct vp_config none;
    bool stream = vp_generator_find(kind->schedule)->stream;
    struct watched *watched = calloc(1, sizeof(*watched));
    struct vp_forecast_check *check = &watched->check;
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    char text[VP_FORECAST_CHECK_TEXT];
    struct run run;
    bool near;

    setup.device = sleep_device(4.0, 100.0);
    setup.threads = 1;
    setup.layers = 4;
    setup.tied = false;
    setup.schedule = kind->schedule;
    setup.n_stages = kind->replicas ? 2 : 4;
    setup.n_chunks = kind->n_chunks;
    setup.partition = kind->partition ? kind->partition : even;
    setup.replicas = kind->replicas;
    setup.recompute = kind->recompute;
    setup.accumulation = stream ? 1 : 6;
    setup.grad_clip = stream ? 0.0f : 1e9f;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    watched->trainer = run.trainer;
    vp_forecast_check_begin(check, &none, &run.config,
                            vp_trainer_schedule(run.trainer),
                            vp_trainer_prices(run.trainer));
    assert_int_equal(
        vp_trainer_run(run.trainer, kind->n_steps, watch, watched, &err),
        VP_OK);
    vp_forecast_check_end(check, run.trainer);
    assert_true(check->ready && !check->planned);
    vp_forecast_check_text(check, text);
    print_message("%-12s %s\n", kind->schedule, text);
    assert_memory_equal(text, "by the first steps: step ", 25);
    near = fabs(check->measured.step_seconds / check->forecast.step_seconds -
                1.0) < 0.05 &&
           fabs(check->measured.bubble - check->forecast.bubble) < 0.05;
    for (int s = 0; s < check->n_stages; s++) {
        assert_true(check->forecast.memory[s] > 0);
        assert_true(check->forecast.memory[s] == check->measured.memory[s]);
    }
    run_free(&run);
    free(watched);
    return near;
}

static void first_steps(void **state)
{
    static const int chunks[] = { 1, 1, 1, 1, 1, 1, 1, 2 };
    static const int two[] = { 5, 4 }, replicas[] = { 2, 1 };
    static const struct kind kinds[] = {
        { "gpipe", 1, 6, 0.0, NULL, NULL },
        { "gpipe", 1, 6, 1.0, NULL, NULL },
        { "1f1b", 1, 6, 0.0, NULL, NULL },
        { "zb-h1", 1, 6, 0.0, NULL, NULL },
        { "interleaved", 2, 6, 0.0, NULL, chunks },
        { "pipedream", 1, 40, 0.0, NULL, NULL },
        { "pipedream", 1, 40, 0.0, replicas, two },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(kinds); i++) {
        int n_tries = 1;

        /* A busy machine may wake a rank late, so the run is repeated. */
        while (!is_as_forecast(&kinds[i]))
            assert_true(++n_tries <= N_TRIES);
    }
}

/* Runs of no step and of one step. */
static void short_runs(void **state)
{
    static const struct vp_config none;
    struct watched *watched = calloc(1, sizeof(*watched));
    struct setup setup = usual;
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    watched->trainer = run.trainer;
    for (int n = 0; n < 2; n++) {
        vp_forecast_check_begin(&watched->check, &none, &run.config,
                                vp_trainer_schedule(run.trainer),
                                vp_trainer_prices(run.trainer));
        assert_int_equal(vp_trainer_run(run.trainer, n, watch, watched, &err),
                         VP_OK);
        vp_forecast_check_end(&watched->check, run.trainer);
        assert_true(watched->check.ready == (n > 0));
    }
    assert_true(watched->check.forecast.step_seconds > 0.0);
    assert_true(watched->check.measured.step_seconds > 0.0);
    run_free(&run);
    free(watched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_steps),
        cmocka_unit_test(short_runs),
    };

    prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds; inherited by rank threads */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
