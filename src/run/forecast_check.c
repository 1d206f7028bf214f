/* Measures the steps of a run, simulates its schedule if there is no forecast,
 * and puts both side by side. */
#include "run/forecast_check.h"

#include "config/resolve.h"
#include "plan/costs.h"
#include "runtime/fit.h"

#include <stdio.h>
#include <stdlib.h>

/* Minibatches of a stream (sync_mode asp) that form one part. */
enum { STREAM_PART = 8 };

void vp_forecast_check_begin(struct vp_forecast_check *check,
                             const struct vp_config *config,
                             const struct vp_train_config *train,
                             const struct vp_schedule *schedule,
                             const struct vp_stage_price *prices)
{
    bool stream = vp_generator_find(schedule->name)->stream;

    *check = (struct vp_forecast_check){
        .n_stages = schedule->n_stages,
        .train = train,
        .schedule = schedule,
        .prices = prices,
        .stream = stream,
        .n_warm = stream ? 2 * schedule->n_ranks : 1,
        .every = stream ? STREAM_PART : 1,
    };
    check->planned = config && vp_resolve_forecast(config, &check->plan);
}

/* ---- Steps -------------------------------------------------------------- */

static void add_mark(struct vp_forecast_check *check,
                     struct vp_trainer *trainer)
{
    const struct vp_stage_stats *stats;

    if (check->n_marks > VP_FORECAST_CHECK_PARTS)
        return;
    stats = vp_trainer_stats(trainer);
    for (int s = 0; s < check->n_stages; s++)
        check->marks[check->n_marks][s] = stats[s];
    check->n_marks++;
}

