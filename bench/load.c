/* Measures the costs of actions as a function of the ranks at work. */
#include "load.h"

#include <stdlib.h>
#include <string.h>

enum {
    N_ALONE = 6, /* steps of one minibatch */
    N_FULL = 6,  /* whole steps, like those that are compared later */
};

static bool computes(int kind)
{
    return kind == VP_ACTION_F || kind == VP_ACTION_R || kind == VP_ACTION_B ||
           kind == VP_ACTION_W || kind == VP_ACTION_UPDATE;
}

static double seconds_of(const struct vp_trace_event *e)
{
    return 1e-9 * (double)(e->end_ns - e->start_ns - e->wait_ns);
}

/* ---- Samples ------------------------------------------------------------ */

/* Seconds of an action, and the mean number of ranks that computed
 * meanwhile. */
struct sample {
    double seconds, load;
};

struct samples {
    struct sample *at;
    int n, room;
};

static void sample_add(struct samples *samples, struct sample sample)
{
    if (samples->n == samples->room) {
        int room = samples->room ? 2 * samples->room : 64;
        struct sample *more = realloc(samples->at,
                                      (size_t)room * sizeof(*more));

        if (!more)
            lab_die("samples", &(struct vp_err){ .text = "out of memory" });
        samples->at = more;
        samples->room = room;
    }
    samples->at[samples->n++] = sample;
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct sample *)a)->seconds;
    double y = ((const struct sample *)b)->seconds;

    return (x > y) - (x < y);
}

/* Returns the means of the middle half, which leaves out disturbed actions. */
static struct sample middle(struct samples *samples)
{
    struct sample sum = { 0.0, 0.0 };
    int first = samples->n / 4, end = samples->n - samples->n / 4;

    if (samples->n == 0)
        return sum;
    qsort(samples->at, (size_t)samples->n, sizeof(*samples->at), by_seconds);
    for (int i = first; i < end; i++) {
        sum.seconds += samples->at[i].seconds / (end - first);
        sum.load += samples->at[i].load / (end - first);
    }
    return sum;
}

/* ---- One run ------------------------------------------------------------ */

struct run {
    struct samples kinds[VP_MAX_STAGES][VP_ACTION_KIND_COUNT];
    struct samples gaps; /* from an action to its reader on another rank */
};

static void run_release(struct run *run)
{
    for (int s = 0; s < VP_MAX_STAGES; s++)
        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
            free(run->kinds[s][kind].at);
    free(run->gaps.at);
    free(run);
}

/* Returns the time at which an action begins to compute, after its waits. */
static int64_t begin_of(const struct vp_trace_event *e)
{
    return e->start_ns + e->wait_ns;
}

/* Returns the mean number of ranks that compute during an event, its own
 * included. */
static double load_of(const struct vp_trace *trace, int rank,
                      const struct vp_trace_event *e)
{
    double length = (double)(e->end_ns - begin_of(e)), sum = 0.0;

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; r != rank && i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *o = &trace->ranks[r].events[i];
            int64_t from = begin_of(o) > begin_of(e) ? begin_of(o)
                                                     : begin_of(e);
            int64_t to = o->end_ns < e->end_ns ? o->end_ns : e->end_ns;

            if (computes(o->kind) && to > from)
                sum += (double)(to - from);
        }
    return length > 0.0 ? 1.0 + sum / length : 1.0;
}

static void add_gap(const struct vp_trace *trace, int rank,
                    const struct vp_trace_event *e, struct run *run)
{
    bool f = e->kind == VP_ACTION_F;
    int from = f ? e->stage - 1 : e->stage + 1;

    if ((!f && e->kind != VP_ACTION_B) || from < 0 || from >= trace->n_stages)
        return;
    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; r != rank && i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *o = &trace->ranks[r].events[i];

            if (o->kind == e->kind && o->stage == from && o->mb == e->mb &&
                begin_of(e) > o->end_ns)
                sample_add(&run->gaps,
                           (struct sample){
                               1e-9 * (double)(begin_of(e) - o->end_ns), 1.0 });
        }
}

/* Adds the events of the last `n_mb` minibatches to the samples. */
static void add_trace(struct lab *lab, int n_mb, struct run *run)
{
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    if (vp_trainer_trace(lab_trainer(lab), "bench", &trace, &err) != VP_OK)
        lab_die("trace", &err);
    vp_trace_keep_last(&trace, n_mb);
    for (int r = 0; r < trace.n_ranks; r++)
        for (int i = 0; i < trace.ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace.ranks[r].events[i];

            sample_add(&run->kinds[e->stage][e->kind],
                       (struct sample){ seconds_of(e), load_of(&trace, r, e) });
            if (n_mb == 1)
                add_gap(&trace, r, e, run);
        }
    vp_trace_release(&trace);
}

