/* The theoretical bubble of given lists. Closed forms hold only for the lists
 * that a generator writes, so they are used only if the named generator writes
 * the same lists. All others get the bounds of schedule_theory.c rank by rank,
 * which also cover uneven recomputation, replicas and any placement. */
#include "sched/internal.h"

#include <stdlib.h>

/* ---- Terms of the lists ------------------------------------------------- */

struct stage_terms {
    double f, r, b, w;
    double hop;        /* time of a gradient through this stage */
    double hops_below; /* sum over all stages before this one */
    double hops_above; /* sum over all stages after it */
    bool late;         /* R comes after the gradient has arrived */
    int received;      /* last minibatch whose gradient a rank has received */
    int n_mb;          /* forwards of the current rank */
};

/* Sets `late` of all stages. The R of the last stage, which receives no
 * gradient, is always late: it follows F. */
static void find_late(const struct vp_schedule *schedule,
                      struct stage_terms *stages)
{
    for (int s = 0; s < schedule->n_stages; s++)
        stages[s].late = true;
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];

        for (int i = 0; i < list->n_stages; i++)
            stages[list->stages[i]].received = -1;
        for (int i = 0; i < list->n_actions; i++) {
            const struct vp_action *a = &list->actions[i];
            struct stage_terms *stage = &stages[a->stage];

            if (a->kind == VP_ACTION_RECV_GRAD)
                stage->received = a->mb;
            if (a->kind == VP_ACTION_R && stage->received < a->mb &&
                a->stage < schedule->n_stages - 1)
                stage->late = false;
        }
    }
}

static void fill_terms(const struct vp_schedule *schedule,
                       const struct vp_stage_costs *costs,
                       struct stage_terms *stages)
{
    int n = schedule->n_stages;

    find_late(schedule, stages);
    for (int s = 0; s < n; s++) {
        struct stage_terms *stage = &stages[s];

        stage->f = costs->f;
        stage->b = costs->b;
        stage->w = costs->w;
        stage->r = schedule->stages[s].recompute ? costs->r : 0.0;
        stage->hop = stage->b + (schedule->split ? 0.0 : stage->w) +
                     (stage->late ? stage->r : 0.0);
        if (s > 0)
            stage->hops_below = stages[s - 1].hops_below + stages[s - 1].hop;
    }
    for (int s = n - 2; s >= 0; s--)
        stages[s].hops_above = stages[s + 1].hops_above + stages[s + 1].hop;
}

/* ---- Bounds ------------------------------------------------------------- */

struct rank_work {
    double all;
    double back; /* work that waits for the rank's first gradient */
};

/* Sums up the work of a rank. Sets n_mb of its stages, too. */
static struct rank_work work_of(const struct vp_schedule *schedule, int rank,
                                struct stage_terms *stages)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    struct rank_work work = { .all = 0.0 };

    for (int i = 0; i < list->n_stages; i++)
        stages[list->stages[i]].n_mb = 0;
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        struct stage_terms *stage = &stages[a->stage];
        double cost = 0.0;

        stage->n_mb += a->kind == VP_ACTION_F;
        if (a->kind == VP_ACTION_F)
            cost = stage->f;
        else if (a->kind == VP_ACTION_R)
            cost = stage->r;
        else if (a->kind == VP_ACTION_B)
            cost = stage->b + (schedule->split ? 0.0 : stage->w);
        else if (a->kind == VP_ACTION_W)
            cost = stage->w;
        work.all += cost;
        if (a->kind != VP_ACTION_F && (a->kind != VP_ACTION_R || stage->late))
            work.back += cost;
    }
    return work;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Lower bound from one replica of a stage: the way to it, its forwards and
 * backwards, and the way back. */
static double stage_bound(const struct vp_schedule *schedule, int s,
                          const struct stage_terms *stages)
{
    const struct stage_terms *stage = &stages[s];
    double there = s * stage->f;
    int n_mb = stage->n_mb;

    if (n_mb == 0)
        return 0.0;
    if (schedule->forward_only)
        return there + (n_mb + schedule->n_stages - 1 - s) * stage->f;
    return there + n_mb * (stage->f + stage->r + stage->b) +
           (schedule->split ? stages[0].w : n_mb * stage->w) +
           stage->hops_below;
}

/* Lower bound from one rank, which starts late and ends early. If B and W are
 * split, W may fill its end, and the rank has no backward before the first
 * gradient. */
static double rank_bound(const struct vp_schedule *schedule, int rank,
                         struct rank_work work,
                         const struct stage_terms *stages)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int low = list->stages[0], high = list->stages[list->n_stages - 1];
    double f = stages[0].f, tail, bound;

    if (schedule->forward_only)
        return (low + schedule->n_stages - 1 - high) * f + work.all;
    tail = schedule->split ? 0.0 : stages[low].hops_below;
    bound = larger(low * f + work.all, schedule->n_stages * f +
                                           stages[high].hops_above + work.back);
    return bound + tail;
}

