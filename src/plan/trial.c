/* Seconds of points: the costs of their stages, timed on their schedule. */
#include "plan/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A trial ------------------------------------------------------------ */

int vp_trial_rank(const struct vp_trial *trial, int stage)
{
    int p = trial->plan.n_stages, turn = stage / p, at = stage % p;

    if (trial->variant.v_shape && turn % 2 == 1)
        return p - 1 - at;
    return at;
}

/* Returns the kind of edge between two ranks of the base plan. */
static enum vp_edge_kind edge_between(const struct vp_plan *base, int a, int b)
{
    enum vp_edge_kind most = VP_EDGE_LOCAL;
    int n = vp_plan_n_stages(base) - 1;

    if (a == b || !base->edges)
        return VP_EDGE_LOCAL;
    if (base->n_chunks <= 1 && abs(a - b) == 1)
        return base->edges[a < b ? a : b];
    for (int s = 0; s < n; s++)
        if (base->edges[s] != VP_EDGE_LOCAL)
            most = base->edges[s];
    return most;
}

/* Sets the edges for a number of chunks other than that of the base plan. */
static enum vp_status place_edges(struct vp_trial *trial, struct vp_err *err)
{
    const struct vp_plan *base = trial->input->base;
    enum vp_edge_kind *edges, *replicas;
    int n = trial->n_stages;

    if (vp_plan_n_stages(base) == n || (!base->edges && !base->replica_edges))
        return VP_OK;
    edges = vp_arena_alloc(&trial->arena, (size_t)n * sizeof(*edges));
    replicas = vp_arena_alloc(&trial->arena, (size_t)n * sizeof(*replicas));
    if (!edges || !replicas)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    for (int s = 0; s < n; s++) {
        int here = vp_trial_rank(trial, s);

        if (s + 1 < n)
            edges[s] = edge_between(base, here, vp_trial_rank(trial, s + 1));
        if (base->replica_edges)
            replicas[s] = base->replica_edges[here];
    }
    if (base->edges)
        trial->plan.edges = edges;
    if (base->replica_edges)
        trial->plan.replica_edges = replicas;
    return VP_OK;
}

/* Sets the limit of each stage: the smallest memory among its replicas. */
static void set_limits(struct vp_trial *trial)
{
    const struct vp_search_input *input = trial->input;
    int rank = 0;

    for (int r = 0; r < trial->plan.n_stages; r++) {
        int n = input->base->replicas ? input->base->replicas[r] : 1;

        trial->limit[r] = INT64_MAX;
        for (int i = 0; i < n; i++, rank++)
            if (input->limits && input->limits[rank] < trial->limit[r])
                trial->limit[r] = input->limits[rank];
    }
}

/* Makes the schedule with R on the stages of `recompute`. */
static enum vp_status make_shape(struct vp_trial *trial, const bool *recompute,
                                 struct vp_schedule *out, struct vp_err *err)
{
    struct vp_plan plan = trial->plan;
    struct vp_plan_stages stages;
    struct vp_sched_config config;
    bool swap = trial->form.swap || plan.swap_sets || plan.n_slots > 0;

    /* Sets need the partition, which is not known at first. */
    plan.recompute_sets = plan.swap_sets = NULL;
    plan.n_slots = 0;
    config = vp_plan_sched_config(&plan, trial->n_blocks, &stages);
    for (int s = 0; s < trial->n_stages && !plan.recompute_in_b; s++)
        stages.recompute[s] = recompute[s];
    for (int s = 0; s < trial->n_stages && swap; s++)
        stages.swap[s] = plan.swap_buffers ? plan.swap_buffers[s]
                                           : VP_SWAP_DEFAULT;
    return vp_schedule_make(&config, out, err);
}

/* Makes the schedule without R, but with the buffers that R would need on every
 * stage. A stage that does not recompute stores nothing in them. */
static enum vp_status first_shape(struct vp_trial *trial, struct vp_err *err)
{
    bool all[VP_MAX_STAGES], none[VP_MAX_STAGES] = { false };
    struct vp_schedule shape;

