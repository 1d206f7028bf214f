/* Sets up the problem that `auto` solves: costs, limits and lower bounds as
 * numbers per stage and rank. */
#include "sched/auto.h"

#include <stdlib.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int n_kinds(const struct vp_auto_stage *stage)
{
    return stage->recompute ? VP_AUTO_KINDS : VP_AUTO_KINDS - 1;
}

/* ---- Stages ------------------------------------------------------------- */

/* Returns the rank that receives a stage's activations (`forwards`) or
 * gradients; -1: none, or the stage's own rank. */
static int receiver(const struct vp_schedule *schedule, int s, bool forwards)
{
    int next = forwards ? s + 1 : s - 1;

    if (next < 0 || next >= schedule->n_stages ||
        schedule->stages[next].first_rank == schedule->stages[s].first_rank)
        return -1;
    return schedule->stages[next].first_rank;
}

/* Returns the index of the link of a message: one per pair of ranks and
 * direction, or with one_port a single one for all messages that a rank
 * sends. */
static int link_of(const struct vp_auto_problem *problem, int s, bool forwards)
{
    const struct vp_schedule *schedule = problem->schedule;
    const struct vp_rank_list *list =
        &schedule->ranks[schedule->stages[s].first_rank];
    int to = receiver(schedule, s, forwards);

    if (to < 0)
        return -1;
    for (int i = 0; i < list->n_stages && !problem->costs->one_port; i++) {
        if (receiver(schedule, list->stages[i], true) == to)
            return 2 * list->stages[i];
        if (receiver(schedule, list->stages[i], false) == to)
            return 2 * list->stages[i] + 1;
    }
    return 2 * list->stages[0];
}

/* A message passes a copy engine, a link and a copy engine. The slowest of them
 * limits the rate of messages and is treated as the link; the others add a
 * delay. */
static void fill_stage(struct vp_auto_problem *problem, int s,
                       const double *weights)
{
    const struct vp_stage_costs *c = &problem->costs->stages[s];
    struct vp_auto_stage *stage = &problem->stages[s];
    const struct vp_schedule_stage *at = &problem->schedule->stages[s];

    *stage = (struct vp_auto_stage){
        .rank = at->first_rank,
        .recompute = at->recompute,
        .cost = { [VP_AUTO_F] = c->f,
                  [VP_AUTO_R] = at->recompute ? c->r : 0.0,
                  [VP_AUTO_B] = problem->fused ? c->b + c->w : c->b,
                  [VP_AUTO_W] = problem->fused ? 0.0 : c->w },
        .weight = weights ? weights[s] : 1.0,
        .act_link = link_of(problem, s, true),
        .grad_link = link_of(problem, s, false),
        .act = larger(c->act, c->act_copy),
        .grad = larger(c->grad, c->grad_copy),
    };
    stage->act_delay = c->act + 2.0 * c->act_copy + problem->costs->latency -
                       stage->act;
    stage->grad_delay = c->grad + 2.0 * c->grad_copy + problem->costs->latency -
                        stage->grad;
}

/* Sets the earliest times of the first minibatch: forward through all stages,
 * then backward. */
static void fill_heads(struct vp_auto_problem *problem)
{
    int last = problem->n_stages - 1;
    struct vp_auto_stage *stages = problem->stages;
    double time = 0.0;

    for (int s = 0; s <= last; s++) {
        stages[s].f_head = time;
        time += stages[s].cost[VP_AUTO_F];
        if (stages[s].act_link >= 0)
            time += stages[s].act + stages[s].act_delay;
    }
    time += stages[last].cost[VP_AUTO_R];
    for (int s = last; s >= 0; s--) {
        stages[s].b_head = time;
        time += stages[s].cost[VP_AUTO_B];
        if (stages[s].grad_link >= 0)
            time += stages[s].grad + stages[s].grad_delay;
    }
}

/* ---- Ranks -------------------------------------------------------------- */

