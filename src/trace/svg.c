/* The timeline as a drawing: a lane per rank, hatched where it is idle, and
 * the memory of every rank below. Same look as the drawing of a schedule. */
#include "trace/internal.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEFT = 128, /* lane names */
    RIGHT = 92, /* bubbles, peaks */
    TOP = 92,   /* title, legend */
    LANE = 34,
    GAP = 6,
    AXIS = 52,   /* time */
    MEMORY = 34, /* of one rank */
    BOTTOM = 18,
    FORWARD = 20, /* the average box */
    LEAST_WIDTH = 760,
    MOST_WIDTH = 12000,
};

/* What is narrower, in pixels, is not worth a box. */
#define LEAST_BOX 0.05

/* The memory of one rank over time. */
struct curve {
    struct vp_trace_point *points;
    int n;
    int64_t base, peak;
};

struct drawing {
    FILE *f;
    const struct vp_trace *trace;
    struct vp_trace_times *times; /* per rank */
    struct curve *curves;         /* per rank */
    int *shades;                  /* per stage, on the rank being drawn */
    double bubble;
    double width; /* of the lanes, in pixels */
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

/* ---- Text --------------------------------------------------------------- */

static void put_escaped(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", f);
        else if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '>')
            fputs("&gt;", f);
        else
            fputc((unsigned char)*text < ' ' ? '?' : *text, f);
    }
}

static void put_bytes(FILE *f, int64_t bytes)
{
    char text[VP_BYTES_TEXT];

    vp_bytes_text(bytes, text, sizeof(text));
    fputs(text, f);
}

static void put_style(FILE *f)
{
    fputs("<style>\n"
          "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;"
          "fill:#334155}\n"
          ".title{font-size:17px;font-weight:600;fill:#0f172a}\n"
          ".small{font-size:11px;fill:#64748b}\n"
          ".n{font-size:11px;fill:#fff;text-anchor:middle}\n"
          ".d{font-size:11px;fill:#1e293b;text-anchor:middle}\n"
          ".end{text-anchor:end}.mid{text-anchor:middle}\n"
          "</style>\n",
          f);
    fputs("<defs><pattern id=\"idle\" width=\"7\" height=\"7\" "
          "patternTransform=\"rotate(45)\" patternUnits=\"userSpaceOnUse\">"
          "<rect width=\"7\" height=\"7\" fill=\"#f8fafc\"/>"
          "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#dbe2ea\" "
          "stroke-width=\"2\"/></pattern></defs>\n",
          f);
}

/* ---- Title and legend --------------------------------------------------- */

static double put_key(const struct drawing *d, double x, const char *fill,
                      const char *name)
{
    fprintf(
        d->f,
        "<rect x=\"%.1f\" y=\"62\" width=\"14\" height=\"14\" rx=\"3\" "
        "fill=\"%s\" stroke=\"#e2e8f0\"/><text x=\"%.1f\" y=\"73\">%s</text>\n",
        x, fill, x + 19, name);
    return x + 34 + 6.6 * (double)strlen(name);
}

static void put_legend(const struct drawing *d)
{
    bool used[VP_LOOK_COUNT] = { false };
    double x = LEFT;

    for (int r = 0; r < d->trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &d->trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++)
            used[vp_look_of(&rank->events[i])] = true;
    }
    for (int k = 0; k < VP_LOOK_COUNT; k++)
        if (used[k] && vp_looks[k].meaning)
            x = put_key(d, x, vp_looks[k].fill[0], vp_looks[k].meaning);
    x = put_key(d, x, "#dde5f0", "waiting");
    put_key(d, x, "url(#idle)", "idle");
}

static void put_title(const struct drawing *d, const char *title)
{
    const struct vp_trace *trace = d->trace;
    int n_mb = vp_trace_n_minibatches(trace);

    fprintf(d->f, "<text class=\"title\" x=\"%d\" y=\"30\">", LEFT);
    put_escaped(d->f, title ? title : trace->name);
    fprintf(d->f,
            "</text>\n<text class=\"small\" x=\"%d\" y=\"49\">%d minibatch%s "
            "in %.4g ms on %d rank%s: %.1f %% of their time without "
            "work</text>\n",
            LEFT, n_mb, n_mb == 1 ? "" : "es",
            (double)(trace->end_ns - trace->begin_ns) * 1e-6, trace->n_ranks,
            trace->n_ranks == 1 ? "" : "s", 100.0 * d->bubble);
    put_legend(d);
}

/* ---- Lanes -------------------------------------------------------------- */

/* The first stage of a rank is the darkest. */
static void choose_shades(const struct drawing *d, int rank)
{
    int shade = 0;

    for (int s = 0; s < d->trace->n_stages; s++) {
        d->shades[s] = shade;
        if (shade < 2)
            shade += vp_trace_has_stage(d->trace, rank, s);
    }
}