/* A piece of a stream is preceded and followed by others, so that only its work
 * counts. */
static double bubble_bound(const struct vp_schedule *schedule,
                           struct stage_terms *stages)
{
    bool whole = schedule->drain &&
                 schedule->first_mb == schedule->segment_begin;
    double sum = 0.0, bound = 0.0;

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];
        struct rank_work work = work_of(schedule, rank, stages);

        sum += work.all;
        bound = larger(bound, work.all);
        if (!whole || work.all == 0.0)
            continue;
        bound = larger(bound, rank_bound(schedule, rank, work, stages));
        for (int i = 0; i < list->n_stages; i++)
            bound = larger(bound,
                           stage_bound(schedule, list->stages[i], stages));
    }
    return bound > 0.0 ? 1.0 - sum / (schedule->n_ranks * bound) : 0.0;
}

/* ---- Comparison with the named generator -------------------------------- */

static bool is_ordered(enum vp_action_kind kind)
{
    return kind == VP_ACTION_F || kind == VP_ACTION_B || kind == VP_ACTION_W;
}

/* Returns the next F, B or W of the list from *at on and moves *at behind it;
 * NULL: none is left. */
static const struct vp_action *next_ordered(const struct vp_rank_list *list,
                                            int *at)
{
    while (*at < list->n_actions && !is_ordered(list->actions[*at].kind))
        ++*at;
    return *at < list->n_actions ? &list->actions[(*at)++] : NULL;
}

static bool is_same_list(const struct vp_rank_list *a,
                         const struct vp_rank_list *b)
{
    const struct vp_action *x, *y;
    int i = 0, k = 0;

    do {
        x = next_ordered(a, &i);
        y = next_ordered(b, &k);
        if (!x || !y)
            return x == y;
    } while (x->kind == y->kind && x->stage == y->stage && x->mb == y->mb);
    return false;
}

static bool makes_lists(const struct vp_sched_config *config,
                        const struct vp_schedule *schedule)
{
    struct vp_schedule made;
    struct vp_err err = { .text = "" };
    bool same;

    if (vp_schedule_make(config, &made, &err) != VP_OK)
        return false;
    same = made.n_ranks == schedule->n_ranks &&
           made.n_stages == schedule->n_stages;
    for (int rank = 0; same && rank < made.n_ranks; rank++)
        same = is_same_list(&made.ranks[rank], &schedule->ranks[rank]);
    vp_schedule_release(&made);
    return same;
}

/* Returns the largest number of minibatches that a rank keeps, over all its
 * stages. */
static int most_kept(const struct vp_schedule *schedule)
{
    enum vp_action_kind last = vp_schedule_last_kind(schedule);
    int most = 0;

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];
        int n = 0;

        for (int i = 0; i < list->n_actions; i++) {
            n += list->actions[i].kind == VP_ACTION_F;
            most = n > most ? n : most;
            n -= list->actions[i].kind == last;
        }
    }
    return most;
}

/* Finds a configuration under which the generator schedule->name writes these
 * lists. Returns false if there is none, or if not all stages agree about
 * recomputation, because closed forms do not cover that. `out` borrows
 * `replicas` and `recompute` (one per stage), which are filled. */
static bool find_config(const struct vp_schedule *schedule,
                        const struct stage_terms *stages, int *replicas,
                        bool *recompute, struct vp_sched_config *out)
{
    const struct vp_generator *generator = vp_generator_find(schedule->name);
    bool early = false;

    if (!generator || generator->planned || schedule->segment_begin > 0 ||
        schedule->first_mb > 0 || !schedule->drain ||
        !vp_schedule_base(schedule, replicas, out))
        return false;
    for (int s = 0; s < schedule->n_stages; s++) {
        recompute[s] = schedule->stages[s].recompute;
        if (recompute[s] != recompute[0])
            return false;
        early = early || !stages[s].late;
    }
    out->name = schedule->name;
    out->recompute = recompute;
    out->early_recompute = early;
    out->memory = generator->memory ? most_kept(schedule) : 0;
    return makes_lists(out, schedule);
}

/* ---- The bubble --------------------------------------------------------- */

double vp_schedule_list_theory(const struct vp_schedule *schedule,
                               const struct vp_stage_costs *costs)
{
    size_t n = (size_t)schedule->n_stages;
    struct stage_terms *stages = calloc(n, sizeof(*stages));
    int *replicas = calloc(n, sizeof(*replicas));
    bool *recompute = calloc(n, sizeof(*recompute));
    struct vp_sched_config config;
    double theory = 0.0;

    if (stages && replicas && recompute) {
        fill_terms(schedule, costs, stages);
        theory = find_config(schedule, stages, replicas, recompute, &config)
                     ? vp_schedule_theory(&config, costs)
                     : bubble_bound(schedule, stages);
    }
    free(stages);
    free(replicas);
    free(recompute);
    return theory;
}