static struct run *run_steps(const struct lab_spec *spec, int n_mb, int n_steps)
{
    struct lab_spec one = *spec;
    struct run *run = calloc(1, sizeof(*run));
    struct lab *lab;

    if (!run)
        lab_die("samples", &(struct vp_err){ .text = "out of memory" });
    one.n_mb = n_mb;
    lab = lab_open(&one);
    lab_run(lab, n_mb);
    for (int i = 0; i < n_steps; i++) {
        lab_run(lab, n_mb);
        add_trace(lab, n_mb, run);
    }
    lab_close(lab);
    return run;
}

/* ---- Both --------------------------------------------------------------- */

/* Seconds of an action as a linear function of the number of ranks at work. */
struct line {
    double base, slope; /* base: at load 0 */
};

static double at_load(struct line line, double load)
{
    return line.base + line.slope * load;
}

/* Returns the least-squares line through the samples with `keep`; a constant if
 * loads hardly differ, or if the line would fall with load. */
static struct line fit_line(const struct samples *samples, const bool *keep)
{
    double n = 0.0, x = 0.0, y = 0.0, xx = 0.0, xy = 0.0, spread;

    for (int i = 0; i < samples->n; i++) {
        const struct sample *at = &samples->at[i];

        if (!keep[i])
            continue;
        n += 1.0;
        x += at->load;
        y += at->seconds;
        xx += at->load * at->load;
        xy += at->load * at->seconds;
    }
    spread = xx - x * x / n;
    if (spread < 0.1 * n || xy < x * y / n)
        return (struct line){ y / n, 0.0 };
    return (struct line){ .base = (y - x * (xy - x * y / n) / spread) / n,
                          .slope = (xy - x * y / n) / spread };
}

/* The same without disturbed samples: those of at least twice the line. */
static struct line fit_undisturbed(const struct samples *samples)
{
    bool *keep = calloc((size_t)samples->n + 1, sizeof(*keep));
    struct line line;

    if (!keep)
        lab_die("samples", &(struct vp_err){ .text = "out of memory" });
    memset(keep, true, (size_t)samples->n);
    line = fit_line(samples, keep);
    for (int i = 0; i < samples->n; i++)
        keep[i] = samples->at[i].seconds <
                  2.0 * at_load(line, samples->at[i].load);
    line = fit_line(samples, keep);
    free(keep);
    return line;
}

/* Updates the mean load, weighted by seconds, for the report. */
static void note_loads(struct sample point, double *load, double *weight)
{
    *load = (*load * *weight + point.load * point.seconds) /
            (*weight + point.seconds);
    *weight += point.seconds;
}

void load_measure(const struct lab_spec *spec, struct load_costs *out)
{
    int n_chunks = spec->n_chunks ? spec->n_chunks : 1;
    struct run *alone = run_steps(spec, 1, N_ALONE);
    struct run *full = run_steps(spec, spec->n_mb, N_FULL);
    double weights[2] = { 1e-12, 1e-12 };

    memset(out, 0, sizeof(*out));
    for (int s = 0; s < spec->n_stages * n_chunks; s++)
        for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++) {
            struct samples *samples = &full->kinds[s][kind];
            double *cost = vp_costs_field(&out->alone[s],
                                          (enum vp_action_kind)kind);
            struct line line;

            if (!cost || samples->n == 0)
                continue;
            if (computes(kind) && kind != VP_ACTION_UPDATE) {
                note_loads(middle(&alone->kinds[s][kind]), &out->load[0],
                           &weights[0]);
                note_loads(middle(samples), &out->load[1], &weights[1]);
            }
            for (int i = 0; i < alone->kinds[s][kind].n; i++)
                sample_add(samples, alone->kinds[s][kind].at[i]);
            line = fit_undisturbed(samples);
            *cost = at_load(line, 1.0);
            *vp_costs_field(&out->busy[s], (enum vp_action_kind)kind) = at_load(
                line, spec->n_stages);
        }
    out->latency = middle(&alone->gaps).seconds;
    run_release(alone);
    run_release(full);
}

double load_simulate(const struct vp_schedule *schedule,
                     const struct load_costs *costs)
{
    struct vp_sched_costs table = { .stages = costs->alone,
                                    .busy = costs->busy,
                                    .latency = costs->latency };
    struct vp_timing timing;
    struct vp_err err = { .text = "" };
    double seconds;

    if (vp_simulate(schedule, &table, &timing, &err) != VP_OK)
        lab_die("simulation", &err);
    seconds = timing.makespan;
    vp_timing_release(&timing);
    return seconds;
}
