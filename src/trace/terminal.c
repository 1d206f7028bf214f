/* The timeline as rows of characters:
 *
 *   rank 0   F4 B2  F5 B3  ......B4  .....   21.7 %
 *
 * A box begins with its letter and, where there is room, its minibatch; dots
 * are time without work. Same look as the chart of a schedule. */
#include "trace/internal.h"

#include <stdlib.h>

enum {
    LEAST_WIDTH = 40,
    LEFT = 9,   /* "rank 12  " */
    RIGHT = 10, /* "   12.3 %" */
    IDLE = -1,
};

/* One column of a rank. */
struct cell {
    int event;      /* that fills most of it, or IDLE */
    double most_ns; /* of that event */
    double busy_ns;
};

struct chart {
    FILE *f;
    const struct vp_trace *trace;
    struct cell *cells;
    int n_cells;
    double cell_ns;
    bool colour;
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

/* A cell that is idle for more than half of its time shows that. */
static void fill_cells(struct chart *chart, const struct vp_trace_rank *rank)
{
    for (int c = 0; c < chart->n_cells; c++)
        chart->cells[c] = (struct cell){ .event = IDLE };
    for (int i = 0; i < rank->n_events; i++) {
        const struct vp_trace_event *e = &rank->events[i];

        if (vp_looks[vp_look_of(e)].meaning)
            add_work(
                chart, i,
                (double)(e->start_ns + e->wait_ns - chart->trace->begin_ns),
                (double)(e->end_ns - chart->trace->begin_ns));
    }
    for (int c = 0; c < chart->n_cells; c++)
        if (chart->cells[c].busy_ns < 0.5 * chart->cell_ns)
            chart->cells[c].event = IDLE;
}

static void draw_box(struct chart *chart, const struct vp_trace_event *e, int n)
{
    const struct vp_look *look = &vp_looks[vp_look_of(e)];
    char label[16];

    if (snprintf(label, sizeof(label), "%c%d", look->letter, e->mb) > n)
        label[1] = '\0';
    if (chart->colour)
        fprintf(chart->f, "\x1b[0;38;5;16;48;5;%dm", look->shade[e->mb & 1]);
    fprintf(chart->f, "%-*s", n, label);
}

static void draw_idle(struct chart *chart, int n)
{
    if (chart->colour)
        fputs("\x1b[0;38;5;244m", chart->f);
    for (int i = 0; i < n; i++)
        fputc('.', chart->f);
}

static void draw_rank(struct chart *chart, int rank)
{
    const struct vp_trace_rank *events = &chart->trace->ranks[rank];
    int n;

    fill_cells(chart, events);
    fprintf(chart->f, "rank %-3d ", events->number);
    for (int c = 0; c < chart->n_cells; c += n) {
        int event = chart->cells[c].event;

        for (n = 1; c + n < chart->n_cells; n++)
            if (chart->cells[c + n].event != event)
                break;
        if (event == IDLE)
            draw_idle(chart, n);
        else
            draw_box(chart, &events->events[event], n);
    }
    fputs(chart->colour ? "\x1b[0m" : "", chart->f);
}

/* Only what is in the picture. */
static void draw_legend(struct chart *chart)
{
    bool used[VP_LOOK_COUNT] = { false };

    for (int r = 0; r < chart->trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &chart->trace->ranks[r];

        for (int i = 0; i < rank->n_events; i++)
            used[vp_look_of(&rank->events[i])] = true;
    }
    fprintf(chart->f, "%*s", LEFT, "");
    for (int k = 0; k < VP_LOOK_COUNT; k++) {
        const struct vp_look *look = &vp_looks[k];

        if (!used[k] || !look->meaning)
            continue;
        if (chart->colour)
            fprintf(chart->f, "\x1b[38;5;16;48;5;%dm%c\x1b[0m %s  ",
                    look->shade[0], look->letter, look->meaning);
        else
            fprintf(chart->f, "%c %s  ", look->letter, look->meaning);
    }
    fputs(". idle\n", chart->f);
}

static void draw(struct chart *chart, const struct vp_trace_times *times)
{
    double ms = (double)(chart->trace->end_ns - chart->trace->begin_ns) * 1e-6;
    char until[32];

    for (int r = 0; r < chart->trace->n_ranks; r++) {
        draw_rank(chart, r);
        fprintf(chart->f, " %6.1f %%\n", 100.0 * times[r].bubble);
    }
    snprintf(until, sizeof(until), "%.4g ms", ms);
    fprintf(chart->f, "%*s0%*s    bubble\n", LEFT, "", chart->n_cells - 1,
            until);
    draw_legend(chart);
}

enum vp_status vp_trace_terminal(const struct vp_trace *trace, int width,
                                 bool colour, char **text_out)
{
    int n_cells = (width > LEAST_WIDTH ? width : LEAST_WIDTH) - LEFT - RIGHT;
    double window = (double)(trace->end_ns - trace->begin_ns);
    struct chart chart = { .trace = trace,
                           .n_cells = n_cells,
                           .cell_ns = window > 0.0 ? window / n_cells : 1.0,
                           .colour = colour };
    struct vp_trace_times *times = calloc((size_t)trace->n_ranks,
                                          sizeof(*times));
    enum vp_status st = VP_ERR_NOMEM;
    char *text = NULL;
    size_t n_bytes;

    chart.cells = calloc((size_t)n_cells, sizeof(*chart.cells));
    if (times && chart.cells)
        chart.f = open_memstream(&text, &n_bytes);
    if (chart.f) {
        vp_trace_sum(trace, times);
        draw(&chart, times);
        st = vp_trace_close_text(chart.f, &text, text_out);
    }
    free(times);
    free(chart.cells);
    return st;
}