static void put_wait(const struct drawing *d, int rank,
                     const struct vp_trace_event *e)
{
    double w = (double)e->wait_ns * d->scale;

    if (w < LEAST_BOX)
        return;
    fprintf(d->f,
            "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
            "fill=\"#dde5f0\"><title>%s%d of stage %d waits %.4g "
            "ms</title></rect>\n",
            x_at(d, e->start_ns), lane_y(rank) + 8, w, LANE - 16,
            vp_looks[vp_look_of(e)].word, e->mb, e->stage,
            (double)e->wait_ns * 1e-6);
}

static void put_box(const struct drawing *d, int rank,
                    const struct vp_trace_event *e)
{
    const struct vp_look *look = &vp_looks[vp_look_of(e)];
    int64_t busy_ns = e->end_ns - e->start_ns - e->wait_ns;
    double x = x_at(d, e->start_ns + e->wait_ns);
    double w = (double)busy_ns * d->scale;
    double gap = w > 6.0 ? 1.0 : 0.0;
    int shade = d->shades[e->stage];
    char label[16];
    int n = snprintf(label, sizeof(label), "%d", e->mb);

    if (w < LEAST_BOX)
        return;
    fprintf(d->f,
            "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
            "rx=\"%d\" fill=\"%s\"><title>%s%d of stage %d: %.4g "
            "ms</title></rect>\n",
            x, lane_y(rank), w - gap, LANE, w > 6.0 ? 3 : 0, look->fill[shade],
            look->word, e->mb, e->stage, (double)busy_ns * 1e-6);
    if (w >= 6.5 * n + 3)
        fprintf(d->f, "<text class=\"%s\" x=\"%.2f\" y=\"%.0f\">%s</text>\n",
                shade == 0 ? "n" : "d", x + (w - gap) / 2,
                lane_y(rank) + LANE * 0.62, label);
}

static void put_lane(const struct drawing *d, int rank)
{
    const struct vp_trace_rank *events = &d->trace->ranks[rank];
    char stages[20];

    choose_shades(d, rank);
    vp_trace_list_stages(d->trace, rank, stages, sizeof(stages));
    fprintf(d->f,
            "<text class=\"end\" x=\"%d\" y=\"%.0f\">rank %d</text>"
            "<text class=\"small end\" x=\"%d\" y=\"%.0f\">%s</text>\n"
            "<rect x=\"%d\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" rx=\"3\" "
            "fill=\"url(#idle)\"/>\n",
            LEFT - 10, lane_y(rank) + LANE * 0.43, events->number, LEFT - 10,
            lane_y(rank) + LANE * 0.86, stages, LEFT, lane_y(rank), d->width,
            LANE);
    for (int i = 0; i < events->n_events; i++) {
        const struct vp_trace_event *e = &events->events[i];

        put_wait(d, rank, e);
        if (vp_looks[vp_look_of(e)].meaning)
            put_box(d, rank, e);
    }
    fprintf(d->f, "<text x=\"%.1f\" y=\"%.0f\">%.1f %%</text>\n",
            LEFT + d->width + 8, lane_y(rank) + LANE * 0.62,
            100.0 * d->times[rank].bubble);
}

/* ---- Time --------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, in ms, at least 90 pixels apart. */
static double tick_ms(const struct drawing *d)
{
    static const double factors[] = { 1.0, 2.0, 5.0 };
    double least = 90.0 / (d->scale * 1e6), power = 1e-6;

    while (power * 10.0 <= least)
        power *= 10.0;
    for (size_t i = 0; i < VP_COUNT_OF(factors); i++)
        if (power * factors[i] >= least)
            return power * factors[i];
    return power * 10.0;
}

static void put_axis(const struct drawing *d, double y)
{
    double step = tick_ms(d), px = step * 1e6 * d->scale;

    fprintf(d->f,
            "<line x1=\"%d\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" "
            "stroke=\"#94a3b8\"/>\n",
            LEFT, y, LEFT + d->width, y);
    for (int i = 0; i * px <= d->width + 0.01; i++)
        fprintf(d->f,
                "<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" "
                "stroke=\"#94a3b8\"/><text class=\"small mid\" x=\"%.2f\" "
                "y=\"%.0f\">%g</text>\n",
                LEFT + i * px, y, LEFT + i * px, y + 5, LEFT + i * px, y + 17,
                i * step);
    fprintf(d->f,
            "<text class=\"small\" x=\"%.1f\" y=\"%.0f\">ms</text>"
            "<text class=\"small\" x=\"%.1f\" y=\"%.0f\">bubble</text>\n",
            LEFT + d->width + 8, y + 17, LEFT + d->width + 8, TOP - 8.0);
}

