/* Plans by list scheduling: simulates the pipeline; an idle rank takes the
 * action with the earliest due time. */
#include "sched/auto.h"

#include <math.h>
#include <stdlib.h>

/* Per stage: number of actions done, and arrival times of their inputs. */
struct lane {
    int n[VP_AUTO_KINDS];
    double *act, *grad; /* per minibatch; INFINITY: not sent yet */
};

struct vp_auto_board {
    struct lane *lanes;
    double *arrivals; /* memory of act and grad of all lanes */
    double *link;
    double *clock; /* per rank: end of its last action */
    double *wake;  /* per rank: earliest time at which an action may start */
    double *used;  /* per rank: memory of the minibatches that it keeps */
    int *n_put;    /* per rank: letters written */
};

/* Arguments of one run. */
struct turn {
    const struct vp_auto_problem *problem;
    const struct vp_auto_rule *rule;
    struct vp_auto_board *board;
    vp_letter *letters;
};

struct choice {
    int stage, kind;  /* stage -1: none */
    double due, from; /* `from`: earliest start */
};

/* ---- Actions that may start --------------------------------------------- */

/* Returns true if a stage may keep one minibatch more. If only the rank's
 * memory is limited, F leaves room for one minibatch on each later stage of the
 * rank that keeps none: otherwise no minibatch could reach its B, and no slot
 * would become free. */
static bool has_slot(const struct turn *turn, int s)
{
    const struct vp_auto_problem *problem = turn->problem;
    const struct vp_auto_stage *stage = &problem->stages[s];
    const struct vp_rank_list *list = &problem->schedule->ranks[stage->rank];
    double used = turn->board->used[stage->rank] + stage->weight;
    int last = vp_auto_last_kind(problem);

    if (turn->rule->slots || !problem->limit) {
        const struct lane *lane = &turn->board->lanes[s];

        return !turn->rule->slots ||
               lane->n[VP_AUTO_F] - lane->n[last] < turn->rule->slots[s];
    }
    for (int i = list->n_stages - 1; i >= 0 && list->stages[i] > s; i--) {
        const struct lane *lane = &turn->board->lanes[list->stages[i]];

        if (lane->n[VP_AUTO_F] == lane->n[last])
            used += problem->stages[list->stages[i]].weight;
    }
    return used <= problem->limit[stage->rank] * (1.0 + 1e-12);
}

/* Returns the earliest start of the next action of a kind, by its inputs and
 * slots. INFINITY: not known yet, or other actions must come first. */
static double ready_from(const struct turn *turn, int s, int kind)
{
    const struct vp_auto_problem *problem = turn->problem;
    const struct lane *lane = &turn->board->lanes[s];
    int mb = lane->n[kind];

    if (mb == problem->n_mb)
        return INFINITY;
    switch (kind) {
    case VP_AUTO_F:
        if (!has_slot(turn, s))
            return INFINITY;
        return s == 0 ? 0.0 : lane->act[mb];
    case VP_AUTO_R:
        return problem->stages[s].recompute && mb < lane->n[VP_AUTO_F] &&
                       mb == lane->n[VP_AUTO_B]
                   ? 0.0
                   : INFINITY;
    case VP_AUTO_B:
        if (problem->stages[s].recompute && mb >= lane->n[VP_AUTO_R])
            return INFINITY;
        if (s + 1 < problem->n_stages)
            return lane->grad[mb];
        return mb < lane->n[VP_AUTO_F] ? 0.0 : INFINITY;
    default:
        return mb < lane->n[VP_AUTO_B] ? 0.0 : INFINITY;
    }
}

/* Sets the earliest time at which an action of the rank may start. */
static void set_wake(const struct turn *turn, int rank)
{
    const struct vp_rank_list *list = &turn->problem->schedule->ranks[rank];
    double wake = INFINITY, clock = turn->board->clock[rank];

    for (int i = 0; i < list->n_stages; i++)
        for (int kind = 0; kind < VP_AUTO_KINDS; kind++) {
            double from = ready_from(turn, list->stages[i], kind);

            wake = from < wake ? from : wake;
        }
    turn->board->wake[rank] = wake > clock ? wake : clock;
}

/* ---- The choice --------------------------------------------------------- */

static void offer(struct choice *best, struct choice choice)
{
    if (best->stage < 0 || choice.due < best->due ||
        (choice.due == best->due && choice.from < best->from))
        *best = choice;
}

/* Finds the action with the earliest due time among those that may start now
 * (`ready`), and among those that may start later (`coming`). */
static void look(const struct turn *turn, int rank, double now,
                 struct choice *ready, struct choice *coming)
{
    const struct vp_rank_list *list = &turn->problem->schedule->ranks[rank];
    int n_mb = turn->problem->n_mb;

    *ready = *coming = (struct choice){ .stage = -1 };
    for (int i = 0; i < list->n_stages; i++)
        for (int kind = 0; kind < VP_AUTO_KINDS; kind++) {
            int s = list->stages[i], mb = turn->board->lanes[s].n[kind];
            double from = ready_from(turn, s, kind);
            struct choice choice = { s, kind, 0.0, from };

            if (from == INFINITY)
                continue;
            choice.due =
                turn->rule->due[(VP_AUTO_KINDS * s + kind) * n_mb + mb];
            offer(from <= now ? ready : coming, choice);
        }
}

/* ---- One action --------------------------------------------------------- */

