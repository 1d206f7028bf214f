/* Where a model is cut: first partitions by several rules, then moves of one or
 * two blocks between neighbouring stages after Kernighan and Lin: the best move
 * is made even if it makes the plan slower, its cut is locked, and the best of
 * the visited partitions is kept. */
#include "plan/trial.h"

#include "plan/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WORSE = 2,   /* moves in a row without improvement */
    MOST_CUTS = 4096, /* partitions to enumerate at most */
};

/* ---- Points ------------------------------------------------------------- */

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
}

/* Allocates the choices of a point; the caller frees them. */
static bool make_point(const struct vp_trial *trial, struct vp_point *out)
{
    *out = (struct vp_point){ .seconds = INFINITY };
    out->choice = calloc((size_t)trial->n_blocks, sizeof(*out->choice));
    return out->choice != NULL;
}

/* ---- First cuts --------------------------------------------------------- */

enum rule { EVEN, BY_FLOPS, BY_TIME, BY_MEMORY, BY_RECOMPUTED, N_RULES };

/* Returns the weight of block b on stage s under a rule. `like`: a point that
 * has been judged, for BY_RECOMPUTED. */
static double weight_of(const struct vp_trial *trial, enum rule rule, int s,
                        int b, const struct vp_point *like)
{
    const struct vp_search *search = trial->search;
    const struct vp_profile_block *block = &search->costs.blocks[b];
    const struct vp_stage_sizes *alone = &search->blocks[b].alone;
    const struct vp_schedule_stage *stage = &trial->shape.stages[s];
    double seconds = block->alone.f + block->alone.b + block->alone.w;

    switch (rule) {
    case EVEN:
        return 1.0;
    case BY_FLOPS:
        return vp_graph_flops(&search->work.graphs[0], b, 1);
    case BY_TIME:
        return seconds / stage->n_replicas;
    case BY_MEMORY:
        return (double)(alone->n_bytes[VP_SPACE_PARAM] * stage->n_versions +
                        alone->n_bytes[VP_SPACE_GRAD] +
                        alone->moment_bytes / vp_trial_n_shards(trial, s) +
                        stage->n_slots * trial->rows[b].choices[0].slot);
    default:
        return (seconds + trial->rows[b].choices[like->choice[b]].seconds) /
               stage->n_replicas;
    }
}

/* Returns the time of a stage's recomputation relative to its forward. Choices
 * depend on the stage, so this estimates the cost of any block placed there. */
static double recomputed_share(const struct vp_trial *trial,
                               const struct vp_point *like, int s)
{
    double f = 0.0, r = 0.0;
    int b = 0;

    for (int i = 0; i < s; i++)
        b += like->partition[i];
    for (int i = 0; i < like->partition[s]; i++, b++) {
        f += trial->search->costs.blocks[b].alone.f;
        r += trial->rows[b].choices[like->choice[b]].seconds;
    }
    return f > 0.0 ? r / f : 0.0;
}

static enum vp_status cut_by(const struct vp_trial *trial, enum rule rule,
                             const struct vp_point *like, int *partition,
                             struct vp_err *err)
{
    int n = trial->n_blocks, n_stages = trial->n_stages;
    int rank[VP_MAX_STAGES];
    double *costs = calloc((size_t)n * (size_t)n_stages, sizeof(*costs));
    enum vp_status st;

    if (!costs)
        return no_memory(err);
    for (int s = 0; s < n_stages; s++) {
        double share = rule == BY_RECOMPUTED ? recomputed_share(trial, like, s)
                                             : 0.0;

        rank[s] = vp_trial_rank(trial, s);
        for (int b = 0; b < n; b++)
            costs[s * n + b] =
                rule == BY_RECOMPUTED
                    ? weight_of(trial, BY_TIME, s, b, like) +
                          share * trial->search->costs.blocks[b].alone.f
                    : weight_of(trial, rule, s, b, like);
    }
    st = n_stages == trial->plan.n_stages
             ? vp_plan_balance(costs, n, n_stages, partition)
             : vp_plan_balance_ranks(costs, n, n_stages, rank,
                                     trial->plan.n_stages, partition);
    free(costs);
    return st == VP_OK ? VP_OK : no_memory(err);
}

static enum vp_status try_cut(struct vp_trial *trial, struct vp_point *point,
                              struct vp_point *best, struct vp_err *err)
{
    VP_TRY(vp_trial_judge(trial, point, INFINITY, err));
    if (vp_point_better(point, best))
        vp_point_copy(trial, best, point);
    return VP_OK;
}

enum vp_status vp_trial_seed(struct vp_trial *trial, struct vp_point *best,
                             struct vp_err *err)
{
    enum { AGAIN = 2 };
    const struct vp_plan *base = trial->input->base;
    struct vp_point point;
    enum vp_status st = VP_OK;

    if (!make_point(trial, &point))
        return no_memory(err);
    best->fits = false;
    best->lacks = INT64_MAX;
    if (!trial->input->free_partition) {
        for (int s = 0; s < trial->n_stages; s++)
            point.partition[s] = base->partition ? base->partition[s]
                                                 : trial->n_blocks;
        st = try_cut(trial, &point, best, err);
    }
    for (int rule = 0;
         rule < BY_RECOMPUTED && trial->input->free_partition && st == VP_OK;
         rule++) {
        st = cut_by(trial, (enum rule)rule, NULL, point.partition, err);
        if (st == VP_OK)
            st = try_cut(trial, &point, best, err);
    }
    for (int i = 0; i < AGAIN && trial->input->free_partition && st == VP_OK;
         i++) {
        st = cut_by(trial, BY_RECOMPUTED, best, point.partition, err);
        if (st == VP_OK)
            st = try_cut(trial, &point, best, err);
    }
    free(point.choice);
    return st;
}

