/* SVG elements, HTML escapes, charts and terminal rows equal literal texts. */
#include "draw/chart.h"
#include "draw/html.h"
#include "draw/lane.h"
#include "draw/palette.h"
#include "draw/svg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Compares the elements between the background and the end of the SVG with
 * `want`. */
static void check_svg(struct vp_svg *svg, const char *want)
{
    static const char sheet[] = "fill=\"#ffffff\"/>\n", end[] = "</svg>\n";
    char *text, *at;
    size_t n;

    assert_int_equal(vp_svg_end(svg, &text), VP_OK);
    at = strstr(text, sheet);
    assert_non_null(at);
    at += strlen(sheet);
    n = strlen(at);
    assert_true(n >= strlen(end));
    assert_string_equal(at + n - strlen(end), end);
    at[n - strlen(end)] = '\0';
    assert_string_equal(at, want);
    free(text);
}

static void test_shapes(void **state)
{
    const struct vp_svg_box box = { 1, 2.5, 10.125, 100, 0, "#123456" };
    const struct vp_svg_box round = { 0, -1, 7, 8, 3, VP_IDLE };
    struct vp_svg svg = VP_SVG_INIT;

    (void)state;
    vp_svg_begin(&svg, 200, 100);
    vp_svg_box(&svg, &box);
    vp_svg_box_about(&svg, &round, "%d < %s", 1, "a&b");
    vp_svg_line(&svg, 0, 0, 1.5, 2, VP_AXIS, 1.0);
    vp_svg_line(&svg, 0, 0, 1, 2, VP_INK, 1.5);
    vp_svg_steps_begin(&svg, VP_KEPT, 10, 50, 5);
    vp_svg_step(&svg, 12, 50, 7.5);
    vp_svg_steps_end(&svg, 20, 50);
    check_svg(&svg,
              "<rect x=\"1\" y=\"2.5\" width=\"10.12\" height=\"100\" "
              "fill=\"#123456\"/>\n"
              "<rect x=\"0\" y=\"-1\" width=\"7\" height=\"8\" rx=\"3\" "
              "fill=\"url(#idle)\"><title>1 &lt; a&amp;b</title></rect>\n"
              "<line x1=\"0\" y1=\"0\" x2=\"1.5\" y2=\"2\" "
              "stroke=\"#94a3b8\"/>\n"
              "<line x1=\"0\" y1=\"0\" x2=\"1\" y2=\"2\" stroke=\"#0f172a\" "
              "stroke-width=\"1.5\"/>\n"
              "<path fill=\"#cbd5e1\" d=\"M10.00 50.00V45.00H12.00V42.50"
              "H20.00V50.00Z\"/>\n");
}

/* Text is escaped; control characters, which would make the file invalid, are
 * replaced. */
static void test_texts_are_escaped(void **state)
{
    struct vp_svg svg = VP_SVG_INIT;
    double n;

    (void)state;
    vp_svg_begin(&svg, 200, 100);
    vp_svg_text(&svg, "", 1, 2, "%s", "<a> & \x01\xc3\xa9");
    vp_svg_text(&svg, "small end", 1, 2, "x");
    n = vp_svg_text_in(&svg, "#ff0000", 0, 0, "%d", 1234);
    assert_true(n > 20 && n < 40);
    check_svg(&svg, "<text x=\"1\" y=\"2\">&lt;a&gt; &amp; ?\xc3\xa9</text>\n"
                    "<text class=\"small end\" x=\"1\" y=\"2\">x</text>\n"
                    "<text x=\"0\" y=\"0\" style=\"fill:#ff0000\">1234"
                    "</text>\n");
}

/* Compares the numbers at the ticks of an axis with `want`. */
static void check_axis(double width, double range, const char *want)
{
    struct vp_svg svg = VP_SVG_INIT;
    struct vp_strbuf marks = VP_STRBUF_INIT;
    char *text;

    vp_svg_begin(&svg, width, 50);
    vp_svg_axis(&svg, 0, 10, width, range);
    assert_int_equal(vp_svg_end(&svg, &text), VP_OK);
    for (const char *at = text; (at = strstr(at, "<text")); at++) {
        const char *begin = strchr(at, '>') + 1;

        vp_strbuf_addf(&marks, "%.*s ", (int)strcspn(begin, "<"), begin);
    }
    assert_string_equal(vp_strbuf_text(&marks), want);
    vp_strbuf_release(&marks);
    free(text);
}

