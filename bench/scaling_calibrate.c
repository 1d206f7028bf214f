/* Compares the simulator with real pipelines, with costs measured in two ways:
 *   forecast   before the run: every stage alone, one minibatch in the pipe,
 *              times the slow-down of a core while others compute; if there
 *              are more ranks than cores, all slow down further
 *   replay     in the run itself, without waits: shows the error of the
 *              simulator, without that of the costs */
#include "scaling.h"

#include "forecast.h"
#include "run/compare.h"
#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_MB = 16, N_ALONE = 12, N_ROUNDS = 3, MAX_COPIES = 64 };

static const struct lab_size size = { .vocab = 8192,
                                      .hidden = 256,
                                      .layers = 16,
                                      .heads = 4,
                                      .seq = 64,
                                      .batch = 2,
                                      .labels = 10 };

struct result {
    double forecast;
    struct series measured, replay;
};

static int n_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Returns the time of `n` independent trainings at once, each about the size of
 * a stage, relative to one alone. */
static double slow_down(int n, int n_stages)
{
    struct lab_spec spec = {
        .size = size, .schedule = "1f1b", .n_stages = 1, .n_mb = N_MB
    };
    struct lab *labs[MAX_COPIES] = { NULL };
    struct series one = { .n = 0 }, all = { .n = 0 }, ratio;

    spec.size.layers = n_stages < size.layers ? size.layers / n_stages : 1;
    for (int i = 0; i < n; i++)
        labs[i] = lab_open(&spec);
    lab_run_together(labs, n, N_MB);
    for (int i = 0; i < N_ROUNDS; i++) {
        series_add(&one, lab_run(labs[0], N_MB));
        series_add(&all, lab_run_together(labs, n, N_MB));
    }
    for (int i = 0; i < n; i++)
        lab_close(labs[i]);
    ratio = series_ratio(&all, &one);
    return series_median(&ratio);
}

/* Cuts into the most balanced stages; blocks are timed once for all calls. */
static void cut(const struct lab_spec *spec, int *partition)
{
    static struct vp_stage_costs blocks[VP_MAX_STAGES];
    static bool timed;

    if (!timed)
        lab_time_blocks(spec, blocks);
    timed = true;
    lab_cut_by(spec, blocks, partition);
}

/* Reads the costs from the trace, as `vpipe compare` does. */
static void read_costs(struct lab *lab, struct vp_stage_costs *costs)
{
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    if (vp_trainer_trace(lab_trainer(lab), "bench", &trace, &err) != VP_OK ||
        vp_compare_costs(&trace, costs, &err) != VP_OK)
        lab_die("trace", &err);
    vp_trace_release(&trace);
}

static void time_stages(const struct lab_spec *spec, double slower,
                        struct vp_stage_costs *costs)
{
    struct lab_spec one = *spec;
    struct lab *lab;

    one.n_mb = 1;
    if (vp_generator_find(spec->schedule)->stream)
        one.schedule = "1f1b";
    lab = lab_open(&one);
    lab_run(lab, N_ALONE);
    read_costs(lab, costs);
    lab_close(lab);
    for (int s = 0; s < spec->n_stages; s++)
        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++) {
            double *field = vp_costs_field(&costs[s],
                                           (enum vp_action_kind)kind);

            if (field)
                *field *= slower;
        }
}

static double shared_seconds(const struct lab_spec *spec,
                             const struct vp_stage_costs *costs)
{
    struct vp_sched_config config = {
        .name = spec->schedule,
        .n_stages = spec->n_stages,
        .n_mb = N_MB,
        .global_norm = !vp_generator_find(spec->schedule)->stream,
    };
    struct vp_sched_costs table = { .stages = costs, .capacity = n_cores() };
    struct vp_schedule schedule;
    struct vp_timing timing;
    struct vp_err err = { .text = "" };
    double seconds;

    if (vp_schedule_make(&config, &schedule, &err) != VP_OK ||
        vp_simulate(&schedule, &table, &timing, &err) != VP_OK)
        lab_die("simulation", &err);
    seconds = timing.makespan;
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return seconds;
}

static void run(const struct lab_spec *spec, struct result *out)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct lab *lab = lab_open(spec);

    lab_run(lab, N_MB);
    for (int i = 0; i < N_ROUNDS; i++) {
        series_add(&out->measured, lab_run(lab, N_MB));
        forecast_costs(lab_trainer(lab), N_MB, costs);
        series_add(
            &out->replay,
            forecast_run(spec->schedule, spec->n_stages, N_MB, costs).seconds);
    }
    lab_close(lab);
}

static void print_row(const struct lab_spec *spec, double slower,
                      const struct result *result)
{
    struct series error = series_ratio(&result->replay, &result->measured);
    char text[2][64];

    printf("{\"ranks\": %d, \"cores\": %d, \"schedule\": \"%s\", "
           "\"slow_down\": %.3f, \"measured_s\": %s, "
           "\"forecast_over_measured\": %.4f, \"replay_over_measured\": %s}\n",
           spec->n_stages, n_cores(), spec->schedule, slower,
           series_json(&result->measured, text[0]),
           result->forecast / series_median(&result->measured),
           series_json(&error, text[1]));
    fflush(stdout);
}

void scaling_calibrate(int n_ranks)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1",
                                             "pipedream" };
    int n_busy = n_ranks < n_cores() ? n_ranks : n_cores();
    double slower = slow_down(n_busy < MAX_COPIES ? n_busy : MAX_COPIES,
                              n_ranks);

    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        struct vp_stage_costs costs[VP_MAX_STAGES];
        int partition[VP_MAX_STAGES];
        struct lab_spec spec = { .size = size,
                                 .schedule = schedules[i],
                                 .n_stages = n_ranks,
                                 .partition = partition,
                                 .n_mb = N_MB };
        struct result result = { .forecast = 0.0 };

        cut(&spec, partition);
        time_stages(&spec, slower, costs);
        result.forecast = shared_seconds(&spec, costs);
        run(&spec, &result);
        print_row(&spec, slower, &result);
    }
}
