/* Computes the forecast of a run: parameters and FLOPs of each stage, and the
 * simulated bubble. */
#include "run/forecast.h"

#include "graph/recompute.h"

/* ---- Stages ------------------------------------------------------------- */

static int64_t count_params(const struct vp_graph *graph, int first, int n)
{
    int64_t sum = 0;

    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];

        if (param->block >= first && param->block < first + n &&
            !param->constant && param->tied_to == VP_NONE)
            sum += vp_param_whole_count(param);
    }
    return sum;
}

static void count_lines(const struct vp_train_config *train,
                        struct vp_run_stage *stage)
{
    const struct vp_graph *graph = &train->graphs[0];
    int first = stage->first_block, n = stage->n_blocks;

    stage->n_lines = vp_recompute_n_lines(graph, first, n);
    stage->n_recomputed_lines =
        train->plan.recompute_sets
            ? vp_recompute_count_lines(graph, first, n,
                                       train->plan.recompute_sets + first)
            : vp_recompute_tail_lines(graph, first, n, stage->recompute_ratio);
}

/* Returns GFLOP per minibatch of one rank, as its programs have it, in place of
 * times. A B that is not split contains the weight gradients. */
static struct vp_stage_costs stage_costs(const struct vp_schedule *schedule,
                                         const struct vp_stage_price *price,
                                         const struct vp_graph *graph,
                                         const struct vp_run_stage *stage)
{
    bool split = schedule->split;
    double w = split ? price->flops[VP_LIST_W]
                     : vp_graph_phase_flops(graph, stage->first_block,
                                            stage->n_blocks, VP_PHASE_W);
    double b = price->flops[VP_LIST_B];

    return (struct vp_stage_costs){
        .f = 1e-9 * price->flops[VP_LIST_F],
        .r = 1e-9 * price->flops[VP_LIST_R],
        .b = 1e-9 * (split ? b : b - w),
        .w = 1e-9 * w,
    };
}

static void plan_stages(const struct vp_train_config *train,
                        const struct vp_schedule *schedule,
                        const struct vp_stage_price *prices,
                        struct vp_run_stage *stages,
                        struct vp_stage_costs *costs)
{
    const struct vp_graph *graph = &train->graphs[0];
    int first = 0;

    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *plan = &schedule->stages[s];
        struct vp_run_stage *stage = &stages[s];

        *stage = (struct vp_run_stage){
            .first_block = first,
            .n_blocks = train->plan.partition ? train->plan.partition[s]
                                              : graph->n_blocks,
            .recompute_ratio = train->plan.recompute_ratio
                                   ? train->plan.recompute_ratio[s]
                                   : 0.0,
            .first_rank = plan->first_rank * graph->n_members,
            .n_ranks = plan->n_replicas * graph->n_members,
            .depth = plan->depth,
            .n_slots = plan->n_slots,
            .n_versions = plan->n_versions,
            .swap_bytes = prices[s].swap_bytes,
            .swap_host_bytes = prices[s].swapped,
            .n_swap_out = plan->n_swap_out,
            .n_swap_in = plan->n_swap_in,
            .memory = &prices[s].memory,
        };
        stage->n_params = count_params(graph, first, stage->n_blocks);
        count_lines(train, stage);
        costs[s] = stage_costs(schedule, &prices[s], graph, stage);
        stage->gflops = (costs[s].f + costs[s].r + costs[s].b + costs[s].w) *
                        graph->n_members;
        first += stage->n_blocks;
    }
}

/* ---- Bubble ------------------------------------------------------------- */

static struct vp_stage_costs mean_costs(const struct vp_stage_costs *costs,
                                        int n)
{
    struct vp_stage_costs mean = { .f = 0.0 };

    for (int s = 0; s < n; s++) {
        mean.f += costs[s].f / n;
        mean.b += costs[s].b / n;
        mean.w += costs[s].w / n;
        mean.r += costs[s].r / n;
    }
    return mean;
}

/* Returns the bubble that the schedule would have if all stages had the mean
 * work. */
static double theory(const struct vp_train_config *train,
                     const struct vp_schedule *schedule,
                     const struct vp_stage_costs *costs)
{
    struct vp_stage_costs mean = mean_costs(costs, schedule->n_stages);
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config = {
        .name = schedule->name,
        .n_stages = train->plan.n_stages,
        .n_chunks = train->plan.n_chunks,
        .v_shape = train->plan.schedule_v,
        .memory = train->plan.schedule_memory,
        .n_mb = schedule->n_mb,
        .replicas = train->plan.replicas,
        .depth = train->plan.depth,
        .recompute = recompute,
        .early_recompute = train->plan.early_recompute,
    };

    for (int s = 0; s < VP_MAX_STAGES; s++)
        recompute[s] = mean.r > 0.0;
    if (train->plan.schedule_text)
        return vp_schedule_list_theory(schedule, &mean);
    return vp_schedule_theory(&config, &mean);
}

enum vp_status vp_forecast_make(const struct vp_train_config *train,
                                const struct vp_schedule *schedule,
                                const struct vp_stage_price *prices,
                                struct vp_run_stage stages[VP_MAX_STAGES],
                                struct vp_run_summary *summary,
                                struct vp_err *err)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct vp_timing timing;

    plan_stages(train, schedule, prices, stages, costs);
    VP_TRY(vp_simulate(schedule, &(struct vp_sched_costs){ .stages = costs },
                       &timing, err));
    summary->stages = stages;
    summary->n_stages = schedule->n_stages;
    for (int s = 0; s < schedule->n_stages; s++)
        summary->gflops_per_step += stages[s].gflops *
                                    train->plan.accumulation_steps;
    summary->n_members = train->graphs[0].n_members;
    summary->n_ranks = schedule->n_ranks * summary->n_members;
    summary->rank_numbers = train->rank_numbers;
    summary->schedule = schedule->name;
    summary->asp = vp_generator_find(schedule->name)->stream;
    summary->group_size = schedule->n_mb;
    summary->n_actions = schedule->n_actions;
    vp_schedule_explain(schedule, summary->lists, sizeof(summary->lists));
    summary->bubble_simulated = timing.bubble;
    summary->bubble_theory = theory(train, schedule, costs);
    vp_timing_release(&timing);
    return VP_OK;
}
