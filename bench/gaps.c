#include "gaps.h"

#include "lab.h"

#include <stdio.h>
#include <stdlib.h>

struct span {
    int64_t begin_ns, end_ns;
    bool update;
};

struct gaps {
    int64_t idle, longest, before_update;
    int n_long;
};

static int earlier_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
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

/* What all ranks did, by its beginning. The caller frees it. */
static struct span *collect(const struct vp_trace *trace, int *n_out)
{
    struct span *spans;
    size_t n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        n += (size_t)trace->ranks[r].n_events;
    spans = calloc(n + 1, sizeof(*spans));
    if (!spans)
        lab_die("gaps", &(struct vp_err){ "out of memory" });
    *n_out = 0;
    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace->ranks[r].events[i];

            if (is_work(e))
                spans[(*n_out)++] = (struct span){ e->start_ns, e->end_ns,
                                                   is_update(e) };
        }
    qsort(spans, (size_t)*n_out, sizeof(*spans), earlier_first);
    return spans;
}

static void add_gap(struct gaps *gaps, int64_t ns, bool update, double most_us)
{
    int64_t *longest = update ? &gaps->before_update : &gaps->longest;

    if (ns <= 0)
        return;
    gaps->idle += ns;
    gaps->n_long += !update && 1e-3 * (double)ns > most_us;
    *longest = ns > *longest ? ns : *longest;
}

bool gaps_print(const struct vp_trace *trace, double most_us)
{
    struct gaps gaps = { 0, 0, 0, 0 };
    int64_t end;
    int n;
    struct span *spans = collect(trace, &n);
    bool met;

    end = spans[0].begin_ns;
    for (int i = 0; i < n; i++) {
        add_gap(&gaps, spans[i].begin_ns - end, spans[i].update, most_us);
        end = spans[i].end_ns > end ? spans[i].end_ns : end;
    }
    met = 1e-3 * (double)gaps.longest <= most_us;
    printf("  between actions of all ranks: idle %.3f %%, longest gap %.1f us "
           "(<= %.0f us) %s, %d longer ones; before an update %.1f us\n",
           100.0 * (double)gaps.idle / (double)(end - spans[0].begin_ns),
           1e-3 * (double)gaps.longest, most_us, met ? "met" : "MISSED",
           gaps.n_long, 1e-3 * (double)gaps.before_update);
    free(spans);
    return met;
}
