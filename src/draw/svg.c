/* SVG drawings as text: boxes, lines, step curves, legends and axes. */
#include "draw/svg.h"

#include "draw/palette.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_TEXT = 512,
    KEY = 14, /* side of a legend's box */
    TICK_PIXELS = 90,
};

/* Estimated width of a character in the fonts of add_style(). */
#define CHAR_PIXELS 6.6

/* ---- Parts -------------------------------------------------------------- */

/* Appends ` name="value"` with at most two decimals. */
static void add_number(struct vp_svg *svg, const char *name, double value)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%.2f", value);

    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    vp_strbuf_addf(&svg->text, " %s=\"%.*s\"", name, n, text);
}

static void add_escaped(struct vp_svg *svg, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            vp_strbuf_adds(&svg->text, "&amp;");
        else if (*text == '<')
            vp_strbuf_adds(&svg->text, "&lt;");
        else if (*text == '>')
            vp_strbuf_adds(&svg->text, "&gt;");
        else
            vp_strbuf_add(&svg->text, (unsigned char)*text < ' ' ? "?" : text,
                          1);
    }
}

/* Returns the number of bytes written, before escaping. */
static int add_formatted(struct vp_svg *svg, const char *fmt, va_list args)
{
    char text[MAX_TEXT];
    int n = vsnprintf(text, sizeof(text), fmt, args);

    add_escaped(svg, text);
    return n < MAX_TEXT ? n : MAX_TEXT - 1;
}

/* ---- The sheet ---------------------------------------------------------- */

static void add_style(struct vp_svg *svg)
{
    vp_strbuf_adds(
        &svg->text,
        "<style>\n"
        "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;"
        "fill:#334155}\n"
        ".title{font-size:17px;font-weight:600;fill:" VP_INK "}\n"
        ".small{font-size:11px;fill:#64748b}\n"
        ".on_dark{font-size:11px;fill:#fff;text-anchor:middle}\n"
        ".on_light{font-size:11px;fill:#1e293b;text-anchor:middle}\n"
        ".end{text-anchor:end}.mid{text-anchor:middle}\n"
        "</style>\n"
        "<defs><pattern id=\"idle\" width=\"7\" height=\"7\" "
        "patternTransform=\"rotate(45)\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"7\" height=\"7\" fill=\"#f8fafc\"/>"
        "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#d3dbe5\" "
        "stroke-width=\"2\"/></pattern></defs>\n");
}

void vp_svg_begin(struct vp_svg *svg, double width, double height)
{
    vp_strbuf_addf(&svg->text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                   "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
                   width, height, width, height);
    add_style(svg);
    vp_strbuf_adds(&svg->text, "<rect width=\"100%\" height=\"100%\" rx=\"8\" "
                               "fill=\"#ffffff\"/>\n");
}

enum vp_status vp_svg_end(struct vp_svg *svg, char **text_out)
{
    vp_strbuf_adds(&svg->text, "</svg>\n");
    return vp_strbuf_detach(&svg->text, text_out);
}

/* ---- Shapes ------------------------------------------------------------- */

static void open_box(struct vp_svg *svg, const struct vp_svg_box *box)
{
    vp_strbuf_adds(&svg->text, "<rect");
    add_number(svg, "x", box->x);
    add_number(svg, "y", box->y);
    add_number(svg, "width", box->width);
    add_number(svg, "height", box->height);
    if (box->radius > 0.0)
        add_number(svg, "rx", box->radius);
    vp_strbuf_addf(&svg->text, " fill=\"%s\"", box->fill);
}

void vp_svg_box(struct vp_svg *svg, const struct vp_svg_box *box)
{
    open_box(svg, box);
    vp_strbuf_adds(&svg->text, "/>\n");
}

void vp_svg_box_about(struct vp_svg *svg, const struct vp_svg_box *box,
                      const char *fmt, ...)
{
    va_list args;

    open_box(svg, box);
    vp_strbuf_adds(&svg->text, "><title>");
    va_start(args, fmt);
    add_formatted(svg, fmt, args);
    va_end(args);
    vp_strbuf_adds(&svg->text, "</title></rect>\n");
}

