/* The search, and other planners to compare it with. The plans of the others
 * are priced even if they do not fit. */
#include "plan/planner.h"

#include "plan/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The plan that a planner makes, with its arrays. */
struct draft {
    int partition[VP_MAX_STAGES];
    double ratio[VP_MAX_STAGES];
    struct vp_plan plan;
};

static int n_ranks_of(const struct vp_search_input *input)
{
    return input->base->n_stages > 0 ? input->base->n_stages : 1;
}

/* Sets one stage per rank, no recomputation, and the plain schedule. */
static void begin(const struct vp_search_input *input, struct draft *out)
{
    out->plan = *input->base;
    out->plan.n_stages = n_ranks_of(input);
    out->plan.n_chunks = 1;
    out->plan.partition = out->partition;
    out->plan.schedule = input->stream ? "pipedream" : "1f1b";
    out->plan.schedule_text = NULL;
    out->plan.schedule_memory = 0;
    out->plan.schedule_v = false;
    out->plan.recompute_ratio = NULL;
    out->plan.recompute_sets = NULL;
    out->plan.recompute_in_b = false;
    out->plan.swap_ratio = NULL;
    out->plan.swap_sets = NULL;
    out->plan.swap_buffers = NULL;
    out->plan.slots = NULL;
    out->plan.n_slots = 0;
    out->plan.early_recompute = false;
    if (input->base->n_chunks > 1) {
        out->plan.edges = NULL; /* the base's edges are those of its chunks */
        out->plan.replica_edges = NULL;
    }
}

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
}

static enum vp_status refuse_stages(int n_blocks, int n_stages,
                                    struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "%d stages for %d blocks; use fewer stages", n_stages,
                      n_blocks);
}

/* Balances blocks with the given weights. */
static enum vp_status balance(const struct vp_search *search,
                              const struct vp_search_input *input,
                              const double *weights, int *partition,
                              struct vp_err *err)
{
    int n = vp_search_costs(search)->n_blocks, n_stages = n_ranks_of(input);
    double *costs = calloc((size_t)n * (size_t)n_stages, sizeof(*costs));
    enum vp_status st = costs ? VP_OK : VP_ERR_NOMEM;

    if (n < n_stages) {
        free(costs);
        return refuse_stages(n, n_stages, err);
    }
    for (int s = 0; costs && s < n_stages; s++)
        for (int b = 0; b < n; b++)
            costs[s * n + b] = weights[b] / (input->base->replicas
                                                 ? input->base->replicas[s]
                                                 : 1);
    if (st == VP_OK)
        st = vp_plan_balance(costs, n, n_stages, partition);
    free(costs);
    return st == VP_OK ? VP_OK : no_memory(err);
}

static double block_seconds(const struct vp_search *search, int b)
{
    const struct vp_block_seconds *s =
        &vp_search_costs(search)->blocks[b].alone;

    return s->f + s->b + s->w;
}

enum measure { BLOCKS, FLOPS, SECONDS, SECONDS_TWICE };

static enum vp_status cut(const struct vp_search *search,
                          const struct vp_search_input *input,
                          enum measure measure, int *partition,
                          struct vp_err *err)
{
    const struct vp_cost_table *costs = vp_search_costs(search);
    double *weights = calloc((size_t)costs->n_blocks, sizeof(*weights));
    enum vp_status st;

    if (!weights)
        return no_memory(err);
    for (int b = 0; b < costs->n_blocks; b++)
        switch (measure) {
        case BLOCKS:
            weights[b] = 1.0;
            break;
        case FLOPS:
            weights[b] = vp_graph_flops(&costs->work->graphs[0], b, 1);
            break;
        /* Forward runs twice: once more for recomputation. */
        case SECONDS_TWICE:
            weights[b] = block_seconds(search, b) + costs->blocks[b].alone.f;
            break;
        default:
            weights[b] = block_seconds(search, b);
        }
    st = balance(search, input, weights, partition, err);
    free(weights);
    return st;
}

/* ---- Planners ----------------------------------------------------------- */

static enum vp_status plan_even(struct vp_search *search,
                                const struct vp_search_input *input,
                                struct vp_search_result *out,
                                struct vp_err *err)
{
    struct draft draft;

    begin(input, &draft);
    VP_TRY(cut(search, input, BLOCKS, draft.partition, err));
    return vp_search_price(search, &draft.plan, out, err);
}

