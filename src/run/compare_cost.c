/* Simulates a schedule on this machine: from costs of actions that were
 * measured one at a time, and the number of cores that ranks share. */
#include "run/compare.h"

#include "config/resolve.h"
#include "runtime/train_config.h"

#include <stdlib.h>

/* ---- Costs -------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A low quantile, because disturbances only ever make an action longer. */
static double lower_quartile(double *values, int n)
{
    if (n == 0)
        return 0.0;
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return values[(n - 1) / 4];
}

/* Writes the seconds of all actions of one kind on one stage to `values`.
 * Returns their number. */
static int collect(const struct vp_trace *trace, int kind, int stage,
                   int first_mb, double *values)
{
    int n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace->ranks[r].events[i];

            if (e->kind == kind && e->stage == stage && e->mb >= first_mb &&
                !e->eval)
                values[n++] = 1e-9 *
                              (double)(e->end_ns - e->start_ns - e->wait_ns);
        }
    return n;
}

static int last_minibatch(const struct vp_trace *trace)
{
    int last = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++)
            if (trace->ranks[r].events[i].mb > last)
                last = trace->ranks[r].events[i].mb;
    return last;
}

enum vp_status vp_compare_costs(const struct vp_trace *trace,
                                struct vp_stage_costs *costs_out,
                                struct vp_err *err)
{
    int first_mb = last_minibatch(trace) / 4;
    size_t n_events = 1;
    double *values;

    for (int r = 0; r < trace->n_ranks; r++)
        n_events += (size_t)trace->ranks[r].n_events;
    values = calloc(n_events, sizeof(*values));
    if (!values)
        return vp_err_set(err, VP_ERR_NOMEM, "comparison: out of memory");
    for (int s = 0; s < trace->n_stages; s++) {
        struct vp_stage_costs costs = { .f = 0.0 };

        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++) {
            double *field = vp_costs_field(&costs, (enum vp_action_kind)kind);

            /* Sums over replicas are not modelled. */
            if (field && kind != VP_ACTION_REDUCE)
                *field = lower_quartile(
                    values, collect(trace, kind, s, first_mb, values));
        }
        if (costs.w == 0.0) {
            costs.b *= 0.5;
            costs.w = costs.b;
        }
        costs_out[s] = costs;
    }
    free(values);
    return VP_OK;
}

/* ---- Times --------------------------------------------------------------- */

enum vp_status vp_compare_simulate(const struct vp_config *config,
                                   const struct vp_stage_costs *costs, int n_mb,
                                   double n_cores, struct vp_shared_time *out,
                                   struct vp_err *err)
{
    struct vp_train_config train = { .graphs = NULL };
    int n_blocks = (int)config->model->n_blocks(&config->sizes);
    struct vp_plan_stages stages;
    struct vp_sched_config sched;
    struct vp_schedule schedule = { .actions = NULL };
    struct vp_timing timing;
    enum vp_status st;

    vp_resolve_train(config, &train);
    sched = vp_plan_sched_config(&train.plan, n_blocks, &stages);
    if (config->sync_mode == VP_SYNC_ASP)
        sched.n_mb = n_mb;
    if (sched.text)
        sched.memory = 0;
    VP_TRY(vp_schedule_make(&sched, &schedule, err));
    st = vp_simulate(
        &schedule,
        &(struct vp_sched_costs){ .stages = costs, .capacity = n_cores },
        &timing, err);
    if (st == VP_OK) {
        *out = (struct vp_shared_time){ timing.makespan, timing.bubble };
        vp_timing_release(&timing);
    }
    vp_schedule_release(&schedule);
    return st;
}
