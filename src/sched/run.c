/* The second half of the proof, and the simulator: runs all lists together.
 *
 * Why one run proves all. An action waits only for events of the form "node q
 * has done its i-th action of kind k". The event depends on the action alone,
 * not on the order in which the ranks advance, and an event that has happened
 * stays true. So an action that may start may still start after any actions of
 * other ranks, two actions that may start can be taken in either order with the
 * same result, and every maximal run takes the same actions. If one run ends
 * with all lists done, all runs do; if one run deadlocks, all deadlock in the
 * same place. The times of the actions are also the same in every order of
 * computing them, unless ranks share a device: each time is a maximum over
 * fixed events. */
#include "sched/run.h"

#include <stdio.h>
#include <stdlib.h>

/* An event: a node has done more than `index` actions of a kind. */
struct event {
    int node;
    enum vp_action_kind kind;
    int index; /* own index or round */
};

/* ---- Events that an action waits for ------------------------------------ */

/* Finds the event that an action of kind `kind` of the same minibatch waits
 * for. Returns false if there is none. */
static bool find_event(const struct vp_run *run, const struct vp_action *a,
                       enum vp_action_kind kind, struct event *event)
{
    const struct vp_schedule *schedule = run->schedule;
    bool up = kind == VP_ACTION_F || kind == VP_ACTION_RECV_GRAD;
    int other = up ? a->stage + 1 : a->stage - 1;

    if (other < 0 || other >= schedule->n_stages)
        return false;
    event->node = vp_nodes_of(run->nodes, schedule, other, a->mb);
    event->index = vp_schedule_own_index(schedule, other, a->mb);
    switch (kind) {
    case VP_ACTION_F:
        event->kind = run->last;
        event->index -= schedule->stages[other].n_act_bufs;
        return true;
    case VP_ACTION_B:
        event->kind = run->last;
        event->index -= schedule->stages[other].n_grad_bufs;
        return true;
    case VP_ACTION_RECV_ACT:
        event->kind = VP_ACTION_SEND_ACT;
        return true;
    case VP_ACTION_RECV_GRAD:
        event->kind = VP_ACTION_SEND_GRAD;
        return true;
    default:
        return false;
    }
}

/* Writes the events that an action waits for and returns their number. RECV
 * waits for the message, or, if receives are only posted, the action that reads
 * it does. */
static int awaited(const struct vp_run *run, const struct vp_action *a,
                   struct event events[2])
{
    bool posts = run->costs && run->costs->recv_posts;
    bool recv = a->kind == VP_ACTION_RECV_ACT || a->kind == VP_ACTION_RECV_GRAD;
    int n = 0;

    if (!(posts && recv))
        n += find_event(run, a, a->kind, &events[n]);
    if (posts && a->kind == VP_ACTION_F)
        n += find_event(run, a, VP_ACTION_RECV_ACT, &events[n]);
    if (posts && a->kind == VP_ACTION_B)
        n += find_event(run, a, VP_ACTION_RECV_GRAD, &events[n]);
    return n;
}

static bool happened(const struct vp_run *run, const struct event *event)
{
    return run->at[event->node].done[event->kind] > event->index;
}

/* Returns the time of an event. Events before the schedule's first action
 * happened at 0. */
static double time_of(const struct vp_run *run, const struct event *event)
{
    const struct vp_node_progress *p = &run->at[event->node];
    int i = event->index - run->nodes->at[event->node].range[event->kind].begin;
    const double *times = event->kind == VP_ACTION_SEND_ACT    ? p->act
                          : event->kind == VP_ACTION_SEND_GRAD ? p->grad
                                                               : p->freed;

    VP_BUG_ON(!times);
    return i < 0 ? 0.0 : times[i];
}

/* Returns false for a replica whose REDUCE of this round is in another piece of
 * the stream: it is not waited for. */
static bool takes_part(const struct vp_node *node, int round)
{
    return round >= node->range[VP_ACTION_REDUCE].begin &&
           round < node->range[VP_ACTION_REDUCE].end;
}

/* Returns a node that an action still waits for: REDUCE waits until all
 * replicas have reached it, UPDATE until all stages have reduced. Returns -1 if
 * there is none, and raises *since to the time of the last one. */
