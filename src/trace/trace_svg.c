/* Draws the timeline as SVG: a lane for each rank, hatched while it is idle,
 * and the memory of each rank below. The drawing of a schedule looks the
 * same. */
#include "trace/trace.h"

#include "base/memory.h"
#include "draw/svg.h"
#include "trace/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In pixels. */
enum {
    LEFT = 128, /* lane names */
    RIGHT = 92, /* bubbles, peaks */
    TOP = 92,   /* title, legend */
    LANE = 34,
    GAP = 6,
    AXIS = 52,   /* time axis and its text */
    MEMORY = 34, /* memory of one rank */
    BOTTOM = 18,
    FORWARD = 20, /* average width of a forward */
    LEAST_WIDTH = 760,
    MOST_WIDTH = 12000,
};

/* Narrower boxes, in pixels, are not drawn. */
#define LEAST_BOX 0.05

/* The memory of one rank over time. */
struct curve {
    struct vp_trace_point *points;
    int n;
    int64_t base, peak;
    int64_t host; /* bytes of host memory, not part of the curve */
};

struct drawing {
    struct vp_svg svg;
    const struct vp_trace *trace;
    struct vp_trace_times *times; /* per rank */
    struct curve *curves;         /* per rank */
    int *shades;                  /* per stage, on the rank being drawn */
    double bubble;
    double width; /* width of the lanes, in pixels */
    double scale; /* pixels per nanosecond */
    int64_t most_bytes;
};

static double x_at(const struct drawing *d, int64_t ns)
{
    return LEFT + (double)(ns - d->trace->begin_ns) * d->scale;
}

static double lane_y(int rank)
{
    return TOP + (double)rank * (LANE + GAP);
}

/* ---- Title and legend --------------------------------------------------- */

static void put_legend(struct drawing *d)
{
    const struct vp_look *looks[VP_MAX_LOOKS];
    int n = vp_trace_looks(d->trace, looks);
    double x = LEFT;

    for (int i = 0; i < n; i++)
        x = vp_svg_key(&d->svg, x, 62, vp_palette[looks[i]->hue].fill[0],
                       looks[i]->meaning);
    x = vp_svg_key(&d->svg, x, 62, VP_WAITING, "waiting");
    vp_svg_key(&d->svg, x, 62, VP_IDLE, "idle");
}

static void put_title(struct drawing *d, const char *title)
{
    const struct vp_trace *trace = d->trace;
    int n_mb = vp_trace_n_minibatches(trace);

    vp_svg_text(&d->svg, "title", LEFT, 30, "%s", title ? title : trace->name);
    vp_svg_text(&d->svg, "small", LEFT, 49,
                "%d minibatch%s in %.4g ms on %d rank%s: %.1f %% of their time "
                "without work",
                n_mb, n_mb == 1 ? "" : "es",
                (double)(trace->end_ns - trace->begin_ns) * 1e-6,
                trace->n_ranks, trace->n_ranks == 1 ? "" : "s",
                100.0 * d->bubble);
    put_legend(d);
}

/* ---- Lanes -------------------------------------------------------------- */

/* Chooses a shade for each stage of a rank: the first one is the darkest. */
static void choose_shades(const struct drawing *d, int rank)
{
    int shade = 0;

    for (int s = 0; s < d->trace->n_stages; s++) {
        d->shades[s] = shade;
        if (shade < 2)
            shade += vp_trace_has_stage(d->trace, rank, s);
    }
}

static void put_wait(struct drawing *d, int rank,
                     const struct vp_trace_event *e)
{
    const struct vp_svg_box box = {
        .x = x_at(d, e->start_ns),
        .y = lane_y(rank) + 8,
        .width = (double)e->wait_ns * d->scale,
        .height = LANE - 16,
        .fill = VP_WAITING,
    };

    if (box.width >= LEAST_BOX)
        vp_svg_box_about(&d->svg, &box, "%s%d of stage %d waits %.4g ms",
                         vp_event_word(e), e->mb, e->stage,
                         (double)e->wait_ns * 1e-6);
}