static void test_axis(void **state)
{
    (void)state;
    check_axis(500, 100, "0 20 40 60 80 100 ");
    check_axis(900, 10, "0 1 2 3 4 5 6 7 8 9 10 ");
    check_axis(899, 10, "0 2 4 6 8 10 ");
    check_axis(500, 0.004, "0 0.001 0.002 0.003 0.004 ");
    check_axis(400, 1e6, "0 500000 1e+06 ");
    check_axis(500, 12.5, "0 5 10 ");
    check_axis(100, 0, "0 1 ");
}

static void test_lane(void **state)
{
    struct vp_strbuf plain = VP_STRBUF_INIT, coloured = VP_STRBUF_INIT;
    struct vp_lane lane;

    (void)state;
    assert_int_equal(vp_lane_init(&lane, 12), VP_OK);
    vp_lane_clear(&lane);
    vp_lane_box(&lane, 0, 3, 75, 'F', 7);
    vp_lane_box(&lane, 3, 5, 111, 'F', 10); /* no space for the number */
    vp_lane_box(&lane, 7, 8, 78, 'B', 1);
    vp_lane_box(&lane, 10, 20, 78, 'B', 2); /* cut at the end of the lane */
    vp_lane_print(&lane, false, &plain);
    assert_string_equal(vp_strbuf_text(&plain), "F7 F ..B..B2");
    vp_lane_clear(&lane);
    vp_lane_box(&lane, 10, 12, 75, 'F', 7);
    vp_lane_print(&lane, true, &coloured);
    vp_lane_key(75, 'F', "forward", true, &coloured);
    vp_lane_key(75, 'F', "forward", false, &coloured);
    assert_string_equal(vp_strbuf_text(&coloured),
                        "\x1b[0;38;5;244m..........\x1b[0;38;5;16;48;5;75mF7"
                        "\x1b[0m\x1b[38;5;16;48;5;75mF\x1b[0m forward"
                        "F forward");
    vp_strbuf_release(&plain);
    vp_strbuf_release(&coloured);
    vp_lane_release(&lane);
}

static void test_colours_differ(void **state)
{
    (void)state;
    for (int a = 0; a < VP_HUE_COUNT; a++)
        for (int b = 0; b < a; b++) {
            for (int i = 0; i < VP_N_SHADES; i++)
                assert_string_not_equal(vp_palette[a].fill[i],
                                        vp_palette[b].fill[i]);
            assert_int_not_equal(vp_palette[a].ansi[0], vp_palette[b].ansi[0]);
            assert_int_not_equal(vp_palette[a].ansi[1], vp_palette[b].ansi[1]);
        }
}

/* ---- Pages ---------------------------------------------------------------- */

static void check_text(struct vp_strbuf *out, const char *want)
{
    assert_string_equal(vp_strbuf_text(out), want);
    vp_strbuf_release(out);
}

/* HTML characters, control characters and bytes that are not UTF-8 are
 * escaped. */
static void test_html_is_escaped(void **state)
{
    static const char evil[] =
        "</script> \"'&\x01\x7f\n\t\xc3\xa9\xff\xe2\x82!";
    struct vp_strbuf out = VP_STRBUF_INIT;

    (void)state;
    vp_html_text(&out, evil);
    check_text(&out, "&lt;/script&gt; &quot;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd"
                     "\n\t\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd!");
    vp_html_textf(&out, "%d <%s>", 7, "a");
    check_text(&out, "7 &lt;a&gt;");
    vp_html_json(&out, evil);
    check_text(&out, "\"\\u003c/script\\u003e \\\"'\\u0026\\ufffd\\ufffd"
                     "\\n\\t\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd!\"");
    vp_html_json(&out, "a\\b");
    check_text(&out, "\"a\\\\b\"");
    vp_html_number(&out, 1.0 / 3.0, 4);
    vp_html_number(&out, NAN, 4);
    vp_html_number(&out, INFINITY, 4);
    check_text(&out, "0.3333nullnull");
}

