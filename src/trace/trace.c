/* Timelines in memory: collecting them from recorders, cutting them, and
 * computing times and memory from them. */
#include "trace/trace.h"

#include "trace/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum vp_status vp_trace_init(struct vp_trace *trace, int n_ranks, int n_stages)
{
    *trace = (struct vp_trace){ .n_ranks = n_ranks,
                                .n_stages = n_stages,
                                .plan_ns = -1 };
    trace->ranks = calloc((size_t)n_ranks + 1, sizeof(*trace->ranks));
    trace->stages = calloc((size_t)n_stages + 1, sizeof(*trace->stages));
    if (!trace->ranks || !trace->stages) {
        vp_trace_release(trace);
        return VP_ERR_NOMEM;
    }
    for (int r = 0; r < n_ranks; r++)
        trace->ranks[r].number = r;
    return VP_OK;
}

void vp_trace_release(struct vp_trace *trace)
{
    for (int r = 0; trace->ranks && r < trace->n_ranks; r++)
        free(trace->ranks[r].events);
    free(trace->ranks);
    free(trace->stages);
    *trace = (struct vp_trace){ .n_ranks = 0 };
}

void vp_trace_set_name(struct vp_trace *trace, const char *name)
{
    size_t n = strlen(name);

    if (n >= sizeof(trace->name)) {
        n = sizeof(trace->name) - 1;
        while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80)
            n--;
    }
    memcpy(trace->name, name, n);
    trace->name[n] = '\0';
}

/* ---- Collecting --------------------------------------------------------- */

/* Returns the number of events that the ring still holds. */
static uint64_t n_kept(const struct vp_recorder *recorder)
{
    uint64_t n = recorder->mask + 1;

    return recorder->n < n ? recorder->n : n;
}

static enum vp_status copy_ring(const struct vp_recorder *recorder,
                                struct vp_trace_rank *rank)
{
    uint64_t n = n_kept(recorder), first = recorder->n - n;

    rank->events = calloc(n + 1, sizeof(*rank->events));
    if (!rank->events)
        return VP_ERR_NOMEM;
    for (uint64_t i = 0; i < n; i++)
        rank->events[i] = recorder->events[(first + i) & recorder->mask];
    rank->n_events = (int)n;
    return VP_OK;
}

/* The window begins with the first event, or where the last of the rings that
 * have overwritten events begins. */
static void find_window(struct vp_trace *trace,
                        const struct vp_recorder *const *recorders)
{
    int64_t first = INT64_MAX, lost = INT64_MIN, last = INT64_MIN;

    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];

        if (rank->n_events == 0)
            continue;
        if (rank->events[0].start_ns < first)
            first = rank->events[0].start_ns;
        if (recorders[r]->n > (uint64_t)rank->n_events &&
            rank->events[0].start_ns > lost)
            lost = rank->events[0].start_ns;
        if (rank->events[rank->n_events - 1].end_ns > last)
            last = rank->events[rank->n_events - 1].end_ns;
    }
    if (last == INT64_MIN)
        return;
    trace->begin_ns = lost > first ? lost : first;
    trace->end_ns = last;
}

/* Drops events outside the window and shortens events that cross its borders.
 * The wait of an event is at its start. */
static void cut_rank(struct vp_trace_rank *rank, int64_t begin_ns,
                     int64_t end_ns)
{
    int n = 0;

    for (int i = 0; i < rank->n_events; i++) {
        struct vp_trace_event e = rank->events[i];
        int64_t before = begin_ns - e.start_ns;

        if ((before > 0 && e.end_ns <= begin_ns) ||
            (e.end_ns > end_ns && e.start_ns >= end_ns))
            continue;
        if (before > 0) {
            e.wait_ns = e.wait_ns > before ? e.wait_ns - before : 0;
            e.start_ns = begin_ns;
        }
        if (e.end_ns > end_ns)
            e.end_ns = end_ns;
        if (e.wait_ns > e.end_ns - e.start_ns)
            e.wait_ns = e.end_ns - e.start_ns;
        rank->events[n++] = e;
    }
    rank->n_events = n;
}

static void cut(struct vp_trace *trace, int64_t begin_ns, int64_t end_ns)
{
    for (int r = 0; r < trace->n_ranks; r++)
        cut_rank(&trace->ranks[r], begin_ns, end_ns);
    trace->begin_ns = begin_ns;
    trace->end_ns = end_ns;
}

