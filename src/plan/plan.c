#include "plan/plan.h"

#include "graph/recompute.h"

/* Minibatches of a stream that are proven and simulated, at least. Default
 * depths need no longer proof. */
enum { STREAM_MB = 64 };

static const struct vp_generator *generator_of(const struct vp_plan *plan)
{
    static const char fallback[] = "1f1b";

    return vp_generator_find(plan->schedule ? plan->schedule : fallback);
}

static int at_least_one(int n)
{
    return n > 0 ? n : 1;
}

int vp_plan_n_stages(const struct vp_plan *plan)
{
    return at_least_one(plan->n_stages) * at_least_one(plan->n_chunks);
}

/* ---- Checks ------------------------------------------------------------- */

static enum vp_status check_partition(const struct vp_plan *plan, int n_blocks,
                                      struct vp_err *err)
{
    int n_stages = vp_plan_n_stages(plan), sum = 0;

    if (!plan->partition && n_stages == 1)
        return VP_OK;
    if (!plan->partition)
        return vp_err_refuse(err, "stages partition",
                             "%d stages need a partition of the %d blocks",
                             n_stages, n_blocks);
    for (int s = 0; s < n_stages; s++) {
        if (plan->partition[s] < 1)
            return vp_err_refuse(
                err, "partition",
                "partition: stage %d has %d blocks; give every "
                "stage at least 1",
                s, plan->partition[s]);
        sum += plan->partition[s];
    }
    if (sum != n_blocks)
        return vp_err_refuse(err, "partition",
                             "partition: the stages have %d blocks, the model "
                             "has %d; make them equal",
                             sum, n_blocks);
    return VP_OK;
}

static enum vp_status check_recomputed(const struct vp_plan *plan,
                                       const struct vp_graph *graph,
                                       struct vp_err *err)
{
    if (plan->recompute_sets)
        return vp_recompute_check(graph, 0, graph->n_blocks,
                                  plan->recompute_sets, err);
    for (int s = 0; plan->recompute_ratio && s < vp_plan_n_stages(plan); s++)
        if (!(plan->recompute_ratio[s] >= 0.0 &&
              plan->recompute_ratio[s] <= 1.0))
            return vp_err_refuse(err, "recompute_ratio",
                                 "recompute_ratio %g is outside 0..1",
                                 plan->recompute_ratio[s]);
    return VP_OK;
}

static enum vp_status check_ties(const struct vp_plan *plan,
                                 const struct vp_graph *graph,
                                 struct vp_err *err)
{
    bool tied = false;

    for (vp_par par = 0; par < graph->n_params; par++)
        tied |= graph->params[par].tied_to != VP_NONE;
    if (tied && generator_of(plan)->stream && vp_plan_n_stages(plan) > 1)
        return vp_err_refuse(
            err, "sync_mode tie_embeddings",
            "tied embeddings in different stages need sync_mode "
            "bsp; set tie_embeddings: false");
    return VP_OK;
}

/* ---- The schedule ------------------------------------------------------- */

static int n_planned(const struct vp_plan *plan, bool stream)
{
    int64_t n = STREAM_MB;

    if (!stream)
        return plan->accumulation_steps;
    if (plan->depth)
        n = vp_schedule_proof_mb(plan->replicas, plan->depth,
                                 at_least_one(plan->n_stages));
    return n < STREAM_MB ? STREAM_MB : n < INT32_MAX ? (int)n : INT32_MAX;
}

/* Which stages recompute. With sets the partition must have been checked. */
static void mark_recomputing(const struct vp_plan *plan, int n_blocks,
                             bool *recompute)
{
    int first = 0;

    for (int s = 0; s < vp_plan_n_stages(plan); s++) {
        int n = plan->partition ? plan->partition[s] : n_blocks;

        if (plan->recompute_sets)
            recompute[s] = vp_recompute_any(plan->recompute_sets + first, n);
        else
            recompute[s] = plan->recompute_ratio &&
                           plan->recompute_ratio[s] > 0.0;
        first += n;
    }
}

struct vp_sched_config vp_plan_sched_config(const struct vp_plan *plan,
                                            int n_blocks,
                                            bool recompute[VP_MAX_STAGES])
{
    const struct vp_generator *generator = generator_of(plan);

    mark_recomputing(plan, n_blocks, recompute);
    return (struct vp_sched_config){
        .name = generator->name,
        .n_stages = at_least_one(plan->n_stages),
        .n_chunks = at_least_one(plan->n_chunks),
        .v_shape = plan->schedule_v,
        .memory = plan->schedule_memory,
        .text = plan->schedule_text,
        .n_mb = n_planned(plan, generator->stream),
        .replicas = plan->replicas,
        .depth = plan->depth,
        .recompute = recompute,
        .early_recompute = plan->early_recompute,
        .global_norm = !generator->stream,
    };
}

enum vp_status vp_plan_make_schedule(const struct vp_plan *plan,
                                     const struct vp_graph *graph,
                                     struct vp_schedule *out,
                                     struct vp_err *err)
{
    bool recompute[VP_MAX_STAGES];
    struct vp_sched_config config;
    struct vp_schedule schedule;
    enum vp_status st;

    if (!generator_of(plan))
        return vp_err_refuse(err, "schedule", "unknown schedule '%s'",
                             plan->schedule);
    if (vp_plan_n_stages(plan) > VP_MAX_STAGES)
        return vp_err_refuse(err, "stages", "%d stages; at most %d",
                             vp_plan_n_stages(plan), VP_MAX_STAGES);
    if (plan->recompute_sets)
        VP_TRY(check_partition(plan, graph->n_blocks, err));
    config = vp_plan_sched_config(plan, graph->n_blocks, recompute);
    st = vp_schedule_make(&config, &schedule, err);
    if (st == VP_OK) {
        st = vp_schedule_validate(&schedule, err);
        if (st != VP_OK)
            vp_schedule_release(&schedule);
    }
    if (st != VP_OK) {
        err->fields = "schedule chunks stages replicas warmup_depths";
        return st;
    }
    st = check_partition(plan, graph->n_blocks, err);
    if (st == VP_OK)
        st = check_recomputed(plan, graph, err);
    if (st == VP_OK)
        st = check_ties(plan, graph, err);
    if (st != VP_OK) {
        vp_schedule_release(&schedule);
        return st;
    }
    *out = schedule;
    return VP_OK;
}
