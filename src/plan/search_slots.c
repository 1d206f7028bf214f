/* Uses the remaining memory of a plan: the first minibatches in flight keep
 * activations that the others recompute or swap, as far as every rank has
 * room. */
#include "plan/search.h"

#include "plan/trial.h"

#include <stdlib.h>
#include <string.h>

/* A plan whose slots are being filled. */
struct fill {
    struct vp_search *search;
    const struct vp_search_input *input;
    const struct vp_search_result *best;
    struct vp_schedule schedule; /* does not depend on slots */
    struct vp_plan plan;
    struct vp_plan_slot *slots;
    uint64_t *recompute, *swap; /* [n_slots, blocks]: the sets of every slot */
    int n_slots;
};

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
}

static int first_block(const struct vp_plan *plan, int stage)
{
    int first = 0;

    for (int s = 0; s < stage; s++)
        first += plan->partition[s];
    return first;
}

/* ---- One stage ---------------------------------------------------------- */

/* Lets the first `n_kept` blocks of a stage keep all activations in its first
 * `n_slots` slots. */
static void set_stage(struct fill *fill, int stage, int n_slots, int n_kept)
{
    const struct vp_plan *from = &fill->best->plan;
    int first = first_block(from, stage), n = fill->search->n_blocks;

    for (int i = 0; i < fill->n_slots; i++)
        for (int k = 0; k < from->partition[stage]; k++) {
            bool keeps = i < n_slots && k < n_kept;
            size_t at = (size_t)i * (size_t)n + (size_t)(first + k);

            if (from->recompute_sets)
                fill->recompute[at] = keeps ? 0
                                            : from->recompute_sets[first + k];
            if (from->swap_sets)
                fill->swap[at] = keeps ? 0 : from->swap_sets[first + k];
        }
}

/* Sets `fits_out` if all ranks have enough memory, by exact bytes. */
static enum vp_status has_room(struct fill *fill, bool *fits_out,
                               struct vp_err *err)
{
    struct vp_search_result result = { .plan = fill->plan };
    struct vp_stage_price prices[VP_MAX_STAGES];

    VP_TRY(vp_plan_bytes(fill->search->pricer, &fill->plan, &fill->schedule,
                         prices, err));
    for (int s = 0; s < fill->schedule.n_stages; s++)
        result.rank_bytes[fill->best->rank[s]] += prices[s].memory.total;
    *fits_out = vp_search_fits(&result, fill->input->limits);
    return VP_OK;
}

/* Finds the most blocks of a stage that can keep all activations in `n_slots`
 * slots. */
static enum vp_status most_kept(struct fill *fill, int stage, int n_slots,
                                int *n_out, struct vp_err *err)
{
    int low = 0, high = fill->best->plan.partition[stage];

    while (low < high) {
        int middle = (low + high + 1) / 2;
        bool fits;

        set_stage(fill, stage, n_slots, middle);
        VP_TRY(has_room(fill, &fits, err));
        if (fits)
            low = middle;
        else
            high = middle - 1;
    }
    *n_out = low;
    return VP_OK;
}

/* Returns the seconds that all slots of a stage together save. */
static double saved_seconds(const struct fill *fill, int stage, int n_slots,
                            int n_kept)
{
    const struct vp_plan *from = &fill->best->plan;
    int first = first_block(from, stage);
    double sum = 0.0;

    for (int b = first; b < first + n_kept; b++) {
        if (from->recompute_sets)
            sum += vp_cost_recompute(&fill->search->costs, b,
                                     from->recompute_sets[b]);
        /* Copies run beside computing: a small gain, but not zero. */
        if (from->swap_sets && from->swap_sets[b])
            sum += 0.01 * fill->search->costs.blocks[b].alone.f;
    }
    return sum * n_slots;
}

