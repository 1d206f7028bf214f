/* Line charts: ranges and ticks of the axes, then bands, curves and dots.
 * Lengths are in pixels. */
#include "draw/chart.h"

#include "draw/html.h"

#include <math.h>
#include <stdio.h>

enum {
    LEFT = 56,
    RIGHT = 12,
    TOP = 10,
    BOTTOM = 26,
    X_TICKS = 6,
    Y_TICKS = 5,
};

struct range {
    double least, most;
};

struct frame {
    struct vp_strbuf *out;
    struct range x, y;
};

static void widen(struct range *range, double value)
{
    if (!isfinite(value))
        return;
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
}

static double x_at(const struct frame *f, double x)
{
    return LEFT + (x - f->x.least) / (f->x.most - f->x.least) *
                      (VP_CHART_WIDTH - LEFT - RIGHT);
}

static double y_at(const struct frame *f, double y)
{
    return VP_CHART_HEIGHT - BOTTOM -
           (y - f->y.least) / (f->y.most - f->y.least) *
               (VP_CHART_HEIGHT - TOP - BOTTOM);
}

/* ---- Axes --------------------------------------------------------------- */

/* Returns a step of 1, 2 or 5 times a power of ten that divides `range` into at
 * most `most` parts. */
static double tick_step(struct range range, int most)
{
    double least = (range.most - range.least) / most;
    double power = pow(10.0, floor(log10(least)));

    if (power >= least)
        return power;
    if (2.0 * power >= least)
        return 2.0 * power;
    return 5.0 * power >= least ? 5.0 * power : 10.0 * power;
}

/* Writes a value as 950, 12.5k, 3M or 2G. */
static void print_tick(char *text, size_t n_bytes, double value)
{
    double size = fabs(value);

    if (size >= 1e9)
        snprintf(text, n_bytes, "%.6gG", value * 1e-9);
    else if (size >= 1e6)
        snprintf(text, n_bytes, "%.6gM", value * 1e-6);
    else if (size >= 1e4)
        snprintf(text, n_bytes, "%.6gk", value * 1e-3);
    else
        snprintf(text, n_bytes, "%.6g", size < 1e-12 ? 0.0 : value);
}

static void put_tick(struct frame *f, bool is_x, double value, bool percent)
{
    char text[32];

    print_tick(text, sizeof(text), percent ? 100.0 * value : value);
    if (is_x)
        vp_strbuf_addf(f->out,
                       "<text class=\"tick mid\" x=\"%.1f\" y=\"%d\">%s</text>",
                       x_at(f, value), VP_CHART_HEIGHT - 8, text);
    else
        vp_strbuf_addf(f->out,
                       "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text "
                       "class=\"tick end\" x=\"%d\" y=\"%.1f\">%s%s</text>",
                       LEFT, y_at(f, value), VP_CHART_WIDTH - RIGHT, LEFT - 6,
                       y_at(f, value) + 4, text, percent ? "%" : "");
}

static void put_axis(struct frame *f, bool is_x, bool percent)
{
    struct range range = is_x ? f->x : f->y;
    double step = tick_step(range, is_x ? X_TICKS : Y_TICKS);
    double first = ceil(range.least / step - 1e-9);

    for (int i = 0; i <= X_TICKS; i++) {
        double value = (first + i) * step;

        if (value <= range.most + 1e-9 * step)
            put_tick(f, is_x, value, percent);
    }
}

/* ---- Lines -------------------------------------------------------------- */

/* Draws a closed path: forwards along `most`, backwards along `least`. */
static void put_band(struct frame *f, const struct vp_chart_line *line)
{
    bool begun = false;

    vp_strbuf_addf(f->out, "<path class=\"band c%d\" d=\"", line->colour);
    for (int i = 0; i < line->n; i++)
        if (isfinite(line->most[i])) {
            vp_strbuf_addf(f->out, "%s%.1f %.1f", begun ? "L" : "M",
                           x_at(f, line->x[i]), y_at(f, line->most[i]));
            begun = true;
        }
    for (int i = line->n - 1; i >= 0; i--)
        if (isfinite(line->least[i]))
            vp_strbuf_addf(f->out, "L%.1f %.1f", x_at(f, line->x[i]),
                           y_at(f, line->least[i]));
    vp_strbuf_adds(f->out, begun ? "Z\"/>" : "\"/>");
}

