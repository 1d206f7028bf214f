/* Draws a comparison: per configuration one bar for its throughput, with a mark
 * at the simulated value, and one bar for the memory of its stages. */
#include "run/compare.h"

#include "base/memory.h"
#include "draw/palette.h"
#include "draw/svg.h"

#include <math.h>

enum {
    LEFT = 24,
    NAME = 150, /* width of the names */
    BAR = 330,  /* length of the longest bar */
    GAP = 110,  /* space between the two halves, for numbers */
    RIGHT = 90, /* space for numbers */
    TOP = 96,
    ROW = 44,
    HIGH = 22, /* height of a bar */
    BOTTOM = 24,
};

struct drawing {
    struct vp_svg svg;
    const struct vp_contestant *contestants;
    int n;
    double most_rate;
    double most_bytes; /* largest sum over the stages of a configuration */
};

/* ---- Title and legend --------------------------------------------------- */

static void put_sample(struct drawing *d, double x, const char *fill)
{
    vp_svg_box(&d->svg, &(struct vp_svg_box){ .x = x,
                                              .y = 71,
                                              .width = 10,
                                              .height = 10,
                                              .radius = 2,
                                              .fill = fill });
}

static void put_titles(struct drawing *d)
{
    int x = LEFT + NAME, x2 = x + BAR + GAP;

    vp_svg_text(&d->svg, "title", LEFT, 32,
                "%d configurations, the same model and data", d->n);
    vp_svg_text(&d->svg, "", x, 62, "samples per second");
    put_sample(d, x, VP_MEASURED);
    vp_svg_text(&d->svg, "small", x + 15, 80, "measured");
    if (isfinite(d->contestants[0].simulated)) {
        vp_svg_box(&d->svg, &(struct vp_svg_box){ .x = x + 80,
                                                  .y = 69,
                                                  .width = 3,
                                                  .height = 14,
                                                  .fill = VP_SIMULATED });
        vp_svg_text(&d->svg, "small", x + 88, 80, "simulated");
    }
    vp_svg_text(&d->svg, "", x2, 62, "memory of all ranks");
    put_sample(d, x2, VP_MEMORY);
    put_sample(d, x2 + 12, VP_MEMORY_LIGHT);
    vp_svg_text(&d->svg, "small", x2 + 27, 80,
                "a box for each; the largest is written");
}

/* ---- Rows --------------------------------------------------------------- */

static void put_rate(struct drawing *d, const struct vp_contestant *c, double y)
{
    double scale = BAR / d->most_rate, x = LEFT + NAME;
    double label = fmax(c->most, c->simulated);
    const struct vp_svg_box measured = {
        .x = x,
        .y = y,
        .width = c->median.samples_per_second * scale,
        .height = HIGH,
        .radius = 3,
        .fill = VP_MEASURED,
    };
    const struct vp_svg_box simulated = {
        .x = x + c->simulated * scale - 1.5,
        .y = y - 4,
        .width = 3,
        .height = HIGH + 8,
        .fill = VP_SIMULATED,
    };

    vp_svg_box_about(&d->svg, &measured,
                     "%s: %.1f samples/s, from %.1f to %.1f", c->name,
                     c->median.samples_per_second, c->least, c->most);
    vp_svg_line(&d->svg, x + c->least * scale, y + HIGH / 2.0,
                x + c->most * scale, y + HIGH / 2.0, VP_INK, 1.5);
    if (isfinite(c->simulated))
        vp_svg_box_about(&d->svg, &simulated, "simulated: %.1f samples/s",
                         c->simulated);
    x += label * scale + 8;
    x += vp_svg_text_in(&d->svg, VP_MEASURED, x, y + HIGH * 0.7, "%.0f",
                        c->median.samples_per_second);
    if (isfinite(c->simulated))
        vp_svg_text_in(&d->svg, VP_SIMULATED, x + 4, y + HIGH * 0.7, "%.0f",
                       c->simulated);
}

/* Draws one box per rank; the ranks of a stage have the same memory. */
static void put_memory(struct drawing *d, const struct vp_contestant *c,
                       double y)
{
    double scale = BAR / d->most_bytes, x = LEFT + NAME + BAR + GAP;
    char bytes[VP_BYTES_TEXT];

    for (int s = 0; s < c->n_stages; s++)
        for (int r = 0; r < c->stage_ranks[s]; r++) {
            double w = (double)c->stage_bytes[s] * scale;
            const struct vp_svg_box box = {
                .x = x,
                .y = y,
                .width = w > 2.0 ? w - 1.0 : w,
                .height = HIGH,
                .radius = 3,
                .fill = (s + r) % 2 == 0 ? VP_MEMORY : VP_MEMORY_LIGHT,
            };

            vp_bytes_text(c->stage_bytes[s], bytes, sizeof(bytes));
            vp_svg_box_about(&d->svg, &box, "stage %d: %s", s, bytes);
            x += w;
        }
    vp_bytes_text(vp_compare_peak(c), bytes, sizeof(bytes));
    vp_svg_text(&d->svg, "", x + 8, y + HIGH * 0.7, "%s", bytes);
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

static void draw(struct drawing *d)
{
    double w = LEFT + NAME + BAR + GAP + BAR + RIGHT;

    vp_svg_begin(&d->svg, w, TOP + (double)d->n * ROW + BOTTOM);
    put_titles(d);
    for (int i = 0; i < d->n; i++) {
        const struct vp_contestant *c = &d->contestants[i];
        double y = TOP + (double)i * ROW;

        vp_svg_text(&d->svg, "", LEFT, y + HIGH * 0.5, "%s", c->name);
        vp_svg_text(&d->svg, "small", LEFT, y + HIGH * 0.5 + 15,
                    "%d rank%s, batch %lld", c->n_ranks,
                    c->n_ranks == 1 ? "" : "s", (long long)c->batch);
        put_rate(d, c, y);
        put_memory(d, c, y);
    }
}

enum vp_status vp_compare_svg(const struct vp_contestant *contestants, int n,
                              char **text_out)
{
    struct drawing d = { .svg = VP_SVG_INIT,
                         .contestants = contestants,
                         .n = n };

    find_scales(&d);
    draw(&d);
    return vp_svg_end(&d.svg, text_out);
}
