/* Computes the times of a plan by a simulation of its words, rank by rank. */
#include "sched/auto.h"

#include <stdlib.h>

/* Weight of the ranks' mean end in the score. Of plans with equal makespan,
 * those in which fewer ranks end late score better. */
#define MEAN_SHARE 0.01

/* State of a simulation. A rank advances through its word until it needs a
 * message that has not been sent yet; it continues when that is sent. */
struct walk {
    const struct vp_auto_problem *problem;
    const vp_letter *letters;
    struct vp_auto_times *times;
    int n_timed, n_stack;
};

/* Return the index in times->arrival of a minibatch's activations at a stage,
 * and of its gradient. */
static int act_at(const struct vp_auto_problem *problem, int stage, int mb)
{
    return stage * problem->n_mb + mb;
}

static int grad_at(const struct vp_auto_problem *problem, int stage, int mb)
{
    return (problem->n_stages + stage) * problem->n_mb + mb;
}

/* Sends a message at *clock. Its arrival time is entry `at`; `rank` receives it
 * and continues if it was blocked on it. `busy`: time on the link. `delay`:
 * time between the link and the arrival. */
static void send_message(struct walk *walk, int link, double busy, double delay,
                         double *clock, int rank, int at)
{
    struct vp_auto_times *times = walk->times;
    double arrival = *clock;

    if (link >= 0) {
        double begin = *clock > times->link[link] ? *clock : times->link[link];

        times->link[link] = begin + busy;
        arrival = times->link[link] + delay;
        if (walk->problem->send_blocks)
            *clock = times->link[link];
    }
    times->arrival[at] = arrival;
    if (times->blocked[rank] == at) {
        times->blocked[rank] = -1;
        times->stack[walk->n_stack++] = rank;
    }
}

/* Returns the index in times->arrival of the message that an action needs, or
 * -1. */
static int needed(const struct vp_auto_problem *problem, int stage, int kind,
                  int mb)
{
    if (kind == VP_AUTO_F && stage > 0)
        return act_at(problem, stage, mb);
    if (kind == VP_AUTO_B && stage + 1 < problem->n_stages)
        return grad_at(problem, stage, mb);
    return -1;
}

static void run_rank(struct walk *walk, int rank)
{
    const struct vp_auto_problem *problem = walk->problem;
    struct vp_auto_times *times = walk->times;
    double clock = times->clock[rank];
    int at = times->next[rank], end = problem->first[rank + 1];

    for (; at < end; at++) {
        vp_letter letter = walk->letters[at];
        int s = vp_letter_stage(letter), kind = vp_letter_kind(letter);
        const struct vp_auto_stage *stage = &problem->stages[s];
        int mb = times->count[letter], input = needed(problem, s, kind, mb);

        if (input >= 0) {
            double arrival = times->arrival[input];

            if (arrival < 0.0) {
                times->blocked[rank] = input;
                break;
            }
            clock = arrival > clock ? arrival : clock;
        }
        times->count[letter]++;
        times->start[at] = clock;
        clock += stage->cost[kind];
        times->end[at] = clock;
        times->mb[at] = mb;
        times->where[letter * problem->n_mb + mb] = at;
        walk->n_timed++;
        if (kind == VP_AUTO_F && s + 1 < problem->n_stages)
            send_message(walk, stage->act_link, stage->act, stage->act_delay,
                         &clock, stage[1].rank, act_at(problem, s + 1, mb));
        else if (kind == VP_AUTO_B && s > 0)
            send_message(walk, stage->grad_link, stage->grad, stage->grad_delay,
                         &clock, stage[-1].rank, grad_at(problem, s - 1, mb));
    }
    times->clock[rank] = clock;
    times->next[rank] = at;
}

static void set_score(const struct vp_auto_problem *problem,
                      struct vp_auto_times *times)
{
    double sum = 0.0;

    times->makespan = 0.0;
    for (int r = 0; r < problem->n_ranks; r++) {
        double end = times->clock[r] + problem->tail[r] + problem->after;

        sum += end;
        if (end > times->makespan)
            times->makespan = end;
    }
    times->score = times->makespan + MEAN_SHARE * sum / problem->n_ranks;
}

bool vp_auto_time(const struct vp_auto_problem *problem,
                  const vp_letter *letters, struct vp_auto_times *times)
{
    struct walk walk = { problem, letters, times, 0, 0 };

    for (int i = 0; i < 2 * problem->n_stages * problem->n_mb; i++)
        times->arrival[i] = -1.0;
    for (int i = 0; i < 2 * problem->n_stages; i++)
        times->link[i] = 0.0;
    for (int i = 0; i < VP_AUTO_KINDS * problem->n_stages; i++)
        times->count[i] = 0;
    for (int r = problem->n_ranks - 1; r >= 0; r--) {
        times->clock[r] = 0.0;
        times->next[r] = problem->first[r];
        times->blocked[r] = -1;
        times->stack[walk.n_stack++] = r;
    }
    while (walk.n_stack > 0)
        run_rank(&walk, times->stack[--walk.n_stack]);
    if (walk.n_timed < problem->n_letters)
        return false;
    set_score(problem, times);
    return true;
}

/* ---- Memory ------------------------------------------------------------- */

enum vp_status vp_auto_times_init(struct vp_auto_times *times,
                                  const struct vp_auto_problem *problem)
{
    size_t n = (size_t)problem->n_letters, n_ranks = (size_t)problem->n_ranks;
    size_t n_stages = (size_t)problem->n_stages;
    size_t n_actions = VP_AUTO_KINDS * n_stages * (size_t)problem->n_mb;
    double *doubles;
    int *ints;

    *times = (struct vp_auto_times){ .makespan = 0.0 };
    doubles = calloc(2 * n + n_actions / 2 + 2 * n_stages + n_ranks,
                     sizeof(*doubles));
    ints = calloc(n + n_actions + VP_AUTO_KINDS * n_stages + 3 * n_ranks,
                  sizeof(*ints));
    times->start = doubles;
    times->mb = ints;
    if (!doubles || !ints)
        return VP_ERR_NOMEM;
    times->end = times->start + n;
    times->arrival = times->end + n;
    times->link = times->arrival + n_actions / 2;
    times->clock = times->link + 2 * n_stages;
    times->where = times->mb + n;
    times->count = times->where + n_actions;
    times->next = times->count + VP_AUTO_KINDS * n_stages;
    times->blocked = times->next + n_ranks;
    times->stack = times->blocked + n_ranks;
    return VP_OK;
}

void vp_auto_times_release(struct vp_auto_times *times)
{
    free(times->start);
    free(times->mb);
}
