/* Draws a schedule as a Gantt chart in SVG: one row per rank, boxes for F, R, B
 * and W, hatching where a rank is idle, and below it the minibatches that each
 * rank keeps. */
#include "draw/svg.h"
#include "sched/draw.h"
#include "sched/look.h"

#include <stdio.h>

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
    struct vp_svg svg;
    double unit, scale; /* pixels per unit of time */
    double width;       /* width of the rows */
    int most_kept;
};

/* Colours are lighter for each further stage of the same rank. */
static const char *shade_of(enum vp_action_kind kind, int chunk)
{
    return vp_palette[vp_action_look(kind)->hue]
        .fill[chunk < VP_N_SHADES ? chunk : VP_N_SHADES - 1];
}

static double x_at(const struct drawing *d, double time)
{
    return LEFT + time * d->scale;
}

static double row_y(int rank)
{
    return TOP + (double)rank * (ROW + GAP);
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

static void add_title(struct drawing *d, const char *title)
{
    double x = LEFT;

    vp_svg_text(&d->svg, "title", LEFT, 30, "%s", title);
    for (int k = 0; k < VP_ACTION_KIND_COUNT; k++) {
        enum vp_action_kind kind = (enum vp_action_kind)k;

        if (vp_action_computes(kind) && has_kind(d->schedule, kind))
            x = vp_svg_key(&d->svg, x, 47, shade_of(kind, 0),
                           vp_action_look(kind)->meaning);
    }
    x = vp_svg_key(&d->svg, x, 47, VP_IDLE, "idle");
    if (has_kind(d->schedule, VP_ACTION_UPDATE)) {
        vp_svg_box(&d->svg, &(struct vp_svg_box){ .x = x + 6,
                                                  .y = 46,
                                                  .width = 2,
                                                  .height = 16,
                                                  .fill = VP_INK });
        vp_svg_text(&d->svg, "", x + 14, 58, "update");
    }
    vp_svg_text(&d->svg, "end", LEFT + d->width, 30, "bubble %.1f %%",
                100.0 * d->timing->bubble);
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, TOP - 6, "idle");
}

/* ---- Rows --------------------------------------------------------------- */

static void add_box(struct drawing *d, int rank, const struct vp_action *a,
                    const struct vp_span *span)
{
    int chunk = vp_draw_chunk(d->schedule, rank, a->stage);
    double w = (span->end - span->start) * d->scale;
    double gap = w > 6.0 ? 1.0 : 0.0;
    const struct vp_svg_box box = {
        .x = x_at(d, span->start),
        .y = row_y(rank),
        .width = w - gap,
        .height = ROW,
        .radius = w > 6.0 ? 3 : 0,
        .fill = shade_of(a->kind, chunk),
    };
    char label[16], name[48];
    int n = snprintf(label, sizeof(label), "%d", a->mb);

    vp_action_print(a, name, sizeof(name));
    vp_svg_box_about(&d->svg, &box, "%s: %g - %g, slot %d, weights %d", name,
                     span->start, span->end, a->slot, a->version);
    if (w >= 6.5 * n + 3)
        vp_svg_text(&d->svg, chunk == 0 ? "on_dark" : "on_light",
                    box.x + box.width / 2, box.y + ROW * 0.62, "%s", label);
}

/* Draws an update, which takes little or no time, as a dark bar at its end. */
static void add_mark(struct drawing *d, int rank, const struct vp_span *span)
{
    const struct vp_svg_box box = {
        .x = x_at(d, span->end) - 1,
        .y = row_y(rank) - 2,
        .width = 2,
        .height = ROW + 4,
        .fill = VP_INK,
    };

    vp_svg_box_about(&d->svg, &box, "update");
}

static void add_row(struct drawing *d, int rank)
{
    const struct vp_rank_list *list = &d->schedule->ranks[rank];
    const struct vp_svg_box idle = {
        .x = LEFT,
        .y = row_y(rank),
        .width = d->width,
        .height = ROW,
        .radius = 3,
        .fill = VP_IDLE,
    };
    double text_y = idle.y + ROW * 0.62;

    vp_svg_text(&d->svg, "end", LEFT - 10, text_y, "rank %d", rank);
    vp_svg_box(&d->svg, &idle);
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, text_y, "%.1f %%",
                100.0 * d->timing->ranks[rank].bubble);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span =
            &d->timing->spans[a - d->schedule->actions];

        if (vp_action_computes(a->kind) && span->end > span->start)
            add_box(d, rank, a, span);
        else if (a->kind == VP_ACTION_UPDATE)
            add_mark(d, rank, span);
    }
}

/* ---- Slots -------------------------------------------------------------- */

/* Draws the number of minibatches that a rank keeps as a step curve. It changes
 * at the start of F and at the end of the minibatch's last action. */
static void add_curve(struct drawing *d, int rank, double y)
{
    const struct vp_rank_list *list = &d->schedule->ranks[rank];
    enum vp_action_kind last = vp_schedule_last_kind(d->schedule);
    double high = (KEPT_ROW - 5.0) / (d->most_kept > 0 ? d->most_kept : 1);
    int kept = d->timing->ranks[rank].first_slots;

    vp_svg_steps_begin(&d->svg, VP_KEPT, LEFT, y, kept * high);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span =
            &d->timing->spans[a - d->schedule->actions];

        if (a->kind == VP_ACTION_F)
            vp_svg_step(&d->svg, x_at(d, span->start), y, ++kept * high);
        if (a->kind == last)
            vp_svg_step(&d->svg, x_at(d, span->end), y, --kept * high);
    }
    vp_svg_steps_end(&d->svg, LEFT + d->width, y);
    vp_svg_text(&d->svg, "small end", LEFT - 10, y - 4, "rank %d", rank);
    vp_svg_text(&d->svg, "small", LEFT + d->width + 8, y - 4, "%d",
                d->timing->ranks[rank].peak_slots);
}

static void add_slots(struct drawing *d, double y)
{
    vp_svg_text(&d->svg, "small", LEFT, y, "minibatches kept, and the peak");
    for (int rank = 0; rank < d->schedule->n_ranks; rank++)
        if (d->timing->ranks[rank].peak_slots > d->most_kept)
            d->most_kept = d->timing->ranks[rank].peak_slots;
    for (int rank = 0; rank < d->schedule->n_ranks; rank++)
        add_curve(d, rank, y + 6 + (double)(rank + 1) * KEPT_ROW);
}

/* ---- The drawing -------------------------------------------------------- */

/* Makes boxes wide enough for a number, within the width of a screen if
 * possible. */
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
    struct drawing d = { .schedule = schedule,
                         .timing = timing,
                         .svg = VP_SVG_INIT };
    double axis_y = row_y(schedule->n_ranks) + 2;
    double height = axis_y + AXIS + (double)schedule->n_ranks * KEPT_ROW +
                    BOTTOM;

    choose_scale(&d);
    vp_svg_begin(&d.svg, LEFT + d.width + RIGHT, height);
    add_title(&d, title);
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        add_row(&d, rank);
    vp_svg_axis(&d.svg, LEFT, axis_y, d.width, timing->makespan);
    add_slots(&d, axis_y + 36);
    return vp_svg_end(&d.svg, text_out);
}
