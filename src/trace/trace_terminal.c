/* Draws the timeline as rows of characters:
 *
 *   rank 0   F4 B2  F5 B3  ......B4  .....   21.7 %
 *
 * A box begins with its letter and, if it fits, its minibatch; dots are idle
 * time. The chart of a schedule looks the same. */
#include "trace/trace.h"

#include "draw/lane.h"
#include "trace/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_WIDTH = 40,
    LEFT = 9,   /* "rank 12  " */
    RIGHT = 10, /* "   12.3 %" */
    IDLE = -1,
};

/* One column of a rank. */
struct cell {
    int event;      /* the event with the most time in it, or IDLE */
    double most_ns; /* time of that event in it */
    double busy_ns; /* time of all events in it */
};

struct chart {
    const struct vp_trace *trace;
    struct cell *cells;
    int n_cells;
    double cell_ns;
    struct vp_lane lane;
};

static void add_work(struct chart *chart, int event, double from_ns,
                     double to_ns)
{
    int first = (int)(from_ns / chart->cell_ns);

    for (int c = first; c < chart->n_cells; c++) {
        double begin = c * chart->cell_ns, end = begin + chart->cell_ns;
        double a = from_ns > begin ? from_ns : begin;
        double b = to_ns < end ? to_ns : end;
        struct cell *cell = &chart->cells[c];

        if (b <= a)
            break;
        cell->busy_ns += b - a;
        if (b - a > cell->most_ns) {
            cell->most_ns = b - a;
            cell->event = event;
        }
    }
}

/* A cell that is idle for more than half of its time is IDLE. */
static void fill_cells(struct chart *chart, const struct vp_trace_rank *rank)
{
    for (int c = 0; c < chart->n_cells; c++)
        chart->cells[c] = (struct cell){ .event = IDLE };
    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];

        if (vp_event_look(e)->meaning)
            add_work(
                chart, i,
                (double)(e->start_ns + e->wait_ns - chart->trace->begin_ns),
                (double)(e->end_ns - chart->trace->begin_ns));
    }
    for (int c = 0; c < chart->n_cells; c++)
        if (chart->cells[c].busy_ns < 0.5 * chart->cell_ns)
            chart->cells[c].event = IDLE;
}

static void draw_rank(struct chart *chart, int rank)
{
    const struct vp_trace_rank *events = &chart->trace->ranks[rank];
    int n;

    fill_cells(chart, events);
    vp_lane_clear(&chart->lane);
    for (int c = 0; c < chart->n_cells; c += n) {
        int event = chart->cells[c].event;

        for (n = 1; c + n < chart->n_cells; n++)
            if (chart->cells[c + n].event != event)
                break;
        if (event != IDLE) {
            const struct vp_trace_event *e = &events->events[event];
            const struct vp_look *look = vp_event_look(e);

            vp_lane_box(&chart->lane, c, c + n,
                        vp_palette[look->hue].ansi[e->mb & 1], look->letter,
                        e->mb);
        }
    }
}

/* Appends "F forward" to the legend: after two spaces, or on a new line if it
 * does not fit. */
static void add_meaning(const struct chart *chart, int *column, char letter,
                        const char *meaning, short ansi, bool colour,
                        struct vp_strbuf *text)
{
    int n = 2 + (int)strlen(meaning);
    int width = LEFT + chart->n_cells + RIGHT - 1;

    if (*column > 0 && *column + 2 + n <= width) {
        *column += 2 + n;
        vp_strbuf_adds(text, "  ");
    } else {
        vp_strbuf_addf(text, "%s%*s", *column > 0 ? "\n" : "", LEFT, "");
        *column = LEFT + n;
    }
    vp_lane_key(ansi, letter, meaning, colour, text);
}

/* Appends a legend of the kinds of events in the picture. */
static void add_legend(const struct chart *chart, bool colour,
                       struct vp_strbuf *text)
{
    const struct vp_look *looks[VP_MAX_LOOKS];
    int n = vp_trace_looks(chart->trace, looks), column = 0;

    for (int i = 0; i < n; i++)
        add_meaning(chart, &column, looks[i]->letter, looks[i]->meaning,
                    vp_palette[looks[i]->hue].ansi[0], colour, text);
    add_meaning(chart, &column, '.', "idle", 0, false, text);
    vp_strbuf_adds(text, "\n");
}

static void draw(struct chart *chart, const struct vp_trace_times *times,
                 bool colour, struct vp_strbuf *text)
{
    double ms = (double)(chart->trace->end_ns - chart->trace->begin_ns) * 1e-6;
    char until[32];

    for (int r = 0; r < chart->trace->n_ranks; r++) {
        draw_rank(chart, r);
        vp_strbuf_addf(text, "rank %-3d ", chart->trace->ranks[r].number);
        vp_lane_print(&chart->lane, colour, text);
        vp_strbuf_addf(text, " %6.1f %%\n", 100.0 * times[r].bubble);
    }
    snprintf(until, sizeof(until), "%.4g ms", ms);
    vp_strbuf_addf(text, "%*s0%*s    bubble\n", LEFT, "", chart->n_cells - 1,
                   until);
    add_legend(chart, colour, text);
}

enum vp_status vp_trace_terminal(const struct vp_trace *trace, int width,
                                 bool colour, char **text_out)
{
    int n_cells = (width > LEAST_WIDTH ? width : LEAST_WIDTH) - LEFT - RIGHT;
    double window = (double)(trace->end_ns - trace->begin_ns);
    struct chart chart = { .trace = trace,
                           .n_cells = n_cells,
                           .cell_ns = window > 0.0 ? window / n_cells : 1.0 };
    struct vp_trace_times *times = calloc((size_t)trace->n_ranks,
                                          sizeof(*times));
    struct vp_strbuf text = VP_STRBUF_INIT;
    enum vp_status st = vp_lane_init(&chart.lane, n_cells);

    chart.cells = calloc((size_t)n_cells, sizeof(*chart.cells));
    if (!times || !chart.cells)
        st = VP_ERR_NOMEM;
    if (st == VP_OK) {
        vp_trace_sum(trace, times);
        draw(&chart, times, colour, &text);
        st = vp_strbuf_detach(&text, text_out);
    }
    vp_lane_release(&chart.lane);
    free(times);
    free(chart.cells);
    return st;
}
