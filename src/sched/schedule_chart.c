/* Draws a schedule for the terminal:
 *
 *   rank 0  F0F1F2..B0  F3B1  B2  B3
 *   rank 1  ..F0B0  F1B1  F2B2  F3B3  ...
 *
 * A box begins with its letter and, where there is room, its minibatch; dots
 * are idle time. Boxes of a rank's second (fourth, ...) stage have small
 * letters. */
#include "draw/lane.h"
#include "sched/draw.h"
#include "sched/look.h"

#include <stdio.h>

struct chart {
    const struct vp_schedule *schedule;
    const struct vp_timing *timing;
    double scale; /* columns per unit of time */
    struct vp_lane lane;
};

static int column(const struct chart *chart, double time)
{
    return (int)(time * chart->scale + 0.5);
}

/* Even and odd minibatches have two shades, so that neighbouring boxes
 * differ. */
static void draw_box(struct chart *chart, const struct vp_action *a,
                     const struct vp_span *span, int chunk)
{
    const struct vp_look *look = vp_action_look(a->kind);
    char letter = look->letter;

    if (chunk % 2 == 1)
        letter = (char)(letter - 'A' + 'a');
    vp_lane_box(&chart->lane, column(chart, span->start),
                column(chart, span->end), vp_palette[look->hue].ansi[a->mb & 1],
                letter, a->mb);
}

static void draw_rank(struct chart *chart, int rank)
{
    const struct vp_rank_list *list = &chart->schedule->ranks[rank];

    vp_lane_clear(&chart->lane);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];

        if (vp_action_computes(a->kind))
            draw_box(chart, a,
                     &chart->timing->spans[a - chart->schedule->actions],
                     vp_draw_chunk(chart->schedule, rank, a->stage));
    }
}

/* Chooses the columns per unit of time: enough for labels if they fit,
 * otherwise fewer. Returns the number of columns. */
static int choose_scale(struct chart *chart, int width)
{
    const struct vp_schedule *schedule = chart->schedule;
    double makespan = chart->timing->makespan;
    double unit = vp_draw_unit(schedule, chart->timing);
    int last = schedule->first_mb + schedule->n_mb - 1;
    int columns = width > 30 ? width - 9 : 21;
    int box = snprintf(NULL, 0, "F%d", last);

    chart->scale = 1.0;
    if (makespan > 0.0) {
        while (box > 1 && makespan / unit * box > columns)
            box--;
        chart->scale = makespan / unit * box > columns ? columns / makespan
                                                       : box / unit;
    }
    return column(chart, makespan) > 1 ? column(chart, makespan) : 1;
}

enum vp_status vp_schedule_chart(const struct vp_schedule *schedule,
                                 const struct vp_timing *timing, int width,
                                 bool colour, char **text_out)
{
    struct chart chart = { .schedule = schedule, .timing = timing };
    struct vp_strbuf text = VP_STRBUF_INIT;

    VP_TRY(vp_lane_init(&chart.lane, choose_scale(&chart, width)));
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        draw_rank(&chart, rank);
        vp_strbuf_addf(&text, "rank %-3d ", rank);
        vp_lane_print(&chart.lane, colour, &text);
        vp_strbuf_adds(&text, "\n");
    }
    vp_lane_release(&chart.lane);
    return vp_strbuf_detach(&text, text_out);
}