/* ---- Moves -------------------------------------------------------------- */

/* Moves `n` blocks over the cut after stage `cut`, to the right if positive.
 * Returns false if a stage would become empty. */
static bool move(struct vp_point *point, int cut, int n)
{
    if (point->partition[cut] - n < 1 || point->partition[cut + 1] + n < 1)
        return false;
    point->partition[cut] -= n;
    point->partition[cut + 1] += n;
    return true;
}

struct moves {
    struct vp_point now, next, trying, best;
    bool locked[VP_MAX_STAGES];
};

/* Finds the best move over a cut that is not locked, and stores the moved point
 * in `next`. `cut_out`: the cut, -1 if there is no move. */
static enum vp_status find_move(struct vp_trial *trial, struct moves *moves,
                                int *cut_out, struct vp_err *err)
{
    static const int sizes[] = { 1, -1, 2, -2 };
    bool found = false;

    *cut_out = -1;
    for (int cut = 0; cut + 1 < trial->n_stages; cut++)
        for (size_t i = 0; i < VP_COUNT_OF(sizes) && !moves->locked[cut]; i++) {
            vp_point_copy(trial, &moves->trying, &moves->now);
            if (!move(&moves->trying, cut, sizes[i]))
                continue;
            VP_TRY(vp_trial_judge(trial, &moves->trying,
                                  found && moves->next.fits
                                      ? moves->next.seconds
                                      : (double)INFINITY,
                                  err));
            if (found && !vp_point_better(&moves->trying, &moves->next))
                continue;
            vp_point_copy(trial, &moves->next, &moves->trying);
            *cut_out = cut;
            found = true;
        }
    return VP_OK;
}

/* Runs one pass of moves from `best`. `gained_out`: `best` was improved. */
static enum vp_status pass(struct vp_trial *trial, struct moves *moves,
                           bool *gained_out, struct vp_err *err)
{
    int worse = 0;

    *gained_out = false;
    memset(moves->locked, 0, sizeof(moves->locked));
    vp_point_copy(trial, &moves->now, &moves->best);
    while (worse <= MOST_WORSE) {
        int cut;

        VP_TRY(find_move(trial, moves, &cut, err));
        if (cut < 0)
            return VP_OK;
        vp_point_copy(trial, &moves->now, &moves->next);
        moves->locked[cut] = true;
        worse++;
        if (vp_point_better(&moves->now, &moves->best)) {
            vp_point_copy(trial, &moves->best, &moves->now);
            memset(moves->locked, 0, sizeof(moves->locked));
            moves->locked[cut] = true;
            *gained_out = true;
            worse = 0;
        }
    }
    return VP_OK;
}

enum vp_status vp_trial_improve(struct vp_trial *trial, struct vp_point *best,
                                int n_passes, struct vp_err *err)
{
    struct moves moves;
    struct vp_point *all[] = { &moves.now, &moves.next, &moves.trying,
                               &moves.best };
    enum vp_status st = VP_OK;
    bool gained = true, ok = true;

    memset(&moves, 0, sizeof(moves));
    for (size_t i = 0; i < VP_COUNT_OF(all); i++)
        ok &= make_point(trial, all[i]);
    if (!ok)
        st = no_memory(err);
    else
        vp_point_copy(trial, &moves.best, best);
    for (int i = 0;
         i < n_passes && gained && st == VP_OK && trial->input->free_partition;
         i++)
        st = pass(trial, &moves, &gained, err);
    if (st == VP_OK)
        vp_point_copy(trial, best, &moves.best);
    for (size_t i = 0; i < VP_COUNT_OF(all); i++)
        free(all[i]->choice);
    return st;
}

/* ---- Any cut that fits -------------------------------------------------- */

/* Returns the number of partitions of n blocks into n_stages, at most MOST_CUTS
 * + 1. */
static int64_t count_cuts(int n, int n_stages)
{
    int64_t count = 1;

    for (int i = 1; i < n_stages; i++) {
        count = count * (n - i) / i;
        if (count > MOST_CUTS)
            return MOST_CUTS + 1;
    }
    return count;
}

/* Goes to the next partition in lexical order. Returns false after the last. */
static bool next_cut(int *partition, int n_stages)
{
    int last = n_stages - 1, rest = partition[last];

    for (int s = last - 1; s >= 0; rest += partition[s--]) {
        if (rest == last - s)
            continue; /* the later stages have one block each */
        partition[s]++;
        for (int k = s + 1; k < last; k++)
            partition[k] = 1;
        partition[last] = rest - 1 - (last - s - 1);
        return true;
    }
    return false;
}

static enum vp_status try_all(struct vp_trial *trial, struct vp_point *best,
                              struct vp_err *err)
{
    struct vp_point point;
    enum vp_status st = VP_OK;

    if (!make_point(trial, &point))
        return no_memory(err);
    for (int s = 0; s < trial->n_stages; s++)
        point.partition[s] = 1;
    point.partition[trial->n_stages - 1] = trial->n_blocks - trial->n_stages +
                                           1;
    do
        st = try_cut(trial, &point, best, err);
    while (st == VP_OK && next_cut(point.partition, trial->n_stages));
    free(point.choice);
    return st;
}

enum vp_status vp_trial_make_fit(struct vp_trial *trial, struct vp_point *best,
                                 struct vp_err *err)
{
    enum { PASSES = 50 };

    if (!trial->input->free_partition)
        return vp_trial_judge(trial, best, INFINITY, err);
    if (count_cuts(trial->n_blocks, trial->n_stages) <= MOST_CUTS)
        return try_all(trial, best, err);
    return vp_trial_improve(trial, best, PASSES, err);
}
