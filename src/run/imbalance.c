#include "run/imbalance.h"

#include "plan/balance.h"

#include <stdlib.h>
#include <string.h>

struct vp_stage_seconds vp_imbalance_measure(const struct vp_stage_stats *begin,
                                             const struct vp_stage_stats *end,
                                             int n_replicas)
{
    double n_f = (double)(end->n_forward - begin->n_forward);
    double n_b = (double)(end->n_backward - begin->n_backward);
    struct vp_stage_seconds out = { 0.0, 0.0, 0.0 };

    if (n_f < 1.0 || n_b < 1.0)
        return out;
    out.f = (double)(end->forward_ns - begin->forward_ns) * 1e-9 / n_f;
    out.b = (double)(end->backward_ns - begin->backward_ns) * 1e-9 / n_b;
    out.update = (double)(end->update_ns - begin->update_ns) * 1e-9 / n_b *
                 n_replicas;
    return out;
}

/* ---- Blocks ------------------------------------------------------------- */

static double block_cost(const struct vp_cost_table *costs, int block)
{
    const struct vp_profile_block *at = &costs->blocks[block];

    return at->alone.f + at->alone.b + at->alone.w;
}

/* What the plan's stages would take by the costs alone. */
static double stage_cost(const struct vp_cost_table *costs, int first, int n)
{
    double sum = 0.0;

    for (int b = first; b < first + n; b++)
        sum += block_cost(costs, b);
    return sum;
}

/* Seconds per unit of cost, of every rank. */
static void rank_speeds(const struct vp_cost_table *costs,
                        const struct vp_plan *plan,
                        const struct vp_schedule *schedule,
                        const struct vp_stage_seconds *stages, double *out)
{
    double measured[VP_MAX_STAGES] = { 0.0 }, expected[VP_MAX_STAGES] = { 0.0 };

    for (int s = 0, first = 0; s < schedule->n_stages; s++) {
        int rank = schedule->stages[s].first_rank;

        measured[rank] += stages[s].f + stages[s].b;
        expected[rank] += stage_cost(costs, first, plan->partition[s]);
        first += plan->partition[s];
    }
    for (int r = 0; r < schedule->n_ranks; r++)
        out[r] = expected[r] > 0.0 ? measured[r] / expected[r] : 0.0;
}

/* ---- Time of a step ----------------------------------------------------- */

static enum vp_status simulate(const struct vp_schedule *schedule,
                               const struct vp_stage_seconds *stages,
                               double *seconds_out, struct vp_err *err)
{
    struct vp_plan_costs costs = { .device = NULL };
    struct vp_plan_forecast_time time;

    for (int s = 0; s < schedule->n_stages; s++)
        costs.stages[s] = (struct vp_stage_costs){ .f = stages[s].f,
                                                   .b = stages[s].b,
                                                   .update = stages[s].update };
    costs.sched.stages = costs.stages;
    VP_TRY(vp_plan_forecast_seconds(schedule, &costs, &time, err));
    *seconds_out = time.step;
    return VP_OK;
}

/* The stages of another partition, by the speeds of their ranks; forward's share
 * and updates stay as they were measured. */
static void scale_stages(const struct vp_cost_table *costs,
                         const struct vp_schedule *schedule,
                         const struct vp_stage_seconds *stages,
                         const double *speeds, const int *partition,
                         struct vp_stage_seconds *out)
{
    for (int s = 0, first = 0; s < schedule->n_stages; s++) {
        double all = stages[s].f + stages[s].b;
        double share = all > 0.0 ? stages[s].f / all : 1.0 / 3.0;
        double seconds = stage_cost(costs, first, partition[s]) *
                         speeds[schedule->stages[s].first_rank];

        out[s] = (struct vp_stage_seconds){ share * seconds,
                                            (1.0 - share) * seconds,
                                            stages[s].update };
        first += partition[s];
    }
}

/* ---- The partition ------------------------------------------------------ */

static enum vp_status balance(const struct vp_cost_table *costs,
                              const struct vp_schedule *schedule,
                              const double *speeds, int *partition_out)
{
    size_t n = (size_t)costs->n_blocks;
    double *table = calloc((size_t)schedule->n_stages * n, sizeof(*table));
    int rank[VP_MAX_STAGES];
    enum vp_status st;

    if (!table)
        return VP_ERR_NOMEM;
    for (int s = 0; s < schedule->n_stages; s++) {
        rank[s] = schedule->stages[s].first_rank;
        for (size_t b = 0; b < n; b++)
            table[(size_t)s * n + b] = block_cost(costs, (int)b) *
                                       speeds[rank[s]] /
                                       schedule->stages[s].n_replicas;
    }
    st = vp_plan_balance_ranks(table, (int)n, schedule->n_stages, rank,
                               schedule->n_ranks, partition_out);
    free(table);
    return st;
}

enum vp_status vp_imbalance_find(const struct vp_cost_table *costs,
                                 const struct vp_plan *plan,
                                 const struct vp_stage_seconds *stages,
                                 struct vp_imbalance *out, struct vp_err *err)
{
    struct vp_stage_seconds now[VP_MAX_STAGES], then[VP_MAX_STAGES];
    double speeds[VP_MAX_STAGES];
    struct vp_schedule schedule;
    enum vp_status st;

    *out = (struct vp_imbalance){ .same = true };
    VP_TRY(
        vp_plan_make_schedule(plan, &costs->work->graphs[0], &schedule, err));
    if (schedule.n_ranks > VP_MAX_STAGES) {
        vp_err_set(err, VP_ERR_UNSUPPORTED,
                   "re-balancing knows at most %d ranks, the run has %d",
                   VP_MAX_STAGES, schedule.n_ranks);
        vp_schedule_release(&schedule);
        return VP_ERR_UNSUPPORTED;
    }
    rank_speeds(costs, plan, &schedule, stages, speeds);
    st = balance(costs, &schedule, speeds, out->partition);
    if (st != VP_OK)
        vp_err_set(err, st, "balancing: out of memory");
    /* Both by the same rule: what the rule does not know counts for neither. */
    scale_stages(costs, &schedule, stages, speeds, plan->partition, now);
    scale_stages(costs, &schedule, stages, speeds, out->partition, then);
    if (st == VP_OK)
        st = simulate(&schedule, now, &out->now, err);
    if (st == VP_OK)
        st = simulate(&schedule, then, &out->then, err);
    out->same = memcmp(out->partition, plan->partition,
                       (size_t)schedule.n_stages * sizeof(int)) == 0;
    vp_schedule_release(&schedule);
    return st;
}
