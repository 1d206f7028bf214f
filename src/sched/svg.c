/* A Gantt drawing: one row per rank, boxes for F, R, B and W, hatching where a
 * rank is idle, and below it the minibatches that each rank keeps. */
#include "sched/draw.h"

#include <stdio.h>
#include <string.h>

enum {
    LEFT = 78,  /* row names */
    RIGHT = 64, /* peaks */
    TOP = 74,   /* title, legend */
    ROW = 34,   /* one rank */
    GAP = 6,
    AXIS = 44,     /* time */
    KEPT_ROW = 24, /* slots of one rank */
    BOTTOM = 18,
    LEAST_WIDTH = 560,
};

struct drawing {
    const struct vp_schedule *schedule;
    const struct vp_timing *timing;
    struct vp_strbuf *text;
    double unit, scale; /* pixels per unit of time */
    double width;       /* of the rows */
    int most_kept;
};

/* One colour per kind, lighter for each further stage of the same rank. */
static const char *const shades[VP_ACTION_KIND_COUNT][4] = {
    [VP_ACTION_F] = { "#3b82f6", "#7fb0fb", "#a9c9fd", "#cbdffe" },
    [VP_ACTION_R] = { "#8b5cf6", "#b196fa", "#cbb9fc", "#dfd5fd" },
    [VP_ACTION_B] = { "#10a37f", "#5cc3a9", "#8fd6c4", "#bce7dc" },
    [VP_ACTION_W] = { "#f2a33a", "#f7c27c", "#fad5a5", "#fce6c9" },
};

static double x_at(const struct drawing *d, double time)
{
    return LEFT + time * d->scale;
}

static double row_y(int rank)
{
    return TOP + (double)rank * (ROW + GAP);
}

/* ---- Text --------------------------------------------------------------- */

static void add_escaped(struct vp_strbuf *text, const char *word)
{
    for (; *word; word++) {
        if (*word == '&')
            vp_strbuf_addf(text, "&amp;");
        else if (*word == '<')
            vp_strbuf_addf(text, "&lt;");
        else if (*word == '>')
            vp_strbuf_addf(text, "&gt;");
        else
            vp_strbuf_add(text, word, 1);
    }
}

static void add_style(struct vp_strbuf *text)
{
    vp_strbuf_addf(
        text, "<style>\n"
              "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;"
              "fill:#334155}\n"
              ".title{font-size:17px;font-weight:600;fill:#0f172a}\n"
              ".small{font-size:11px;fill:#64748b}\n"
              ".n{font-size:11px;fill:#fff;text-anchor:middle}\n"
              ".d{font-size:11px;fill:#1e293b;text-anchor:middle}\n"
              ".end{text-anchor:end}.mid{text-anchor:middle}\n"
              "</style>\n");
    vp_strbuf_addf(
        text, "<defs><pattern id=\"idle\" width=\"7\" height=\"7\" "
              "patternTransform=\"rotate(45)\" "
              "patternUnits=\"userSpaceOnUse\">"
              "<rect width=\"7\" height=\"7\" fill=\"#f8fafc\"/>"
              "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#d3dbe5\" "
              "stroke-width=\"2\"/></pattern></defs>\n");
}

/* ---- Title and legend --------------------------------------------------- */

static bool has_kind(const struct vp_schedule *schedule,
                     enum vp_action_kind kind)
{
    for (int i = 0; i < schedule->n_actions; i++)
        if (schedule->actions[i].kind == kind)
            return true;
    return false;
}

static double add_key(struct drawing *d, double x, const char *fill,
                      const char *name)
{
    vp_strbuf_addf(
        d->text,
        "<rect x=\"%.1f\" y=\"47\" width=\"14\" height=\"14\" rx=\"3\" "
        "fill=\"%s\"/><text x=\"%.1f\" y=\"58\">%s</text>\n",
        x, fill, x + 19, name);
    return x + 34 + 6.6 * (double)strlen(name);
}