/* Sends a result at *clock and updates the earliest start of its reader. */
static void send_message(const struct turn *turn, int link, double busy,
                         double delay, double *clock, double *arrival,
                         int reader)
{
    struct vp_auto_board *board = turn->board;

    *arrival = *clock;
    if (link >= 0) {
        double begin = *clock > board->link[link] ? *clock : board->link[link];

        board->link[link] = begin + busy;
        *arrival = board->link[link] + delay;
        if (turn->problem->send_blocks)
            *clock = board->link[link];
        set_wake(turn, reader);
    }
}

static void take(const struct turn *turn, int rank, double now,
                 const struct choice *choice)
{
    const struct vp_auto_problem *problem = turn->problem;
    struct vp_auto_board *board = turn->board;
    int s = choice->stage, kind = choice->kind;
    const struct vp_auto_stage *stage = &problem->stages[s];
    struct lane *lane = &board->lanes[s];
    int mb = lane->n[kind]++;
    double clock = now + stage->cost[kind];

    turn->letters[problem->first[rank] + board->n_put[rank]++] =
        (vp_letter)(VP_AUTO_KINDS * s + kind);
    if (kind == VP_AUTO_F && s + 1 < problem->n_stages)
        send_message(turn, stage->act_link, stage->act, stage->act_delay,
                     &clock, &lane[1].act[mb], stage[1].rank);
    else if (kind == VP_AUTO_B && s > 0)
        send_message(turn, stage->grad_link, stage->grad, stage->grad_delay,
                     &clock, &lane[-1].grad[mb], stage[-1].rank);
    if (kind == VP_AUTO_F)
        board->used[rank] += stage->weight;
    if (kind == vp_auto_last_kind(problem))
        board->used[rank] -= stage->weight;
    board->clock[rank] = clock;
    set_wake(turn, rank);
}

/* Returns the rank with the earliest possible action. */
static int next_rank(const struct vp_auto_problem *problem,
                     const struct vp_auto_board *board)
{
    int first = 0;

    for (int r = 1; r < problem->n_ranks; r++)
        if (board->wake[r] < board->wake[first])
            first = r;
    return first;
}

static void reset(const struct turn *turn)
{
    const struct vp_auto_problem *problem = turn->problem;
    struct vp_auto_board *board = turn->board;

    for (int i = 0; i < 2 * problem->n_stages * problem->n_mb; i++)
        board->arrivals[i] = INFINITY;
    for (int i = 0; i < 2 * problem->n_stages; i++)
        board->link[i] = 0.0;
    for (int s = 0; s < problem->n_stages; s++)
        for (int kind = 0; kind < VP_AUTO_KINDS; kind++)
            board->lanes[s].n[kind] = 0;
    for (int r = 0; r < problem->n_ranks; r++) {
        board->clock[r] = board->used[r] = 0.0;
        board->n_put[r] = 0;
    }
    for (int r = 0; r < problem->n_ranks; r++)
        set_wake(turn, r);
}

/* Always ends: every stage has at least one slot, so the oldest minibatch in
 * flight can proceed. */
void vp_auto_write(const struct vp_auto_problem *problem,
                   struct vp_auto_board *board, const struct vp_auto_rule *rule,
                   vp_letter *letters_out)
{
    struct turn turn = { problem, rule, board, letters_out };
    int n_left = problem->n_letters;

    reset(&turn);
    while (n_left > 0) {
        int rank = next_rank(problem, board);
        double now = board->wake[rank];
        struct choice ready, coming;
        double length;

        VP_BUG_ON(now == INFINITY);
        look(&turn, rank, now, &ready, &coming);
        length = problem->stages[ready.stage].cost[ready.kind];
        if (coming.stage >= 0 && coming.due < ready.due &&
            coming.from < now + rule->patience * length) {
            board->wake[rank] = coming.from;
            continue;
        }
        take(&turn, rank, now, &ready);
        n_left--;
    }
}

/* ---- Memory ------------------------------------------------------------- */

enum vp_status vp_auto_board_create(const struct vp_auto_problem *problem,
                                    struct vp_auto_board **out)
{
    size_t n_stages = (size_t)problem->n_stages, n_mb = (size_t)problem->n_mb;
    size_t n_ranks = (size_t)problem->n_ranks;
    struct vp_auto_board *board = calloc(1, sizeof(*board));

    if (!board)
        return VP_ERR_NOMEM;
    board->lanes = calloc(n_stages, sizeof(*board->lanes));
    board->arrivals = calloc(2 * n_stages * n_mb + 2 * n_stages + 3 * n_ranks,
                             sizeof(*board->arrivals));
    board->n_put = calloc(n_ranks, sizeof(*board->n_put));
    if (!board->lanes || !board->arrivals || !board->n_put) {
        vp_auto_board_free(board);
        return VP_ERR_NOMEM;
    }
    board->link = board->arrivals + 2 * n_stages * n_mb;
    board->clock = board->link + 2 * n_stages;
    board->wake = board->clock + n_ranks;
    board->used = board->wake + n_ranks;
    for (size_t s = 0; s < n_stages; s++) {
        board->lanes[s].act = board->arrivals + 2 * s * n_mb;
        board->lanes[s].grad = board->lanes[s].act + n_mb;
    }
    *out = board;
    return VP_OK;
}

void vp_auto_board_free(struct vp_auto_board *board)
{
    if (!board)
        return;
    free(board->lanes);
    free(board->arrivals);
    free(board->n_put);
    free(board);
}
