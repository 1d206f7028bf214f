/* Decides which blocks of a rank keep, recompute or swap: greedily, by the
 * seconds that each saved byte of the peak costs. The steps of all blocks of the
 * rank are sorted, and steps are taken until the rank fits:
 *
 *   bytes  |x                        each x is a step: one block changes to a
 *          |   x                     choice that keeps less; the next step costs
 *   limit  |------x------            more seconds per byte
 *          |          x      x
 *          +------------------> seconds
 *
 * Estimates give the first number of steps, exact bytes correct it. */
#include "plan/trial.h"

#include <stdlib.h>
#include <string.h>

/* Ranks with at most this number of combinations are searched completely. */
enum { MOST_COMBINATIONS = 700, MOST_BLOCKS = 16, MOST_OPTIONS = 16 };

struct step {
    int block;
    uint8_t to; /* index of the new choice */
    double ratio;
    int64_t saved; /* bytes, estimated */
};

struct steps {
    struct step *at;
    int n;
};

/* ---- Sizes of a stage --------------------------------------------------- */

static int first_block(const struct vp_point *point, int stage)
{
    int first = 0;

    for (int s = 0; s < stage; s++)
        first += point->partition[s];
    return first;
}

static void raise_to(int64_t *most, int64_t n)
{
    *most = n > *most ? n : *most;
}

static void estimate_sizes(const struct vp_trial *trial,
                           const struct vp_point *point, int stage,
                           struct vp_stage_sizes *out)
{
    int first = first_block(point, stage), n = point->partition[stage];
    const struct vp_stage_sizes *head = &trial->search->blocks[first].alone;
    const struct vp_stage_sizes *tail =
        &trial->search->blocks[first + n - 1].alone;

    *out = *head;
    for (int space = VP_SPACE_OUT; space < VP_SPACE_COUNT; space++) {
        const struct vp_stage_sizes *from = space == VP_SPACE_OUT ||
                                                    space == VP_SPACE_DOUT
                                                ? tail
                                                : head;

        out->n_bytes[space] = from->n_bytes[space];
        out->message[space] = from->message[space];
        out->compressed[space] = from->compressed[space];
    }
    for (int space = VP_SPACE_PARAM; space <= VP_SPACE_SWAPPED; space++)
        out->n_bytes[space] = 0;
    out->moment_bytes = out->master_bytes = out->train_bytes = 0;
    out->slot_bytes[VP_SLOT_REST] = 0;
    out->flops[VP_SLOT_REST][VP_LIST_W] = 0.0;
    for (int b = first; b < first + n; b++) {
        const struct vp_stage_sizes *alone = &trial->search->blocks[b].alone;
        const struct vp_block_choice *choice =
            &trial->rows[b].choices[point->choice[b]];
        int64_t *again = &out->n_bytes[VP_SPACE_RECOMPUTED];

        out->n_bytes[VP_SPACE_PARAM] += alone->n_bytes[VP_SPACE_PARAM];
        out->n_bytes[VP_SPACE_GRAD] += alone->n_bytes[VP_SPACE_GRAD];
        out->moment_bytes += alone->moment_bytes;
        out->master_bytes += alone->master_bytes;
        out->train_bytes += alone->train_bytes;
        out->slot_bytes[VP_SLOT_REST] += choice->slot;
        out->n_bytes[VP_SPACE_SWAPPED] += choice->swapped;
        raise_to(&out->n_bytes[VP_SPACE_WORK], choice->work);
        if (trial->form.in_b)
            raise_to(again, choice->recomputed);
        else
            *again += choice->recomputed;
        out->flops[VP_SLOT_REST][VP_LIST_W] -= choice->moved_w;
    }
    out->moment_bytes /= vp_trial_n_shards(trial, stage);
    out->master_bytes /= vp_trial_n_shards(trial, stage);
}

static enum vp_status exact_sizes(struct vp_trial *trial,
                                  const struct vp_point *point, int stage,
                                  struct vp_stage_sizes *out,
                                  struct vp_err *err)
{
    int first = first_block(point, stage), n = point->partition[stage];
    struct vp_stage_choices choices;

