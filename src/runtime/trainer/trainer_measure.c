/* Duration of a step, the fraction of it that ranks waited, and the FLOPs that
 * they computed in it.
 *
 * A step ends when the first rank has finished its part of it, and its window
 * begins at the end of the previous window: windows cover the time of a run
 * without gaps, and the last window of a stream ends when all ranks have
 * ended. The work of a rank in a window follows from its marks, recorded at
 * each of its updates; between two marks it is assumed to be evenly spread, as
 * are the minibatches of a round. Reports may be late and come several at once:
 * since the wait between two marks is never longer than the time between them,
 * and no rank computes faster than its device, both hold for windows, too.
 *
 *   window    0          1        2
 *           |---------|--------|-------------------|
 *   stage 0  F0 F1 .. B0 U F2 .. B1 U ....... B2 U     U: a mark
 *   stage 1  .. F0 B0 U F1 B1 U ... F2 B2 U ........
 */
#include "runtime/trainer/trainer.h"

#include "base/clock.h"
#include "runtime/trainer/internal.h"

void vp_measure_begin(struct vp_trainer *trainer)
{
    const struct vp_pipeline *pipeline = &trainer->pipeline;
    bool stream = trainer->generator->stream;
    int64_t now = vp_clock_ns();

    for (int r = 0; r < pipeline->n_ranks; r++) {
        int s = trainer->ranks[r].stages[0].index;
        struct vp_window *window = &trainer->windows[r];

        *window = (struct vp_window){
            .first_update = stream ? trainer->version_begin[s]
                                   : trainer->n_steps,
            .every = stream ? trainer->schedule.stages[s].update_every : 1,
            .begin = trainer->ranks[r].last,
        };
        window->begin.ns = now;
        window->mark = window->begin;
    }
}

/* Returns the counters of rank `r` when all ranks have ended the run. A rank
 * that ended earlier waited. */
static struct vp_mark end_mark(const struct vp_trainer *trainer, int r)
{
    struct vp_mark mark = trainer->ranks[r].last;
    int64_t end = mark.ns;

    for (int i = 0; i < trainer->pipeline.n_ranks; i++)
        end = trainer->ranks[i].last.ns > end ? trainer->ranks[i].last.ns : end;
    mark.wait_ns += end - mark.ns;
    mark.ns = end;
    return mark;
}

/* Returns the mark of round `k` of the run, counted from 1. An incomplete round
 * makes no update: it ends with the run. */
static struct vp_mark mark_of(const struct vp_trainer *trainer, int r,
                              int64_t k, int64_t n_steps)
{
    const struct vp_window *window = &trainer->windows[r];
    const struct vp_pipeline *pipeline = &trainer->pipeline;
    int64_t at = (window->first_update + k - 1) % pipeline->n_notes;

    if (k == window->round)
        return window->mark;
    if (k * window->every > n_steps)
        return end_mark(trainer, r);
    return pipeline->marks[at * pipeline->n_ranks + r];
}

/* Returns the time at which rank `r` had finished its part of the first `step`
 * steps. */
static int64_t done_ns(const struct vp_trainer *trainer, int r, int64_t step,
                       int64_t n_steps)
{
    int64_t every = trainer->windows[r].every;
    int64_t before = (step - 1) / every * every; /* steps of earlier rounds */
    int64_t n = n_steps - before < every ? n_steps - before : every;
    int64_t begin = mark_of(trainer, r, before / every, n_steps).ns;
    int64_t end = mark_of(trainer, r, before / every + 1, n_steps).ns;

    return begin + (end - begin) * (step - before) / n;
}

/* Returns the counters of rank `r` at time `ns`, which is not after the end of
 * round `last`. */
static struct vp_mark look_at(struct vp_trainer *trainer, int r, int64_t ns,
                              int64_t last, int64_t n_steps)
{
    struct vp_window *window = &trainer->windows[r];
    struct vp_mark next = window->mark, at;
    double share;

    while (window->round < last) {
        next = mark_of(trainer, r, window->round + 1, n_steps);
        if (next.ns > ns)
            break;
        window->mark = next;
        window->round++;
    }
    at = window->mark;
    if (next.ns <= at.ns)
        return at;
    share = (double)(ns - at.ns) / (double)(next.ns - at.ns);
    at.ns = ns;
    at.wait_ns += (int64_t)(share * (double)(next.wait_ns - at.wait_ns));
    at.flops += share * (next.flops - at.flops);
    return at;
}

bool vp_measure_needs_end(const struct vp_trainer *trainer, int64_t step,
                          int64_t n_steps)
{
    bool incomplete = false;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        int64_t every = trainer->windows[r].every;

        incomplete |= (step - 1) / every * every + every > n_steps;
    }
    return incomplete || step == n_steps;
}

/* Returns the time at which the first rank had finished its part of the first
 * `step` steps. */
static int64_t end_of(const struct vp_trainer *trainer, int64_t step,
                      int64_t n_steps)
{
    int64_t ns = INT64_MAX;

    if (step == n_steps)
        return end_mark(trainer, 0).ns;
    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        int64_t done = done_ns(trainer, r, step, n_steps);

        ns = done < ns ? done : ns;
    }
    return ns;
}

void vp_measure_step(struct vp_trainer *trainer, int64_t step, int64_t n_steps,
                     struct vp_step_report *report)
{
    int n_ranks = trainer->pipeline.n_ranks;
    int64_t ns = end_of(trainer, step, n_steps);
    double all_ns = 0.0, wait_ns = 0.0;

    for (int r = 0; r < n_ranks; r++) {
        struct vp_window *window = &trainer->windows[r];
        int64_t last = (step - 1) / window->every + 1 + (step == n_steps);
        struct vp_mark end = look_at(trainer, r, ns, last, n_steps);

        all_ns += (double)(end.ns - window->begin.ns);
        wait_ns += (double)(end.wait_ns - window->begin.wait_ns);
        report->flops += end.flops - window->begin.flops;
        window->begin = end;
    }
    /* The offset of another machine's clock is known up to the transit time of
     * a message; the error may show in the first window. */
    wait_ns = wait_ns < all_ns ? wait_ns : all_ns;
    report->seconds = all_ns > 0.0 ? all_ns * 1e-9 / n_ranks : 0.0;
    report->bubble = all_ns > 0.0 ? wait_ns / all_ns : 0.0;
}