/* SHA-256 of the empty text, of "abc" and of 56 bytes (FIPS 180-4), as base64. */
static void test_html_hash(void **state)
{
    static const char two_blocks[] =
        "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    struct vp_strbuf out = VP_STRBUF_INIT;

    (void)state;
    vp_html_hash(&out, "", 0);
    check_text(&out, "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    vp_html_hash(&out, "abc", 3);
    check_text(&out, "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
    vp_html_hash(&out, two_blocks, sizeof(two_blocks) - 1);
    check_text(&out, "'sha256-JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE='");
}

/* Returns the text between two marks; the caller frees it. */
static char *between(const char *text, const char *from, const char *to)
{
    const char *start = strstr(text, from), *end;
    char *copy;

    assert_non_null(start);
    start += strlen(from);
    end = strstr(start, to);
    assert_non_null(end);
    copy = strndup(start, (size_t)(end - start));
    assert_non_null(copy);
    return copy;
}

/* The plot area is [56, 628] x [10, 234]; a missing value leaves a gap. */
static void test_chart(void **state)
{
    static const double x[] = { 0, 1, 2, 3, 4 }, y[] = { 0, 10, NAN, 5, 10 };
    static const double least[] = { 0, 5, NAN, 5, 10 };
    const struct vp_chart_line lines[] = {
        { .x = x, .y = y, .least = least, .most = y, .n = 5, .colour = 3 },
    };
    const struct vp_chart chart = { .label = "a<b",
                                    .lines = lines,
                                    .n_lines = 1 };
    const struct vp_chart empty = { .label = "" };
    struct vp_strbuf out = VP_STRBUF_INIT;
    char *part;

    (void)state;
    vp_chart_draw(&out, &chart);
    part = between(vp_strbuf_text(&out), "class=\"line c3\" d=\"", "\"");
    assert_string_equal(part, "M56.0 234.0L199.0 10.0M485.0 122.0L628.0 10.0");
    free(part);
    part = between(vp_strbuf_text(&out), "class=\"band c3\" d=\"", "\"");
    assert_string_equal(part,
                        "M56.0 234.0L199.0 10.0L485.0 122.0L628.0 10.0"
                        "L628.0 10.0L485.0 122.0L199.0 122.0L56.0 234.0Z");
    free(part);
    assert_non_null(strstr(vp_strbuf_text(&out), "aria-label=\"a&lt;b\""));
    assert_non_null(strstr(vp_strbuf_text(&out), "y=\"238.0\">0</text>"));
    assert_non_null(strstr(vp_strbuf_text(&out), "y=\"14.0\">10</text>"));
    vp_strbuf_release(&out);
    vp_chart_draw(&out, &empty);
    assert_non_null(strstr(vp_strbuf_text(&out), "no data"));
    vp_strbuf_release(&out);
}

/* A chart of one point draws it in the middle. */
static void test_chart_of_one_point(void **state)
{
    const struct vp_chart_line line = { .x = (const double[]){ 5 },
                                        .y = (const double[]){ 20000 },
                                        .n = 1,
                                        .dashed = true };
    const struct vp_chart chart = { .label = "", .lines = &line, .n_lines = 1 };
    struct vp_strbuf out = VP_STRBUF_INIT;

    (void)state;
    vp_chart_draw(&out, &chart);
    assert_non_null(strstr(vp_strbuf_text(&out), "cx=\"342.0\" cy=\"122.0\""));
    assert_non_null(strstr(vp_strbuf_text(&out), ">20k</text>"));
    vp_strbuf_release(&out);
}

/* Relative luminance, WCAG 2.1. */
static double luminance(const char *colour)
{
    static const double weights[] = { 0.2126, 0.7152, 0.0722 };
    double sum = 0.0;

    for (int i = 0; i < 3; i++) {
        char digits[3] = { colour[1 + 2 * i], colour[2 + 2 * i], '\0' };
        double c = (double)strtol(digits, NULL, 16) / 255.0;

        sum += weights[i] *
               (c <= 0.03928 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(const char *a, const char *b)
{
    double x = luminance(a) + 0.05, y = luminance(b) + 0.05;

    return x > y ? x / y : y / x;
}

/* Lines have enough contrast on both backgrounds, and so has text in the boxes
 * of a timeline. */
static void test_contrast(void **state)
{
    (void)state;
    assert_true(fabs(contrast("#000000", "#ffffff") - 21.0) < 1e-9);
    for (int i = 0; i < VP_N_RUN_COLOURS; i++) {
        assert_true(contrast(vp_run_colours[i].light, "#f7f9fb") >= 4.5);
        assert_true(contrast(vp_run_colours[i].dark, "#171e29") >= 4.5);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(vp_run_colours[i].light,
                                    vp_run_colours[k].light);
    }
    for (int h = 0; h < VP_HUE_COUNT; h++)
        assert_true(contrast(vp_palette[h].fill[1], VP_INK) >= 4.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_texts_are_escaped),
        cmocka_unit_test(test_axis),
        cmocka_unit_test(test_lane),
        cmocka_unit_test(test_colours_differ),
        cmocka_unit_test(test_html_is_escaped),
        cmocka_unit_test(test_html_hash),
        cmocka_unit_test(test_chart),
        cmocka_unit_test(test_chart_of_one_point),
        cmocka_unit_test(test_contrast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
