/* The search for a plan: opens all variants, improves the best by estimates,
 * and fits them by exact bytes. */
#include "plan/search.h"

#include "plan/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_REFINED = 6, /* variants whose partitions are improved */
    PASSES = 3,    /* rounds of moves */
};

/* Variants whose estimated time exceeds the best by this factor are dropped. */
#define WORTH_A_LOOK 1.25

/* ---- A workload --------------------------------------------------------- */

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
}

enum vp_status vp_search_create(const struct vp_workload *work,
                                const struct vp_device_profile *profile,
                                struct vp_search **out)
{
    struct vp_search *search = calloc(1, sizeof(*search));
    size_t n = (size_t)work->graphs[0].n_blocks;
    struct vp_err err;

    if (!search)
        return VP_ERR_NOMEM;
    search->work = *work;
    search->profile = profile;
    search->n_blocks = work->graphs[0].n_blocks;
    search->keys = calloc(n, sizeof(*search->keys));
    search->blocks = calloc(n, sizeof(*search->blocks));
    if (!search->keys || !search->blocks ||
        vp_pricer_create(work, &search->pricer) != VP_OK ||
        vp_cost_table_init(&search->costs, &search->work, profile) != VP_OK ||
        vp_profile_keys(&work->graphs[0], search->keys) != VP_OK ||
        vp_search_fill_sizes(search, &err) != VP_OK) {
        vp_search_free(search);
        return VP_ERR_NOMEM;
    }
    *out = search;
    return VP_OK;
}

void vp_search_free(struct vp_search *search)
{
    if (!search)
        return;
    for (int i = 0; i < VP_N_FORMS; i++)
        free(search->rows[i]);
    vp_cost_table_release(&search->costs);
    vp_pricer_free(search->pricer);
    free(search->keys);
    free(search->blocks);
    free(search);
}

const struct vp_cost_table *vp_search_costs(const struct vp_search *search)
{
    return &search->costs;
}

/* ---- One variant -------------------------------------------------------- */

struct candidate {
    struct vp_trial trial;
    struct vp_point point;
    bool ready; /* the trial was initialized */
    char why[160];
};

struct run {
    struct vp_search *search;
    const struct vp_search_input *input;
    struct candidate *at;
    int n;
    /* Sorted by estimate, the fastest first. */
    int order[VP_SEARCH_MAX_VARIANTS];
    struct vp_search_result *best;
    bool found;
};

/* Drops a candidate that was refused and stores the reason. Passes on only
 * VP_ERR_NOMEM. */
static enum vp_status pass_over(struct candidate *c, enum vp_status st,
                                const struct vp_err *err)
{
    if (st == VP_OK || st == VP_ERR_NOMEM)
        return st;
    c->ready = false;
    c->point.fits = false;
    c->point.lacks = INT64_MAX;
    snprintf(c->why, sizeof(c->why), "%.159s", err->text);
    return VP_OK;
}

static enum vp_status open_candidate(struct run *run, int i,
                                     const struct vp_variant *variant,
                                     struct vp_err *err)
{
    struct candidate *c = &run->at[i];
    enum vp_status st;

    c->point.choice = calloc((size_t)run->search->n_blocks, 1);
    if (!c->point.choice)
        return no_memory(err);
    c->point.lacks = INT64_MAX;
    c->point.seconds = INFINITY;
    st = vp_trial_init(&c->trial, run->search, run->input, variant, err);
    c->ready = st == VP_OK;
    if (c->ready)
        st = vp_trial_seed(&c->trial, &c->point, err);
    return pass_over(c, st, err);
}

/* Returns true if a candidate recomputes anything. Otherwise the form with
 * recomputation in B is equal to it. */
static bool recomputes(const struct run *run, const struct candidate *c)
{
    for (int b = 0; b < run->search->n_blocks; b++)
        if (c->point.choice[b] != 0)
            return true;
    return !run->input->free_recompute;
}

/* ---- Order -------------------------------------------------------------- */

/* Sorts candidates: points that fit first. Stable. */
static void sort(struct run *run)
{
    for (int i = 0; i < run->n; i++) {
        int at = i;

        for (; at > 0 && vp_point_better(&run->at[i].point,
                                         &run->at[run->order[at - 1]].point);
             at--)
            run->order[at] = run->order[at - 1];
        run->order[at] = i;
    }
}

