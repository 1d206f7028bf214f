/* The seconds, bubble and FLOPs of step reports are right for marks written by
 * hand, for random marks, and for pipelines whose reports are taken late. */
#include "runtime/trainer/internal.h"

#include "base/clock.h"
#include "base/rng.h"
#include "lib/trainlib.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Marks written by hand ---------------------------------------------- */

enum { MAX_RANKS = 6, MAX_MARKS = 64, MS = 1000000 };

/* A trainer that has only the fields that measuring reads. */
struct fake {
    struct vp_trainer trainer;
    struct vp_schedule_stage stages[MAX_RANKS];
    struct vp_rank ranks[MAX_RANKS];
    struct vp_rank_stage rank_stages[MAX_RANKS];
    struct vp_window windows[MAX_RANKS];
    struct vp_mark *marks;
};

/* Makes a trainer with one rank per stage and rounds of every[r] minibatches.
 * All times count from 0. */
static void fake_begin(struct fake *fake, int n_ranks, const int *every)
{
    memset(fake, 0, sizeof(*fake));
    fake->marks = calloc((size_t)VP_RESULT_RING * (size_t)n_ranks,
                         sizeof(*fake->marks));
    assert_non_null(fake->marks);
    fake->trainer.generator = vp_generator_find("pipedream");
    fake->trainer.schedule.stages = fake->stages;
    fake->trainer.pipeline.marks = fake->marks;
    fake->trainer.pipeline.n_notes = VP_RESULT_RING;
    fake->trainer.pipeline.n_ranks = fake->trainer.pipeline.n_stages = n_ranks;
    fake->trainer.ranks = fake->ranks;
    fake->trainer.windows = fake->windows;
    for (int r = 0; r < n_ranks; r++) {
        fake->stages[r] = (struct vp_schedule_stage){
            .first_rank = r, .n_replicas = 1, .update_every = every[r]
        };
        fake->ranks[r].stages = &fake->rank_stages[r];
        fake->rank_stages[r].index = r;
        fake->trainer.version_begin[r] = 10 + r;
    }
    vp_measure_begin(&fake->trainer);
    for (int r = 0; r < n_ranks; r++)
        fake->windows[r].begin.ns = fake->windows[r].mark.ns = 0;
}

static void put_mark(struct fake *fake, int r, int round, struct vp_mark mark)
{
    int n_ranks = fake->trainer.pipeline.n_ranks;

    fake->marks[(10 + r + round - 1) * n_ranks + r] = mark;
}

static struct vp_step_report measure(struct fake *fake, int step, int n_steps)
{
    struct vp_step_report report = { .step = step };

    vp_measure_step(&fake->trainer, step, n_steps, &report);
    return report;
}

static void assert_report(struct vp_step_report report, double seconds,
                          double bubble, double flops)
{
    if (fabs(report.seconds - seconds) > 1e-9 ||
        fabs(report.bubble - bubble) > 1e-6 ||
        fabs(report.flops - flops) > 1e-6 * flops)
        fail_msg("step %lld: %.9g s, bubble %.9g, %.9g operations; not %.9g, "
                 "%.9g, %.9g",
                 (long long)report.step, report.seconds, report.bubble,
                 report.flops, seconds, bubble, flops);
}

/* Milliseconds at which minibatches end: 10, 20 and 40 on stage 1, 20, 30 and 50
 * on stage 0. */