static void put_box(struct drawing *d, int rank, const struct vp_trace_event *e)
{
    int64_t busy_ns = e->end_ns - e->start_ns - e->wait_ns;
    double w = (double)busy_ns * d->scale;
    double gap = w > 6.0 ? 1.0 : 0.0;
    int shade = d->shades[e->stage];
    const struct vp_svg_box box = {
        .x = x_at(d, e->start_ns + e->wait_ns),
        .y = lane_y(rank),
        .width = w - gap,
        .height = LANE,
        .radius = w > 6.0 ? 3 : 0,
        .fill = vp_palette[vp_event_look(e)->hue].fill[shade],
    };
    char label[16];
    int n = snprintf(label, sizeof(label), "%d", e->mb);

    if (w < LEAST_BOX)
        return;
    vp_svg_box_about(&d->svg, &box, "%s%d of stage %d: %.4g ms",
                     vp_event_word(e), e->mb, e->stage, (double)busy_ns * 1e-6);
    if (w >= 6.5 * n + 3)
        vp_svg_text(&d->svg, shade == 0 ? "on_dark" : "on_light",
                    box.x + box.width / 2, box.y + LANE * 0.62, "%s", label);
}

static void put_lane(struct drawing *d, int rank)
{
    const struct vp_trace_rank *events = &d->trace->ranks[rank];
    const struct vp_svg_box idle = {
        .x = LEFT,
        .y = lane_y(rank),
        .width = d->width,
        .height = LANE,
        .radius = 3,
        .fill = VP_IDLE,
    };
    char stages[20];

    choose_shades(d, rank);
    vp_trace_list_stages(d->trace, rank, stages, sizeof(stages));
    vp_svg_text(&d->svg, "end", LEFT - 10, idle.y + LANE * 0.43, "rank %d",
                events->number);
    vp_svg_text(&d->svg, "small end", LEFT - 10, idle.y + LANE * 0.86, "%s",
                stages);
    vp_svg_box(&d->svg, &idle);
    for (int i = 0; i < events->n_events; i++) {
        const struct vp_trace_event *e = &events->events[i];

        put_wait(d, rank, e);
        if (vp_event_look(e)->meaning)
            put_box(d, rank, e);
    }
    vp_svg_text(&d->svg, "", LEFT + d->width + 8, idle.y + LANE * 0.62,
                "%.1f %%", 100.0 * d->times[rank].bubble);
}

/* ---- Time --------------------------------------------------------------- */

static void put_axis(struct drawing *d, double y)
{
    vp_svg_axis(&d->svg, LEFT, y, d->width, d->width / (d->scale * 1e6));
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, y + 17, "ms");
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, TOP - 8, "bubble");
}

/* Marks the time at which the run moved to another plan. */
static void put_new_plan(struct drawing *d, double y)
{
    double x = x_at(d, d->trace->plan_ns);

    if (d->trace->plan_ns <= d->trace->begin_ns ||
        d->trace->plan_ns >= d->trace->end_ns)
        return;
    vp_svg_line(&d->svg, x, TOP - 6, x, y, VP_INK, 2);
    vp_svg_text_in(&d->svg, VP_INK, x + 5, TOP - 8, "new plan");
}

/* ---- Memory ------------------------------------------------------------- */

/* Draws the memory of a rank: dark for memory that is always in use, light for
 * minibatches in flight. */
static void put_curve(struct drawing *d, int rank, double y)
{
    const struct curve *curve = &d->curves[rank];
    double high = (MEMORY - 6.0) / (double)d->most_bytes;
    double base = (double)curve->base * high;
    char peak[VP_BYTES_TEXT], host[VP_BYTES_TEXT];

    vp_svg_steps_begin(&d->svg, VP_IN_FLIGHT, LEFT, y, 0.0);
    for (int i = 0; i < curve->n; i++)
        vp_svg_step(&d->svg, x_at(d, curve->points[i].ns), y,
                    (double)curve->points[i].bytes * high);
    vp_svg_steps_end(&d->svg, LEFT + d->width, y);
    vp_svg_box(&d->svg, &(struct vp_svg_box){ .x = LEFT,
                                              .y = y - base,
                                              .width = d->width,
                                              .height = base,
                                              .fill = VP_STATIC });
    vp_bytes_text(curve->peak, peak, sizeof(peak));
    vp_svg_text(&d->svg, "small end", LEFT - 10, y - 9, "rank %d",
                d->trace->ranks[rank].number);
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8,
                y - (curve->host > 0 ? 18 : 9), "%s", peak);
    if (curve->host == 0)
        return;
    vp_bytes_text(curve->host, host, sizeof(host));
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, y - 4, "host %s", host);
}

