/* Counts stages and ranks of a plan, and makes its schedule. */
#include "plan/plan.h"

#include "graph/recompute.h"

#include <string.h>

/* Minimum number of minibatches of a stream that are proven and simulated. It
 * is enough for every default depth. */
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

int vp_plan_n_groups(const struct vp_plan *plan)
{
    int n_stages = at_least_one(plan->n_stages), n = 0;

    for (int s = 0; s < n_stages; s++)
        n += plan->replicas ? plan->replicas[s] : 1;
    return n;
}

int vp_plan_n_ranks(const struct vp_plan *plan)
{
    return vp_plan_n_groups(plan) * at_least_one(plan->tensor_parallel);
}

struct vp_plan vp_plan_portable(const struct vp_plan *plan)
{
    struct vp_plan portable = *plan;

    portable.devices = NULL;
    portable.edges = portable.replica_edges = NULL;
    portable.tie_edge = VP_EDGE_LOCAL;
    return portable;
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

/* Returns true if the sets of blocks [first, first + n), or without sets the
 * ratio of stage s, select any operator. */
static bool names_any(const uint64_t *sets, const double *ratios, int s,
                      int first, int n)
{
    return sets ? vp_recompute_any(sets + first, n) : ratios && ratios[s] > 0.0;
}

/* Returns true if `sets` differ from `of_plan` in blocks [first, first + n). */
static bool differ(const uint64_t *sets, const uint64_t *of_plan, int first,
                   int n)
{
    return sets && (!of_plan || memcmp(sets + first, of_plan + first,
                                       (size_t)n * sizeof(*sets)) != 0);
}

bool vp_plan_slot_differs(const struct vp_plan *plan, int slot, int first,
                          int n)
{
    const struct vp_plan_slot *at = &plan->slots[slot];

    return differ(at->recompute_sets, plan->recompute_sets, first, n) ||
           differ(at->swap_sets, plan->swap_sets, first, n);
}

int vp_plan_n_first_slots(const struct vp_plan *plan, int first, int n,
                          int n_slots)
{
    int i = 0;

    while (i < plan->n_slots && i < n_slots &&
           vp_plan_slot_differs(plan, i, first, n))
        i++;
    return i;
}

void vp_plan_mark_stages(const struct vp_plan *plan, int n_blocks,
                         struct vp_plan_stages *out)
{
    int first = 0;

    for (int s = 0; s < vp_plan_n_stages(plan); s++) {
        int n = plan->partition ? plan->partition[s] : n_blocks;

        out->recompute[s] = !plan->recompute_in_b &&
                            names_any(plan->recompute_sets,
                                      plan->recompute_ratio, s, first, n);
        out->swap[s] = 0;
        for (int i = 0; i < plan->n_slots; i++)
            out->recompute[s] |= !plan->recompute_in_b &&
                                 plan->slots[i].recompute_sets &&
                                 vp_recompute_any(
                                     plan->slots[i].recompute_sets + first, n);
        if (names_any(plan->swap_sets, plan->swap_ratio, s, first, n) ||
            (plan->n_slots > 0 && plan->slots[0].swap_sets &&
             vp_recompute_any(plan->slots[0].swap_sets + first, n)))
            out->swap[s] = plan->swap_buffers ? plan->swap_buffers[s]
                                              : VP_SWAP_DEFAULT;
        first += n;
    }
}

struct vp_sched_config vp_plan_sched_config(const struct vp_plan *plan,
                                            int n_blocks,
                                            struct vp_plan_stages *stages)
{
    const struct vp_generator *generator = generator_of(plan);

    vp_plan_mark_stages(plan, n_blocks, stages);
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
        .recompute = stages->recompute,
        .w_recomputed = plan->w_recomputed,
        .swap = stages->swap,
        .early_recompute = plan->early_recompute,
        .global_norm = !generator->stream,
    };
}

static void keep_first(void *ctx, const struct vp_err *mistake)
{
    struct vp_err *first = ctx;

    if (first && !first->text[0])
        *first = *mistake;
}

static enum vp_status prove(const struct vp_sched_config *config,
                            struct vp_schedule *out, struct vp_err *err)
{
    enum vp_status st;

    VP_TRY(vp_schedule_make(config, out, err));
    st = vp_schedule_validate(out, err);
    if (st != VP_OK)
        vp_schedule_release(out);
    return st;
}

enum vp_status vp_plan_make_schedule(const struct vp_plan *plan,
                                     const struct vp_graph *graph,
                                     struct vp_schedule *out,
                                     struct vp_err *err)
{
    struct vp_plan_stages stages;
    struct vp_sched_config config;
    struct vp_schedule schedule;
    enum vp_status st;

    vp_err_set(err, VP_OK, "%s", "");
    if (vp_plan_check(plan, graph, keep_first, err) > 0)
        return VP_ERR_INVALID;
    config = vp_plan_sched_config(plan, graph->n_blocks, &stages);
    st = prove(&config, &schedule, err);
    if (st != VP_OK) {
        if (err)
            err->fields = "schedule chunks stages replicas warmup_depths";
        return st;
    }
    *out = schedule;
    return VP_OK;
}
