/* The second half of the proof, and the simulator: all lists together.
 *
 * Why one run proves all. An action waits only for events of the form "node q
 * has done its i-th action of kind k". Which event that is depends on the
 * action alone, not on the order in which the ranks happen to move; and an
 * event, once there, stays. So an action that may start keeps that right
 * whatever the others do, two actions that may start can be taken in either
 * order with the same result, and every maximal run takes the same actions. If
 * one run ends with all lists done, all of them do; if one gets stuck, all get
 * stuck in the same place. The times of the actions are likewise the same in
 * every order of computing them: each is a maximum over fixed events. */
#include "sched/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* An event: so many actions of a kind at a node, more than `index`. */
struct event {
    int node;
    enum vp_action_kind kind;
    int index; /* own index or round */
};

struct progress {
    int done[VP_ACTION_KIND_COUNT]; /* next own index or round */
    int n_arrived;                  /* at REDUCE: so many rounds */
    double arrived[2];              /* when, per round mod 2 */
    double reduced;                 /* end of the last REDUCE */
    double *act, *grad, *freed;     /* per own index from range.begin: arrival
                                       of what was sent, end of last_kind */
};

struct run {
    const struct vp_schedule *schedule;
    const struct vp_nodes *nodes;
    const struct vp_sched_costs *costs; /* NULL: no times */
    struct progress *at;                /* per node */
    int *position;                      /* per rank */
    double *ready;                      /* per rank: end of its last action */
    double *link; /* (from, to); one port: (from, 0): end of the last message */
    double *times;
    struct vp_span *spans;
    enum vp_action_kind last;
};

/* ---- What an action waits for ------------------------------------------- */

/* The one event that an action with a neighbour waits for; false: none. */
static bool awaited(const struct run *run, const struct vp_action *a,
                    struct event *event)
{
    const struct vp_schedule *schedule = run->schedule;
    bool up = a->kind == VP_ACTION_F || a->kind == VP_ACTION_RECV_GRAD;
    int other = up ? a->stage + 1 : a->stage - 1;

