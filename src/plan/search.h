/* The search for a plan: schedule, partition, and for every block what is kept,
 * recomputed or swapped, chosen together so that the simulated step is shortest
 * and every rank's exact bytes fit its memory. Deterministic; no device, no I/O.
 *
 *   for every schedule (placement, form of recomputation)     trial_variants.c
 *     cuts: seeds, then moves of blocks between neighbours     trial_cuts.c
 *       per rank: the cheapest choices that fit                trial_fit.c
 *         seconds per byte of peak saved, block by block       trial_blocks.c
 *     estimated seconds                                        trial_time.c
 *   the best by exact bytes and simulated seconds, and `auto`
 *   lists for it                                               search.c
 *   memory that is left, for its first slots                   search_slots.c
 */
#ifndef VP_PLAN_SEARCH_H
#define VP_PLAN_SEARCH_H

#include "plan/costs.h"
#include "plan/search_input.h"

/* A workload on a device: what searches with other limits share. Remembers
 * every stage that was priced. Not for several threads. */
struct vp_search;

/* `work` and `profile` must outlive the search. */
enum vp_status vp_search_create(const struct vp_workload *work,
                                const struct vp_device_profile *profile,
                                struct vp_search **out);
void vp_search_free(struct vp_search *search);
const struct vp_cost_table *vp_search_costs(const struct vp_search *search);

/* Why a schedule is not part of the answer. */
enum vp_search_refusal_kind {
    VP_SEARCH_SLOWER,  /* than the best; `seconds` of a minibatch */
    VP_SEARCH_MEMORY,  /* lacks `bytes` on rank `rank` at least */
    VP_SEARCH_REFUSED, /* by its generator: `text` */
};

struct vp_search_refusal {
    const char *schedule; /* name of a generator */
    int n_chunks;
    bool v_shape, in_b;
    enum vp_search_refusal_kind kind;
    double seconds;
    int64_t bytes;
    int rank;
    char text[160];
};

/* A plan with its price. `plan` borrows `arena`. */
struct vp_search_result {
    struct vp_plan plan;
    struct vp_stage_price prices[VP_MAX_STAGES];
    struct vp_plan_forecast_time time;
    int n_stages, n_ranks;
    int n_slots[VP_MAX_STAGES], n_versions[VP_MAX_STAGES];
    int rank[VP_MAX_STAGES]; /* the first that owns the stage */
    struct vp_stage_costs costs[VP_MAX_STAGES];
    double recomputed[VP_MAX_STAGES];  /* seconds of a minibatch, in R or B */
    int64_t rank_bytes[VP_MAX_STAGES]; /* per stage without chunks */
    struct vp_search_refusal refused[VP_SEARCH_MAX_VARIANTS];
    int n_refused;
    int n_simulated; /* plans */
    struct vp_arena arena;
};

/* Finds the plan. VP_ERR_UNSUPPORTED: no plan fits; the message says how much
 * the one that needs least lacks. Release the result after VP_OK. */
enum vp_status vp_search_run(struct vp_search *search,
                             const struct vp_search_input *input,
                             struct vp_search_result *out, struct vp_err *err);
void vp_search_result_release(struct vp_search_result *result);

/* Prices one plan as it is; whether it fits is left to the caller. */
enum vp_status vp_search_price(struct vp_search *search,
                               const struct vp_plan *plan,
                               struct vp_search_result *out,
                               struct vp_err *err);
/* Returns true if every rank of a priced plan has room; NULL: no limit. */
bool vp_search_fits(const struct vp_search_result *result,
                    const int64_t *limits);

/* Lets the first slots of stages keep what the rest recomputes or swaps, as far
 * as memory has room; `best` becomes that plan if it is faster. */
enum vp_status vp_search_fill_slots(struct vp_search *search,
                                    const struct vp_search_input *input,
                                    struct vp_search_result *best,
                                    struct vp_err *err);

/* Bytes of the rank that needs most. */
int64_t vp_search_largest_rank(const struct vp_search_result *result);
/* The share of all work that is recomputation. */
double vp_search_recomputed(const struct vp_search_result *result);

/* The least limit, the same for all ranks, for which a plan is found, to within
 * 1/256 of it; `result` is its plan. */
enum vp_status vp_search_least(struct vp_search *search,
                               const struct vp_search_input *input,
                               int64_t *bytes_out, struct vp_search_result *out,
                               struct vp_err *err);

#endif
