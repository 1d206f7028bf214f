/* A run whose rank becomes slow, with kernels that sleep, moves by itself and
 * soon is nearly as fast as the best plan for the new times.
 *
 *   test_rebalance_live [FILE.svg]
 *
 * draws the move, as in docs/rebalancing.md. */
#include "run/rebalance.h"

#include "lib/sleepdevice.h"
#include "lib/trainlib.h"

#include "plan/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { N_RANKS = 4, N_MB = 4, SLOW_RANK = 1, SOON = 50, N_TRIES = 5 };
#define SLOWER 2.0

static atomic_bool is_slow;
static const char *drawing; /* a file, or NULL */

/* Sets the speed of a rank; called before every action on the rank's thread. */
static enum vp_fault slow_down(void *ctx, int rank,
                               const struct vp_action *action)
{
    (void)ctx;
    (void)action;
    sleep_slower = rank == SLOW_RANK && atomic_load(&is_slow) ? SLOWER : 1.0;
    return VP_FAULT_NONE;
}

static const struct setup *sleeping(const int *partition)
{
    static struct setup setup;

    setup = usual;
    setup.device = sleep_device(0.4, 1.0);
    setup.threads = 1;
    setup.layers = 6;
    setup.tied = false;
    setup.n_stages = N_RANKS;
    setup.accumulation = N_MB;
    setup.partition = partition;
    setup.fault = slow_down;
    return &setup;
}

/* ---- The best plan ------------------------------------------------------ */

/* Returns the simulated seconds of a step with the true times of all stages, in
 * any unit. */
static double simulate(const struct run *run, const int *partition, bool slow)
{
    struct vp_plan plan = run->config.plan;
    struct vp_plan_costs costs = { .device = NULL };
    struct vp_plan_forecast_time time;
    struct vp_schedule schedule;
    struct vp_err err;

    plan.partition = partition;
    assert_int_equal(
        vp_plan_make_schedule(&plan, &run->graphs[0], &schedule, &err), VP_OK);
    for (int s = 0, first = 0; s < N_RANKS; first += partition[s++]) {
        double by = slow && s == SLOW_RANK ? SLOWER : 1.0;
        double f = by * vp_graph_phase_flops(&run->graphs[0], first,
                                             partition[s], VP_PHASE_F);
        double all = by * vp_graph_flops(&run->graphs[0], first, partition[s]);

        costs.stages[s] = (struct vp_stage_costs){ .f = f, .b = all - f };
    }
    costs.sched.stages = costs.stages;
    assert_int_equal(vp_plan_forecast_seconds(&schedule, &costs, &time, &err),
                     VP_OK);
    vp_schedule_release(&schedule);
    return time.step;
}

static void find_best(const struct run *run, bool slow, int *best)
{
    int n = run->graphs[0].n_blocks;
    double least = 1e300;

    for (int a = 1; a < n; a++)
        for (int b = 1; a + b < n; b++)
            for (int c = 1; a + b + c < n; c++) {
                int partition[] = { a, b, c, n - a - b - c };
                double seconds = simulate(run, partition, slow);

                if (seconds < least) {
                    least = seconds;
                    memcpy(best, partition, sizeof(partition));
                }
            }
}

/* ---- Runs with a slow rank ---------------------------------------------- */

struct watched {
    struct vp_rebalance *rebalance; /* NULL: the plan stays */
    struct vp_trainer *trainer;
    int64_t minibatch, count_from; /* done so far; start of the timing */
    double seconds;                /* time of the steps after count_from */
    int n_steps;
    int n_moves;
    double pause; /* longest pause, in seconds */
};

static bool on_step(void *ctx, const struct vp_step_report *report)
{
    struct watched *w = ctx;

    w->minibatch = report->minibatch;
    if (report->minibatch > w->count_from) {
        w->seconds += report->seconds;
        w->n_steps++;
    }
    return !w->rebalance ||
           !vp_rebalance_step(w->rebalance, w->trainer, report);
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    print_message("%s\n", line);
}

static void draw(struct vp_trace *trace)
{
    FILE *f = fopen(drawing, "we");
    char *text;

    vp_trace_keep_last(trace, 5 * N_MB);
    assert_int_equal(vp_trace_svg(trace, "rank 1 is twice as slow", &text),
                     VP_OK);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(text);
}