static void put_dots(struct frame *f, const struct vp_chart_line *line)
{
    for (int i = 0; i < line->n; i++)
        if (isfinite(line->y[i]))
            vp_strbuf_addf(f->out,
                           "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" "
                           "r=\"2.5\"/>",
                           line->colour, x_at(f, line->x[i]),
                           y_at(f, line->y[i]));
}

static void put_line(struct frame *f, const struct vp_chart_line *line)
{
    bool pen_down = false;

    if (line->least && line->most)
        put_band(f, line);
    vp_strbuf_addf(f->out, "<path class=\"line c%d%s\" d=\"", line->colour,
                   line->dashed ? " dashed" : "");
    for (int i = 0; i < line->n; i++) {
        bool finite = isfinite(line->y[i]);

        if (finite)
            vp_strbuf_addf(f->out, "%s%.1f %.1f", pen_down ? "L" : "M",
                           x_at(f, line->x[i]), y_at(f, line->y[i]));
        pen_down = finite;
    }
    vp_strbuf_adds(f->out, "\"/>");
    if (line->dashed)
        put_dots(f, line);
}

/* ---- The chart ---------------------------------------------------------- */

static void find_ranges(struct frame *f, const struct vp_chart *chart)
{
    for (int l = 0; l < chart->n_lines; l++) {
        const struct vp_chart_line *line = &chart->lines[l];

        for (int i = 0; i < line->n; i++) {
            widen(&f->x, line->x[i]);
            widen(&f->y, line->y[i]);
            if (line->least)
                widen(&f->y, line->least[i]);
            if (line->most)
                widen(&f->y, line->most[i]);
        }
    }
    if (chart->from_zero)
        widen(&f->y, 0.0);
}

/* Widens a range that holds only one value. */
static void make_room(struct range *range)
{
    double size = range->most - range->least;

    if (size > 1e-9 * fmax(fabs(range->most), fabs(range->least)))
        return;
    size = fabs(range->most) > 0.0 ? 0.1 * fabs(range->most) : 1.0;
    range->least -= size;
    range->most += size;
}

void vp_chart_draw(struct vp_strbuf *out, const struct vp_chart *chart)
{
    struct frame f = { .out = out,
                       .x = { INFINITY, -INFINITY },
                       .y = { INFINITY, -INFINITY } };

    vp_strbuf_addf(out,
                   "<svg class=\"chart\" viewBox=\"0 0 %d %d\" role=\"img\" "
                   "aria-label=\"",
                   VP_CHART_WIDTH, VP_CHART_HEIGHT);
    vp_html_text(out, chart->label);
    vp_strbuf_adds(out, "\">");
    find_ranges(&f, chart);
    if (f.x.least > f.x.most || f.y.least > f.y.most) {
        vp_strbuf_addf(out,
                       "<text class=\"tick mid\" x=\"%d\" y=\"%d\">no "
                       "data</text></svg>",
                       VP_CHART_WIDTH / 2, VP_CHART_HEIGHT / 2);
        return;
    }
    make_room(&f.x);
    make_room(&f.y);
    put_axis(&f, false, chart->percent);
    put_axis(&f, true, false);
    vp_strbuf_addf(out, "<path class=\"axis\" d=\"M%d %dH%d\"/>", LEFT,
                   VP_CHART_HEIGHT - BOTTOM, VP_CHART_WIDTH - RIGHT);
    for (int l = 0; l < chart->n_lines; l++)
        put_line(&f, &chart->lines[l]);
    vp_strbuf_adds(out, "</svg>\n");
}