/* ---- Exact plans -------------------------------------------------------- */

/* Makes the plan the best one if it fits and is faster. */
static enum vp_status offer(struct run *run, const struct vp_plan *plan,
                            bool *fits_out, struct vp_err *err)
{
    struct vp_search_result result;

    *fits_out = false;
    VP_TRY(vp_search_price(run->search, plan, &result, err));
    *fits_out = vp_search_fits(&result, run->input->limits);
    if (*fits_out &&
        (!run->found || result.time.per_mb < run->best->time.per_mb)) {
        if (run->found)
            vp_search_result_release(run->best);
        *run->best = result;
        run->found = true;
        return VP_OK;
    }
    vp_search_result_release(&result);
    return VP_OK;
}

/* Fits a candidate by exact bytes. The number of buffers depends on which
 * stages recompute, so it is fitted again with the schedule of its own plan. */
static enum vp_status fit_exactly(struct run *run, struct candidate *c,
                                  struct vp_err *err)
{
    enum { TRIES = 3 };
    bool changed = true;

    c->trial.exact = true;
    for (int i = 0; i < TRIES && changed; i++) {
        struct vp_plan plan;
        bool fits;

        VP_TRY(vp_trial_judge(&c->trial, &c->point, INFINITY, err));
        if (!c->point.fits)
            return VP_OK;
        if (run->search->n_blocks <= VP_SEARCH_SMALL)
            VP_TRY(vp_trial_polish(&c->trial, &c->point, err));
        plan = vp_trial_plan(&c->trial, &c->point);
        VP_TRY(offer(run, &plan, &fits, err));
        VP_TRY(vp_trial_reshape(&c->trial, &c->point, &changed, err));
    }
    return VP_OK;
}

static enum vp_status finish(struct run *run, struct candidate *c,
                             struct vp_err *err)
{
    return pass_over(c, fit_exactly(run, c, err), err);
}

static enum vp_status open_all(struct run *run, struct vp_err *err)
{
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    int n = vp_search_variants(run->search, run->input, variants);
    bool small = run->search->n_blocks <= VP_SEARCH_SMALL;

    run->at = calloc((size_t)n + 1, sizeof(*run->at));
    if (!run->at)
        return no_memory(err);
    for (int i = 0; i < n; i++) {
        const struct candidate *before = i > 0 ? &run->at[run->n - 1] : NULL;

        if (!small && before && variants[i].in_b && before->ready &&
            before->point.fits &&
            before->trial.variant.generator == variants[i].generator &&
            !recomputes(run, before))
            continue;
        VP_TRY(open_candidate(run, run->n++, &variants[i], err));
        if (run->input->any && run->at[run->n - 1].point.fits)
            VP_TRY(finish(run, &run->at[run->n - 1], err));
        if (run->input->any && run->found)
            return VP_OK;
    }
    return VP_OK;
}

/* Improves the partitions of the best variants by estimates, then fits them
 * exactly. */
static enum vp_status refine(struct run *run, struct vp_err *err)
{
    bool small = run->search->n_blocks <= VP_SEARCH_SMALL;
    int n = small ? run->n : N_REFINED;

    sort(run);
    for (int i = 0; i < run->n && i < n; i++) {
        struct candidate *c = &run->at[run->order[i]];

        if (c->ready && (c->point.fits || !run->at[run->order[0]].point.fits))
            VP_TRY(pass_over(
                c, vp_trial_improve(&c->trial, &c->point, PASSES, err), err));
    }
    sort(run);
    for (int i = 0; i < run->n; i++) {
        struct candidate *c = &run->at[run->order[i]];

        if (!c->ready || !c->point.fits ||
            (run->found &&
             c->point.seconds > WORTH_A_LOOK * run->best->time.per_mb))
            continue;
        if (run->found && i >= n)
            continue;
        VP_TRY(finish(run, c, err));
    }
    return VP_OK;
}

static enum vp_status make_fit(struct run *run, struct candidate *c,
                               struct vp_err *err)
{
    c->trial.exact = true;
    c->point.fits = false;
    c->point.lacks = INT64_MAX;
    VP_TRY(vp_trial_seed(&c->trial, &c->point, err));
    if (!c->point.fits)
        VP_TRY(vp_trial_make_fit(&c->trial, &c->point, err));
    return c->point.fits ? fit_exactly(run, c, err) : VP_OK;
}