    if (other < 0 || other >= schedule->n_stages)
        return false;
    event->node = vp_nodes_of(run->nodes, schedule, other, a->mb);
    event->index = vp_schedule_own_index(schedule, other, a->mb);
    switch (a->kind) {
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

static bool happened(const struct run *run, const struct event *event)
{
    return run->at[event->node].done[event->kind] > event->index;
}

/* When; events before the schedule's first action happened at 0. */
static double time_of(const struct run *run, const struct event *event)
{
    const struct progress *p = &run->at[event->node];
    int i = event->index - run->nodes->at[event->node].range[event->kind].begin;
    const double *times = event->kind == VP_ACTION_SEND_ACT    ? p->act
                          : event->kind == VP_ACTION_SEND_GRAD ? p->grad
                                                               : p->freed;

    VP_BUG_ON(!times);
    return i < 0 ? 0.0 : times[i];
}

/* A replica whose REDUCE of this round lies in another piece of the stream
 * does not hold up this one. */
static bool takes_part(const struct vp_node *node, int round)
{
    return round >= node->range[VP_ACTION_REDUCE].begin &&
           round < node->range[VP_ACTION_REDUCE].end;
}

/* A node that others wait for: REDUCE for all replicas to arrive, UPDATE for
 * everybody's norm. -1 if all are there; `since` is when the last one was. */
static int missing_node(const struct run *run, const struct vp_action *a,
                        double *since)
{
    bool all = a->kind == VP_ACTION_UPDATE;
    int first = all ? 0 : run->nodes->first[a->stage];
    int n = all ? run->nodes->n : run->schedule->stages[a->stage].n_replicas;

    for (int i = first; i < first + n; i++) {
        const struct progress *p = &run->at[i];
        double when = all ? p->reduced : p->arrived[a->mb & 1];

        if (!takes_part(&run->nodes->at[i], a->mb))
            continue;
        if ((all ? p->done[VP_ACTION_REDUCE] : p->n_arrived) <= a->mb)
            return i;
        *since = when > *since ? when : *since;
    }
    return -1;
}

/* The node that keeps the action from starting, or -1; then `since` is the
 * time from which it may. */
static int blocker(const struct run *run, const struct vp_action *a,
                   double *since)
{
    struct event event;

    if (a->kind == VP_ACTION_REDUCE ||
        (a->kind == VP_ACTION_UPDATE && run->schedule->global_norm))
        return missing_node(run, a, since);
    if (!awaited(run, a, &event))
        return -1;
    if (!happened(run, &event))
        return event.node;
    if (run->costs)
        *since = time_of(run, &event);
    return -1;
}

/* ---- Time --------------------------------------------------------------- */

static double duration(const struct run *run, const struct vp_action *a)
{
    const struct vp_stage_costs *c = &run->costs->stages[a->stage];

    switch (a->kind) {
    case VP_ACTION_F:
        return c->f;
    case VP_ACTION_R:
        return c->r;
    case VP_ACTION_B:
        return run->schedule->split ? c->b : c->b + c->w;
    case VP_ACTION_W:
        return c->w;
    case VP_ACTION_REDUCE:
        return c->reduce;
    case VP_ACTION_UPDATE:
        return c->update;
    default:
        return 0.0;
    }
}

/* Puts the message on its link; returns the arrival. */
static double send(struct run *run, int rank, const struct vp_action *a,
                   struct vp_span *span)
{
    const struct vp_stage_costs *c = &run->costs->stages[a->stage];
    double cost = a->kind == VP_ACTION_SEND_ACT ? c->act : c->grad;
    size_t n = (size_t)run->schedule->n_ranks;
    double *link;
    double begin;

    if (a->peer == rank)
        return span->end;
    link = &run->link[(size_t)rank * n +
                      (run->costs->one_port ? 0 : (size_t)a->peer)];
    begin = span->start > *link ? span->start : *link;
    *link = begin + cost;
    if (run->costs->send_blocks)
        *span = (struct vp_span){ begin, *link };
    return *link + run->costs->latency;
}

static void clock_action(struct run *run, int rank, const struct vp_action *a,
                         struct progress *p, const struct vp_node *node,
                         double since)
{
    size_t at = (size_t)(a - run->schedule->actions);
    double ready = run->ready[rank];
    struct vp_span span;
    int i = p->done[a->kind] - node->range[a->kind].begin;

    VP_BUG_ON(!p->act || !p->grad || !p->freed);
    span.start = ready > since ? ready : since;
    span.end = span.start + duration(run, a);
    if (a->kind == VP_ACTION_SEND_ACT)
        p->act[i] = send(run, rank, a, &span);
    else if (a->kind == VP_ACTION_SEND_GRAD)
        p->grad[i] = send(run, rank, a, &span);
    if (a->kind == run->last)
        p->freed[i] = span.end;
    if (a->kind == VP_ACTION_REDUCE)
        p->reduced = span.end;
    run->ready[rank] = span.end;
    run->spans[at] = span;
}

/* ---- The run ------------------------------------------------------------ */

static int node_at(const struct run *run, int rank, int stage)
{
    return run->nodes->first[stage] + rank -
           run->schedule->stages[stage].first_rank;
}

static const struct vp_action *next_action(const struct run *run, int rank)
{
    const struct vp_rank_list *list = &run->schedule->ranks[rank];

    return run->position[rank] < list->n_actions
               ? &list->actions[run->position[rank]]
               : NULL;
}

/* Takes the next action of a rank if it may start. */
static bool step(struct run *run, int rank)
{
    const struct vp_action *a = next_action(run, rank);
    double since = 0.0;
    struct progress *p;
    int node;

    if (!a)
        return false;
    node = node_at(run, rank, a->stage);
    p = &run->at[node];
    if (a->kind == VP_ACTION_REDUCE && p->n_arrived <= a->mb) {
        p->n_arrived = a->mb + 1;
        p->arrived[a->mb & 1] = run->costs ? run->ready[rank] : 0.0;
    }
    if (blocker(run, a, &since) >= 0)
        return false;
    if (run->costs)
        clock_action(run, rank, a, p, &run->nodes->at[node], since);
    p->done[a->kind]++;
    run->position[rank]++;
    return true;
}

/* ---- Getting stuck ------------------------------------------------------ */

/* The cause of a wait in words. */
static void explain(const struct run *run, int rank, char *text, size_t n)
{
    const struct vp_action *a = next_action(run, rank);
    struct event event;
    double since = 0.0;
    int node = blocker(run, a, &since);
    const struct vp_node *q = &run->nodes->at[node];

    if (!awaited(run, a, &event)) {
        snprintf(text, n, "for %dREDUCE%d of rank %d", q->stage, a->mb,
                 q->rank);
        return;
    }
    snprintf(text, n, "for %s%d%s%d of rank %d",
             event.kind == run->last ? "the buffer that is free after " : "",
             q->stage, vp_action_kind_name(event.kind),
             vp_node_mb(run->schedule, q, event.index), q->rank);
}

/* The rank that keeps this one from going on; -1 if it is at its end. */
static int rank_blocking(const struct run *run, int rank)
{
    const struct vp_action *a = next_action(run, rank);
    double since = 0.0;

    return a ? run->nodes->at[blocker(run, a, &since)].rank : -1;
}

static int lowest_in_circle(const struct run *run, int rank)
{
    int lowest = rank;

    for (int at = rank_blocking(run, rank); at != rank;
         at = rank_blocking(run, at))
        lowest = at < lowest ? at : lowest;
    return lowest;
}

static void describe_circle(const struct run *run, int rank, char *text,
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
static enum vp_status stuck(const struct run *run, struct vp_err *err)
{
    struct vp_place place;
    char cause[128], why[400] = "its list ends before that";
    int rank = 0;

    while (!next_action(run, rank))
        rank++;
    for (int i = 0; i < run->schedule->n_ranks; i++) {
        int next = rank_blocking(run, rank);

        if (!next_action(run, next))
            break;
        rank = next;
    }
    if (next_action(run, rank_blocking(run, rank))) {
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

static size_t n_of(const struct vp_node *node, enum vp_action_kind kind)
{
    return (size_t)(node->range[kind].end - node->range[kind].begin);
}

static enum vp_status allocate_times(struct run *run)
{
    size_t n = 0, n_ranks = (size_t)run->schedule->n_ranks;

    for (int i = 0; i < run->nodes->n; i++)
        n += n_of(&run->nodes->at[i], VP_ACTION_SEND_ACT) +
             n_of(&run->nodes->at[i], VP_ACTION_SEND_GRAD) +
             n_of(&run->nodes->at[i], run->last);
    run->times = calloc(n > 0 ? n : 1, sizeof(*run->times));
    run->ready = calloc(n_ranks, sizeof(*run->ready));
    run->link = calloc(n_ranks * n_ranks, sizeof(*run->link));
    if (!run->times || !run->ready || !run->link)
        return VP_ERR_NOMEM;
    n = 0;
    for (int i = 0; i < run->nodes->n; i++) {
        const struct vp_node *node = &run->nodes->at[i];

        run->at[i].act = run->times + n;
        n += n_of(node, VP_ACTION_SEND_ACT);
        run->at[i].grad = run->times + n;
        n += n_of(node, VP_ACTION_SEND_GRAD);
        run->at[i].freed = run->times + n;
        n += n_of(node, run->last);
    }
    return VP_OK;
}

static enum vp_status set_up(struct run *run)
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
    return run->costs ? allocate_times(run) : VP_OK;
}

static void release(struct run *run)
{
    free(run->at);
    free(run->position);
    free(run->ready);
    free(run->link);
    free(run->times);
}

static enum vp_status run_all(struct run *run, struct vp_err *err)
{
    int n_done = 0, n_before;

    while (n_done < run->schedule->n_actions) {
        n_before = n_done;
        for (int rank = 0; rank < run->schedule->n_ranks; rank++)
            while (step(run, rank))
                n_done++;
        if (n_done == n_before)
            return stuck(run, err);
    }
    return VP_OK;
}

enum vp_status vp_run_lists(const struct vp_schedule *schedule,
                            const struct vp_nodes *nodes,
                            const struct vp_sched_costs *costs,
                            struct vp_span *spans, struct vp_err *err)
{
    struct run run = { .schedule = schedule,
                       .nodes = nodes,
                       .costs = costs,
                       .spans = spans,
                       .last = vp_schedule_last_kind(schedule) };
    enum vp_status st = set_up(&run);

    if (st != VP_OK)
        vp_err_set(err, st, "schedule: out of memory");
    else
        st = run_all(&run, err);
    release(&run);
    return st;
}