static void windows_follow_the_first_rank(void **state)
{
    static const int every[] = { 1, 1 };
    struct fake fake;

    (void)state;
    fake_begin(&fake, 2, every);
    put_mark(&fake, 0, 1, (struct vp_mark){ 20 * MS, 4 * MS, 100.0 });
    put_mark(&fake, 0, 2, (struct vp_mark){ 30 * MS, 9 * MS, 200.0 });
    put_mark(&fake, 0, 3, (struct vp_mark){ 50 * MS, 19 * MS, 300.0 });
    put_mark(&fake, 1, 1, (struct vp_mark){ 10 * MS, 8 * MS, 10.0 });
    put_mark(&fake, 1, 2, (struct vp_mark){ 20 * MS, 10 * MS, 20.0 });
    put_mark(&fake, 1, 3, (struct vp_mark){ 40 * MS, 15 * MS, 30.0 });
    fake.ranks[0].last = (struct vp_mark){ 51 * MS, 19 * MS, 300.0 };
    fake.ranks[1].last = (struct vp_mark){ 41 * MS, 15 * MS, 30.0 };
    assert_false(vp_measure_needs_end(&fake.trainer, 1, 3));
    assert_false(vp_measure_needs_end(&fake.trainer, 2, 3));
    assert_true(vp_measure_needs_end(&fake.trainer, 3, 3));
    /* The first window takes half of stage 0's first minibatch: 2 ms of
     * waiting, 50 operations. */
    assert_report(measure(&fake, 1, 3), 0.010, (2.0 + 8.0) / 20.0, 60.0);
    assert_report(measure(&fake, 2, 3), 0.010, (2.0 + 2.0) / 20.0, 60.0);
    /* The last window has the rest. Stage 1 waits from 41 ms on. */
    assert_report(measure(&fake, 3, 3), 0.031, (15.0 + 5.0 + 10.0) / 62.0,
                  210.0);
    free(fake.marks);
}

/* The three minibatches of a round share its window evenly. The last two, whose
 * round is incomplete, share the time after the last complete round. */
static void rounds_are_shared(void **state)
{
    static const int every[] = { 3 };
    struct fake fake;

    (void)state;
    fake_begin(&fake, 1, every);
    put_mark(&fake, 0, 1, (struct vp_mark){ 30 * MS, 3 * MS, 300.0 });
    put_mark(&fake, 0, 2, (struct vp_mark){ 90 * MS, 33 * MS, 600.0 });
    fake.ranks[0].last = (struct vp_mark){ 100 * MS, 40 * MS, 700.0 };
    for (int step = 1; step <= 8; step++)
        assert_int_equal(vp_measure_needs_end(&fake.trainer, step, 8),
                         step > 6);
    for (int step = 1; step <= 3; step++)
        assert_report(measure(&fake, step, 8), 0.010, 0.1, 100.0);
    for (int step = 4; step <= 6; step++)
        assert_report(measure(&fake, step, 8), 0.020, 0.5, 100.0);
    for (int step = 7; step <= 8; step++)
        assert_report(measure(&fake, step, 8), 0.005, 0.7, 50.0);
    free(fake.marks);
}

/* ---- Random marks ------------------------------------------------------- */

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 0, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* Advances `mark` by a random time. The rank executes at most one operation per
 * nanosecond. */
static void random_step(struct vp_mark *mark)
{
    int ns = 1 + rand_below(1 << rand_below(20));
    int wait_ns = rand_below(ns + 1);

    mark->ns += ns;
    mark->wait_ns += wait_ns;
    mark->flops += rand_below(ns - wait_ns + 1);
}

/* The bubble is between 0 and 1, the FLOPs of a step fit its time, and the sums
 * over all steps are those of the run. */
static void windows_add_up(void **state)
{
    (void)state;
    for (int trial = 0; trial < 500; trial++) {
        int n_ranks = 1 + rand_below(MAX_RANKS), n = 1 + rand_below(40);
        int every[MAX_RANKS];
        double seconds = 0.0, flops = 0.0, waited = 0.0;
        double want_flops = 0.0, want_waited = 0.0, end = 0.0;
        struct fake fake;

        for (int r = 0; r < n_ranks; r++)
            every[r] = 1 + rand_below(4);
        fake_begin(&fake, n_ranks, every);
        for (int r = 0; r < n_ranks; r++) {
            struct vp_mark *last = &fake.ranks[r].last;

            for (int k = 1; k <= n / every[r]; k++) {
                random_step(last);
                put_mark(&fake, r, k, *last);
            }
            random_step(last);
            want_flops += last->flops;
            end = fmax(end, (double)last->ns);
        }
        for (int r = 0; r < n_ranks; r++)
            want_waited += (double)fake.ranks[r].last.wait_ns + end -
                           (double)fake.ranks[r].last.ns;
        for (int step = 1; step <= n; step++) {
            struct vp_step_report report = measure(&fake, step, n);

            assert_true(report.bubble >= 0.0 && report.bubble <= 1.0);
            assert_true(report.seconds >= 0.0);
            /* + 2: marks are rounded to nanoseconds. */
            assert_true(report.flops <= n_ranks * (report.seconds * 1e9 + 2.0));
            seconds += report.seconds;
            flops += report.flops;
            waited += report.bubble * report.seconds * n_ranks * 1e9;
        }
        assert_true(fabs(seconds * 1e9 - end) < 1e-3);
        assert_true(fabs(flops - want_flops) < 1e-3);
        assert_true(fabs(waited - want_waited) < 1e-3 + n * n_ranks);
        free(fake.marks);
    }
}

