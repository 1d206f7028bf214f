/* The simulator against real pipelines. It is given the time of every block
 * alone, and how much slower a core is when as many of them compute as ranks
 * do; where ranks outnumber cores, time goes slower for all. */
#include "scaling.h"

#include "forecast.h"
#include "launch/compare.h"
#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_MB = 16, N_COPY_MB = 4, N_ROUNDS = 3, MAX_COPIES = 64 };

static const struct lab_size size = { .vocab = 8192,
                                      .hidden = 256,
                                      .layers = 16,
                                      .heads = 4,
                                      .seq = 64,
                                      .batch = 4,
                                      .labels = 10 };

/* How much longer each of `n` independent trainings takes than one alone. */
static double slow_down(int n)
{
    struct lab_spec spec = {
        .size = size, .schedule = "1f1b", .n_stages = 1, .n_mb = N_COPY_MB
    };
    struct lab *labs[MAX_COPIES] = { NULL };
    double one, all;

    for (int i = 0; i < n; i++)
        labs[i] = lab_open(&spec);
    lab_run_together(labs, n, N_COPY_MB);
    one = lab_run(labs[0], N_COPY_MB);
    all = lab_run_together(labs, n, N_COPY_MB);
    for (int i = 0; i < n; i++)
        lab_close(labs[i]);
    return all / one;
}

static void scale_costs(struct vp_stage_costs *costs, int n, double factor)
{
    for (int s = 0; s < n; s++)
        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++) {
            double *field = vp_costs_field(&costs[s],
                                           (enum vp_action_kind)kind);

            if (field)
                *field *= factor;
        }
}

static double forecast(const struct lab_spec *spec,
                       const struct vp_stage_costs *costs, int n_cores)
{
    struct vp_sched_config config = {
        .name = spec->schedule,
        .n_stages = spec->n_stages,
        .n_mb = N_MB,
        .global_norm = !vp_generator_find(spec->schedule)->stream,
    };
    struct vp_sched_costs table = { .stages = costs };
    struct vp_shared_time shared;
    struct vp_schedule schedule;
    struct vp_timing timing;
    struct vp_err err = { "" };

    if (vp_schedule_make(&config, &schedule, &err) != VP_OK ||
        vp_simulate(&schedule, &table, &timing, &err) != VP_OK)
        lab_die("simulation", &err);
    if (vp_compare_share(&schedule, &timing, n_cores, &shared) != VP_OK)
        lab_die("simulation", &(struct vp_err){ "out of memory" });
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return shared.seconds;
}

/* A pipeline of `blocks`, whose times are those of one alone. */
static void calibrate(struct lab_spec *spec,
                      const struct vp_stage_costs *blocks, double slower)
{
    int n_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct vp_stage_costs costs[VP_MAX_STAGES];
    int partition[VP_MAX_STAGES];
    struct series measured = { .n = 0 };
    struct lab *lab;
    char text[64];
    double seconds;

    lab_cut_by(spec, blocks, partition);
    lab_join_blocks(blocks, partition, spec->n_stages, costs);
    scale_costs(costs, spec->n_stages, slower);
    seconds = forecast(spec, costs, n_cores);
    spec->partition = partition;
    lab = lab_open(spec);
    lab_run(lab, N_MB);
    for (int i = 0; i < N_ROUNDS; i++)
        series_add(&measured, lab_run(lab, N_MB));
    lab_close(lab);
    printf("{\"ranks\": %d, \"cores\": %d, \"schedule\": \"%s\", "
           "\"slow_down\": %.3f, \"simulated_s\": %.4f, \"measured_s\": %s, "
           "\"simulated_over_measured\": %.4f}\n",
           spec->n_stages, n_cores, spec->schedule, slower, seconds,
           series_json(&measured, text), seconds / series_median(&measured));
    fflush(stdout);
}

void scaling_calibrate(int n_ranks)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream",
                                             "zb-h1" };
    int n_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int n_busy = n_ranks < n_cores ? n_ranks : n_cores;
    double slower = slow_down(n_busy < MAX_COPIES ? n_busy : MAX_COPIES);
    struct vp_stage_costs blocks[VP_MAX_STAGES];
    struct lab_spec spec = { .size = size, .n_stages = n_ranks, .n_mb = N_MB };

    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        spec.schedule = schedules[i];
        if (i == 0 || vp_generator_find(schedules[i])->split)
            lab_time_blocks(&spec, blocks);
        calibrate(&spec, blocks, slower);
    }
}
