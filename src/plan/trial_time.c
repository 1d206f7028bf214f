/* Quick timing of a schedule's lists, for estimates: like the simulator, but
 * without waits for free buffers, shared devices and links that several stages
 * share. About thirty times as fast. */
#include "plan/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Scratch memory of one evaluation, by stage and minibatch. */
struct board {
    double *act, *grad; /* arrival of the input of F and of B; -1: not yet */
    double *act_link, *grad_link; /* per stage: end of its last message */
    double *done;                 /* per minibatch: end of B on stage 0 */
    double *clock;                /* per rank: end of its last item */
    int *next;                    /* per rank: its next item */
};

enum vp_status vp_lists_init(struct vp_lists *lists,
                             const struct vp_schedule *schedule)
{
    size_t n = (size_t)schedule->n_actions;
    size_t cells = (size_t)schedule->n_stages * (size_t)schedule->n_mb;
    size_t n_ranks = (size_t)schedule->n_ranks;

    *lists = (struct vp_lists){
        .schedule = schedule,
        .at = calloc(n + 1, sizeof(*lists->at)),
        .first = calloc(n_ranks + 1, sizeof(int)),
        .times = calloc(2 * cells + (size_t)schedule->n_mb + n_ranks,
                        sizeof(double)),
        .next = calloc(n_ranks, sizeof(int)),
    };
    if (!lists->at || !lists->first || !lists->times || !lists->next) {
        vp_lists_release(lists);
        return VP_ERR_NOMEM;
    }
    for (int r = 0; r < schedule->n_ranks; r++) {
        const struct vp_rank_list *list = &schedule->ranks[r];

        lists->first[r] = lists->n;
        for (int i = 0; i < list->n_actions; i++)
            if (list->actions[i].kind <= VP_ACTION_W &&
                list->actions[i].kind != VP_ACTION_R)
                lists->at[lists->n++] = (struct vp_lists_item){
                    (uint8_t)list->actions[i].kind,
                    (uint8_t)list->actions[i].stage,
                    list->actions[i].mb - schedule->first_mb,
                };
    }
    lists->first[schedule->n_ranks] = lists->n;
    return VP_OK;
}

void vp_lists_release(struct vp_lists *lists)
{
    free(lists->at);
    free(lists->first);
    free(lists->times);
    free(lists->next);
    lists->at = NULL;
    lists->first = lists->next = NULL;
    lists->times = NULL;
}

/* Sends a message that is ready at `ready`. Returns its arrival. */
static double deliver(double *link, double ready, double seconds, double copy,
                      double latency)
{
    double start = ready + copy > *link ? ready + copy : *link;

    *link = start + seconds;
    return *link + copy + latency;
}

static double latency_between(const struct vp_schedule *schedule, int a, int b,
                              const struct vp_plan_costs *costs)
{
    return schedule->stages[a].first_rank == schedule->stages[b].first_rank
               ? 0.0
               : costs->sched.latency;
}

/* Runs one item of a rank. Returns false if its input has not arrived. */
static bool run_item(const struct vp_lists *lists, struct board *board,
                     const struct vp_plan_costs *costs, int rank,
                     const struct vp_lists_item *item)
{
    const struct vp_schedule *schedule = lists->schedule;
    const struct vp_stage_costs *c = &costs->stages[item->stage];
    int n_mb = schedule->n_mb, s = item->stage;
    double *clock = &board->clock[rank], input;

    if (item->kind == VP_ACTION_W) {
        *clock += c->w;
        return true;
    }
    input = item->kind == VP_ACTION_F ? board->act[s * n_mb + item->mb]
                                      : board->grad[s * n_mb + item->mb];
    if (input < 0.0)
        return false;
    if (item->kind == VP_ACTION_F) {
        *clock = (input > *clock ? input : *clock) + c->f;
        if (s + 1 == schedule->n_stages)
            board->grad[s * n_mb + item->mb] = *clock;
        else
            board->act[(s + 1) * n_mb + item->mb] = deliver(
                &board->act_link[s], *clock, c->act, c->act_copy,
                latency_between(schedule, s, s + 1, costs));
        return true;
    }
    *clock += c->r;
    *clock = (input > *clock ? input : *clock) + c->b;
    if (!schedule->split)
        *clock += c->w;
    if (s > 0)
        board->grad[(s - 1) * n_mb + item->mb] = deliver(
            &board->grad_link[s], *clock, c->grad, c->grad_copy,
            latency_between(schedule, s, s - 1, costs));
    else
        board->done[item->mb] = *clock;
    if (schedule->stages[s].update_every == 1)
        *clock += c->update;
    return true;
}

static void clear(const struct vp_lists *lists, struct board *board,
                  double *links)
{
    const struct vp_schedule *schedule = lists->schedule;
    int n_mb = schedule->n_mb, cells = schedule->n_stages * n_mb;

    *board = (struct board){
        .act = lists->times,
        .grad = lists->times + cells,
        .act_link = links,
        .grad_link = links + VP_MAX_STAGES,
        .done = lists->times + 2 * cells,
        .clock = lists->times + 2 * cells + n_mb,
        .next = lists->next,
    };
    for (int i = 0; i < 2 * cells; i++)
        lists->times[i] = i < n_mb ? 0.0 : -1.0;
    for (int r = 0; r < schedule->n_ranks; r++) {
        board->clock[r] = 0.0;
        board->next[r] = lists->first[r];
    }
}

/* Returns the end of the last rank, including reductions and updates. */
static double end_of(const struct vp_lists *lists, const struct board *board,
                     const struct vp_plan_costs *costs)
{
    const struct vp_schedule *schedule = lists->schedule;
    double end = 0.0;

    for (int r = 0; r < schedule->n_ranks; r++) {
        double clock = board->clock[r];

        for (int i = 0; i < schedule->ranks[r].n_stages; i++) {
            const struct vp_stage_costs *c =
                &costs->stages[schedule->ranks[r].stages[i]];

            clock += c->reduce + c->update;
        }
        end = clock > end ? clock : end;
    }
    return end;
}

double vp_lists_seconds(const struct vp_lists *lists,
                        const struct vp_plan_costs *costs)
{
    const struct vp_schedule *schedule = lists->schedule;
    double links[2 * VP_MAX_STAGES] = { 0.0 };
    int from = schedule->n_mb / 4, to = 3 * schedule->n_mb / 4;
    struct board board;
    bool moved = true;

    clear(lists, &board, links);
    while (moved) {
        moved = false;
        for (int r = 0; r < schedule->n_ranks; r++)
            while (
                board.next[r] < lists->first[r + 1] &&
                run_item(lists, &board, costs, r, &lists->at[board.next[r]])) {
                board.next[r]++;
                moved = true;
            }
    }
    for (int r = 0; r < schedule->n_ranks; r++)
        if (board.next[r] < lists->first[r + 1])
            return INFINITY; /* deadlock: the lists wait for each other */
    if (vp_generator_find(schedule->name)->stream && to > from)
        return (board.done[to] - board.done[from]) / (to - from);
    return end_of(lists, &board, costs) / schedule->n_mb;
}