static double put_memory_key(struct drawing *d, double x, double y,
                             const char *fill, const char *name)
{
    vp_svg_box(&d->svg, &(struct vp_svg_box){ .x = x,
                                              .y = y - 9,
                                              .width = 10,
                                              .height = 10,
                                              .radius = 2,
                                              .fill = fill });
    vp_svg_text(&d->svg, "small", x + 15, y, "%s", name);
    return x + 34 + 6.0 * (double)strlen(name);
}

static void put_memory(struct drawing *d, double y)
{
    double x = put_memory_key(d, LEFT, y, VP_STATIC,
                              "memory: weights and buffers");

    put_memory_key(d, x, y, VP_IN_FLIGHT, "minibatches in flight");
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, y, "peak");
    for (int r = 0; r < d->trace->n_ranks; r++)
        put_curve(d, r, y + 6 + (double)(r + 1) * MEMORY);
}

static enum vp_status measure_memory(struct drawing *d)
{
    const struct vp_trace *trace = d->trace;

    for (int r = 0; r < trace->n_ranks; r++) {
        struct curve *curve = &d->curves[r];

        VP_TRY(vp_trace_memory(trace, r, -1, &curve->points, &curve->n));
        for (int s = 0; s < trace->n_stages; s++)
            if (vp_trace_has_stage(trace, r, s)) {
                curve->base += trace->stages[s].base_bytes;
                curve->host += trace->stages[s].host_bytes;
            }
        for (int i = 0; i < curve->n; i++)
            if (curve->points[i].bytes > curve->peak)
                curve->peak = curve->points[i].bytes;
        if (curve->peak > d->most_bytes)
            d->most_bytes = curve->peak;
    }
    return VP_OK;
}

/* ---- The drawing -------------------------------------------------------- */

/* Chooses a width in which the average forward has room for its number. */
static void choose_scale(struct drawing *d)
{
    const struct vp_trace *trace = d->trace;
    double window = (double)(trace->end_ns - trace->begin_ns);
    double forward_ns = 0.0;
    int n = 0;

    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++) {
            const struct vp_trace_event *e = &rank->events[i];

            if (e->kind != VP_ACTION_F || e->eval)
                continue;
            forward_ns += (double)(e->end_ns - e->start_ns - e->wait_ns);
            n++;
        }
    }
    d->width = forward_ns > 0.0 ? FORWARD * n * window / forward_ns : 0.0;
    d->width = d->width > LEAST_WIDTH ? d->width : LEAST_WIDTH;
    d->width = floor(d->width < MOST_WIDTH ? d->width : MOST_WIDTH);
    d->scale = d->width / (window > 0.0 ? window : 1.0);
}

static void draw(struct drawing *d, const char *title)
{
    int n_ranks = d->trace->n_ranks;
    double axis_y = lane_y(n_ranks) + 2;
    double h = axis_y + 24 + BOTTOM;

    if (d->most_bytes > 0)
        h = axis_y + AXIS + (double)n_ranks * MEMORY + BOTTOM;
    vp_svg_begin(&d->svg, LEFT + d->width + RIGHT, h);
    put_title(d, title);
    for (int r = 0; r < n_ranks; r++)
        put_lane(d, r);
    put_axis(d, axis_y);
    put_new_plan(d, axis_y);
    if (d->most_bytes > 0)
        put_memory(d, axis_y + 44);
}

enum vp_status vp_trace_svg(const struct vp_trace *trace, const char *title,
                            char **text_out)
{
    size_t n = (size_t)trace->n_ranks;
    struct drawing d = { .trace = trace, .svg = VP_SVG_INIT };
    enum vp_status st = VP_ERR_NOMEM;

    d.times = calloc(n, sizeof(*d.times));
    d.curves = calloc(n, sizeof(*d.curves));
    d.shades = calloc((size_t)trace->n_stages, sizeof(*d.shades));
    if (d.times && d.curves && d.shades)
        st = measure_memory(&d);
    if (st == VP_OK) {
        d.bubble = vp_trace_sum(trace, d.times);
        choose_scale(&d);
        draw(&d, title);
        st = vp_svg_end(&d.svg, text_out);
    }
    for (size_t r = 0; d.curves && r < n; r++)
        free(d.curves[r].points);
    free(d.shades);
    free(d.curves);
    free(d.times);
    return st;
}