static double work_of(const struct vp_auto_stage *stage)
{
    return stage->cost[VP_AUTO_F] + stage->cost[VP_AUTO_R] +
           stage->cost[VP_AUTO_B] + stage->cost[VP_AUTO_W];
}

/* Lower bound: a rank does all its work after its first input has arrived. */
static void bound_rank(struct vp_auto_problem *problem, int rank)
{
    const struct vp_rank_list *list = &problem->schedule->ranks[rank];
    const struct vp_auto_stage *first = &problem->stages[list->stages[0]];
    double work = 0.0;

    for (int i = 0; i < list->n_stages; i++)
        work += work_of(&problem->stages[list->stages[i]]);
    problem->period = larger(problem->period, work);
    problem->bound = larger(problem->bound,
                            first->f_head + problem->n_mb * work +
                                problem->tail[rank] + problem->after);
}

/* Lower bound: the last stage begins when the first minibatch has arrived, does
 * all its forwards and backwards, and the last gradient travels back to stage
 * 0. */
static void bound_last_stage(struct vp_auto_problem *problem)
{
    const struct vp_auto_stage *last = &problem->stages[problem->n_stages - 1];
    const struct vp_auto_stage *first = &problem->stages[0];
    double pass = work_of(last) - last->cost[VP_AUTO_W];
    double back = first->b_head - last->b_head + first->cost[VP_AUTO_B] -
                  last->cost[VP_AUTO_B];

    problem->bound = larger(problem->bound,
                            last->f_head + problem->n_mb * pass + back +
                                first->cost[VP_AUTO_W] +
                                problem->tail[first->rank] + problem->after);
}

/* A group ends with the reduction, if there is one, and the update. */
static void fill_tails(struct vp_auto_problem *problem)
{
    double longest = 0.0;

    for (int r = 0; r < problem->n_ranks; r++) {
        const struct vp_rank_list *list = &problem->schedule->ranks[r];
        double reduce = 0.0, update = 0.0;

        for (int i = 0; i < list->n_stages; i++) {
            int s = list->stages[i];

            if (vp_schedule_reduces(problem->schedule, s))
                reduce += problem->costs->stages[s].reduce;
            update += problem->costs->stages[s].update;
        }
        longest = larger(longest, update);
        problem->tail[r] = problem->schedule->global_norm ? reduce
                                                          : reduce + update;
    }
    problem->after = problem->schedule->global_norm ? longest : 0.0;
}

static void fill_ranks(struct vp_auto_problem *problem)
{
    for (int r = 0; r < problem->n_ranks; r++) {
        const struct vp_rank_list *list = &problem->schedule->ranks[r];

        problem->first[r] = problem->n_letters;
        for (int i = 0; i < list->n_stages; i++)
            problem->n_letters += problem->n_mb *
                                  n_kinds(&problem->stages[list->stages[i]]);
    }
    problem->first[problem->n_ranks] = problem->n_letters;
    fill_tails(problem);
    for (int r = 0; r < problem->n_ranks; r++)
        bound_rank(problem, r);
    bound_last_stage(problem);
}

/* ---- Memory ------------------------------------------------------------- */

/* The tolerance covers rounding in sums of weights. */
static bool is_within(const struct vp_auto_problem *problem, int rank,
                      double used)
{
    return !problem->limit || used <= problem->limit[rank] * (1.0 + 1e-12);
}

bool vp_auto_fits(const struct vp_auto_problem *problem, int rank,
                  const int *n_slots)
{
    const struct vp_rank_list *list = &problem->schedule->ranks[rank];
    double used = 0.0;

    for (int i = 0; i < list->n_stages; i++)
        used += n_slots[list->stages[i]] *
                problem->stages[list->stages[i]].weight;
    return is_within(problem, rank, used);
}

/* Returns the kind whose action of the same minibatch comes before. */
static int kind_before(const struct vp_auto_stage *stage, int kind)
{
    if (kind == VP_AUTO_B)
        return stage->recompute ? VP_AUTO_R : VP_AUTO_F;
    return kind == VP_AUTO_W ? VP_AUTO_B : VP_AUTO_F;
}