/* ---- Memory ------------------------------------------------------------- */

/* What never leaves is dark, minibatches in flight are light. */
static void put_curve(const struct drawing *d, int rank, double y)
{
    const struct curve *curve = &d->curves[rank];
    double high = (MEMORY - 6.0) / (double)d->most_bytes;
    double base = (double)curve->base * high;

    fprintf(d->f, "<path fill=\"#a9c9fd\" d=\"M%d %.2f", LEFT, y);
    for (int i = 0; i < curve->n; i++)
        fprintf(d->f, "H%.2fV%.2f", x_at(d, curve->points[i].ns),
                y - (double)curve->points[i].bytes * high);
    fprintf(d->f,
            "H%.2fV%.2fZ\"/><rect x=\"%d\" y=\"%.2f\" width=\"%.2f\" "
            "height=\"%.2f\" fill=\"#94a3b8\"/>\n",
            LEFT + d->width, y, LEFT, y - base, d->width, base);
    fprintf(d->f,
            "<text class=\"small end\" x=\"%d\" y=\"%.0f\">rank %d</text>"
            "<text class=\"small\" x=\"%.1f\" y=\"%.0f\">",
            LEFT - 10, y - 9, d->trace->ranks[rank].number, LEFT + d->width + 8,
            y - 9);
    put_bytes(d->f, curve->peak);
    fputs("</text>\n", d->f);
}

static void put_memory(const struct drawing *d, double y)
{
    static const char text[] = "memory: weights and buffers";
    double x = LEFT + 34 + 6.0 * (double)strlen(text);

    fprintf(d->f,
            "<rect x=\"%d\" y=\"%.0f\" width=\"10\" height=\"10\" rx=\"2\" "
            "fill=\"#94a3b8\"/><text class=\"small\" x=\"%d\" y=\"%.0f\">%s"
            "</text>\n",
            LEFT, y - 9, LEFT + 15, y, text);
    fprintf(d->f,
            "<rect x=\"%.1f\" y=\"%.0f\" width=\"10\" height=\"10\" rx=\"2\" "
            "fill=\"#a9c9fd\"/><text class=\"small\" x=\"%.1f\" y=\"%.0f\">"
            "minibatches in flight</text><text class=\"small\" x=\"%.1f\" "
            "y=\"%.0f\">peak</text>\n",
            x, y - 9, x + 15, y, LEFT + d->width + 8, y);
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
            if (vp_trace_has_stage(trace, r, s))
                curve->base += trace->stages[s].base_bytes;
        for (int i = 0; i < curve->n; i++)
            if (curve->points[i].bytes > curve->peak)
                curve->peak = curve->points[i].bytes;
        if (curve->peak > d->most_bytes)
            d->most_bytes = curve->peak;
    }
    return VP_OK;
}

/* ---- The drawing -------------------------------------------------------- */

/* Room for a number in the average forward. */
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

static void draw(const struct drawing *d, const char *title)
{
    int n_ranks = d->trace->n_ranks;
    double axis_y = lane_y(n_ranks) + 2;
    double w = LEFT + d->width + RIGHT, h = axis_y + 24 + BOTTOM;

    if (d->most_bytes > 0)
        h = axis_y + AXIS + (double)n_ranks * MEMORY + BOTTOM;
    fprintf(d->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
            w, h, w, h);
    put_style(d->f);
    fputs("<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n",
          d->f);
    put_title(d, title);
    for (int r = 0; r < n_ranks; r++)
        put_lane(d, r);
    put_axis(d, axis_y);
    if (d->most_bytes > 0)
        put_memory(d, axis_y + 44);
    fputs("</svg>\n", d->f);
}

enum vp_status vp_trace_svg(const struct vp_trace *trace, const char *title,
                            char **text_out)
{
    size_t n = (size_t)trace->n_ranks;
    struct drawing d = { .trace = trace };
    enum vp_status st = VP_ERR_NOMEM;
    char *text = NULL;
    size_t n_bytes;

    d.times = calloc(n, sizeof(*d.times));
    d.curves = calloc(n, sizeof(*d.curves));
    d.shades = calloc((size_t)trace->n_stages, sizeof(*d.shades));
    if (d.times && d.curves && d.shades)
        st = measure_memory(&d);
    if (st == VP_OK)
        d.f = open_memstream(&text, &n_bytes);
    if (d.f) {
        d.bubble = vp_trace_sum(trace, d.times);
        choose_scale(&d);
        draw(&d, title);
        st = vp_trace_close_text(d.f, &text, text_out);
    } else {
        st = VP_ERR_NOMEM;
    }
    for (size_t r = 0; d.curves && r < n; r++)
        free(d.curves[r].points);
    free(d.shades);
    free(d.curves);
    free(d.times);
    return st;
}
