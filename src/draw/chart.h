/* Draws a line chart as inline SVG of an HTML page. The style sheet of the page
 * sets colours by class: axis, grid, and c0, c1, ... for lines. */
#ifndef VP_DRAW_CHART_H
#define VP_DRAW_CHART_H

#include "base/strbuf.h"

#include <stdbool.h>

enum { VP_CHART_WIDTH = 640, VP_CHART_HEIGHT = 260 };

/* A curve. Values that are not finite leave a gap. */
struct vp_chart_line {
    const double *x, *y;        /* `n` values each, x ascending */
    const double *least, *most; /* bounds of a band around y; NULL: no band */
    int n;
    int colour;  /* class c<colour> */
    bool dashed; /* dashed, with a dot at every point */
};

struct vp_chart {
    const char *label; /* for screen readers */
    const struct vp_chart_line *lines;
    int n_lines;
    bool from_zero; /* the y axis begins at 0 */
    bool percent;   /* the y axis shows values times 100, with "%" */
};

/* Appends the <svg> element; it reads "no data" if no value is finite. */
void vp_chart_draw(struct vp_strbuf *out, const struct vp_chart *chart);

#endif