static int missing_node(const struct vp_run *run, const struct vp_action *a,
                        double *since)
{
    bool all = a->kind == VP_ACTION_UPDATE;
    int first = all ? 0 : run->nodes->first[a->stage];
    int n = all ? run->nodes->n : run->schedule->stages[a->stage].n_replicas;

    for (int i = first; i < first + n; i++) {
        const struct vp_node_progress *p = &run->at[i];
        double when = all ? p->reduced : p->arrived[a->mb & 1];

        if (!takes_part(&run->nodes->at[i], a->mb))
            continue;
        if ((all ? p->done[VP_ACTION_REDUCE] : p->n_arrived) <= a->mb)
            return i;
        *since = when > *since ? when : *since;
    }
    return -1;
}

int vp_run_blocker(const struct vp_run *run, const struct vp_action *a,
                   double *since)
{
    struct event events[2];
    int n;

    if (a->kind == VP_ACTION_REDUCE ||
        (a->kind == VP_ACTION_UPDATE && run->schedule->global_norm))
        return missing_node(run, a, since);
    /* The same rank has begun the copy before. */
    if (a->kind == VP_ACTION_SWAP_FREE || a->kind == VP_ACTION_SWAP_READY) {
        *since = run->costs ? vp_clock_swapped(run, a) : 0.0;
        return -1;
    }
    n = awaited(run, a, events);
    for (int i = 0; i < n; i++) {
        double when;

        if (!happened(run, &events[i]))
            return events[i].node;
        when = run->costs ? time_of(run, &events[i]) : 0.0;
        *since = when > *since ? when : *since;
    }
    return -1;
}

/* ---- The run ------------------------------------------------------------ */

int vp_run_node(const struct vp_run *run, int rank, int stage)
{
    return run->nodes->first[stage] + rank -
           run->schedule->stages[stage].first_rank;
}

const struct vp_action *vp_run_next(const struct vp_run *run, int rank)
{
    const struct vp_rank_list *list = &run->schedule->ranks[rank];

    return run->position[rank] < list->n_actions
               ? &list->actions[run->position[rank]]
               : NULL;
}

void vp_run_reach(struct vp_run *run, int rank, const struct vp_action *a)
{
    struct vp_node_progress *p = &run->at[vp_run_node(run, rank, a->stage)];

    if (a->kind == VP_ACTION_REDUCE && p->n_arrived <= a->mb) {
        p->n_arrived = a->mb + 1;
        p->arrived[a->mb & 1] = run->clock ? run->clock->ready[rank] : 0.0;
    }
}

void vp_run_advance(struct vp_run *run, int rank)
{
    const struct vp_action *a = vp_run_next(run, rank);

    run->at[vp_run_node(run, rank, a->stage)].done[a->kind]++;
    run->position[rank]++;
}

/* Takes the next action of a rank. Returns false if it may not start. */
static bool step(struct vp_run *run, int rank)
{
    const struct vp_action *a = vp_run_next(run, rank);
    double since = 0.0;

    if (!a)
        return false;
    vp_run_reach(run, rank, a);
    if (vp_run_blocker(run, a, &since) >= 0)
        return false;
    if (run->clock)
        vp_clock_take(run, rank, a, since);
    vp_run_advance(run, rank);
    return true;
}

/* ---- Deadlocks ---------------------------------------------------------- */

/* Writes the cause of a wait as text. */
static void explain(const struct vp_run *run, int rank, char *text, size_t n)
{
    const struct vp_action *a = vp_run_next(run, rank);
    struct event events[2], *event = events;
    double since = 0.0;
    int node = vp_run_blocker(run, a, &since);
    const struct vp_node *q = &run->nodes->at[node];

    if (awaited(run, a, events) == 0) {
        snprintf(text, n, "for %dREDUCE%d of rank %d", q->stage, a->mb,
                 q->rank);
        return;
    }
    if (happened(run, event))
        event++;
    snprintf(text, n, "for %s%d%s%d of rank %d",
             event->kind == run->last ? "the buffer that is free after " : "",
             q->stage, vp_action_kind_name(event->kind),
             vp_node_mb(run->schedule, q, event->index), q->rank);
}

