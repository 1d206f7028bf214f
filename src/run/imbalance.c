/* Finds a better partition from measured stage times: derives the speed of each
 * rank, balances the blocks, and refines the result by simulation. */
#include "run/imbalance.h"

#include "plan/balance.h"

#include <stdlib.h>
#include <string.h>

/* Share of a step that moving one block must save to be accepted. */
#define LEAST_HELP 1e-3

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

/* Returns the cost of `n` blocks from `first` on, by the table. */
static double stage_cost(const struct vp_cost_table *costs, int first, int n)
{
    double sum = 0.0;

    for (int b = first; b < first + n; b++)
        sum += block_cost(costs, b);
    return sum;
}

/* Computes measured seconds per unit of cost for every rank. */
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

/* Computes the seconds of the stages with another partition, from the speeds of
 * their ranks. The share of the forward and the updates stay as measured. */
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

/* ---- An estimate -------------------------------------------------------- */

/* Returns the work of the busiest rank for a minibatch, in seconds. */
static double busiest(const struct vp_cost_table *costs,
                      const struct vp_schedule *schedule, const double *speeds,
                      const int *partition)
{
    double load[VP_MAX_STAGES] = { 0.0 }, most = 0.0;

    for (int s = 0, first = 0; s < schedule->n_stages; s++) {
        int rank = schedule->stages[s].first_rank;

        load[rank] += stage_cost(costs, first, partition[s]) * speeds[rank] /
                      schedule->stages[s].n_replicas;
        most = load[rank] > most ? load[rank] : most;
        first += partition[s];
    }
    return most;
}

enum vp_status vp_imbalance_estimate(const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_seconds *stages,
                                     double *share_out)
{
    double speeds[VP_MAX_STAGES], now;
    int partition[VP_MAX_STAGES];

    rank_speeds(costs, plan, schedule, stages, speeds);
    now = busiest(costs, schedule, speeds, plan->partition);
    VP_TRY(balance(costs, schedule, speeds, partition));
    *share_out = 1.0 - busiest(costs, schedule, speeds, partition) / now;
    return VP_OK;
}

/* ---- The search --------------------------------------------------------- */

/* Inputs of a search for a partition. */
struct search {
    const struct vp_cost_table *costs;
    const struct vp_schedule *schedule;
    const struct vp_stage_seconds *stages; /* as measured */
    double speeds[VP_MAX_STAGES];          /* per rank: seconds per cost */
};

/* Computes simulated seconds of a step. The current partition is simulated,
 * too, so that errors of the model affect all partitions alike. */
static enum vp_status try_partition(const struct search *search,
                                    const int *partition, double *seconds_out,
                                    struct vp_err *err)
{
    struct vp_stage_seconds stages[VP_MAX_STAGES];

    scale_stages(search->costs, search->schedule, search->stages,
                 search->speeds, partition, stages);
    return simulate(search->schedule, stages, seconds_out, err);
}

/* Takes one block from stage `from` and gives one to stage `to`; the stages
 * between them keep their number of blocks. Undone unless the step becomes
 * shorter. */
static enum vp_status try_shift(const struct search *search, int from, int to,
                                int *partition, double *seconds, bool *better,
                                struct vp_err *err)
{
    double then;

    if (from == to || partition[from] == 1)
        return VP_OK;
    partition[from]--;
    partition[to]++;
    VP_TRY(try_partition(search, partition, &then, err));
    if (then < *seconds * (1.0 - LEAST_HELP)) {
        *seconds = then;
        *better = true;
    } else {
        partition[from]++;
        partition[to]--;
    }
    return VP_OK;
}

/* Moves single blocks: while a pipeline fills and drains, equal work does not
 * give the shortest step. */
static enum vp_status refine(const struct search *search, int *partition,
                             double *seconds, struct vp_err *err)
{
    int n = search->schedule->n_stages;
    bool better = true;

    while (better) {
        better = false;
        for (int i = 0; i < n * n; i++)
            VP_TRY(try_shift(search, i / n, i % n, partition, seconds, &better,
                             err));
    }
    return VP_OK;
}

static enum vp_status find(struct search *search, const struct vp_plan *plan,
                           struct vp_imbalance *out, struct vp_err *err)
{
    int n = search->schedule->n_stages;

    rank_speeds(search->costs, plan, search->schedule, search->stages,
                search->speeds);
    VP_TRY(try_partition(search, plan->partition, &out->now, err));
    if (balance(search->costs, search->schedule, search->speeds,
                out->partition) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "balancing: out of memory");
    VP_TRY(try_partition(search, out->partition, &out->then, err));
    VP_TRY(refine(search, out->partition, &out->then, err));
    out->same = memcmp(out->partition, plan->partition,
                       (size_t)n * sizeof(int)) == 0;
    return VP_OK;
}

enum vp_status vp_imbalance_find(const struct vp_cost_table *costs,
                                 const struct vp_plan *plan,
                                 const struct vp_stage_seconds *stages,
                                 struct vp_imbalance *out, struct vp_err *err)
{
    struct search search = { .costs = costs, .stages = stages };
    struct vp_schedule schedule;
    enum vp_status st;

    *out = (struct vp_imbalance){ .same = true };
    VP_TRY(
        vp_plan_make_schedule(plan, &costs->work->graphs[0], &schedule, err));
    search.schedule = &schedule;
    st = schedule.n_ranks <= VP_MAX_STAGES
             ? find(&search, plan, out, err)
             : vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "re-balancing supports at most %d ranks, but the run "
                          "has %d; use fewer ranks",
                          VP_MAX_STAGES, schedule.n_ranks);
    vp_schedule_release(&schedule);
    return st;
}
