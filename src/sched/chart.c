/* A staircase for the terminal:
 *
 *   rank 0  F0F1F2..B0  F3B1  B2  B3
 *   rank 1  ..F0B0  F1B1  F2B2  F3B3  ...
 *
 * A box begins with its letter and, where there is room, its minibatch; dots
 * are idle time. Boxes of a rank's second (fourth, ...) stage have small
 * letters. */
#include "sched/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNSET = -1, IDLE = 0 };

struct chart {
    const struct vp_schedule *schedule;
    const struct vp_timing *timing;
    int n_columns;
    double scale; /* columns per unit of time */
    bool colour;
    char *cells;   /* of one rank */
    short *styles; /* IDLE, or a background colour */
};

static int column(const struct chart *chart, double time)
{
    return (int)(time * chart->scale + 0.5);
}

/* Neighbouring boxes differ: even and odd minibatches have two shades. */
static short background(const struct vp_action *a)
{
    static const short shades[VP_ACTION_KIND_COUNT][2] = {
        [VP_ACTION_F] = { 75, 111 },
        [VP_ACTION_R] = { 140, 183 },
        [VP_ACTION_B] = { 78, 115 },
        [VP_ACTION_W] = { 179, 222 },
    };

    return shades[a->kind][a->mb & 1];
}

static void draw_box(struct chart *chart, const struct vp_action *a,
                     const struct vp_span *span, int chunk)
{
    int begin = column(chart, span->start), end = column(chart, span->end);
    char letter = vp_action_kind_name(a->kind)[0], label[16];
    int n;

    if (chunk % 2 == 1)
        letter = (char)(letter - 'A' + 'a');
    if (end > chart->n_columns)
        end = chart->n_columns;
    n = snprintf(label, sizeof(label), "%c%d", letter, a->mb);
    if (n > end - begin)
        n = 1;
    for (int i = begin; i < end; i++) {
        chart->cells[i] = i - begin < n ? label[i - begin] : ' ';
        chart->styles[i] = background(a);
    }
}

static void add_row(struct vp_strbuf *text, const struct chart *chart, int rank)
{
    short style = UNSET;

    vp_strbuf_addf(text, "rank %-3d ", rank);
    for (int i = 0; i < chart->n_columns; i++) {
        if (chart->colour && chart->styles[i] != style) {
            style = chart->styles[i];
            if (style == IDLE)
                vp_strbuf_addf(text, "\x1b[0;38;5;244m");
            else
                vp_strbuf_addf(text, "\x1b[0;38;5;16;48;5;%dm", style);
        }
        vp_strbuf_add(text, &chart->cells[i], 1);
    }
    vp_strbuf_addf(text, "%s\n", chart->colour ? "\x1b[0m" : "");
}

static void draw_rank(struct chart *chart, int rank)
{
    const struct vp_rank_list *list = &chart->schedule->ranks[rank];

    for (int i = 0; i < chart->n_columns; i++) {
        chart->cells[i] = '.';
        chart->styles[i] = IDLE;
    }
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];

        if (vp_draw_is_box(a->kind))
            draw_box(chart, a,
                     &chart->timing->spans[a - chart->schedule->actions],
                     vp_draw_chunk(chart->schedule, rank, a->stage));
    }
}

/* As many columns per unit as labels need, if they fit; else fewer. */
static void choose_scale(struct chart *chart, int width)
{
    const struct vp_schedule *schedule = chart->schedule;
    double makespan = chart->timing->makespan;
    double unit = vp_draw_unit(schedule, chart->timing);
    int last = schedule->first_mb + schedule->n_mb - 1;
    int room = width > 30 ? width - 9 : 21;
    int box = snprintf(NULL, 0, "F%d", last);

    chart->scale = 1.0;
    if (makespan > 0.0) {
        while (box > 1 && makespan / unit * box > room)
            box--;
        chart->scale = makespan / unit * box > room ? room / makespan
                                                    : box / unit;
    }
    chart->n_columns = column(chart, makespan);
    if (chart->n_columns < 1)
        chart->n_columns = 1;
}

enum vp_status vp_schedule_chart(const struct vp_schedule *schedule,
                                 const struct vp_timing *timing, int width,
                                 bool colour, char **text_out)
{
    struct chart chart = { .schedule = schedule,
                           .timing = timing,
                           .colour = colour };
    struct vp_strbuf text = VP_STRBUF_INIT;

    choose_scale(&chart, width);
    chart.cells = calloc((size_t)chart.n_columns, sizeof(*chart.cells));
    chart.styles = calloc((size_t)chart.n_columns, sizeof(*chart.styles));
    if (!chart.cells || !chart.styles)
        text.failed = true;
    for (int rank = 0; !text.failed && rank < schedule->n_ranks; rank++) {
        draw_rank(&chart, rank);
        add_row(&text, &chart, rank);
    }
    free(chart.cells);
    free(chart.styles);
    return vp_strbuf_detach(&text, text_out);
}
