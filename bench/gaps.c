/* Finds and prints the gaps between actions on a GPU. */
#include "gaps.h"

#include "lab.h"

#include <stdio.h>
#include <stdlib.h>

struct span {
    struct vp_trace_event event;
    int rank;
};

struct gaps {
    int64_t idle, longest, before_update;
    int n_long;
    struct span after_longest;
};

static int earlier_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->event.start_ns > y->event.start_ns) -
           (x->event.start_ns < y->event.start_ns);
}

static bool is_work(const struct vp_trace_event *event)
{
    return event->kind != VP_ACTION_RECV_ACT &&
           event->kind != VP_ACTION_RECV_GRAD;
}

static bool is_update(const struct vp_trace_event *event)
{
    return event->kind == VP_ACTION_REDUCE || event->kind == VP_ACTION_UPDATE;
}

/* Returns the actions of all ranks, sorted by their start. The caller frees
 * them. */
static struct span *collect(const struct vp_trace *trace, int *n_out)
{
    struct span *spans;
    size_t n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        n += (size_t)trace->ranks[r].n_events;
    spans = calloc(n + 1, sizeof(*spans));
    if (!spans)
        lab_die("gaps", &(struct vp_err){ .text = "out of memory" });
    *n_out = 0;
    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace->ranks[r].events[i];

            if (is_work(e))
                spans[(*n_out)++] = (struct span){ *e, r };
        }
    qsort(spans, (size_t)*n_out, sizeof(*spans), earlier_first);
    return spans;
}

/* Counts a gap of `ns` before `span`. */
static void add_gap(struct gaps *gaps, int64_t ns, const struct span *span,
                    double most_us)
{
    if (ns <= 0)
        return;
    gaps->idle += ns;
    if (is_update(&span->event)) {
        gaps->before_update = ns > gaps->before_update ? ns
                                                       : gaps->before_update;
        return;
    }
    gaps->n_long += 1e-3 * (double)ns > most_us;
    if (ns > gaps->longest) {
        gaps->longest = ns;
        gaps->after_longest = *span;
    }
}

bool gaps_print(const struct vp_trace *trace, double most_us)
{
    struct gaps gaps = { 0 };
    const struct vp_trace_event *next = &gaps.after_longest.event;
    int64_t begin, end;
    int n;
    struct span *spans = collect(trace, &n);
    bool met;

    begin = end = spans[0].event.start_ns;
    for (int i = 0; i < n; i++) {
        add_gap(&gaps, spans[i].event.start_ns - end, &spans[i], most_us);
        end = spans[i].event.end_ns > end ? spans[i].event.end_ns : end;
    }
    met = 1e-3 * (double)gaps.longest <= most_us;
    printf("  between actions of all ranks: idle %.3f %%, longest gap %.1f us "
           "(<= %.0f us) %s, %d longer ones; before an update %.1f us\n",
           100.0 * (double)gaps.idle / (double)(end - begin),
           1e-3 * (double)gaps.longest, most_us, met ? "met" : "MISSED",
           gaps.n_long, 1e-3 * (double)gaps.before_update);
    if (gaps.longest > 0)
        printf(
            "  the longest: before %s of minibatch %d on rank %d, at %.3f ms\n",
            vp_action_kind_name((enum vp_action_kind)next->kind), (int)next->mb,
            gaps.after_longest.rank, 1e-6 * (double)next->start_ns);
    free(spans);
    return met;
}