/* Used if no estimated plan fits: looks for any plan, by exact bytes. */
static enum vp_status insist(struct run *run, struct vp_err *err)
{
    for (int i = 0; i < run->n; i++) {
        struct candidate *c = &run->at[run->order[i]];

        if (c->ready)
            VP_TRY(pass_over(c, make_fit(run, c, err), err));
    }
    return VP_OK;
}

/* ---- Lists made for the costs ------------------------------------------- */

/* Tries the schedule `auto` for the best plan: action lists made for its costs
 * and for the memory that its stages leave free. */
static enum vp_status try_auto(struct run *run, struct vp_err *err)
{
    const struct vp_search_result *best = run->best;
    struct vp_plan plan = best->plan;
    double limits[VP_MAX_STAGES], sizes[VP_MAX_STAGES];
    struct vp_plan_stages stages;
    struct vp_sched_limits memory = { limits, sizes, false };
    struct vp_sched_costs costs = { .stages = best->costs };
    struct vp_sched_config config;
    struct vp_schedule schedule;
    enum vp_status st;
    char *text;
    bool fits;

    plan.schedule = "auto";
    plan.schedule_memory = 0;
    plan.schedule_v = vp_generator_find(best->plan.schedule)->v_shape;
    config = vp_plan_sched_config(&plan, run->search->n_blocks, &stages);
    config.costs = &costs;
    config.fused = !vp_generator_find(best->plan.schedule)->split;
    for (int r = 0; r < plan.n_stages; r++)
        limits[r] = run->input->limits ? (double)run->input->limits[r] -
                                             (double)best->rank_bytes[r]
                                       : 1e30;
    for (int s = 0; s < best->n_stages; s++) {
        sizes[s] = (double)best->prices[s].memory.activations /
                   best->n_slots[s];
        limits[best->rank[s]] += sizes[s] * best->n_slots[s];
    }
    config.limits = &memory;
    st = vp_schedule_make(&config, &schedule, err);
    if (st != VP_OK)
        return st == VP_ERR_NOMEM ? st : VP_OK;
    st = vp_schedule_print(&schedule, 0, &text);
    vp_schedule_release(&schedule);
    if (st != VP_OK)
        return no_memory(err);
    plan.schedule_text = text;
    st = offer(run, &plan, &fits, err);
    free(text);
    return st == VP_ERR_NOMEM ? st : VP_OK;
}

/* ---- Remaining memory ---------------------------------------------------- */

/* Tries to run the weight gradients of recomputed operators in W, where they
 * fill bubbles, in place of B. Results of R are then kept longer. */
static enum vp_status try_late_w(struct run *run, struct vp_err *err)
{
    struct vp_plan plan = run->best->plan;
    enum vp_status st;
    bool fits;

    if (!plan.recompute_sets || plan.recompute_in_b || plan.w_recomputed ||
        !vp_generator_find(plan.schedule)->split)
        return VP_OK;
    plan.w_recomputed = true;
    st = offer(run, &plan, &fits, err);
    return st == VP_ERR_NOMEM ? st : VP_OK;
}

static enum vp_status spend_rest(struct run *run, struct vp_err *err)
{
    enum vp_status st;

    if (!run->input->free_recompute)
        return VP_OK;
    VP_TRY(try_late_w(run, err));
    if (run->input->alike)
        return VP_OK;
    st = vp_search_fill_slots(run->search, run->input, run->best, err);
    return st == VP_ERR_NOMEM ? st : VP_OK;
}

/* ---- Reasons ------------------------------------------------------------ */

static void explain(struct run *run)
{
    struct vp_search_result *out = run->best;

    for (int i = 0; i < run->n; i++) {
        const struct candidate *c = &run->at[run->order[i]];
        struct vp_search_refusal *why = &out->refused[out->n_refused];
        const struct vp_variant *variant = &c->trial.variant;

        *why = (struct vp_search_refusal){
            .schedule = variant->generator->name,
            .n_chunks = variant->n_chunks,
            .v_shape = variant->v_shape,
            .in_b = variant->in_b,
            .seconds = c->point.seconds,
            .bytes = c->point.lacks,
            .rank = c->point.worst_rank,
        };
        why->kind = !c->ready       ? VP_SEARCH_REFUSED
                    : c->point.fits ? VP_SEARCH_SLOWER
                                    : VP_SEARCH_MEMORY;
        snprintf(why->text, sizeof(why->text), "%s", c->why);
        out->n_refused++;
    }
}

