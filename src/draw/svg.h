/* Writes an SVG drawing. Lengths are pixels, y grows downwards; texts are
 * escaped here. Running out of memory shows at the end. */
#ifndef VP_DRAW_SVG_H
#define VP_DRAW_SVG_H

#include "base/strbuf.h"

struct vp_svg {
    struct vp_strbuf text;
};

#define VP_SVG_INIT    \
    {                  \
        VP_STRBUF_INIT \
    }

/* A white sheet, readable on light and on dark pages, with styles for these
 * classes of text: title, small, on_dark and on_light (inside a box), end and
 * mid (which part of the text stands at x); several may be given. */
void vp_svg_begin(struct vp_svg *svg, double width, double height);
enum vp_status vp_svg_end(struct vp_svg *svg, char **text_out);

struct vp_svg_box {
    double x, y, width, height;
    double radius; /* of its corners */
    const char *fill;
};

void vp_svg_box(struct vp_svg *svg, const struct vp_svg_box *box);
/* With a text that a viewer shows beside the pointer. */
void vp_svg_box_about(struct vp_svg *svg, const struct vp_svg_box *box,
                      const char *fmt, ...) VP_PRINTF(3, 4);

/* `classes` may be "". */
void vp_svg_text(struct vp_svg *svg, const char *classes, double x, double y,
                 const char *fmt, ...) VP_PRINTF(5, 6);
/* The same, in a colour. Returns an estimate of the width of the text. */
double vp_svg_text_in(struct vp_svg *svg, const char *fill, double x, double y,
                      const char *fmt, ...) VP_PRINTF(5, 6);
void vp_svg_line(struct vp_svg *svg, double x1, double y1, double x2, double y2,
                 const char *stroke, double width);

/* An area below a curve of steps: from (x, y) up to `height`, then step by step,
 * and down to `y` again at the end. */
void vp_svg_steps_begin(struct vp_svg *svg, const char *fill, double x,
                        double y, double height);
void vp_svg_step(struct vp_svg *svg, double x, double y, double height);
void vp_svg_steps_end(struct vp_svg *svg, double x, double y);

/* One entry of a legend. Returns where the next one begins. */
double vp_svg_key(struct vp_svg *svg, double x, double y, const char *fill,
                  const char *name);

/* An axis from x on, `width` long, which stands for [0, range]; marks at 1, 2 or
 * 5 times a power of ten, at least 90 pixels apart. */
void vp_svg_axis(struct vp_svg *svg, double x, double y, double width,
                 double range);

#endif