static void add_title(struct drawing *d, const char *title)
{
    static const struct {
        enum vp_action_kind kind;
        const char *name;
    } keys[] = {
        { VP_ACTION_F, "forward" },
        { VP_ACTION_R, "recompute" },
        { VP_ACTION_B, "backward" },
        { VP_ACTION_W, "weight gradient" },
    };
    double x = LEFT;

    vp_strbuf_addf(d->text, "<text class=\"title\" x=\"%d\" y=\"30\">", LEFT);
    add_escaped(d->text, title);
    vp_strbuf_addf(d->text, "</text>\n");
    for (size_t i = 0; i < VP_COUNT_OF(keys); i++)
        if (has_kind(d->schedule, keys[i].kind))
            x = add_key(d, x, shades[keys[i].kind][0], keys[i].name);
    x = add_key(d, x, "url(#idle)", "idle");
    if (has_kind(d->schedule, VP_ACTION_UPDATE))
        vp_strbuf_addf(d->text,
                       "<rect x=\"%.1f\" y=\"46\" width=\"2\" height=\"16\" "
                       "fill=\"#0f172a\"/><text x=\"%.1f\" y=\"58\">update"
                       "</text>\n",
                       x + 6, x + 14);
    vp_strbuf_addf(d->text,
                   "<text class=\"end\" x=\"%.1f\" y=\"30\">bubble %.1f "
                   "%%</text><text class=\"small\" x=\"%.1f\" y=\"%d\">idle"
                   "</text>\n",
                   LEFT + d->width, 100.0 * d->timing->bubble,
                   LEFT + d->width + 8, TOP - 6);
}

/* ---- Rows --------------------------------------------------------------- */

static void add_box(struct drawing *d, int rank, const struct vp_action *a,
                    const struct vp_span *span)
{
    int chunk = vp_draw_chunk(d->schedule, rank, a->stage);
    double x = x_at(d, span->start), w = (span->end - span->start) * d->scale;
    double gap = w > 6.0 ? 1.0 : 0.0;
    char label[16], name[48];
    int n = snprintf(label, sizeof(label), "%d", a->mb);

    vp_action_print(a, name, sizeof(name));
    vp_strbuf_addf(d->text,
                   "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
                   "rx=\"%d\" fill=\"%s\"><title>%s: %g - %g, slot %d, weights "
                   "%d</title></rect>\n",
                   x, row_y(rank), w - gap, ROW, w > 6.0 ? 3 : 0,
                   shades[a->kind][chunk < 3 ? chunk : 3], name, span->start,
                   span->end, a->slot, a->version);
    if (w >= 6.5 * n + 3)
        vp_strbuf_addf(d->text,
                       "<text class=\"%s\" x=\"%.2f\" y=\"%.0f\">%s</text>\n",
                       chunk == 0 ? "n" : "d", x + (w - gap) / 2,
                       row_y(rank) + ROW * 0.62, label);
}

/* An update takes little or no time: a dark bar at its end. */
static void add_mark(struct drawing *d, int rank, const struct vp_span *span)
{
    vp_strbuf_addf(d->text,
                   "<rect x=\"%.2f\" y=\"%.0f\" width=\"2\" height=\"%d\" "
                   "fill=\"#0f172a\"><title>update</title></rect>\n",
                   x_at(d, span->end) - 1, row_y(rank) - 2, ROW + 4);
}

static void add_row(struct drawing *d, int rank)
{
    const struct vp_rank_list *list = &d->schedule->ranks[rank];

    vp_strbuf_addf(d->text,
                   "<text class=\"end\" x=\"%d\" y=\"%.0f\">rank %d</text>"
                   "<rect x=\"%d\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
                   "rx=\"3\" fill=\"url(#idle)\"/>\n",
                   LEFT - 10, row_y(rank) + ROW * 0.62, rank, LEFT, row_y(rank),
                   d->width, ROW);
    vp_strbuf_addf(
        d->text, "<text class=\"small\" x=\"%.1f\" y=\"%.0f\">%.1f %%</text>\n",
        LEFT + d->width + 8, row_y(rank) + ROW * 0.62,
        100.0 * d->timing->ranks[rank].bubble);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span =
            &d->timing->spans[a - d->schedule->actions];

        if (vp_draw_is_box(a->kind) && span->end > span->start)
            add_box(d, rank, a, span);
        else if (a->kind == VP_ACTION_UPDATE)
            add_mark(d, rank, span);
    }
}

/* ---- Time --------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, about 90 pixels apart. */
static double tick_step(const struct drawing *d)
{
    double least = 90.0 / d->scale, step = 1.0;

    while (step > least)
        step /= 10.0;
    while (step * 10.0 <= least)
        step *= 10.0;
    if (step < least)
        step *= step * 2.0 >= least ? 2.0 : step * 5.0 >= least ? 5.0 : 10.0;
    return step;
}