static enum vp_status nothing_fits(const struct run *run, struct vp_err *err)
{
    const struct candidate *least = NULL;
    char bytes[VP_BYTES_TEXT];

    for (int i = 0; i < run->n; i++)
        if (run->at[i].ready &&
            (!least || run->at[i].point.lacks < least->point.lacks))
            least = &run->at[i];
    if (!least)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "no schedule can be made for these stages and "
                          "minibatches: %.160s; change stages",
                          run->n > 0 ? run->at[0].why : "");
    vp_bytes_text(least->point.lacks, bytes, sizeof(bytes));
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "no plan fits: the smallest, with schedule %s, lacks %s "
                      "in all; use more memory, more stages or a smaller "
                      "batch_size",
                      least->trial.variant.generator->name, bytes);
}

/* ---- All ---------------------------------------------------------------- */

static enum vp_status offer_known(struct run *run, struct vp_err *err)
{
    for (int i = 0; i < run->input->n_known; i++) {
        bool fits;
        enum vp_status st = offer(run, run->input->known[i], &fits, err);

        if (st == VP_ERR_NOMEM)
            return st;
    }
    return VP_OK;
}

static enum vp_status search_all(struct run *run, struct vp_err *err)
{
    VP_TRY(open_all(run, err));
    if (run->input->any)
        return run->found ? VP_OK : nothing_fits(run, err);
    VP_TRY(refine(run, err));
    if (!run->found)
        VP_TRY(insist(run, err));
    VP_TRY(offer_known(run, err));
    if (!run->found)
        return nothing_fits(run, err);
    if (run->input->free_schedule && !run->input->stream &&
        !run->input->base->replicas && run->best->plan.n_stages > 1)
        VP_TRY(try_auto(run, err));
    VP_TRY(spend_rest(run, err));
    explain(run);
    run->best->n_simulated = run->search->n_simulated;
    return VP_OK;
}

static enum vp_status run_once(struct vp_search *search,
                               const struct vp_search_input *input,
                               struct vp_search_result *out, struct vp_err *err)
{
    struct run run = { .search = search, .input = input, .best = out };
    enum vp_status st = search_all(&run, err);

    for (int i = 0; i < run.n; i++) {
        vp_trial_release(&run.at[i].trial);
        free(run.at[i].point.choice);
    }
    free(run.at);
    if (st != VP_OK && run.found)
        vp_search_result_release(out);
    return st;
}

/* Searches without swap first: that plan is then a known plan of the search
 * with swap, whose result is never slower. */
static enum vp_status run_swapping(struct vp_search *search,
                                   const struct vp_search_input *input,
                                   struct vp_search_result *out,
                                   struct vp_err *err)
{
    struct vp_search_result *plain = calloc(1, sizeof(*plain));
    struct vp_search_input one = *input, with = *input;
    const struct vp_plan **known = calloc((size_t)input->n_known + 1,
                                          sizeof(*known));
    enum vp_status st = plain && known ? VP_OK : no_memory(err);
    bool found = false;

    one.allow_swap = false;
    if (st == VP_OK)
        found = run_once(search, &one, plain, err) == VP_OK;
    if (st == VP_OK) {
        for (int i = 0; i < input->n_known; i++)
            known[i] = input->known[i];
        known[input->n_known] = &plain->plan;
        with.known = known;
        with.n_known = input->n_known + found;
        st = run_once(search, &with, out, err);
    }
    if (found)
        vp_search_result_release(plain);
    free(plain);
    free(known);
    return st;
}

enum vp_status vp_search_run(struct vp_search *search,
                             const struct vp_search_input *input,
                             struct vp_search_result *out, struct vp_err *err)
{
    search->n_simulated = 0;
    return input->allow_swap && input->free_recompute
               ? run_swapping(search, input, out, err)
               : run_once(search, input, out, err);
}