bool vp_auto_is_legal(const struct vp_auto_problem *problem,
                      const vp_letter *letters, int rank, int *scratch)
{
    const struct vp_rank_list *list = &problem->schedule->ranks[rank];
    int *counts = scratch, *peaks = scratch + VP_AUTO_KINDS * problem->n_stages;
    int last = vp_auto_last_kind(problem);
    double used = 0.0, most = 0.0;

    for (int i = 0; i < list->n_stages; i++) {
        for (int kind = 0; kind < VP_AUTO_KINDS; kind++)
            counts[VP_AUTO_KINDS * list->stages[i] + kind] = 0;
        peaks[list->stages[i]] = 0;
    }
    for (int at = problem->first[rank]; at < problem->first[rank + 1]; at++) {
        int s = vp_letter_stage(letters[at]);
        int kind = vp_letter_kind(letters[at]);
        const struct vp_auto_stage *stage = &problem->stages[s];
        int *n = &counts[VP_AUTO_KINDS * s];

        if (kind != VP_AUTO_F && n[kind] >= n[kind_before(stage, kind)])
            return false;
        if (kind == VP_AUTO_R && n[VP_AUTO_R] > n[VP_AUTO_B])
            return false;
        n[kind]++;
        if (kind == last)
            used -= stage->weight;
        if (kind != VP_AUTO_F)
            continue;
        used += stage->weight;
        most = larger(most, used);
        if (n[VP_AUTO_F] - n[last] > peaks[s])
            peaks[s] = n[VP_AUTO_F] - n[last];
    }
    return problem->in_use ? is_within(problem, rank, most)
                           : vp_auto_fits(problem, rank, peaks);
}

/* Refuses limits below one minibatch on each stage of a rank. */
static enum vp_status check_memory(const struct vp_auto_problem *problem,
                                   struct vp_err *err)
{
    for (int r = 0; problem->limit && r < problem->n_ranks; r++) {
        const struct vp_rank_list *list = &problem->schedule->ranks[r];
        double least = 0.0;

        for (int i = 0; i < list->n_stages; i++)
            least += problem->stages[list->stages[i]].weight;
        if (!is_within(problem, r, least))
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule auto: rank %d may keep %g, but one "
                              "minibatch takes %g; give it more memory",
                              r, problem->limit[r], least);
    }
    return VP_OK;
}

/* ---- Setting up --------------------------------------------------------- */

enum vp_status vp_auto_problem_init(struct vp_auto_problem *problem,
                                    const struct vp_sched_config *config,
                                    const struct vp_schedule *schedule,
                                    struct vp_err *err)
{
    const struct vp_sched_limits *limits = config->limits;
    size_t n_ranks = (size_t)schedule->n_ranks;
    size_t n_stages = (size_t)schedule->n_stages;

    *problem = (struct vp_auto_problem){
        .schedule = schedule,
        .costs = config->costs,
        .limit = limits ? limits->rank : NULL,
        .in_use = limits && limits->in_use,
        .swap = config->swap,
        .fused = config->fused,
        .n_ranks = schedule->n_ranks,
        .n_stages = schedule->n_stages,
        .n_mb = schedule->n_mb,
        .stages = calloc(n_stages, sizeof(*problem->stages)),
        .first = calloc(n_ranks + 1, sizeof(*problem->first)),
        .tail = calloc(n_ranks, sizeof(*problem->tail)),
        .send_blocks = config->costs->send_blocks,
    };
    if (!problem->stages || !problem->first || !problem->tail)
        return vp_err_set(err, VP_ERR_NOMEM, "schedule auto: out of memory");
    for (int s = 0; s < problem->n_stages; s++)
        fill_stage(problem, s, limits ? limits->stage : NULL);
    fill_heads(problem);
    fill_ranks(problem);
    return check_memory(problem, err);
}

void vp_auto_problem_release(struct vp_auto_problem *problem)
{
    free(problem->stages);
    free(problem->first);
    free(problem->tail);
}
