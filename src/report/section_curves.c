/* Curves section: charts as static pictures, and their values for the
 * script. */
#include "report/section.h"

#include "draw/chart.h"
#include "draw/html.h"

#include <math.h>
#include <stdlib.h>

enum { STATIC_POINTS = 256 };

static const struct {
    enum vp_curve curve;
    const char *id, *title, *hint;
    bool from_zero, percent;
} charts[] = {
    { VP_CURVE_LOSS, "loss", "Loss", "held-out loss dashed", false, false },
    { VP_CURVE_RATE, "rate", "Throughput", "tokens per second", true, false },
    { VP_CURVE_BUBBLE, "bubble", "Bubble",
      "share of the ranks' time without "
      "work",
      true, true },
    { VP_CURVE_NORM, "norm", "Gradient norm", "", true, false },
    { VP_CURVE_LR, "lr", "Learning rate", "", true, false },
    { VP_CURVE_SECONDS, "seconds", "Time of a step", "seconds", true, false },
    { VP_CURVE_MEMORY, "memory", "Memory of all stages", "bytes", true, false },
};

/* ---- Static pictures ---------------------------------------------------- */

/* The points of one line. */
struct columns {
    double x[STATIC_POINTS], y[STATIC_POINTS];
    double least[STATIC_POINTS], most[STATIC_POINTS];
    int n;
};

/* Merges neighbouring buckets into at most STATIC_POINTS points. */
static void fill_columns(const struct vp_series *series, int curve,
                         struct columns *out)
{
    int stride = (series->n + STATIC_POINTS - 1) / STATIC_POINTS;

    out->n = 0;
    for (int i = 0; i < series->n; i += stride) {
        double sum = 0.0, least = NAN, most = NAN;
        int64_t n = 0;
        int at = out->n++, last = i;

        for (int k = i; k < i + stride && k < series->n; k++) {
            const struct vp_series_range *range = &series->buckets[k].at[curve];

            last = k;
            if (range->n == 0)
                continue;
            sum += range->sum;
            n += range->n;
            least = fmin(least, range->least);
            most = fmax(most, range->most);
        }
        out->x[at] = series->buckets[last].x.step;
        out->y[at] = n > 0 ? sum / (double)n : (double)NAN;
        out->least[at] = least;
        out->most[at] = most;
    }
}

/* Makes the lines of all runs; lines of held-out losses follow those of
 * training. Returns their number. */
static int make_lines(const struct vp_page_run *runs, int n, int curve,
                      struct columns *columns, struct vp_chart_line *lines)
{
    int n_lines = 0;

    for (int held_out = 0; held_out <= (curve == VP_CURVE_LOSS); held_out++)
        for (int i = 0; i < n; i++) {
            const struct vp_series *series = held_out ? &runs[i].data.evals
                                                      : &runs[i].data.steps;
            struct columns *c = &columns[n_lines];
            bool thinned = series->stride > 1 || series->n > STATIC_POINTS;

            fill_columns(series, held_out ? 0 : curve, c);
            lines[n_lines++] = (struct vp_chart_line){
                .x = c->x,
                .y = c->y,
                .least = thinned && !held_out ? c->least : NULL,
                .most = thinned && !held_out ? c->most : NULL,
                .n = c->n,
                .colour = runs[i].number % VP_N_RUN_COLOURS,
                .dashed = held_out,
            };
        }
    return n_lines;
}

static void put_chart(struct vp_strbuf *out, const struct vp_page_run *runs,
                      int n, size_t i, struct columns *columns,
                      struct vp_chart_line *lines)
{
    const struct vp_chart chart = {
        .label = charts[i].title,
        .lines = lines,
        .n_lines = make_lines(runs, n, charts[i].curve, columns, lines),
        .from_zero = charts[i].from_zero,
        .percent = charts[i].percent,
    };

    vp_strbuf_addf(out,
                   "<figure class=\"card\" data-curve=\"%s\"%s%s><figcaption>"
                   "<strong>%s</strong> <span class=\"hint\">%s</span> "
                   "<output class=\"readout\"></output></figcaption>\n",
                   charts[i].id, charts[i].from_zero ? " data-zero" : "",
                   charts[i].percent ? " data-percent" : "", charts[i].title,
                   charts[i].hint);
    vp_chart_draw(out, &chart);
    vp_strbuf_adds(out, "</figure>\n");
}

/* The controls are hidden until the script runs. */
static void put_controls(struct vp_strbuf *out)
{
    vp_strbuf_adds(
        out,
        "<div class=\"controls\" id=\"curve-controls\" hidden>"
        "<div role=\"group\" aria-label=\"Horizontal axis\" class=\"group\">"
        "<button type=\"button\" data-x=\"step\" aria-pressed=\"true\">Steps"
        "</button><button type=\"button\" data-x=\"tokens\" "
        "aria-pressed=\"false\">Tokens</button><button type=\"button\" "
        "data-x=\"time\" aria-pressed=\"false\">Time</button></div>"
        "<label>Smoothing <input type=\"range\" id=\"smooth\" min=\"0\" "
        "max=\"0.98\" step=\"0.02\" value=\"0\"></label>"
        "<label><input type=\"checkbox\" id=\"log\"> Logarithmic</label>"
        "<div role=\"group\" aria-label=\"Zoom\" class=\"group\">"
        "<button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+"
        "</button><button type=\"button\" data-zoom=\"out\" "
        "aria-label=\"Zoom out\">&#8722;</button><button type=\"button\" "
        "data-zoom=\"all\">All</button></div>"
        "<span class=\"hint\">Drag over a chart to zoom. On a focused chart: "
        "arrow keys, + and &#8722;, 0 for all.</span></div>\n");
}

