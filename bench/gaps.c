#include "gaps.h"

#include "lab.h"

#include <stdio.h>
#include <stdlib.h>

struct span {
    int64_t begin_ns, end_ns;
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
                spans[(*n_out)++] = (struct span){ e->start_ns, e->end_ns };
        }
    qsort(spans, (size_t)*n_out, sizeof(*spans), earlier_first);
    return spans;
}

bool gaps_print(const struct vp_trace *trace, double most_us)
{
    int64_t idle = 0, longest = 0, end, window;
    int n, n_long = 0;
    struct span *spans = collect(trace, &n);

    end = spans[0].begin_ns;
    for (int i = 0; i < n; i++) {
        int64_t gap = spans[i].begin_ns - end;

        if (gap > 0) {
            idle += gap;
            longest = gap > longest ? gap : longest;
            n_long += 1e-3 * (double)gap > most_us;
        }
        end = spans[i].end_ns > end ? spans[i].end_ns : end;
    }
    window = end - spans[0].begin_ns;
    free(spans);
    printf("  between actions of all ranks: idle %.3f %% of %.3f ms, longest "
           "gap %.1f us (<= %.0f us) %s, %d longer ones\n",
           100.0 * (double)idle / (double)window, 1e-6 * (double)window,
           1e-3 * (double)longest, most_us,
           1e-3 * (double)longest <= most_us ? "met" : "MISSED", n_long);
    return 1e-3 * (double)longest <= most_us;
}