/* Returns the rank that this one waits for; -1 if it is at its end. */
static int rank_blocking(const struct vp_run *run, int rank)
{
    const struct vp_action *a = vp_run_next(run, rank);
    double since = 0.0;

    return a ? run->nodes->at[vp_run_blocker(run, a, &since)].rank : -1;
}

static int lowest_in_circle(const struct vp_run *run, int rank)
{
    int lowest = rank;

    for (int at = rank_blocking(run, rank); at != rank;
         at = rank_blocking(run, at))
        lowest = at < lowest ? at : lowest;
    return lowest;
}

static void describe_circle(const struct vp_run *run, int rank, char *text,
                            size_t n_bytes)
{
    size_t n = (size_t)snprintf(text, n_bytes, "cycle rank %d", rank);
    int at = rank;

    do {
        at = rank_blocking(run, at);
        if (n + 32 > n_bytes) {
            snprintf(text + n, n_bytes - n, " -> ...");
            return;
        }
        n += (size_t)snprintf(text + n, n_bytes - n, " -> rank %d", at);
    } while (at != rank);
}

/* Follows the waits from any blocked rank. They end in a circle, or (in a piece
 * of a stream) at a rank whose list ends too early. */
enum vp_status vp_run_stuck(const struct vp_run *run, struct vp_err *err)
{
    struct vp_place place;
    char cause[128], why[400] = "its list ends before that";
    int rank = 0;

    while (!vp_run_next(run, rank))
        rank++;
    for (int i = 0; i < run->schedule->n_ranks; i++) {
        int next = rank_blocking(run, rank);

        if (!vp_run_next(run, next))
            break;
        rank = next;
    }
    if (vp_run_next(run, rank_blocking(run, rank))) {
        rank = lowest_in_circle(run, rank);
        describe_circle(run, rank, why, sizeof(why));
    }
    place = vp_place_of(run->schedule, rank, run->position[rank]);
    explain(run, rank, cause, sizeof(cause));
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: waits forever %s; %s; change the order or the "
                      "warm-up depths",
                      place.text, cause, why);
}

/* ---- Setting up --------------------------------------------------------- */

static enum vp_status set_up(struct vp_run *run)
{
    run->at = calloc((size_t)run->nodes->n, sizeof(*run->at));
    run->position = calloc((size_t)run->schedule->n_ranks,
                           sizeof(*run->position));
    if (!run->at || !run->position)
        return VP_ERR_NOMEM;
    for (int i = 0; i < run->nodes->n; i++) {
        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
            run->at[i].done[kind] = run->nodes->at[i].range[kind].begin;
        run->at[i].n_arrived = run->at[i].done[VP_ACTION_REDUCE];
    }
    return VP_OK;
}

static enum vp_status run_all(struct vp_run *run, struct vp_err *err)
{
    int n_done = 0, n_before;

    while (n_done < run->schedule->n_actions) {
        n_before = n_done;
        for (int rank = 0; rank < run->schedule->n_ranks; rank++)
            while (step(run, rank))
                n_done++;
        if (n_done == n_before)
            return vp_run_stuck(run, err);
    }
    return VP_OK;
}

enum vp_status vp_run_lists(const struct vp_schedule *schedule,
                            const struct vp_nodes *nodes,
                            const struct vp_sched_costs *costs,
                            struct vp_span *spans, struct vp_err *err)
{
    struct vp_clock clock = { .spans = spans };
    struct vp_run run = { .schedule = schedule,
                          .nodes = nodes,
                          .costs = costs,
                          .last = vp_schedule_last_kind(schedule) };
    enum vp_status st = set_up(&run);

    if (st == VP_OK && costs)
        st = vp_clock_init(&run, &clock);
    if (st != VP_OK)
        vp_err_set(err, st, "schedule: out of memory");
    else if (costs && vp_turns_needed(&run))
        st = vp_turns_run(&run, err);
    else
        st = run_all(&run, err);
    vp_clock_release(&clock);
    free(run.at);
    free(run.position);
    return st;
}