/* Makes the start of the window time 0. */
static void shift(struct vp_trace *trace)
{
    int64_t zero = trace->begin_ns;

    for (int r = 0; r < trace->n_ranks; r++) {
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            trace->ranks[r].events[i].start_ns -= zero;
            trace->ranks[r].events[i].end_ns -= zero;
        }
    }
    trace->begin_ns = 0;
    trace->end_ns -= zero;
    trace->plan_ns = trace->plan_ns > zero ? trace->plan_ns - zero : -1;
}

/* Returns the number of stages of the current plan or, if larger, of earlier
 * plans that still have events. */
static int count_stages(const struct vp_recorder *const *recorders, int n_ranks,
                        int n_stages)
{
    for (int r = 0; r < n_ranks; r++)
        for (uint64_t i = 0; i < n_kept(recorders[r]); i++)
            if (recorders[r]->events[i].stage >= n_stages)
                n_stages = recorders[r]->events[i].stage + 1;
    return n_stages;
}

enum vp_status vp_trace_collect(const char *name,
                                const struct vp_recorder *const *recorders,
                                int n_ranks,
                                const struct vp_trace_stage *stages,
                                int n_stages, struct vp_trace *out,
                                struct vp_err *err)
{
    struct vp_trace trace;
    enum vp_status st;

    VP_BUG_ON(n_ranks < 1 || n_ranks > VP_TRACE_MAX_RANKS);
    VP_BUG_ON(n_stages < 1 || n_stages > VP_TRACE_MAX_STAGES);
    st = vp_trace_init(&trace, n_ranks,
                       count_stages(recorders, n_ranks, n_stages));
    for (int r = 0; st == VP_OK && r < n_ranks; r++)
        st = copy_ring(recorders[r], &trace.ranks[r]);
    if (st != VP_OK) {
        vp_trace_release(&trace);
        return vp_err_set(err, st,
                          "trace of %.64s: out of memory; close other programs",
                          name);
    }
    vp_trace_set_name(&trace, name);
    memcpy(trace.stages, stages, (size_t)n_stages * sizeof(*stages));
    trace.plan_ns = recorders[0]->plan_ns;
    find_window(&trace, recorders);
    cut(&trace, trace.begin_ns, trace.end_ns);
    shift(&trace);
    *out = trace;
    return VP_OK;
}

/* ---- Times -------------------------------------------------------------- */

static double bubble_of(int64_t busy_ns, double window_ns)
{
    return window_ns > 0.0 ? 1.0 - (double)busy_ns / window_ns : 0.0;
}

double vp_trace_sum(const struct vp_trace *trace,
                    struct vp_trace_times *ranks_out)
{
    double window = (double)(trace->end_ns - trace->begin_ns);
    int64_t busy = 0;

    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];
        struct vp_trace_times times = { 0 };

        for (int i = 0; i < rank->n_events; i++) {
            const struct vp_trace_event *e = &rank->events[i];

            times.busy_ns += e->end_ns - e->start_ns - e->wait_ns;
            times.wait_ns += e->wait_ns;
        }
        times.bubble = bubble_of(times.busy_ns, window);
        busy += times.busy_ns;
        ranks_out[r] = times;
    }
    return bubble_of(busy, window * trace->n_ranks);
}

bool vp_trace_has_stage(const struct vp_trace *trace, int rank, int stage)
{
    const struct vp_trace_rank *events = &trace->ranks[rank];

    for (int i = 0; i < events->n_events; i++)
        if (events->events[i].stage == stage)
            return true;
    return false;
}

/* ---- Memory ------------------------------------------------------------- */

/* A stage on a rank. */
struct node {
    bool used;
    bool split;   /* W ends a minibatch, not B */
    int first_mb; /* the smallest minibatch with a forward in the window */
    int n;        /* minibatches in flight */
};

static bool is_forward(const struct vp_trace_event *e)
{
    return e->kind == VP_ACTION_F && !e->eval;
}

static bool ends_minibatch(const struct node *node,
                           const struct vp_trace_event *e)
{
    return e->kind == (node->split ? VP_ACTION_W : VP_ACTION_B);
}

/* Counts the minibatches in flight at the start of the window for each stage:
 * those that end in the window but have no forward in it. Minibatches of a
 * stage run in order, so these are the ones below first_mb. */
static void find_in_flight(const struct vp_trace_rank *rank, struct node *nodes)
{
    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];
        struct node *node = &nodes[e->stage];

        if (!node->used)
            node->first_mb = INT_MAX;
        node->used = true;
        node->split |= e->kind == VP_ACTION_W;
        if (is_forward(e) && e->mb < node->first_mb)
            node->first_mb = e->mb;
    }
    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];
        struct node *node = &nodes[e->stage];

        node->n += ends_minibatch(node, e) && e->mb < node->first_mb;
    }
}