    trial->plan.partition = point->partition;
    trial->plan.recompute_sets = trial->input->base->recompute_sets;
    trial->plan.swap_sets = trial->input->base->swap_sets;
    if (trial->input->free_recompute) {
        for (int b = first; b < first + n; b++) {
            const struct vp_block_choice *choice =
                &trial->rows[b].choices[point->choice[b]];

            trial->sets[b] = choice->recompute;
            trial->swaps[b] = choice->swap;
        }
        trial->plan.recompute_sets = trial->sets;
        trial->plan.swap_sets = trial->form.swap ? trial->swaps : NULL;
    }
    choices = vp_plan_stage_choices(&trial->plan, &trial->search->work,
                                    &trial->shape, stage, trial->room);
    return vp_pricer_sizes(trial->search->pricer, &choices, out, err);
}

/* FLOPs of the list W: those of all blocks, minus those that moved to B. */
enum vp_status vp_trial_sizes(struct vp_trial *trial,
                              const struct vp_point *point, int stage,
                              struct vp_stage_sizes *out, struct vp_err *err)
{
    const struct vp_graph *graph = &trial->search->work.graphs[0];
    int first = first_block(point, stage), n = point->partition[stage];

    if (trial->exact)
        return exact_sizes(trial, point, stage, out, err);
    estimate_sizes(trial, point, stage, out);
    for (int i = graph->blocks[first].first_op;
         i < graph->blocks[first + n - 1].first_op +
                 graph->blocks[first + n - 1].n_ops;
         i++)
        out->flops[VP_SLOT_REST][VP_LIST_W] += vp_op_flops(
            graph, &graph->ops[i], VP_PHASE_W);
    return VP_OK;
}

/* Returns the bytes of a rank, summed over its stages. */
static enum vp_status rank_bytes(struct vp_trial *trial,
                                 const struct vp_point *point, int rank,
                                 int64_t *out, struct vp_err *err)
{
    *out = 0;
    for (int s = 0; s < trial->n_stages; s++) {
        struct vp_stage_sizes sizes;

        if (vp_trial_rank(trial, s) != rank)
            continue;
        VP_TRY(vp_trial_sizes(trial, point, s, &sizes, err));
        *out += vp_stage_memory(&trial->search->work, &sizes, &trial->shapes[s],
                                s == 0)
                    .total;
    }
    return VP_OK;
}

/* ---- Steps -------------------------------------------------------------- */

/* Returns the bytes of the peak that choice `c` saves on `stage`. */
static int64_t saved_by(const struct vp_trial *trial,
                        const struct vp_block_row *row,
                        const struct vp_schedule_stage *stage, int c)
{
    int64_t saved = stage->n_slots *
                    (row->choices[0].slot - row->choices[c].slot);

    saved -= row->choices[c].swapped * (stage->n_swap_out + stage->n_swap_in);
    if (!trial->form.in_b)
        saved -= row->choices[c].recomputed - row->choices[0].recomputed;
    return saved;
}

/* Returns the seconds that a choice adds. Weight gradients that move from W to
 * B take no longer, but once per update the backward of the previous stage
 * waits for them. */
static double price_of(const struct vp_trial *trial, int b, int c)
{
    const struct vp_block_choice *choice = &trial->rows[b].choices[c];

    return choice->seconds + choice->moved_seconds * trial->plan.n_stages /
                                 (double)trial->shape.n_mb;
}

/* Appends the steps along the lower hull of a block's choices, beginning with
 * the choice that keeps all activations. */