void vp_forecast_check_step(struct vp_forecast_check *check,
                            struct vp_trainer *trainer,
                            const struct vp_step_report *report)
{
    int64_t n_after = ++check->n_steps - check->n_warm;

    if (n_after >= 0 && n_after % check->every == 0)
        add_mark(check, trainer);
    if (check->n_steps == check->n_warm + 1) { /* drop the warm-up */
        check->n_seconds = 0;
        check->all_seconds = check->waited = 0.0;
    }
    check->seconds[check->n_seconds++ % VP_FORECAST_CHECK_STEPS] =
        report->seconds;
    check->all_seconds += report->seconds;
    check->waited += report->bubble * report->seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Takes the median step, because checkpoints and other programs disturb some
 * steps. */
static void end_steps(struct vp_forecast_check *check)
{
    int64_t n = check->n_seconds < VP_FORECAST_CHECK_STEPS
                    ? check->n_seconds
                    : VP_FORECAST_CHECK_STEPS;

    qsort(check->seconds, (size_t)n, sizeof(*check->seconds), ascending);
    check->measured.step_seconds = check->seconds[n / 2];
    check->measured.bubble = check->all_seconds > 0.0
                                 ? check->waited / check->all_seconds
                                 : 0.0;
    for (int s = 0; s < check->n_stages; s++)
        check->measured.memory[s] = check->prices[s].memory.total;
}

/* ---- Costs of the first steps -------------------------------------------- */

static double mean_seconds(int64_t after_ns, int64_t before_ns, double n)
{
    return n > 0.0 ? 1e-9 * (double)(after_ns - before_ns) / n : 0.0;
}

/* Returns the minibatches per update, over all replicas. */
static double round_size(const struct vp_forecast_check *check, int s)
{
    int every = check->schedule->stages[s].update_every;

    return check->stream && every > 0 ? every : check->schedule->n_mb;
}

/* Returns the costs of stage `s` in one part. The counters hold one time for R,
 * B and W together, which is divided by FLOPs. */
static struct vp_stage_costs part_costs(const struct vp_forecast_check *check,
                                        int part, int s)
{
    const struct vp_stage_stats *from = &check->marks[part][s];
    const struct vp_stage_stats *to = &check->marks[part + 1][s];
    const double *flops = check->prices[s].flops;
    double n = (double)(to->n_backward - from->n_backward);
    double rounds = n / round_size(check, s) *
                    check->schedule->stages[s].n_replicas;
    double back = mean_seconds(to->backward_ns, from->backward_ns, n);
    double all = flops[VP_LIST_R] + flops[VP_LIST_B] + flops[VP_LIST_W];
    double r = all > 0.0 ? flops[VP_LIST_R] / all : 0.0;
    double w = all > 0.0 ? flops[VP_LIST_W] / all : 0.0;

    return (struct vp_stage_costs){
        .f = mean_seconds(to->forward_ns, from->forward_ns,
                          (double)(to->n_forward - from->n_forward)),
        .r = back * r,
        .b = back * (1.0 - r - w),
        .w = back * w,
        .reduce = mean_seconds(to->reduce_ns, from->reduce_ns, rounds),
        .update = mean_seconds(to->update_ns, from->update_ns, rounds),
    };
}

/* Returns medians over the parts, so that a disturbed part does not count. */
static struct vp_stage_costs stage_costs(const struct vp_forecast_check *check,
                                         int s)
{
    enum { N_COSTS = sizeof(struct vp_stage_costs) / sizeof(double) };
    struct vp_stage_costs costs[VP_FORECAST_CHECK_PARTS], median = { .f = 0.0 };
    double values[VP_FORECAST_CHECK_PARTS];
    int n = 0;

    for (int part = 0; part + 1 < check->n_marks; part++) {
        costs[n] = part_costs(check, part, s);
        n += costs[n].f > 0.0 && costs[n].b > 0.0;
    }
    for (int k = 0; n > 0 && k < N_COSTS; k++) {
        for (int i = 0; i < n; i++)
            values[i] = ((const double *)&costs[i])[k];
        qsort(values, (size_t)n, sizeof(*values), ascending);
        ((double *)&median)[k] = values[n / 2];
    }
    return median;
}

/* Returns the mean time to send and receive a message, without waiting. */
static double message_seconds(const struct vp_forecast_check *check)
{
    int64_t ns = 0, n = 0;

    for (int s = 0; s < check->n_stages; s++) {
        const struct vp_stage_stats *from = &check->marks[0][s];
        const struct vp_stage_stats *to = &check->marks[check->n_marks - 1][s];

        ns += to->message_ns - from->message_ns;
        n += to->act.n_sent - from->act.n_sent;
        n += to->grad.n_sent - from->grad.n_sent;
    }
    return mean_seconds(ns, 0, (double)n);
}

/* ---- Simulation ---------------------------------------------------------- */

/* Returns the seconds that all ranks together compute in a step. */
static double busy_seconds(const struct vp_forecast_check *check,
                           const struct vp_stage_costs *costs)
{
    double sum = 0.0;

    for (int s = 0; s < check->n_stages; s++) {
        double n = check->stream ? 1.0 : check->schedule->n_mb;
        double rounds = n / round_size(check, s) *
                        check->schedule->stages[s].n_replicas;

        sum += n * (costs[s].f + costs[s].r + costs[s].b + costs[s].w) +
               rounds * (costs[s].reduce + costs[s].update);
    }
    return sum;
}

static bool simulate(struct vp_forecast_check *check)
{
    const struct vp_schedule *schedule = check->schedule;
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_timing timing;
    double seconds;

    for (int s = 0; s < check->n_stages; s++)
        costs[s] = stage_costs(check, s);
    if (vp_simulate(schedule,
                    &(struct vp_sched_costs){
                        .stages = costs, .latency = message_seconds(check) },
                    &timing, NULL) != VP_OK)
        return false;
    seconds = vp_plan_step_seconds(schedule, &timing);
    vp_timing_release(&timing);
    if (!(seconds > 0.0))
        return false;
    check->forecast.step_seconds = seconds;
    check->forecast.bubble = 1.0 - busy_seconds(check, costs) /
                                       (seconds * schedule->n_ranks);
    return true;
}

/* ---- The end ------------------------------------------------------------- */

/* Makes one part of the whole run. */
static void count_all(struct vp_forecast_check *check,
                      struct vp_trainer *trainer)
{
    for (int s = 0; s < check->n_stages; s++)
        check->marks[0][s] = (struct vp_stage_stats){ 0 };
    check->n_marks = 1;
    add_mark(check, trainer);
}

void vp_forecast_check_end(struct vp_forecast_check *check,
                           struct vp_trainer *trainer)
{
    struct vp_priced_plan priced;

    if (check->n_steps == 0)
        return;
    if (check->n_steps <= check->n_warm) /* only warm-up steps: count them */
        count_all(check, trainer);
    else if (check->n_marks == 1)
        add_mark(check, trainer);
    end_steps(check);
    if (vp_priced_plan_make(check->train, &priced, NULL) != VP_OK)
        return;
    for (int s = 0; s < check->n_stages; s++)
        check->forecast.memory[s] = check->plan.n_memory == check->n_stages
                                        ? check->plan.memory[s]
                                        : priced.stages[s].memory.total;
    vp_priced_plan_release(&priced);
    check->forecast.step_seconds = check->plan.step_seconds;
    check->forecast.bubble = check->plan.bubble;
    check->ready = check->planned || simulate(check);
    if (check->ready)
        return;
    /* Counters of other processes arrive late: a short run may have none in its
     * marks. */
    count_all(check, trainer);
    check->ready = simulate(check);
}

/* "12.3 ms", "1.23 s" */
static void seconds_text(double seconds, char *text, size_t n_bytes)
{
    if (seconds < 1.0)
        snprintf(text, n_bytes, "%.3g ms", 1e3 * seconds);
    else
        snprintf(text, n_bytes, "%.4g s", seconds);
}

static double percent_more(double measured, double forecast)
{
    return forecast > 0.0 ? 100.0 * (measured / forecast - 1.0) : 0.0;
}

/* Returns the stage with the largest difference; without any, the largest
 * stage. */
static int stage_to_show(const struct vp_forecast_check *check)
{
    const struct vp_forecast_numbers *a = &check->forecast;
    const struct vp_forecast_numbers *b = &check->measured;
    int at = 0;

    for (int s = 1; s < check->n_stages; s++) {
        int64_t here = llabs((long long)(b->memory[s] - a->memory[s]));
        int64_t there = llabs((long long)(b->memory[at] - a->memory[at]));

        if (here > there || (here == there && b->memory[s] > b->memory[at]))
            at = s;
    }
    return at;
}

void vp_forecast_check_text(const struct vp_forecast_check *check,
                            char text[VP_FORECAST_CHECK_TEXT])
{
    const struct vp_forecast_numbers *a = &check->forecast;
    const struct vp_forecast_numbers *b = &check->measured;
    char seconds[2][32], bytes[2][VP_BYTES_TEXT];
    int s = stage_to_show(check);

    seconds_text(a->step_seconds, seconds[0], sizeof(seconds[0]));
    seconds_text(b->step_seconds, seconds[1], sizeof(seconds[1]));
    vp_bytes_text(a->memory[s], bytes[0], sizeof(bytes[0]));
    vp_bytes_text(b->memory[s], bytes[1], sizeof(bytes[1]));
    snprintf(text, VP_FORECAST_CHECK_TEXT,
             "%s: step %s, measured %s (%+.1f %%); bubble %.1f %%, measured "
             "%.1f %% (%+.1f); stage %d %s, measured %s (%+.2f %%)",
             check->planned ? "by the plan" : "by the first steps", seconds[0],
             seconds[1], percent_more(b->step_seconds, a->step_seconds),
             100.0 * a->bubble, 100.0 * b->bubble,
             100.0 * (b->bubble - a->bubble), s, bytes[0], bytes[1],
             percent_more((double)b->memory[s], (double)a->memory[s]));
}