/* Writes the points of vp_trace_memory() and returns their number. Actions do
 * not overlap, so the points are in time order. */
static int list_points(const struct vp_trace *trace, int rank, int stage,
                       struct node *nodes, struct vp_trace_point *points)
{
    const struct vp_trace_rank *events = &trace->ranks[rank];
    int64_t bytes = 0;
    int n = 0;

    for (int s = 0; s < trace->n_stages; s++)
        if (nodes[s].used && (stage < 0 || s == stage))
            bytes += trace->stages[s].base_bytes +
                     trace->stages[s].slot_bytes * nodes[s].n;
    points[n++] = (struct vp_trace_point){ trace->begin_ns, bytes };
    for (int i = 0; i < events->n_events; i++) {
        const struct vp_trace_event *e = &events->events[i];
        struct node *node = &nodes[e->stage];
        int64_t slot = trace->stages[e->stage].slot_bytes;

        if (stage >= 0 && e->stage != stage)
            continue;
        if (is_forward(e)) {
            node->n++;
            bytes += slot;
            points[n++] = (struct vp_trace_point){ e->start_ns, bytes };
        } else if (ends_minibatch(node, e) && node->n > 0) {
            node->n--;
            bytes -= slot;
            points[n++] = (struct vp_trace_point){ e->end_ns, bytes };
        }
    }
    return n;
}

enum vp_status vp_trace_memory(const struct vp_trace *trace, int rank,
                               int stage, struct vp_trace_point **points_out,
                               int *n_out)
{
    size_t n = (size_t)trace->ranks[rank].n_events + 1;
    struct vp_trace_point *points = calloc(n, sizeof(*points));
    struct node *nodes = calloc((size_t)trace->n_stages, sizeof(*nodes));

    if (!points || !nodes) {
        free(points);
        free(nodes);
        return VP_ERR_NOMEM;
    }
    find_in_flight(&trace->ranks[rank], nodes);
    *n_out = list_points(trace, rank, stage, nodes, points);
    *points_out = points;
    free(nodes);
    return VP_OK;
}

/* ---- The last minibatches ----------------------------------------------- */

/* A minibatch begins with its forward on stage 0. */
static bool is_first(const struct vp_trace_event *e)
{
    return is_forward(e) && e->stage == 0;
}

struct vp_trace_range vp_trace_minibatches(const struct vp_trace *trace)
{
    struct vp_trace_range range = { INT_MAX, -1 };

    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++) {
            if (!is_first(&rank->events[i]))
                continue;
            if (rank->events[i].mb < range.first)
                range.first = rank->events[i].mb;
            if (rank->events[i].mb > range.last)
                range.last = rank->events[i].mb;
        }
    }
    return range;
}

int vp_trace_n_minibatches(const struct vp_trace *trace)
{
    struct vp_trace_range range = vp_trace_minibatches(trace);

    return range.last < range.first ? 0 : range.last - range.first + 1;
}

/* Returns the number of forwards of stage 0 between its last two updates; 1 if
 * there are fewer than two updates. */
static int group_size(const struct vp_trace *trace)
{
    int64_t from = -1, to = -1;
    int n = 0;

    for (int i = trace->ranks[0].n_events - 1; i >= 0 && from < 0; i--) {
        const struct vp_trace_event *e = &trace->ranks[0].events[i];

        if (e->kind != VP_ACTION_UPDATE || e->stage != 0)
            continue;
        from = to < 0 ? -1 : e->end_ns;
        to = to < 0 ? e->end_ns : to;
    }
    for (int r = 0; from >= 0 && r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++)
            n += is_first(&rank->events[i]) &&
                 rank->events[i].start_ns >= from &&
                 rank->events[i].start_ns < to;
    }
    return n > 1 ? n : 1;
}

int vp_trace_enough(int n_ranks)
{
    return n_ranks + 4;
}

int vp_trace_some(const struct vp_trace *trace)
{
    int group = group_size(trace), want = vp_trace_enough(trace->n_ranks);

    return (want + group - 1) / group * group;
}

void vp_trace_keep_last(struct vp_trace *trace, int n)
{
    struct vp_trace_range range = vp_trace_minibatches(trace);
    int64_t begin = INT64_MAX, end = -1;

    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++) {
            const struct vp_trace_event *e = &rank->events[i];

            if (is_first(e) && e->mb > range.last - n && e->start_ns < begin)
                begin = e->start_ns;
            if (!e->eval && e->end_ns > end)
                end = e->end_ns;
        }
    }
    if (range.last < range.first)
        return;
    if (n > range.last - range.first)
        begin = trace->begin_ns;
    cut(trace, begin, end);
}
