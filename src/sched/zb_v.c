/* ZB-V (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 6, and
 * Pipeline Parallelism with Controllable Memory, 2024): P ranks, 2P stages
 * placed 0 .. P-1, P-1 .. 0, backward split in B and W.
 *
 * The lists are written by running the pipeline in steps of one time unit. In
 * each step every rank takes, of the actions whose input is there and whose
 * stage has a free slot, the one that is due first:
 *
 *   F of stage k, minibatch m    6m + k
 *   B                            6m + 2P + 2(2P - 1 - k)
 *   W                            3P after B
 *
 * Six is the work of a rank per minibatch; W is due late, so that it fills
 * gaps, but not last, because it gives slots back. The slots of a rank's two
 * stages, (P + p + 1) / 2 for the later one and the rest of 2P for the earlier,
 * hold together as much as 1f1b's first rank does. For P <= 16 and M <= 64 no
 * schedule is faster (see theory.c; the tests check all of them).
 *
 * It cannot stop early: of the minibatches under way, the oldest finds the
 * slots of its next stage empty. */
#include "sched/internal.h"

#include <stdlib.h>

/* What happened at one stage. Times are the ends of the actions. */
struct lane {
    int n_f, n_b, n_w;
    int n_slots;
    int *f_end, *b_end; /* per minibatch */
};

struct board {
    int n_ranks, n_stages, n_mb;
    int now;
    struct lane *lanes;
};

struct choice {
    enum vp_action_kind kind;
    int stage;
    int64_t due;
};

static bool f_ready(const struct board *board, int k)
{
    const struct lane *lane = &board->lanes[k];

    return lane->n_f < board->n_mb && lane->n_f - lane->n_w < lane->n_slots &&
           (k == 0 || (lane[-1].n_f > lane->n_f &&
                       lane[-1].f_end[lane->n_f] <= board->now));
}

/* The stage's own forward ended before: the gradient has been farther. */
static bool b_ready(const struct board *board, int k)
{
    const struct lane *lane = &board->lanes[k];

    if (k == board->n_stages - 1)
        return lane->n_f > lane->n_b && lane->f_end[lane->n_b] <= board->now;
    return lane[1].n_b > lane->n_b && lane[1].b_end[lane->n_b] <= board->now;
}

static void offer(struct choice *best, enum vp_action_kind kind, int stage,
                  int64_t due)
{
    if (best->stage < 0 || due < best->due)
        *best = (struct choice){ kind, stage, due };
}

static struct choice choose(const struct board *board, int rank)
{
    struct choice best = { VP_ACTION_F, -1, 0 };
    int stages[2] = { board->n_stages - 1 - rank, rank };
    int n_ranks = board->n_ranks;

    for (int i = 0; i < 2; i++) {
        int k = stages[i];
        const struct lane *lane = &board->lanes[k];
        int b_due = 2 * n_ranks + 2 * (board->n_stages - 1 - k);

        if (f_ready(board, k))
            offer(&best, VP_ACTION_F, k, 6 * (int64_t)lane->n_f + k);
        if (b_ready(board, k))
            offer(&best, VP_ACTION_B, k, 6 * (int64_t)lane->n_b + b_due);
        if (lane->n_w < lane->n_b)
            offer(&best, VP_ACTION_W, k,
                  6 * (int64_t)lane->n_w + b_due + 3 * n_ranks);
    }
    return best;
}

/* Choices of a step see only what ended before it: ends lie at now + 1. */
static int take_step(struct board *board, struct vp_list *lists)
{
    int n_done = 0;

    for (int rank = 0; rank < board->n_ranks; rank++) {
        struct choice choice = choose(board, rank);
        struct lane *lane;
        int *n;

        if (choice.stage < 0)
            continue;
        lane = &board->lanes[choice.stage];
        n = choice.kind == VP_ACTION_F   ? &lane->n_f
            : choice.kind == VP_ACTION_B ? &lane->n_b
                                         : &lane->n_w;
        vp_list_put(&lists[rank], choice.kind, choice.stage, *n);
        if (choice.kind == VP_ACTION_F)
            lane->f_end[*n] = board->now + 1;
        else if (choice.kind == VP_ACTION_B)
            lane->b_end[*n] = board->now + 1;
        ++*n;
        n_done++;
    }
    board->now++;
    return n_done;
}

void vp_generate_zb_v(const struct vp_schedule *schedule, struct vp_list *lists)
{
    struct board board = { schedule->n_ranks, schedule->n_stages,
                           schedule->n_mb, 0, NULL };
    size_t n_times = 2 * (size_t)schedule->n_stages * (size_t)schedule->n_mb;
    int64_t n_left = 3 * (int64_t)schedule->n_stages * schedule->n_mb;
    int *times = calloc(n_times, sizeof(*times));

    board.lanes = calloc((size_t)schedule->n_stages, sizeof(*board.lanes));
    lists[0].failed = !times || !board.lanes;
    for (int k = 0; !lists[0].failed && k < board.n_stages; k++) {
        struct lane *lane = &board.lanes[k];
        int rank = schedule->stages[k].first_rank;
        int n_later = (board.n_ranks + rank + 1) / 2;

        lane->n_slots = k < board.n_ranks ? 2 * board.n_ranks - n_later
                                          : n_later;
        lane->f_end = times + (size_t)k * 2 * (size_t)board.n_mb;
        lane->b_end = lane->f_end + board.n_mb;
    }
    while (!lists[0].failed && n_left > 0)
        n_left -= take_step(&board, lists);
    free(board.lanes);
    free(times);
}