static void add_steps(const struct vp_trial *trial, int b,
                      const struct vp_schedule_stage *stage, struct steps *out)
{
    const struct vp_block_row *row = &trial->rows[b];
    int at = 0;

    for (;;) {
        struct step best = { .block = -1 };

        for (int c = 0; c < row->n_choices; c++) {
            int64_t saved = saved_by(trial, row, stage, c) -
                            saved_by(trial, row, stage, at);
            double ratio;

            if (saved <= 0 || (row->choices[c].swap && stage->n_swap_out == 0))
                continue;
            ratio = (price_of(trial, b, c) - price_of(trial, b, at)) /
                    (double)saved;
            if (best.block < 0 || ratio < best.ratio ||
                (ratio == best.ratio && saved > best.saved))
                best = (struct step){ b, (uint8_t)c, ratio, saved };
        }
        if (best.block < 0)
            return;
        out->at[out->n++] = best;
        at = best.to;
    }
}

/* Sorts the cheapest first; among equals the last block, because its
 * recomputation is hidden best by the wait for the gradient. */
static int compare_steps(const void *x, const void *y)
{
    const struct step *a = x, *b = y;

    if (a->ratio != b->ratio)
        return a->ratio < b->ratio ? -1 : 1;
    if (a->block != b->block)
        return a->block > b->block ? -1 : 1;
    return a->to < b->to ? -1 : 1;
}

static void list_steps(const struct vp_trial *trial,
                       const struct vp_point *point, int rank,
                       struct steps *out)
{
    out->n = 0;
    for (int s = 0; s < trial->n_stages; s++) {
        int first = first_block(point, s);

        if (vp_trial_rank(trial, s) != rank)
            continue;
        for (int b = first; b < first + point->partition[s]; b++)
            add_steps(trial, b, &trial->shape.stages[s], out);
    }
    qsort(out->at, (size_t)out->n, sizeof(*out->at), compare_steps);
}

/* Applies the first `level` steps of a rank to the point. The steps of a block
 * are in order, because the ratios of a hull increase. */
static void set_level(const struct vp_trial *trial, struct vp_point *point,
                      int rank, const struct steps *steps, int level)
{
    for (int s = 0; s < trial->n_stages; s++) {
        int first = first_block(point, s);

        if (vp_trial_rank(trial, s) == rank)
            memset(point->choice + first, 0, (size_t)point->partition[s]);
    }
    for (int i = 0; i < level; i++)
        point->choice[steps->at[i].block] = steps->at[i].to;
}

/* ---- Fitting a rank ----------------------------------------------------- */

/* Returns the smallest level >= `from` that saves `need` more bytes, by
 * estimate. */
static int level_saving(const struct steps *steps, int from, int64_t need)
{
    int level = from;

    while (level < steps->n && need > 0)
        need -= steps->at[level++].saved;
    return level;
}

/* Returns the smallest level <= `from` that `spare` bytes allow, by
 * estimate. */
static int level_spending(const struct steps *steps, int from, int64_t spare)
{
    int level = from;

    while (level > 0 && steps->at[level - 1].saved <= spare)
        spare -= steps->at[--level].saved;
    return level;
}

/* Moves `level` according to the missing or spare bytes until a level fits and
 * the one before does not. */
static enum vp_status settle(struct vp_trial *trial, struct vp_point *point,
                             int rank, const struct steps *steps,
                             int64_t *lacks_out, struct vp_err *err)
{
    int64_t limit = trial->limit[rank], bytes;
    int level = 0, too_low = -1, fitting = steps->n + 1;

    *lacks_out = 0;
    for (;;) {
        set_level(trial, point, rank, steps, level);
        VP_TRY(rank_bytes(trial, point, rank, &bytes, err));
        if (bytes > limit) {
            too_low = level;
            *lacks_out = bytes - limit;
            level = level_saving(steps, level, bytes - limit);
            level = level > too_low ? level : too_low + 1;
        } else {
            fitting = level;
            level = level_spending(steps, level, limit - bytes);
            level = level < fitting ? level : fitting - 1;
        }
        if (fitting - too_low <= 1)
            break;
        if (level <= too_low)
            level = too_low + 1;
        if (level >= fitting)
            level = fitting - 1;
        if (level > steps->n)
            break;
    }
    if (fitting > steps->n) {
        set_level(trial, point, rank, steps, steps->n);
        return VP_OK; /* lacks_out is that of the highest level tried */
    }
    *lacks_out = 0;
    set_level(trial, point, rank, steps, fitting);
    return VP_OK;
}