/* Compares many kept blocks in few slots with few kept blocks in many slots. */
static enum vp_status fill_stage(struct fill *fill, int stage,
                                 struct vp_err *err)
{
    double most = 0.0;
    int n_slots = 0, n_kept = 0;

    for (int k = fill->best->n_slots[stage] - 1; k > 0; k--) {
        double seconds;
        int n;

        VP_TRY(most_kept(fill, stage, k, &n, err));
        seconds = saved_seconds(fill, stage, k, n);
        if (seconds > most) {
            most = seconds;
            n_slots = k;
            n_kept = n;
        }
    }
    set_stage(fill, stage, n_slots, n_kept);
    return VP_OK;
}

/* ---- All ---------------------------------------------------------------- */

/* Stages of a rank share its memory; the busiest stages come first. */
static enum vp_status fill_all(struct fill *fill, struct vp_err *err)
{
    bool done[VP_MAX_STAGES] = { false };

    for (int i = 0; i < fill->best->n_stages; i++) {
        int next = -1;

        for (int s = 0; s < fill->best->n_stages; s++)
            if (!done[s] && (next < 0 || fill->best->time.stage_busy[s] >
                                             fill->best->time.stage_busy[next]))
                next = s;
        done[next] = true;
        VP_TRY(fill_stage(fill, next, err));
    }
    return VP_OK;
}

static void release(struct fill *fill)
{
    vp_schedule_release(&fill->schedule);
    free(fill->slots);
    free(fill->recompute);
    free(fill->swap);
}

/* Gives the plan one slot less than the largest stage has, all with the choices
 * of the plan. */
static enum vp_status open_slots(struct fill *fill, struct vp_err *err)
{
    const struct vp_plan *from = &fill->best->plan;
    size_t n = (size_t)fill->search->n_blocks, n_slots = (size_t)fill->n_slots;

    VP_TRY(vp_plan_make_schedule(from, &fill->search->work.graphs[0],
                                 &fill->schedule, err));
    fill->slots = calloc(n_slots, sizeof(*fill->slots));
    fill->recompute = calloc(n_slots * n, sizeof(*fill->recompute));
    fill->swap = calloc(n_slots * n, sizeof(*fill->swap));
    if (!fill->slots || !fill->recompute || !fill->swap) {
        release(fill);
        return no_memory(err);
    }
    for (size_t i = 0; i < n_slots; i++) {
        if (from->recompute_sets)
            fill->slots[i].recompute_sets = fill->recompute + i * n;
        if (from->swap_sets)
            fill->slots[i].swap_sets = fill->swap + i * n;
    }
    for (int s = 0; s < fill->best->n_stages; s++)
        set_stage(fill, s, 0, 0);
    fill->plan.slots = fill->slots;
    fill->plan.n_slots = fill->n_slots;
    return VP_OK;
}

enum vp_status vp_search_fill_slots(struct vp_search *search,
                                    const struct vp_search_input *input,
                                    struct vp_search_result *best,
                                    struct vp_err *err)
{
    struct fill fill = {
        .search = search, .input = input, .best = best, .plan = best->plan
    };
    struct vp_search_result filled;
    enum vp_status st;

    for (int s = 0; s < best->n_stages; s++)
        if (best->n_slots[s] - 1 > fill.n_slots)
            fill.n_slots = best->n_slots[s] - 1;
    if (!input->limits || fill.n_slots == 0 || !best->plan.partition ||
        (!best->plan.recompute_sets && !best->plan.swap_sets))
        return VP_OK;
    VP_TRY(open_slots(&fill, err));
    st = fill_all(&fill, err);
    if (st == VP_OK)
        st = vp_search_price(search, &fill.plan, &filled, err);
    release(&fill);
    VP_TRY(st);
    if (!vp_search_fits(&filled, input->limits) ||
        filled.time.per_mb >= best->time.per_mb) {
        vp_search_result_release(&filled);
        return VP_OK;
    }
    vp_search_result_release(best);
    *best = filled;
    return VP_OK;
}