static void put_legend(struct vp_strbuf *out, const struct vp_page_run *runs,
                       int n)
{
    vp_strbuf_adds(out, "<p class=\"legend\" id=\"runs\">");
    for (int i = 0; i < n; i++) {
        char swatch[16] = "c0";

        swatch[1] = (char)('0' + runs[i].number % VP_N_RUN_COLOURS);
        vp_part_key(out, swatch, runs[i].data.name);
    }
    vp_strbuf_adds(out, "</p>\n");
}

void vp_section_curves(struct vp_strbuf *out, const struct vp_page_run *runs,
                       int n)
{
    struct columns *columns = calloc((size_t)(2 * n), sizeof(*columns));
    struct vp_chart_line *lines = calloc((size_t)(2 * n), sizeof(*lines));

    vp_strbuf_adds(out, "<section id=\"curves\"><h2>Curves</h2>\n");
    put_controls(out);
    if (n > 1)
        put_legend(out, runs, n);
    vp_strbuf_adds(out, "<div class=\"charts\">\n");
    for (size_t i = 0; columns && lines && i < VP_COUNT_OF(charts); i++)
        put_chart(out, runs, n, i, columns, lines);
    vp_strbuf_adds(out, "</div></section>\n");
    out->failed |= !columns || !lines;
    free(lines);
    free(columns);
}

/* ---- Numbers ------------------------------------------------------------ */

static void put_x(struct vp_strbuf *out, const struct vp_series *series)
{
    vp_strbuf_adds(out, "\"step\":[");
    for (int i = 0; i < series->n; i++)
        vp_strbuf_addf(out, "%s%.0f", i ? "," : "", series->buckets[i].x.step);
    vp_strbuf_adds(out, "],\"tokens\":[");
    for (int i = 0; i < series->n; i++)
        vp_strbuf_addf(out, "%s%.0f", i ? "," : "",
                       series->buckets[i].x.tokens);
    vp_strbuf_adds(out, "],\"time\":[");
    for (int i = 0; i < series->n; i++)
        vp_strbuf_addf(out, "%s%.7g", i ? "," : "",
                       series->buckets[i].x.seconds);
    vp_strbuf_adds(out, "]");
}

/* `what` is 0 for the mean, 1 for the least, 2 for the most. */
static void put_column(struct vp_strbuf *out, const struct vp_series *series,
                       int curve, int what)
{
    vp_strbuf_adds(out, "[");
    for (int i = 0; i < series->n; i++) {
        const struct vp_series_range *range = &series->buckets[i].at[curve];
        double value = what == 0       ? vp_range_mean(range)
                       : range->n == 0 ? (double)NAN
                       : what == 1     ? range->least
                                       : range->most;

        vp_strbuf_adds(out, i ? "," : "");
        vp_html_number(out, value, 6);
    }
    vp_strbuf_adds(out, "]");
}

/* Appends {"mean":[...],"least":[...],"most":[...]}; only the mean if each
 * bucket has one point. */
static void put_curve(struct vp_strbuf *out, const struct vp_series *series,
                      const char *id, int curve)
{
    vp_strbuf_addf(out, ",\n\"%s\":{\"mean\":", id);
    put_column(out, series, curve, 0);
    if (series->stride > 1) {
        vp_strbuf_adds(out, ",\"least\":");
        put_column(out, series, curve, 1);
        vp_strbuf_adds(out, ",\"most\":");
        put_column(out, series, curve, 2);
    }
    vp_strbuf_adds(out, "}");
}

static void put_run(struct vp_strbuf *out, const struct vp_page_run *run)
{
    vp_strbuf_adds(out, "{\"name\":");
    vp_html_json(out, run->data.name);
    vp_strbuf_addf(out, ",\"colour\":%d,\n\"steps\":{",
                   run->number % VP_N_RUN_COLOURS);
    put_x(out, &run->data.steps);
    for (size_t i = 0; i < VP_COUNT_OF(charts); i++)
        put_curve(out, &run->data.steps, charts[i].id, (int)charts[i].curve);
    vp_strbuf_adds(out, "},\n\"evals\":{");
    put_x(out, &run->data.evals);
    put_curve(out, &run->data.evals, "loss", 0);
    vp_strbuf_adds(out, "}}");
}

void vp_section_data(struct vp_strbuf *out, const struct vp_page_run *runs,
                     int n)
{
    vp_strbuf_adds(out, "<script type=\"application/json\" id=\"data\">"
                        "{\"runs\":[\n");
    for (int i = 0; i < n; i++) {
        vp_strbuf_adds(out, i ? ",\n" : "");
        put_run(out, &runs[i]);
    }
    vp_strbuf_adds(out, "]}</script>\n");
}
