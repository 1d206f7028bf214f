/* Reads the mean costs of a run from its trace, and simulates its schedule. */
#include "forecast.h"

#include "lab.h"

#include <string.h>

static void add_events(const struct vp_trace_rank *rank,
                       enum vp_action_kind kind, double *sums, int *counts)
{
    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];

        if (e->kind != kind)
            continue;
        sums[e->stage] += 1e-9 * (double)(e->end_ns - e->start_ns - e->wait_ns);
        counts[e->stage]++;
    }
}

static void average(const struct vp_trace *trace, enum vp_action_kind kind,
                    struct vp_stage_costs *costs)
{
    double sums[VP_MAX_STAGES] = { 0.0 };
    int counts[VP_MAX_STAGES] = { 0 };

    for (int r = 0; r < trace->n_ranks; r++)
        add_events(&trace->ranks[r], kind, sums, counts);
    for (int s = 0; s < trace->n_stages; s++) {
        double *field = vp_costs_field(&costs[s], kind);

        if (field && counts[s] > 0)
            *field = sums[s] / counts[s];
    }
}

void forecast_costs(struct vp_trainer *trainer, int n_mb,
                    struct vp_stage_costs *costs_out)
{
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    if (vp_trainer_trace(trainer, "bench", &trace, &err) != VP_OK)
        lab_die("trace", &err);
    vp_trace_keep_last(&trace, n_mb);
    memset(costs_out, 0, (size_t)trace.n_stages * sizeof(*costs_out));
    for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
        average(&trace, (enum vp_action_kind)kind, costs_out);
    vp_trace_release(&trace);
}

struct forecast forecast_run(const char *name, int n_stages, int n_mb,
                             const struct vp_stage_costs *costs)
{
    const struct vp_generator *generator = vp_generator_find(name);
    struct vp_sched_config config = { .name = name,
                                      .n_stages = n_stages,
                                      .n_mb = n_mb,
                                      .global_norm = !generator->stream };
    struct vp_sched_costs table = { .stages = costs };
    struct forecast forecast = { 0.0, 0.0, 0.0 };
    struct vp_schedule schedule;
    struct vp_timing timing;
    struct vp_err err = { .text = "" };

    if (vp_schedule_make(&config, &schedule, &err) != VP_OK ||
        vp_simulate(&schedule, &table, &timing, &err) != VP_OK)
        lab_die("simulation", &err);
    for (int r = 0; r < schedule.n_ranks; r++)
        forecast.speedup += timing.ranks[r].busy / timing.makespan;
    forecast.seconds = timing.makespan;
    forecast.bubble = timing.bubble;
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return forecast;
}
