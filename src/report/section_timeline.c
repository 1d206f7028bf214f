/* Timeline section: a lane for each rank. Boxes are in a nested <svg> whose
 * horizontal unit is a microsecond, so that the script zooms by changing its
 * viewBox. Labels and the time axis are outside of it. */
#include "report/section.h"

#include "draw/html.h"
#include "sched/look.h"

#include <math.h>
#include <stdio.h>

enum {
    LEFT = 96,
    WIDTH = 1000, /* width of the lanes */
    RIGHT = 64,
    LANE = 26,
    GAP = 6,
    AXIS = 26,
    LEAST_LABEL = 16, /* narrowest box with a number, in pixels */
};

static int64_t count_events(const struct vp_trace *trace)
{
    int64_t n = 0;

    for (int r = 0; r < trace->n_ranks; r++)
        n += trace->ranks[r].n_events;
    return n;
}

/* Keeps the last minibatches, fewer if they have more than `most` events. */
static void choose_window(struct vp_trace *trace, int most)
{
    int n = vp_trace_some(trace);

    vp_trace_keep_last(trace, n);
    while (n > 1 && count_events(trace) > most) {
        n = (n + 1) / 2;
        vp_trace_keep_last(trace, n);
    }
}

/* ---- Boxes -------------------------------------------------------------- */

/* Returns the CSS class of an event; NULL if it is not drawn. */
static const char *class_of(const struct vp_trace_event *e)
{
    static const char *const classes[VP_HUE_COUNT] = {
        [VP_HUE_FORWARD] = "f",  [VP_HUE_RECOMPUTE] = "r",
        [VP_HUE_BACKWARD] = "b", [VP_HUE_WEIGHT] = "w",
        [VP_HUE_REDUCE] = "g",   [VP_HUE_UPDATE] = "u",
        [VP_HUE_EVAL] = "e",
    };

    if (e->eval && e->kind == VP_ACTION_F)
        return "e";
    return vp_action_look(e->kind)->meaning
               ? classes[vp_action_look(e->kind)->hue]
               : NULL;
}

/* In UPDATE and REDUCE, `mb` is the number of a round. */
static bool has_minibatch(const struct vp_trace_event *e)
{
    return e->kind != VP_ACTION_UPDATE && e->kind != VP_ACTION_REDUCE;
}

static double microseconds(int64_t ns)
{
    return (double)ns * 1e-3;
}

/* Draws a wait, half as high as work. */
static void put_wait(struct vp_strbuf *out, const struct vp_trace_event *e,
                     int64_t begin, int y, double least)
{
    double width = microseconds(e->wait_ns);

    if (width < least)
        return;
    vp_strbuf_addf(out,
                   "<rect class=\"wait\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                   "height=\"%d\"><title>waits %.4g ms for %s %d of stage "
                   "%d</title></rect>",
                   microseconds(e->start_ns - begin), y + LANE / 4, width,
                   LANE / 2, (double)e->wait_ns * 1e-6,
                   vp_action_kind_name(e->kind), e->mb, e->stage);
}

static void put_box(struct vp_strbuf *out, const struct vp_trace_event *e,
                    int64_t begin, int y, double least)
{
    const char *class = class_of(e);
    int64_t busy = e->end_ns - e->start_ns - e->wait_ns;
    double width = microseconds(busy);

    if (!class || width < least)
        return;
    vp_strbuf_addf(out,
                   "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                   "height=\"%d\"",
                   class, microseconds(e->start_ns + e->wait_ns - begin), y,
                   width, LANE);
    if (has_minibatch(e))
        vp_strbuf_addf(out, " data-mb=\"%d\"", e->mb);
    vp_strbuf_addf(out, "><title>%s %d of stage %d: %.4g ms</title></rect>\n",
                   e->eval ? "evaluation" : vp_action_look(e->kind)->meaning,
                   e->mb, e->stage, (double)busy * 1e-6);
}

static void put_lanes(struct vp_strbuf *out, const struct vp_trace *trace,
                      int64_t begin, double window)
{
    double least = window / 20000.0; /* below a twentieth of a pixel */

    vp_strbuf_addf(out,
                   "<svg class=\"boxes\" x=\"%d\" y=\"0\" width=\"%d\" "
                   "height=\"%d\" viewBox=\"0 0 %.1f %d\" "
                   "preserveAspectRatio=\"none\">\n",
                   LEFT, WIDTH, trace->n_ranks * (LANE + GAP), window,
                   trace->n_ranks * (LANE + GAP));
    for (int r = 0; r < trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &trace->ranks[r];
        int y = r * (LANE + GAP);

        vp_strbuf_addf(out,
                       "<rect class=\"lane\" x=\"0\" y=\"%d\" width=\"%.1f\" "
                       "height=\"%d\"/>\n",
                       y, window, LANE);
        for (int i = 0; i < rank->n_events; i++) {
            put_wait(out, &rank->events[i], begin, y, least);
            put_box(out, &rank->events[i], begin, y, least);
        }
    }
    if (trace->plan_ns > begin && trace->plan_ns < trace->end_ns)
        vp_strbuf_addf(out,
                       "<path class=\"new-plan\" d=\"M%.1f 0V%d\"><title>new "
                       "plan</title></path>\n",
                       microseconds(trace->plan_ns - begin),
                       trace->n_ranks * (LANE + GAP));
    vp_strbuf_adds(out, "</svg>\n");
}

/* ---- Labels ------------------------------------------------------------- */