static enum vp_status plan_flops(struct vp_search *search,
                                 const struct vp_search_input *input,
                                 struct vp_search_result *out,
                                 struct vp_err *err)
{
    struct draft draft;

    begin(input, &draft);
    VP_TRY(cut(search, input, FLOPS, draft.partition, err));
    return vp_search_price(search, &draft.plan, out, err);
}

static enum vp_status plan_gpipe(struct vp_search *search,
                                 const struct vp_search_input *input,
                                 struct vp_search_result *out,
                                 struct vp_err *err)
{
    struct draft draft;

    begin(input, &draft);
    draft.plan.schedule = "gpipe";
    draft.plan.recompute_ratio = draft.ratio;
    draft.plan.depth = NULL;
    draft.plan.keep_all = false; /* with keep_all, ratios have no effect */
    if (draft.plan.accumulation_steps < 1)
        draft.plan.accumulation_steps = 32;
    for (int s = 0; s < draft.plan.n_stages; s++)
        draft.ratio[s] = 1.0;
    VP_TRY(cut(search, input, SECONDS_TWICE, draft.partition, err));
    return vp_search_price(search, &draft.plan, out, err);
}

/* PipeDream's dynamic program for a pipeline without replicas:
 *
 *   A(j, m) = min over k < j of max(A(k, m - 1), seconds of blocks k .. j - 1)
 *
 * the first k among equals. Messages are not counted, as in the published form
 * without compression. */
static void pipedream_cut(const struct vp_search *search, int n, int n_stages,
                          double *best, int *from, int *partition)
{
    for (int m = 1; m <= n_stages; m++)
        for (int j = m; j <= n; j++) {
            double seconds = 0.0, *to = &best[m * (n + 1) + j];

            *to = INFINITY;
            for (int k = j - 1; k >= m - 1; k--) {
                double value = k == 0 && m == 1 ? 0.0
                                                : best[(m - 1) * (n + 1) + k];

                seconds += block_seconds(search, k);
                value = value > seconds ? value : seconds;
                if ((m > 1 || k == 0) && value <= *to) {
                    *to = value;
                    from[m * (n + 1) + j] = k;
                }
            }
        }
    for (int m = n_stages, j = n; m > 0; m--) {
        int k = from[m * (n + 1) + j];

        partition[m - 1] = j - k;
        j = k;
    }
}

static enum vp_status plan_pipedream(struct vp_search *search,
                                     const struct vp_search_input *input,
                                     struct vp_search_result *out,
                                     struct vp_err *err)
{
    int n = vp_search_costs(search)->n_blocks, n_stages = n_ranks_of(input);
    size_t cells = ((size_t)n + 1) * ((size_t)n_stages + 1);
    double *best = calloc(cells, sizeof(*best));
    int *from = calloc(cells, sizeof(*from));
    enum vp_status st = best && from ? VP_OK : no_memory(err);
    struct draft draft;

    begin(input, &draft);
    if (st == VP_OK && n < n_stages)
        st = refuse_stages(n, n_stages, err);
    if (st == VP_OK) {
        pipedream_cut(search, n, n_stages, best, from, draft.partition);
        st = vp_search_price(search, &draft.plan, out, err);
    }
    free(best);
    free(from);
    return st;
}

static enum vp_status plan_given(struct vp_search *search,
                                 const struct vp_search_input *input,
                                 struct vp_search_result *out,
                                 struct vp_err *err)
{
    return vp_search_price(search, input->base, out, err);
}

static const struct vp_planner planners[] = {
    { "vpipe", "schedule, partition and recomputation searched together",
      vp_search_run },
    { "pipedream", "PipeDream's dynamic program, nothing recomputed",
      plan_pipedream },
    { "gpipe", "balanced by time, everything recomputed", plan_gpipe },
    { "even", "the same number of blocks per stage, nothing recomputed",
      plan_even },
    { "flops", "balanced by FLOPs, nothing recomputed", plan_flops },
    { "given", "the configuration's own plan", plan_given },
};

const struct vp_planner *vp_planner_at(int i)
{
    bool inside = i >= 0 && (size_t)i < VP_COUNT_OF(planners);

    return inside ? &planners[i] : NULL;
}

const struct vp_planner *vp_planner_find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(planners); i++)
        if (strcmp(planners[i].name, name) == 0)
            return &planners[i];
    return NULL;
}
