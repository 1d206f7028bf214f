/* Writes an SVG drawing. Lengths are pixels, y grows downwards; texts are
 * escaped. vp_svg_end() reports a lack of memory in any call. */
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

/* Starts a drawing on a white background, readable on light and on dark pages.
 * Defines these classes of text: title, small, on_dark and on_light (inside a
 * box), end and mid (the part of the text that is at x). Texts may have
 * several, separated by spaces. */
void vp_svg_begin(struct vp_svg *svg, double width, double height);
/* Ends the drawing and passes its text to the caller, which frees it. Returns
 * VP_ERR_NOMEM if any call ran out of memory. */
enum vp_status vp_svg_end(struct vp_svg *svg, char **text_out);

struct vp_svg_box {
    double x, y, width, height;
    double radius; /* radius of its corners */
    const char *fill;
};

void vp_svg_box(struct vp_svg *svg, const struct vp_svg_box *box);
/* The same with a tooltip. */
void vp_svg_box_about(struct vp_svg *svg, const struct vp_svg_box *box,
                      const char *fmt, ...) VP_PRINTF(3, 4);

/* Writes text with its baseline at `y`. `classes` may be "". Texts are cut to
 * 511 bytes. */
void vp_svg_text(struct vp_svg *svg, const char *classes, double x, double y,
                 const char *fmt, ...) VP_PRINTF(5, 6);
/* The same in the colour `fill` and without classes. Returns an estimate of the
 * width in pixels. */
double vp_svg_text_in(struct vp_svg *svg, const char *fill, double x, double y,
                      const char *fmt, ...) VP_PRINTF(5, 6);
void vp_svg_line(struct vp_svg *svg, double x1, double y1, double x2, double y2,
                 const char *stroke, double width);

/* Draws the area below a step curve, whose base line is at `y`.
 * vp_svg_steps_begin() starts at `x` with `height` above the base line,
 * vp_svg_step() changes the height at its `x`, vp_svg_steps_end() closes the
 * area at its `x`. */
void vp_svg_steps_begin(struct vp_svg *svg, const char *fill, double x,
                        double y, double height);
void vp_svg_step(struct vp_svg *svg, double x, double y, double height);
void vp_svg_steps_end(struct vp_svg *svg, double x, double y);

/* Draws one entry of a legend. Returns the x of the next entry. */
double vp_svg_key(struct vp_svg *svg, double x, double y, const char *fill,
                  const char *name);

/* Draws a horizontal axis from (x, y) to (x + width, y) for values 0 to
 * `range`. Ticks are 1, 2 or 5 times a power of ten apart, and at least 90
 * pixels. */
void vp_svg_axis(struct vp_svg *svg, double x, double y, double width,
                 double range);

#endif