/* ---- Reports that are taken late ---------------------------------------- */

static void sleep_ms(int ms)
{
    const struct timespec pause = { .tv_sec = ms / 1000,
                                    .tv_nsec = (long)(ms % 1000) * MS };

    nanosleep(&pause, NULL);
}

enum { BACKWARD_MS = 3 };

/* Makes every backward take at least BACKWARD_MS. */
static enum vp_fault slow_down(void *ctx, int rank,
                               const struct vp_action *action)
{
    (void)ctx;
    (void)rank;
    if (action->kind == VP_ACTION_B)
        sleep_ms(BACKWARD_MS);
    return VP_FAULT_NONE;
}

struct sums {
    double seconds, flops, least;
    int n;
};

/* Takes the first report late, so that others wait behind it. */
static bool take_late(void *ctx, const struct vp_step_report *report)
{
    struct sums *sums = ctx;

    if (report->step == 1)
        sleep_ms(15 * BACKWARD_MS);
    if (report->bubble < 0.0 || report->bubble > 1.0)
        fail_msg("step %lld: bubble %.9g", (long long)report->step,
                 report->bubble);
    sums->least = fmin(sums->least, report->seconds);
    sums->seconds += report->seconds;
    sums->flops += report->flops;
    sums->n++;
    return true;
}

/* Returns the operations of one minibatch: forward, both backward phases and
 * recomputation. */
static double minibatch_flops(const struct run *run)
{
    const struct vp_trainer *trainer = run->trainer;
    double flops = 0.0;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        const struct vp_rank_stage *rs = &trainer->ranks[r].stages[0];

        for (int list = 0; rs->replica == 0 && list < VP_LIST_COUNT; list++)
            flops += rs->stage.plan.train[0].flops[list];
    }
    return flops;
}

static void check_late(const char *schedule, int n_stages, const int *partition,
                       const int *replicas, int n, double least)
{
    struct setup setup = usual;
    struct sums sums = { .least = INFINITY };
    struct vp_err err = { .text = "" };
    struct run run;
    int64_t start;
    double want;

    setup.model = "gpt2";
    setup.schedule = schedule;
    setup.n_stages = n_stages;
    setup.partition = partition;
    setup.replicas = replicas;
    setup.tied = false;
    setup.threads = 1;
    setup.recompute = 0.5;
    setup.fault = slow_down;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    want = minibatch_flops(&run) * n *
           (strcmp(schedule, "1f1b") == 0 ? setup.accumulation : 1);
    start = vp_clock_ns();
    if (vp_trainer_run(run.trainer, n, take_late, &sums, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(sums.n, n);
    if (sums.least < least)
        fail_msg("%s: a step took %.6f s, less than %.6f", schedule, sums.least,
                 least);
    assert_true(sums.seconds <= vp_clock_seconds(start, vp_clock_ns()));
    assert_true(sums.seconds >= n * least);
    assert_true(fabs(sums.flops / want - 1.0) < 1e-9);
    run_free(&run);
}

static void late_reports_tell_the_time(void **state)
{
    static const int partition[] = { 2, 2, 2 };
    static const int replicas[] = { 2, 1, 3 };
    const double least = BACKWARD_MS * 1e-3;

    (void)state;
    check_late("pipedream", 3, partition, NULL, 20, least);
    check_late("pipedream", 3, partition, replicas, 20, least / 3);
    check_late("macrobatch", 3, partition, NULL, 20, least);
    check_late("1f1b", 3, partition, NULL, 10, least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_follow_the_first_rank),
        cmocka_unit_test(rounds_are_shared),
        cmocka_unit_test(windows_add_up),
        cmocka_unit_test(late_reports_tell_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
