/* A comparison as a drawing: per configuration a bar for its throughput with a
 * mark where the simulator put it, and one for the memory of its stages. Same
 * look as the other drawings. */
#include "launch/compare.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEFT = 24,
    NAME = 150, /* names of configurations */
    BAR = 330,  /* the longest one */
    GAP = 110,  /* between the two halves: numbers */
    RIGHT = 90, /* numbers */
    TOP = 96,
    ROW = 44,
    HIGH = 22, /* of a bar */
    BOTTOM = 24,
};

struct drawing {
    FILE *f;
    const struct vp_contestant *contestants;
    int n;
    double most_rate;
    double most_bytes; /* all stages of one configuration */
};

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

/* Like the other pictures, on a sheet of its own: readable on light and on dark
 * pages. */
static void put_head(const struct drawing *d, double w, double h)
{
    fprintf(d->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
            w, h, w, h);
    fputs("<style>\n"
          "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;"
          "fill:#334155}\n"
          ".title{font-size:17px;font-weight:600;fill:#0f172a}\n"
          ".small{font-size:11px;fill:#64748b}\n"
          ".end{text-anchor:end}\n"
          "</style>\n"
          "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n",
          d->f);
}

static void put_titles(const struct drawing *d)
{
    int x = LEFT + NAME, x2 = x + BAR + GAP;

    fprintf(d->f,
            "<text class=\"title\" x=\"%d\" y=\"32\">%d configurations, the "
            "same model and data</text>\n"
            "<text x=\"%d\" y=\"62\">samples per second</text>\n"
            "<text x=\"%d\" y=\"62\">memory of all ranks</text>\n",
            LEFT, d->n, x, x2);
    fprintf(d->f,
            "<rect x=\"%d\" y=\"71\" width=\"10\" height=\"10\" rx=\"2\" "
            "fill=\"#2f6fde\"/><text class=\"small\" x=\"%d\" y=\"80\">measured"
            "</text><rect x=\"%d\" y=\"69\" width=\"3\" height=\"14\" "
            "fill=\"#d97706\"/><text class=\"small\" x=\"%d\" y=\"80\">"
            "simulated</text>\n",
            x, x + 15, x + 80, x + 88);
    fprintf(d->f,
            "<rect x=\"%d\" y=\"71\" width=\"10\" height=\"10\" rx=\"2\" "
            "fill=\"#0f766e\"/><rect x=\"%d\" y=\"71\" width=\"10\" "
            "height=\"10\" rx=\"2\" fill=\"#5fb8ae\"/><text class=\"small\" "
            "x=\"%d\" y=\"80\">a box for each; the largest is written"
            "</text>\n",
            x2, x2 + 12, x2 + 27);
}

static void put_rate(const struct drawing *d, const struct vp_contestant *c,
                     double y)
{
    double scale = BAR / d->most_rate, x = LEFT + NAME;
    double w = c->median.samples_per_second * scale;
    double label = c->most > c->simulated ? c->most : c->simulated;

    fprintf(d->f,
            "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" rx=\"3\" "
            "fill=\"#2f6fde\"><title>",
            x, y, w, HIGH);
    put_escaped(d->f, c->name);
    fprintf(d->f, ": %.1f samples/s, from %.1f to %.1f</title></rect>\n",
            c->median.samples_per_second, c->least, c->most);
    fprintf(d->f,
            "<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" "
            "stroke=\"#0f172a\" stroke-width=\"1.5\"/>\n",
            x + c->least * scale, y + HIGH / 2.0, x + c->most * scale,
            y + HIGH / 2.0);
    fprintf(d->f,
            "<rect x=\"%.2f\" y=\"%.0f\" width=\"3\" height=\"%d\" "
            "fill=\"#d97706\"><title>simulated: %.1f samples/s</title></rect>"
            "<text x=\"%.2f\" y=\"%.0f\"><tspan fill=\"#2f6fde\">%.0f</tspan> "
            "<tspan fill=\"#d97706\">%.0f</tspan></text>\n",
            x + c->simulated * scale - 1.5, y - 4, HIGH + 8, c->simulated,
            x + label * scale + 8, y + HIGH * 0.7, c->median.samples_per_second,
            c->simulated);
}

/* The ranks of a stage have the same memory, and one box each. */
static void put_memory(const struct drawing *d, const struct vp_contestant *c,
                       double y)
{
    double scale = BAR / d->most_bytes, x = LEFT + NAME + BAR + GAP;
    char bytes[VP_BYTES_TEXT];

    for (int s = 0; s < c->n_stages; s++)
        for (int r = 0; r < c->stage_ranks[s]; r++) {
            double w = (double)c->stage_bytes[s] * scale;

            vp_bytes_text(c->stage_bytes[s], bytes, sizeof(bytes));
            fprintf(d->f,
                    "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
                    "rx=\"3\" fill=\"%s\"><title>stage %d: %s</title></rect>\n",
                    x, y, w > 2.0 ? w - 1.0 : w, HIGH,
                    (s + r) % 2 == 0 ? "#0f766e" : "#5fb8ae", s, bytes);
            x += w;
        }
    vp_bytes_text(vp_compare_peak(c), bytes, sizeof(bytes));
    fprintf(d->f, "<text x=\"%.2f\" y=\"%.0f\">%s</text>\n", x + 8,
            y + HIGH * 0.7, bytes);
}

static void find_scales(struct drawing *d)
{
    for (int i = 0; i < d->n; i++) {
        const struct vp_contestant *c = &d->contestants[i];
        double bytes = 0.0;

        for (int s = 0; s < c->n_stages; s++)
            bytes += (double)c->stage_bytes[s] * c->stage_ranks[s];
        if (bytes > d->most_bytes)
            d->most_bytes = bytes;
        if (c->most > d->most_rate)
            d->most_rate = c->most;
        if (c->simulated > d->most_rate)
            d->most_rate = c->simulated;
    }
    d->most_rate = d->most_rate > 0.0 ? d->most_rate : 1.0;
    d->most_bytes = d->most_bytes > 0.0 ? d->most_bytes : 1.0;
}

static void draw(const struct drawing *d)
{
    double w = LEFT + NAME + BAR + GAP + BAR + RIGHT;

    put_head(d, w, TOP + (double)d->n * ROW + BOTTOM);
    put_titles(d);
    for (int i = 0; i < d->n; i++) {
        const struct vp_contestant *c = &d->contestants[i];
        double y = TOP + (double)i * ROW;

        fprintf(d->f, "<text x=\"%d\" y=\"%.0f\">", LEFT, y + HIGH * 0.5);
        put_escaped(d->f, c->name);
        fprintf(d->f,
                "</text><text class=\"small\" x=\"%d\" y=\"%.0f\">%d rank%s, "
                "batch %lld</text>\n",
                LEFT, y + HIGH * 0.5 + 15, c->n_ranks,
                c->n_ranks == 1 ? "" : "s", (long long)c->batch);
        put_rate(d, c, y);
        put_memory(d, c, y);
    }
    fputs("</svg>\n", d->f);
}

enum vp_status vp_compare_svg(const struct vp_contestant *contestants, int n,
                              char **text_out)
{
    struct drawing d = { .contestants = contestants, .n = n };
    char *text = NULL;
    size_t n_bytes;
    bool failed;

    d.f = open_memstream(&text, &n_bytes);
    if (!d.f)
        return VP_ERR_NOMEM;
    find_scales(&d);
    draw(&d);
    failed = ferror(d.f);
    failed |= fclose(d.f) != 0;
    if (failed) {
        free(text);
        return VP_ERR_NOMEM;
    }
    *text_out = text;
    return VP_OK;
}
