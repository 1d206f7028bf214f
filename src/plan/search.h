/* The search for a plan: schedule, partition, and for every block what is kept,
 * recomputed or swapped, chosen together so that the simulated step is shortest
 * and every rank's exact bytes fit its memory. Deterministic; no device, no I/O.
 *
 *   for every schedule (placement, form of recomputation)     trial_variants.c
 *     cuts: seeds, then moves of blocks between neighbours     trial_cuts.c
 *       per rank: the cheapest choices that fit                trial_fit.c
 *         seconds per byte of peak saved, block by block       trial_blocks.c
 *     estimated seconds                                        trial_time.c
 *   the best by exact bytes and simulated seconds, and lists
 *   of the schedule `auto` for it                              search.c
 *   remaining memory goes to its first slots                   search_slots.c
 */
#ifndef VP_PLAN_SEARCH_H
#define VP_PLAN_SEARCH_H

#include "plan/costs.h"
#include "plan/search_input.h"

/* A workload on a device, shared by searches with different limits. Remembers
 * every stage that was priced. One thread at a time. */
struct vp_search;

/* `work` and `profile` must outlive the search. */
enum vp_status vp_search_create(const struct vp_workload *work,
                                const struct vp_device_profile *profile,
                                struct vp_search **out);
void vp_search_free(struct vp_search *search);
/* Borrowed from the search. */
const struct vp_cost_table *vp_search_costs(const struct vp_search *search);

/* Reason why a schedule is not the result. */
enum vp_search_refusal_kind {
    VP_SEARCH_SLOWER,  /* slower than the best: `seconds` per minibatch */
    VP_SEARCH_MEMORY,  /* lacks `bytes` in all, most on rank `rank` */
    VP_SEARCH_REFUSED, /* its generator refused: `text` */
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
    int rank[VP_MAX_STAGES]; /* first rank that owns the stage */
    struct vp_stage_costs costs[VP_MAX_STAGES];
    /* Recomputation in R or B, seconds per minibatch. */
    double recomputed[VP_MAX_STAGES];
    int64_t rank_bytes[VP_MAX_STAGES]; /* per stage without chunks */
    struct vp_search_refusal refused[VP_SEARCH_MAX_VARIANTS];
    int n_refused;
    int n_simulated; /* number of simulated plans */
    struct vp_arena arena;
};

/* Finds the fastest plan that fits. VP_ERR_UNSUPPORTED: no plan fits; the
 * message names the bytes that the smallest plan lacks. Release the result
 * after VP_OK. */
enum vp_status vp_search_run(struct vp_search *search,
                             const struct vp_search_input *input,
                             struct vp_search_result *out, struct vp_err *err);
void vp_search_result_release(struct vp_search_result *result);

/* Prices the given plan, whether or not it fits; see vp_search_fits(). */
enum vp_status vp_search_price(struct vp_search *search,
                               const struct vp_plan *plan,
                               struct vp_search_result *out,
                               struct vp_err *err);
/* Returns true if the bytes of every rank are within its limit. `limits` NULL:
 * no limits. */
bool vp_search_fits(const struct vp_search_result *result,
                    const int64_t *limits);

/* Lets the first slots of stages keep activations that the other slots
 * recompute or swap, as far as memory allows. Replaces `best` if the new plan
 * is faster. */
enum vp_status vp_search_fill_slots(struct vp_search *search,
                                    const struct vp_search_input *input,
                                    struct vp_search_result *best,
                                    struct vp_err *err);

/* Returns the bytes of the rank that needs most. */
int64_t vp_search_largest_rank(const struct vp_search_result *result);
/* Returns the fraction of all computing time that is recomputation. */
double vp_search_recomputed(const struct vp_search_result *result);

/* Finds the smallest limit, equal for all ranks, for which there is a plan, to
 * within 1/256; `out` is that plan. */
enum vp_status vp_search_least(struct vp_search *search,
                               const struct vp_search_input *input,
                               int64_t *bytes_out, struct vp_search_result *out,
                               struct vp_err *err);

#endif