static void put_numbers(struct vp_strbuf *out, const struct vp_trace *trace,
                        int64_t begin, double window)
{
    double scale = WIDTH / window;

    vp_strbuf_adds(out, "<g class=\"numbers\">");
    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *e = &trace->ranks[r].events[i];
            double x = microseconds(e->start_ns + e->wait_ns - begin) * scale;
            double width = microseconds(e->end_ns - e->start_ns - e->wait_ns) *
                           scale;

            if (class_of(e) && has_minibatch(e) && width >= LEAST_LABEL)
                vp_strbuf_addf(out, "<text x=\"%.1f\" y=\"%d\">%d</text>",
                               LEFT + x + width / 2.0,
                               r * (LANE + GAP) + LANE / 2 + 4, e->mb);
        }
    vp_strbuf_adds(out, "</g>\n");
}

static void put_names(struct vp_strbuf *out, const struct vp_trace *trace)
{
    for (int r = 0; r < trace->n_ranks; r++) {
        char stages[24];
        int y = r * (LANE + GAP) + LANE / 2;

        vp_trace_list_stages(trace, r, stages, sizeof(stages));
        vp_strbuf_addf(out,
                       "<text class=\"label end\" x=\"%d\" y=\"%d\">rank "
                       "%d</text><text class=\"tick end\" x=\"%d\" "
                       "y=\"%d\">%s</text>\n",
                       LEFT - 8, y, trace->ranks[r].number, LEFT - 8, y + 12,
                       stages);
    }
}

static void put_axis(struct vp_strbuf *out, int y, double window)
{
    vp_strbuf_addf(out, "<g class=\"times\">");
    for (int i = 0; i <= 5; i++)
        vp_strbuf_addf(out,
                       "<text class=\"tick mid\" x=\"%d\" y=\"%d\">%.4g "
                       "ms</text>",
                       LEFT + i * WIDTH / 5, y + 16, window * 1e-3 * i / 5);
    vp_strbuf_adds(out, "</g>\n");
}

static void put_controls(struct vp_strbuf *out)
{
    vp_strbuf_adds(
        out, "<div class=\"controls\" hidden><div role=\"group\" "
             "aria-label=\"Timeline\" class=\"group\">"
             "<button type=\"button\" data-go=\"left\" aria-label=\"Earlier\">"
             "&#8592;</button><button type=\"button\" data-go=\"right\" "
             "aria-label=\"Later\">&#8594;</button><button type=\"button\" "
             "data-go=\"in\" aria-label=\"Zoom in\">+</button><button "
             "type=\"button\" data-go=\"out\" aria-label=\"Zoom out\">&#8722;"
             "</button><button type=\"button\" data-go=\"all\">All</button>"
             "</div><span class=\"hint\">Drag to move, Ctrl and wheel to zoom; "
             "with the keyboard: arrow keys, + and &#8722;, 0.</span></div>\n");
}

/* Appends a legend of the kinds of events in the trace. */
static void put_legend(struct vp_strbuf *out, const struct vp_trace *trace)
{
    static const struct {
        const char *swatch, *name;
    } keys[] = {
        { "t-f", "forward" },          { "t-r", "recompute" },
        { "t-b", "backward" },         { "t-w", "weight gradient" },
        { "t-g", "sum of gradients" }, { "t-u", "update" },
        { "t-e", "evaluation" },
    };
    bool used[VP_COUNT_OF(keys)] = { false };

    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const char *class = class_of(&trace->ranks[r].events[i]);

            for (size_t k = 0; class && k < VP_COUNT_OF(keys); k++)
                used[k] |= keys[k].swatch[2] == class[0];
        }
    vp_strbuf_adds(out, "<p class=\"legend\">");
    for (size_t k = 0; k < VP_COUNT_OF(keys); k++)
        if (used[k])
            vp_part_key(out, keys[k].swatch, keys[k].name);
    vp_part_key(out, "t-wait", "waiting inside an action");
    vp_part_key(out, "t-lane", "idle");
    vp_strbuf_adds(out, "</p>\n");
}

void vp_section_timeline(struct vp_strbuf *out, struct vp_page_run *run,
                         int most)
{
    struct vp_trace *trace = &run->data.trace;
    struct vp_trace_range range;
    double window;
    int height;

    if (!run->data.has_trace) {
        vp_strbuf_adds(out,
                       "<p class=\"hint\">The folder has no trace.json: it "
                       "is written at the end of a run.</p>\n");
        return;
    }
    choose_window(trace, most);
    range = vp_trace_minibatches(trace);
    window = fmax(1.0, microseconds(trace->end_ns - trace->begin_ns));
    height = trace->n_ranks * (LANE + GAP) + AXIS;
    if (range.first <= range.last)
        vp_strbuf_addf(out,
                       "<p class=\"hint\">Minibatches %d to %d; numbers in "
                       "boxes are minibatches.</p>\n",
                       range.first, range.last);
    put_legend(out, trace);
    vp_strbuf_adds(out, "<div class=\"timeline\">");
    put_controls(out);
    vp_strbuf_addf(
        out,
        "<div class=\"scroll\"><svg class=\"lanes\" viewBox=\"0 0 %d "
        "%d\" role=\"img\" aria-label=\"What every rank did and "
        "when\" data-window=\"%.1f\">\n",
        LEFT + WIDTH + RIGHT, height, window);
    put_names(out, trace);
    put_lanes(out, trace, trace->begin_ns, window);
    put_numbers(out, trace, trace->begin_ns, window);
    put_axis(out, height - AXIS, window);
    vp_strbuf_adds(out, "</svg></div></div>\n");
}