/* Returns the time from the last action under the old plan to the first one
 * under the new plan. */
static double pause_of(struct vp_trainer *trainer)
{
    int64_t last = 0, first = INT64_MAX;
    struct vp_trace trace;
    struct vp_err err;

    assert_int_equal(vp_trainer_trace(trainer, "moved", &trace, &err), VP_OK);
    assert_true(trace.plan_ns > 0);
    for (int r = 0; r < trace.n_ranks; r++)
        for (int i = 0; i < trace.ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace.ranks[r].events[i];

            if (e->end_ns <= trace.plan_ns && e->end_ns > last)
                last = e->end_ns;
            if (e->start_ns >= trace.plan_ns && e->start_ns < first)
                first = e->start_ns;
        }
    if (drawing)
        draw(&trace);
    vp_trace_release(&trace);
    return (double)(first - last) * 1e-9;
}

/* Makes steps until `minibatch` minibatches are done. */
static void train_until(struct watched *w, int64_t minibatch)
{
    struct vp_rebalance_move move;
    struct vp_err err = { .text = "" };
    double pause;
    bool moved = false;

    while (w->minibatch < minibatch) {
        int64_t left = (minibatch - w->minibatch + N_MB - 1) / N_MB;

        if (vp_trainer_run(w->trainer, moved ? 3 : left, on_step, w, &err) !=
            VP_OK)
            fail_msg("%s", err.text);
        pause = moved ? pause_of(w->trainer) : 0.0;
        w->pause = pause > w->pause ? pause : w->pause;
        moved = w->rebalance &&
                vp_rebalance_move(w->rebalance, &w->trainer, &move);
        if (moved) {
            assert_true(vp_trainer_free(move.left));
            w->n_moves++;
        }
    }
}

/* Returns the seconds of a step under `partition` while the rank is slow. */
static double time_static(const int *partition)
{
    struct watched w = { .count_from = N_MB };
    struct vp_err err = { .text = "" };
    struct run run;

    if (run_create(&run, sleeping(partition), 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    w.trainer = run.trainer;
    train_until(&w, 8 * N_MB);
    run_free(&run);
    return w.seconds / w.n_steps;
}

/* Returns true if the run moved in time and was fast afterwards. */
static bool repairs_itself(const char *folder)
{
    static struct vp_config config = { .rebalance = true };
    int even[N_RANKS] = { 3, 3, 3, 4 }, best[N_RANKS];
    struct watched w = { .count_from = INT64_MAX };
    struct vp_err err = { .text = "" };
    struct run run;
    double want, got;

    atomic_store(&is_slow, false);
    if (run_create(&run, sleeping(even), 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    find_best(&run, true, best);
    w.trainer = run.trainer;
    if (vp_rebalance_create(&(struct vp_rebalance_config){ .config = &config,
                                                           .train = &run.config,
                                                           .folder = folder,
                                                           .last_step = 1000,
                                                           .notice = say },
                            &w.rebalance, &err) != VP_OK)
        fail_msg("%s", err.text);
    train_until(&w, 9 * N_MB);
    w.n_moves = 0;
    w.pause = 0.0;
    atomic_store(&is_slow, true);
    w.count_from = w.minibatch + SOON;
    train_until(&w, w.count_from + 8 * N_MB);
    got = w.seconds / w.n_steps;
    vp_rebalance_free(w.rebalance);
    run.trainer = w.trainer;
    run_free(&run);
    want = time_static(best);
    print_message("%d moves; a step takes %.4g ms, of the best plan %.4g ms; "
                  "pause %.3g ms, a minibatch %.3g ms\n",
                  w.n_moves, 1e3 * got, 1e3 * want, 1e3 * w.pause,
                  1e3 * got / N_MB);
    return w.n_moves >= 1 && want >= 0.95 * got && w.pause <= got / N_MB;
}

static void a_rank_becomes_slow(void **state)
{
    char folder[] = "/tmp/vpipe-rebalance-XXXXXX";
    int n_tries = 1;

    (void)state;
    assert_non_null(mkdtemp(folder));
    /* A busy machine may wake a rank late, so the run is repeated. */
    while (!repairs_itself(folder))
        assert_true(++n_tries <= N_TRIES);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_becomes_slow),
    };

    drawing = argc > 1 ? argv[1] : NULL;
    prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds; inherited by rank threads */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