    for (int s = 0; s < VP_MAX_STAGES; s++)
        all[s] = true;
    VP_TRY(make_shape(trial, trial->input->free_recompute ? none : all,
                      &trial->shape, err));
    VP_TRY(make_shape(trial, all, &shape, err));
    for (int s = 0; s < shape.n_stages; s++)
        trial->shape.stages[s].n_recomputed = shape.stages[s].n_recomputed;
    vp_schedule_release(&shape);
    if (vp_lists_init(&trial->lists, &trial->shape) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    return VP_OK;
}

static bool has_rings_of(const struct vp_schedule *a,
                         const struct vp_schedule *b)
{
    for (int s = 0; s < a->n_stages; s++) {
        const struct vp_schedule_stage *x = &a->stages[s], *y = &b->stages[s];

        if (x->n_slots != y->n_slots || x->n_act_bufs != y->n_act_bufs ||
            x->n_grad_bufs != y->n_grad_bufs ||
            x->n_recomputed != y->n_recomputed ||
            x->n_swap_out != y->n_swap_out || x->n_swap_in != y->n_swap_in)
            return false;
    }
    return true;
}

enum vp_status vp_trial_reshape(struct vp_trial *trial,
                                const struct vp_point *point, bool *changed_out,
                                struct vp_err *err)
{
    bool recompute[VP_MAX_STAGES] = { false };
    struct vp_schedule shape;
    int b = 0;

    for (int s = 0; s < trial->n_stages; s++)
        for (int i = 0; i < point->partition[s]; i++, b++)
            recompute[s] |=
                trial->rows[b].choices[point->choice[b]].recompute != 0;
    VP_TRY(make_shape(trial, recompute, &shape, err));
    *changed_out = !has_rings_of(&shape, &trial->shape);
    vp_lists_release(&trial->lists);
    vp_schedule_release(&trial->shape);
    trial->shape = shape;
    if (vp_lists_init(&trial->lists, &trial->shape) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    return VP_OK;
}

enum vp_status vp_trial_init(struct vp_trial *trial, struct vp_search *search,
                             const struct vp_search_input *input,
                             const struct vp_variant *variant,
                             struct vp_err *err)
{
    size_t n = (size_t)search->n_blocks;

    *trial = (struct vp_trial){
        .search = search,
        .input = input,
        .variant = *variant,
        .form = { variant->generator->split, variant->in_b,
                  input->allow_swap && input->free_recompute },
        .plan = *input->base,
        .n_blocks = search->n_blocks,
        .sets = calloc(4 * n, sizeof(uint64_t)),
        .exact = !input->free_recompute ||
                 (search->n_blocks <= VP_SEARCH_SMALL && !input->any),
    };
    if (!trial->sets)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    trial->swaps = trial->sets + n;
    trial->room = trial->sets + 2 * n;
    trial->plan.schedule = variant->generator->name;
    trial->plan.schedule_memory = variant->memory;
    if (input->free_schedule)
        trial->plan.schedule_text = NULL;
    trial->plan.schedule_v = variant->generator->planned && variant->v_shape;
    trial->plan.n_stages = input->base->n_stages > 0 ? input->base->n_stages
                                                     : 1;
    trial->plan.n_chunks = variant->n_chunks;
    trial->plan.partition = NULL;
    /* Affects host memory only, and its lookup is slow. */
    trial->plan.tie_edge = VP_EDGE_LOCAL;
    if (input->free_recompute) {
        trial->plan.recompute_ratio = trial->plan.swap_ratio = NULL;
        trial->plan.swap_sets = NULL;
        trial->plan.swap_buffers = NULL;
        trial->plan.slots = NULL;
        trial->plan.n_slots = 0;
        trial->plan.recompute_in_b = variant->in_b;
        trial->plan.early_recompute = !variant->in_b;
        trial->plan.keep_all = false; /* with keep_all, sets have no effect */
    }
    trial->n_stages = vp_plan_n_stages(&trial->plan);
    VP_TRY(place_edges(trial, err));
    set_limits(trial);
    VP_TRY(vp_search_fill_rows(search, trial->form, err));
    trial->rows = search->rows[vp_form_index(trial->form)];
    return first_shape(trial, err);
}

void vp_trial_release(struct vp_trial *trial)
{
    vp_lists_release(&trial->lists);
    vp_schedule_release(&trial->shape);
    free(trial->sets);
    vp_arena_release(&trial->arena);
}

/* ---- Seconds ------------------------------------------------------------ */

/* Returns the work of the busiest rank, device or copy engine for one
 * minibatch: a lower bound for every schedule. */
static double bound_of(const struct vp_trial *trial,
                       const struct vp_plan_costs *costs)
{
    double rank[VP_MAX_STAGES] = { 0.0 }, device[VP_MAX_STAGES] = { 0.0 };
    double copies[VP_MAX_STAGES] = { 0.0 }, most = 0.0;

    for (int s = 0; s < trial->n_stages; s++) {
        const struct vp_schedule_stage *stage = &trial->shape.stages[s];
        const struct vp_stage_costs *c = &costs->stages[s];
        double work = (c->f + c->r + c->b + c->w) / stage->n_replicas;
        int r = vp_trial_rank(trial, s);

        rank[r] += work;
        most = rank[r] > most ? rank[r] : most;
        copies[r] += c->swap_out > c->swap_in ? c->swap_out : c->swap_in;
        most = copies[r] > most ? copies[r] : most;
        if (!costs->sched.device || stage->first_rank >= VP_MAX_STAGES)
            continue;
        r = costs->sched.device[stage->first_rank];
        if (r >= VP_MAX_STAGES)
            continue;
        device[r] += work / costs->sched.capacity;
        most = device[r] > most ? device[r] : most;
    }
    return most;
}

/* Where ranks share a device, the work of the device decides; the time of the
 * lists breaks ties. */
static double estimate(const struct vp_trial *trial,
                       const struct vp_plan_costs *costs, double bound)
{
    const double share = 0.05;
    double seconds = vp_lists_seconds(&trial->lists, costs);

    if (!costs->sched.device)
        return seconds > bound ? seconds : bound;
    return (seconds > bound ? seconds : bound) + share * seconds;
}

static void set_sets(struct vp_trial *trial, const struct vp_point *point)
{
    for (int b = 0; b < trial->n_blocks; b++)
        trial->sets[b] = trial->rows[b].choices[point->choice[b]].recompute;
    trial->plan.partition = point->partition;
    trial->plan.recompute_sets = trial->input->free_recompute
                                     ? trial->sets
                                     : trial->input->base->recompute_sets;
}

/* Sets the seconds of R of every stage if it is an action of its own. */
static void add_recomputation(const struct vp_trial *trial,
                              const struct vp_point *point,
                              struct vp_plan_costs *costs)
{
    int b = 0;

