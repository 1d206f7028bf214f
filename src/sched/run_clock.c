/* Computes the times of actions and messages. A message to another rank passes
 * the outgoing copy engine of its device, a link, the latency and the incoming
 * copy engine. Engines and links carry one message at a time, first come, first
 * served. */
#include "sched/run.h"

#include <stdlib.h>

int vp_clock_device(const struct vp_run *run, int rank)
{
    if (run->costs->device)
        return run->costs->device[rank];
    return run->costs->capacity > 0.0 || run->costs->busy ? 0 : rank;
}

static double duration(const struct vp_run *run, const struct vp_action *a,
                       const struct vp_stage_costs *stages)
{
    const struct vp_stage_costs *c = &stages[a->stage];

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

double vp_clock_duration(const struct vp_run *run, const struct vp_action *a)
{
    const struct vp_sched_costs *costs = run->costs;
    bool first = vp_action_computes(a->kind) && costs->n_first_slots &&
                 a->slot < costs->n_first_slots[a->stage];

    return duration(run, a, first ? costs->first_slots : costs->stages);
}

double vp_clock_slowdown(const struct vp_run *run, const struct vp_action *a)
{
    double alone = duration(run, a, run->costs->stages);

    return run->costs->busy && alone > 0.0
               ? duration(run, a, run->costs->busy) / alone - 1.0
               : 0.0;
}

/* Reserves a link or engine for `cost` from `time` on. Returns the time at
 * which the use begins. */
static double use(double *free_from, double time, double cost)
{
    double begin = time > *free_from ? time : *free_from;

    *free_from = begin + cost;
    return begin;
}

double vp_clock_send(struct vp_run *run, int rank, const struct vp_action *a,
                     struct vp_span *span)
{
    const struct vp_stage_costs *c = &run->costs->stages[a->stage];
    bool act = a->kind == VP_ACTION_SEND_ACT;
    double cost = act ? c->act : c->grad;
    double copy = act ? c->act_copy : c->grad_copy;
    size_t n = (size_t)run->schedule->n_ranks;
    size_t device = (size_t)vp_clock_device(run, rank);
    double begin = span->start, left = begin;
    double *link;

    if (a->peer == rank)
        return span->end;
    if (copy > 0.0) {
        begin = use(&run->clock->copy[VP_COPY_OUT][device], begin, copy);
        left = begin + copy;
    }
    link = run->costs->one_port
               ? &run->clock->link[device * n]
               : &run->clock->link[(size_t)rank * n + (size_t)a->peer];
    left = use(link, left, cost);
    if (copy == 0.0)
        begin = left;
    if (run->costs->send_blocks)
        *span = (struct vp_span){ begin, *link };
    return *link + run->costs->latency;
}

/* Returns the place of the end time of a copy of swapped values; NULL: the copy
 * was made before the lists begin. */
static double *swapped_at(const struct vp_run *run, const struct vp_action *a,
                          enum vp_action_kind begun_by)
{
    int node = vp_nodes_of(run->nodes, run->schedule, a->stage, a->mb);
    int i = vp_schedule_own_index(run->schedule, a->stage, a->mb) -
            run->nodes->at[node].range[begun_by].begin;
    struct vp_node_progress *p = &run->at[node];

    if (i < 0)
        return NULL;
    return begun_by == VP_ACTION_SWAP_OUT ? &p->out[i] : &p->in[i];
}

void vp_clock_swap(struct vp_run *run, int rank, const struct vp_action *a,
                   double time)
{
    const struct vp_stage_costs *c = &run->costs->stages[a->stage];
    bool in = a->kind == VP_ACTION_SWAP_IN;
    int device = vp_clock_device(run, rank);
    double *engine = &run->clock->copy[in ? VP_COPY_IN : VP_COPY_OUT][device];

    use(engine, time, in ? c->swap_in : c->swap_out);
    *swapped_at(run, a, a->kind) = *engine;
}

double vp_clock_swapped(const struct vp_run *run, const struct vp_action *a)
{
    const double *at = swapped_at(run, a,
                                  a->kind == VP_ACTION_SWAP_FREE
                                      ? VP_ACTION_SWAP_OUT
                                      : VP_ACTION_SWAP_IN);

    return at ? *at : 0.0;
}

double *vp_clock_arrival(struct vp_run *run, int rank,
                         const struct vp_action *a)
{
    int node = vp_run_node(run, rank, a->stage);
    struct vp_node_progress *p = &run->at[node];
    double *times = a->kind == VP_ACTION_SEND_ACT ? p->act : p->grad;

    VP_BUG_ON(!times);
    return &times[p->done[a->kind] - run->nodes->at[node].range[a->kind].begin];
}

void vp_clock_note(struct vp_run *run, int rank, const struct vp_action *a,
                   struct vp_span span)
{
    int node = vp_run_node(run, rank, a->stage);
    struct vp_node_progress *p = &run->at[node];

    VP_BUG_ON(!p->freed);
    if (a->kind == run->last)
        p->freed[p->done[a->kind] - run->nodes->at[node].range[a->kind].begin] =
            span.end;
    if (a->kind == VP_ACTION_REDUCE)
        p->reduced = span.end;
    run->clock->ready[rank] = span.end;
    run->clock->spans[a - run->schedule->actions] = span;
}

void vp_clock_take(struct vp_run *run, int rank, const struct vp_action *a,
                   double since)
{
    double ready = run->clock->ready[rank];
    struct vp_span span;

    span.start = ready > since ? ready : since;
    span.end = span.start + vp_clock_duration(run, a);
    if (a->kind == VP_ACTION_SEND_ACT || a->kind == VP_ACTION_SEND_GRAD)
        *vp_clock_arrival(run, rank, a) = vp_clock_send(run, rank, a, &span);
    if (a->kind == VP_ACTION_SWAP_OUT || a->kind == VP_ACTION_SWAP_IN)
        vp_clock_swap(run, rank, a, span.start);
    vp_clock_note(run, rank, a, span);
}

/* ---- Setting up --------------------------------------------------------- */

static size_t n_of(const struct vp_node *node, enum vp_action_kind kind)
{
    return (size_t)(node->range[kind].end - node->range[kind].begin);
}

enum vp_status vp_clock_init(struct vp_run *run, struct vp_clock *clock)
{
    size_t n = 0, n_ranks = (size_t)run->schedule->n_ranks;

    for (int i = 0; i < run->nodes->n; i++)
        n += n_of(&run->nodes->at[i], VP_ACTION_SEND_ACT) +
             n_of(&run->nodes->at[i], VP_ACTION_SEND_GRAD) +
             n_of(&run->nodes->at[i], run->last) +
             n_of(&run->nodes->at[i], VP_ACTION_SWAP_OUT) +
             n_of(&run->nodes->at[i], VP_ACTION_SWAP_IN);
    clock->times = calloc(n > 0 ? n : 1, sizeof(*clock->times));
    clock->ready = calloc(n_ranks, sizeof(*clock->ready));
    clock->link = calloc(n_ranks * n_ranks, sizeof(*clock->link));
    clock->copy[VP_COPY_OUT] = calloc(2 * n_ranks, sizeof(double));
    if (!clock->times || !clock->ready || !clock->link ||
        !clock->copy[VP_COPY_OUT])
        return VP_ERR_NOMEM;
    clock->copy[VP_COPY_IN] = clock->copy[VP_COPY_OUT] + n_ranks;
    n = 0;
    for (int i = 0; i < run->nodes->n; i++) {
        const struct vp_node *node = &run->nodes->at[i];

        run->at[i].act = clock->times + n;
        n += n_of(node, VP_ACTION_SEND_ACT);
        run->at[i].grad = clock->times + n;
        n += n_of(node, VP_ACTION_SEND_GRAD);
        run->at[i].freed = clock->times + n;
        n += n_of(node, run->last);
        run->at[i].out = clock->times + n;
        n += n_of(node, VP_ACTION_SWAP_OUT);
        run->at[i].in = clock->times + n;
        n += n_of(node, VP_ACTION_SWAP_IN);
    }
    run->clock = clock;
    return VP_OK;
}

void vp_clock_release(struct vp_clock *clock)
{
    free(clock->ready);
    free(clock->link);
    free(clock->copy[VP_COPY_OUT]);
    free(clock->times);
}