static void add_axis(struct drawing *d, double y)
{
    double step = tick_step(d);
    int n = (int)(d->timing->makespan / step + 1e-9);

    vp_strbuf_addf(d->text,
                   "<line x1=\"%d\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" "
                   "stroke=\"#94a3b8\"/>\n",
                   LEFT, y, LEFT + d->width, y);
    for (int i = 0; i <= n; i++)
        vp_strbuf_addf(
            d->text,
            "<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" "
            "stroke=\"#94a3b8\"/><text class=\"small mid\" x=\"%.2f\" "
            "y=\"%.0f\">%g</text>\n",
            x_at(d, i * step), y, x_at(d, i * step), y + 5, x_at(d, i * step),
            y + 17, i * step);
}

/* ---- Slots -------------------------------------------------------------- */

/* A step curve; what a rank keeps changes at the start of F and the end of the
 * minibatch's last action. */
static void add_curve(struct drawing *d, int rank, double y)
{
    const struct vp_rank_list *list = &d->schedule->ranks[rank];
    enum vp_action_kind last = vp_schedule_last_kind(d->schedule);
    double high = (KEPT_ROW - 5.0) / (d->most_kept > 0 ? d->most_kept : 1);
    int kept = d->timing->ranks[rank].first_slots;

    vp_strbuf_addf(d->text, "<path fill=\"#cbd5e1\" d=\"M%d %.1fV%.2f", LEFT, y,
                   y - kept * high);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span =
            &d->timing->spans[a - d->schedule->actions];

        if (a->kind == VP_ACTION_F)
            vp_strbuf_addf(d->text, "H%.2fV%.2f", x_at(d, span->start),
                           y - ++kept * high);
        if (a->kind == last)
            vp_strbuf_addf(d->text, "H%.2fV%.2f", x_at(d, span->end),
                           y - --kept * high);
    }
    vp_strbuf_addf(d->text, "H%.2fV%.1fZ\"/>\n", LEFT + d->width, y);
    vp_strbuf_addf(
        d->text,
        "<text class=\"small end\" x=\"%d\" y=\"%.0f\">rank %d</text>"
        "<text class=\"small\" x=\"%.1f\" y=\"%.0f\">%d</text>\n",
        LEFT - 10, y - 4, rank, LEFT + d->width + 8, y - 4,
        d->timing->ranks[rank].peak_slots);
}

static void add_slots(struct drawing *d, double y)
{
    vp_strbuf_addf(
        d->text,
        "<text class=\"small\" x=\"%d\" y=\"%.0f\">minibatches kept, "
        "and the peak</text>\n",
        LEFT, y);
    for (int rank = 0; rank < d->schedule->n_ranks; rank++)
        if (d->timing->ranks[rank].peak_slots > d->most_kept)
            d->most_kept = d->timing->ranks[rank].peak_slots;
    for (int rank = 0; rank < d->schedule->n_ranks; rank++)
        add_curve(d, rank, y + 6 + (double)(rank + 1) * KEPT_ROW);
}

/* ---- The drawing -------------------------------------------------------- */

/* Boxes wide enough for a number, within the width of a screen if possible. */
static void choose_scale(struct drawing *d)
{
    double makespan = d->timing->makespan > 0.0 ? d->timing->makespan : 1.0;
    double n_units, box;

    d->unit = vp_draw_unit(d->schedule, d->timing);
    n_units = d->unit > 0.0 ? makespan / d->unit : 1.0;
    box = 1500.0 / n_units;
    box = box > 26.0 ? 26.0 : box < 4.0 ? 4.0 : box;
    d->width = n_units * box > LEAST_WIDTH ? n_units * box : LEAST_WIDTH;
    d->width = d->width < 12000.0 ? d->width : 12000.0;
    d->scale = d->width / makespan;
}

enum vp_status vp_schedule_svg(const struct vp_schedule *schedule,
                               const struct vp_timing *timing,
                               const char *title, char **text_out)
{
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct drawing d = { .schedule = schedule,
                         .timing = timing,
                         .text = &text };
    double axis_y = row_y(schedule->n_ranks) + 2;
    double height = axis_y + AXIS + (double)schedule->n_ranks * KEPT_ROW +
                    BOTTOM;

    choose_scale(&d);
    vp_strbuf_addf(&text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                   "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
                   LEFT + d.width + RIGHT, height, LEFT + d.width + RIGHT,
                   height);
    add_style(&text);
    vp_strbuf_addf(&text, "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" "
                          "fill=\"#ffffff\"/>\n");
    add_title(&d, title);
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        add_row(&d, rank);
    add_axis(&d, axis_y);
    add_slots(&d, axis_y + 36);
    vp_strbuf_addf(&text, "</svg>\n");
    return vp_strbuf_detach(&text, text_out);
}