    if (trial->form.in_b || !trial->input->free_recompute)
        return;
    for (int s = 0; s < trial->n_stages; s++) {
        costs->stages[s].r = 0.0;
        for (int i = 0; i < point->partition[s]; i++, b++)
            costs->stages[s].r += vp_cost_recompute(
                &trial->search->costs, b,
                trial->rows[b].choices[point->choice[b]].recompute);
    }
}

enum vp_status vp_trial_seconds(struct vp_trial *trial, struct vp_point *point,
                                double bound, struct vp_err *err)
{
    struct vp_stage_price prices[VP_MAX_STAGES];
    struct vp_plan_costs costs;

    set_sets(trial, point);
    for (int s = 0; s < trial->n_stages; s++) {
        struct vp_stage_sizes sizes;

        VP_TRY(vp_trial_sizes(trial, point, s, &sizes, err));
        prices[s] = vp_stage_price_of(&trial->search->work, &sizes,
                                      &trial->shapes[s], s == 0);
    }
    set_sets(trial, point);
    VP_TRY(vp_plan_costs_make(&trial->search->costs, &trial->plan,
                              &trial->shape, prices, &costs, err));
    add_recomputation(trial, point, &costs);
    point->seconds = bound_of(trial, &costs);
    if (point->seconds < bound) {
        point->seconds = estimate(trial, &costs, point->seconds);
        trial->search->n_simulated++;
    }
    vp_plan_costs_release(&costs);
    return VP_OK;
}

enum vp_status vp_trial_judge(struct vp_trial *trial, struct vp_point *point,
                              double bound, struct vp_err *err)
{
    VP_TRY(vp_trial_fit(trial, point, err));
    point->seconds = INFINITY;
    return point->fits ? vp_trial_seconds(trial, point, bound, err) : VP_OK;
}

bool vp_point_better(const struct vp_point *a, const struct vp_point *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->seconds < b->seconds : a->lacks < b->lacks;
}

void vp_point_copy(const struct vp_trial *trial, struct vp_point *to,
                   const struct vp_point *from)
{
    uint8_t *choice = to->choice;

    memcpy(choice, from->choice, (size_t)trial->n_blocks);
    *to = *from;
    to->choice = choice;
}

/* Sets are NULL if no operator is recomputed or swapped. */
struct vp_plan vp_trial_plan(struct vp_trial *trial,
                             const struct vp_point *point)
{
    struct vp_plan plan = trial->plan;
    bool any = false, swaps = false;

    plan.partition = point->partition;
    plan.tie_edge = trial->input->base->tie_edge;
    plan.recompute_sets = trial->input->base->recompute_sets;
    if (!trial->input->free_recompute)
        return plan;
    for (int b = 0; b < trial->n_blocks; b++) {
        const struct vp_block_choice *choice =
            &trial->rows[b].choices[point->choice[b]];

        trial->sets[b] = choice->recompute;
        trial->swaps[b] = choice->swap;
        any |= choice->recompute != 0;
        swaps |= choice->swap != 0;
    }
    plan.recompute_sets = any ? trial->sets : NULL;
    plan.swap_sets = swaps ? trial->swaps : NULL;
    plan.recompute_in_b &= any;
    plan.early_recompute &= any;
    return plan;
}