/* ---- Few combinations --------------------------------------------------- */

/* Lists the blocks of a rank and returns the number of combinations of their
 * choices, at most MOST_COMBINATIONS + 1. In that case the list is
 * incomplete. */
static int list_blocks(const struct vp_trial *trial,
                       const struct vp_point *point, int rank, int *blocks,
                       int *n_out)
{
    int n_combinations = 1;

    *n_out = 0;
    for (int s = 0; s < trial->n_stages; s++) {
        int first = first_block(point, s);

        if (vp_trial_rank(trial, s) != rank)
            continue;
        for (int b = first; b < first + point->partition[s]; b++) {
            n_combinations *= trial->rows[b].n_choices;
            if (n_combinations > MOST_COMBINATIONS)
                return MOST_COMBINATIONS + 1;
            blocks[(*n_out)++] = b;
        }
    }
    return n_combinations;
}

/* Goes to the next combination. Returns false after the last. */
static bool next_combination(const struct vp_trial *trial,
                             struct vp_point *point, const int *blocks, int n)
{
    for (int i = 0; i < n; i++) {
        uint8_t *choice = &point->choice[blocks[i]];

        if (++*choice < trial->rows[blocks[i]].n_choices)
            return true;
        *choice = 0;
    }
    return false;
}

/* Tries all combinations: takes the cheapest that fits, else the smallest. */
static enum vp_status settle_small(struct vp_trial *trial,
                                   struct vp_point *point, int rank,
                                   const int *blocks, int n, int64_t *lacks_out,
                                   struct vp_err *err)
{
    uint8_t best[MOST_COMBINATIONS];
    double best_cost = 0.0;

    *lacks_out = INT64_MAX;
    for (int i = 0; i < n; i++)
        point->choice[blocks[i]] = 0;
    do {
        int64_t bytes, lacks;
        double cost = 0.0;

        VP_TRY(rank_bytes(trial, point, rank, &bytes, err));
        lacks = bytes > trial->limit[rank] ? bytes - trial->limit[rank] : 0;
        for (int i = 0; i < n; i++)
            cost += price_of(trial, blocks[i], point->choice[blocks[i]]);
        if (lacks > *lacks_out || (lacks == *lacks_out && cost >= best_cost))
            continue;
        *lacks_out = lacks;
        best_cost = cost;
        for (int i = 0; i < n; i++)
            best[i] = point->choice[blocks[i]];
    } while (next_combination(trial, point, blocks, n));
    for (int i = 0; i < n; i++)
        point->choice[blocks[i]] = best[i];
    return VP_OK;
}

/* ---- All ranks ---------------------------------------------------------- */

static enum vp_status fit_rank(struct vp_trial *trial, struct vp_point *point,
                               int rank, struct steps *steps,
                               int64_t *lacks_out, struct vp_err *err)
{
    int blocks[MOST_COMBINATIONS], n = 0;

    if (trial->exact && trial->input->free_recompute &&
        list_blocks(trial, point, rank, blocks, &n) <= MOST_COMBINATIONS)
        return settle_small(trial, point, rank, blocks, n, lacks_out, err);
    if (trial->input->free_recompute)
        list_steps(trial, point, rank, steps);
    return settle(trial, point, rank, steps, lacks_out, err);
}

enum vp_status vp_trial_fit(struct vp_trial *trial, struct vp_point *point,
                            struct vp_err *err)
{
    const struct vp_plan *base = trial->input->base;
    int n_ranks = base->n_stages > 0 ? base->n_stages : 1;
    size_t n = (size_t)trial->n_blocks * VP_MAX_CHOICES;
    struct steps steps = { .at = calloc(n, sizeof(*steps.at)) };
    enum vp_status st = VP_OK;
    int64_t worst = -1;