void vp_svg_line(struct vp_svg *svg, double x1, double y1, double x2, double y2,
                 const char *stroke, double width)
{
    vp_strbuf_adds(&svg->text, "<line");
    add_number(svg, "x1", x1);
    add_number(svg, "y1", y1);
    add_number(svg, "x2", x2);
    add_number(svg, "y2", y2);
    vp_strbuf_addf(&svg->text, " stroke=\"%s\"", stroke);
    if (width != 1.0)
        add_number(svg, "stroke-width", width);
    vp_strbuf_adds(&svg->text, "/>\n");
}

void vp_svg_steps_begin(struct vp_svg *svg, const char *fill, double x,
                        double y, double height)
{
    vp_strbuf_addf(&svg->text, "<path fill=\"%s\" d=\"M%.2f %.2fV%.2f", fill, x,
                   y, y - height);
}

void vp_svg_step(struct vp_svg *svg, double x, double y, double height)
{
    vp_strbuf_addf(&svg->text, "H%.2fV%.2f", x, y - height);
}

void vp_svg_steps_end(struct vp_svg *svg, double x, double y)
{
    vp_strbuf_addf(&svg->text, "H%.2fV%.2fZ\"/>\n", x, y);
}

/* ---- Texts -------------------------------------------------------------- */

void vp_svg_text(struct vp_svg *svg, const char *classes, double x, double y,
                 const char *fmt, ...)
{
    va_list args;

    vp_strbuf_adds(&svg->text, "<text");
    if (classes[0])
        vp_strbuf_addf(&svg->text, " class=\"%s\"", classes);
    add_number(svg, "x", x);
    add_number(svg, "y", y);
    vp_strbuf_adds(&svg->text, ">");
    va_start(args, fmt);
    add_formatted(svg, fmt, args);
    va_end(args);
    vp_strbuf_adds(&svg->text, "</text>\n");
}

double vp_svg_text_in(struct vp_svg *svg, const char *fill, double x, double y,
                      const char *fmt, ...)
{
    va_list args;
    int n;

    vp_strbuf_adds(&svg->text, "<text");
    add_number(svg, "x", x);
    add_number(svg, "y", y);
    vp_strbuf_addf(&svg->text, " style=\"fill:%s\">", fill);
    va_start(args, fmt);
    n = add_formatted(svg, fmt, args);
    va_end(args);
    vp_strbuf_adds(&svg->text, "</text>\n");
    return CHAR_PIXELS * n;
}

double vp_svg_key(struct vp_svg *svg, double x, double y, const char *fill,
                  const char *name)
{
    vp_svg_box(svg, &(struct vp_svg_box){ .x = x,
                                          .y = y,
                                          .width = KEY,
                                          .height = KEY,
                                          .radius = 3,
                                          .fill = fill });
    vp_svg_text(svg, "", x + KEY + 5, y + 11, "%s", name);
    return x + KEY + 20 + CHAR_PIXELS * (double)strlen(name);
}

/* ---- Axes --------------------------------------------------------------- */

/* Returns the smallest 1, 2 or 5 times a power of ten that is >= `least`. */
static double tick_step(double least)
{
    double power = pow(10.0, floor(log10(least)));

    for (int i = 0; i < 3; i++) {
        static const double factors[] = { 1.0, 2.0, 5.0 };

        if (power * factors[i] >= least)
            return power * factors[i];
    }
    return power * 10.0;
}

void vp_svg_axis(struct vp_svg *svg, double x, double y, double width,
                 double range)
{
    double pixels = range > 0.0 ? width / range : width;
    double step = tick_step(TICK_PIXELS / pixels);
    int n = (int)(width / (step * pixels) + 1e-9);

    vp_svg_line(svg, x, y, x + width, y, VP_AXIS, 1.0);
    for (int i = 0; i <= n; i++) {
        double at = x + i * step * pixels;

        vp_svg_line(svg, at, y, at, y + 5, VP_AXIS, 1.0);
        vp_svg_text(svg, "small mid", at, y + 17, "%g", i * step);
    }
}