    if (!steps.at)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    point->lacks = 0;
    trial->plan.partition = point->partition;
    for (int s = 0; s < trial->n_stages; s++)
        trial->shapes[s] = vp_plan_stage_shape(
            &trial->plan, &trial->search->work.graphs[0], &trial->shape, s);
    for (int r = 0; r < n_ranks && st == VP_OK; r++) {
        int64_t lacks;

        st = fit_rank(trial, point, r, &steps, &lacks, err);
        if (st != VP_OK)
            break;
        point->lacks += lacks;
        if (lacks > worst) {
            worst = lacks;
            point->worst_rank = r;
        }
    }
    point->fits = point->lacks == 0;
    free(steps.at);
    return st;
}

/* ---- Other combinations ------------------------------------------------- */

/* A combination that fits, and is not worse than another one in both costs. */
struct option {
    uint8_t choice[MOST_BLOCKS];
    double seconds, moved;
};

struct options {
    struct option at[MOST_OPTIONS];
    int n;
};

static void keep_option(struct options *options, const struct option *option)
{
    int n = 0;

    for (int i = 0; i < options->n; i++)
        if (options->at[i].seconds <= option->seconds &&
            options->at[i].moved <= option->moved)
            return;
    for (int i = 0; i < options->n; i++)
        if (options->at[i].seconds < option->seconds ||
            options->at[i].moved < option->moved)
            options->at[n++] = options->at[i];
    options->n = n;
    if (n < MOST_OPTIONS)
        options->at[options->n++] = *option;
}

static enum vp_status list_options(struct vp_trial *trial,
                                   struct vp_point *point, int rank,
                                   const int *blocks, int n,
                                   struct options *out, struct vp_err *err)
{
    out->n = 0;
    for (int i = 0; i < n; i++)
        point->choice[blocks[i]] = 0;
    do {
        struct option option = { .seconds = 0.0 };
        int64_t bytes;

        for (int i = 0; i < n; i++) {
            const struct vp_block_choice *choice =
                &trial->rows[blocks[i]].choices[point->choice[blocks[i]]];

            option.choice[i] = point->choice[blocks[i]];
            option.seconds += choice->seconds;
            option.moved += choice->moved_seconds;
        }
        VP_TRY(rank_bytes(trial, point, rank, &bytes, err));
        if (bytes <= trial->limit[rank])
            keep_option(out, &option);
    } while (next_combination(trial, point, blocks, n));
    return VP_OK;
}

/* Takes the fastest of a rank's options while the other ranks stay
 * unchanged. */
static enum vp_status polish_rank(struct vp_trial *trial,
                                  struct vp_point *point, int rank,
                                  bool *gained, struct vp_err *err)
{
    int blocks[MOST_COMBINATIONS], n;
    struct options options;
    struct option best = { .seconds = 0.0 };
    double seconds = point->seconds;

    if (list_blocks(trial, point, rank, blocks, &n) > MOST_COMBINATIONS ||
        n > MOST_BLOCKS)
        return VP_OK;
    for (int i = 0; i < n; i++)
        best.choice[i] = point->choice[blocks[i]];
    VP_TRY(list_options(trial, point, rank, blocks, n, &options, err));
    for (int o = 0; o < options.n; o++) {
        for (int i = 0; i < n; i++)
            point->choice[blocks[i]] = options.at[o].choice[i];
        VP_TRY(vp_trial_seconds(trial, point, seconds, err));
        if (point->seconds >= seconds)
            continue;
        seconds = point->seconds;
        best = options.at[o];
        *gained = true;
    }
    for (int i = 0; i < n; i++)
        point->choice[blocks[i]] = best.choice[i];
    point->seconds = seconds;
    return VP_OK;
}

enum vp_status vp_trial_polish(struct vp_trial *trial, struct vp_point *point,
                               struct vp_err *err)
{
    enum { PASSES = 3 };
    bool gained = point->fits && trial->input->free_recompute;

    for (int i = 0; i < PASSES && gained; i++) {
        gained = false;
        for (int r = 0; r < trial->plan.n_stages; r++)
            VP_TRY(polish_rank(trial, point, r, &gained, err));
    }
    return VP_OK;
}
