/* Prints a comparison as a table of text. */
#include "run/compare.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Arithmetic --------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the median of the field at `offset` over the rounds. `values`
 * receives the sorted values. */
static double median(const struct vp_compare_round *rounds, int n,
                     size_t offset, double *values)
{
    for (int i = 0; i < n; i++)
        values[i] = *(const double *)(const void *)((const char *)&rounds[i] +
                                                    offset);
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

void vp_compare_sum_up(const struct vp_compare_round *rounds, int n,
                       struct vp_contestant *out)
{
    double values[VP_COMPARE_MAX_ROUNDS];
    struct vp_compare_round *sum = &out->median;

#define MEDIAN(field) \
    median(rounds, n, offsetof(struct vp_compare_round, field), values)
    VP_BUG_ON(n < 1 || n > VP_COMPARE_MAX_ROUNDS);
    sum->tokens_per_second = MEDIAN(tokens_per_second);
    sum->step_seconds = MEDIAN(step_seconds);
    sum->waiting = MEDIAN(waiting);
    sum->bubble = MEDIAN(bubble);
    sum->loss = MEDIAN(loss);
    sum->samples_per_second = MEDIAN(samples_per_second);
#undef MEDIAN
    out->least = values[0];
    out->most = values[n - 1];
}

void vp_compare_order(const double *values, int n, int *order_out)
{
    for (int i = 0; i < n; i++) {
        int at = i;

        for (; at > 0 && values[order_out[at - 1]] < values[i]; at--)
            order_out[at] = order_out[at - 1];
        order_out[at] = i;
    }
}

/* ---- Rows --------------------------------------------------------------- */

static int name_width(const struct vp_contestant *contestants, int n)
{
    size_t width = 4;

    for (int i = 0; i < n; i++)
        if (strlen(contestants[i].name) > width)
            width = strlen(contestants[i].name);
    return (int)width;
}

/* Prints "-" for NAN. */
static void print_known(char out[32], const char *fmt, double value)
{
    snprintf(out, 32, isfinite(value) ? fmt : "-", value);
}

static void put_row(FILE *f, const struct vp_contestant *c, int width)
{
    const struct vp_compare_round *m = &c->median;
    char bytes[VP_BYTES_TEXT], spread[48], loss[32], waiting[32];
    char simulated[32], bubble[32];

    vp_bytes_text(vp_compare_peak(c), bytes, sizeof(bytes));
    snprintf(spread, sizeof(spread), "%.1f (%.1f..%.1f)", m->samples_per_second,
             c->least, c->most);
    print_known(loss, "%.4f", m->loss); /* "-": no step had labels */
    print_known(waiting, "%.1f", 100.0 * m->waiting);
    print_known(simulated, "%.1f", c->simulated);
    print_known(bubble, "%.1f", 100.0 * c->bubble_simulated);
    fprintf(f,
            "%-*s  %6d %5d %5lld %6d  %22s %9.0f %9.2f  %7s %7.1f  %9s "
            "%7s  %9s %8s\n",
            width, c->name, c->n_stages, c->n_ranks, (long long)c->batch,
            c->group, spread, m->tokens_per_second, 1e3 * m->step_seconds,
            waiting, 100.0 * m->bubble, simulated, bubble, bytes, loss);
}

static void put_rows(FILE *f, const struct vp_contestant *contestants, int n,
                     int width)
{
    fprintf(f,
            "%-*s  %6s %5s %5s %6s  %22s %9s %9s  %7s %7s  %9s %7s  %9s %8s\n",
            width, "", "", "", "", "mb per", "samples/s", "", "ms per", "comm.",
            "bubble", "simulated", "bubble", "largest", "last");
    fprintf(f,
            "%-*s  %6s %5s %5s %6s  %22s %9s %9s  %7s %7s  %9s %7s  %9s %8s\n",
            width, "name", "stages", "ranks", "batch", "step",
            "median (least..most)", "tokens/s", "step", "%", "%", "samples/s",
            "%", "stage", "loss");
    for (int i = 0; i < n; i++)
        put_row(f, &contestants[i], width);
}

static void put_memory(FILE *f, const struct vp_contestant *contestants, int n,
                       int width)
{
    char bytes[VP_BYTES_TEXT];

    fputs("\nmemory of a rank, stage by stage\n", f);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%-*s  ", width, contestants[i].name);
        for (int s = 0; s < contestants[i].n_stages; s++) {
            vp_bytes_text(contestants[i].stage_bytes[s], bytes, sizeof(bytes));
            fprintf(f, "%s%s", s > 0 ? ", " : "", bytes);
        }
        fputc('\n', f);
    }
}

/* ---- Orders ------------------------------------------------------------- */

static void put_order(FILE *f, const char *what,
                      const struct vp_contestant *contestants,
                      const double *values, int n, int *order)
{
    vp_compare_order(values, n, order);
    fprintf(f, "%-10s", what);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%s", i > 0 ? " > " : "", contestants[order[i]].name);
    fputc('\n', f);
}

/* Lists pairs of configurations whose simulated order is the opposite of the
 * measured one. Where their measured ranges overlap, the measurement does not
 * decide. */
static void put_diagnosis(FILE *f, const struct vp_contestant *contestants,
                          int n, const int *order)
{
    int n_wrong = 0, n_open = 0;

    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            const struct vp_contestant *a = &contestants[order[i]];
            const struct vp_contestant *b = &contestants[order[j]];
            bool open = a->least <= b->most;

            if (a->simulated >= b->simulated)
                continue;
            fprintf(f, "  %s and %s: simulated the other way round%s\n",
                    a->name, b->name, open ? ", but their rounds overlap" : "");
            n_open += open;
            n_wrong += !open;
        }
    fprintf(f, "%s\n",
            n_wrong > 0  ? "the orders do not agree"
            : n_open > 0 ? "the orders agree wherever the measurement decides"
                         : "the orders agree");
}

static void put_orders(FILE *f, const struct vp_contestant *contestants, int n,
                       double *values, int *order)
{
    bool simulated = isfinite(contestants[0].simulated);

    fputs("\nthroughput in order\n", f);
    for (int i = 0; i < n; i++)
        values[i] = contestants[i].simulated;
    if (simulated)
        put_order(f, "simulated", contestants, values, n, order);
    for (int i = 0; i < n; i++)
        values[i] = contestants[i].median.samples_per_second;
    put_order(f, "measured", contestants, values, n, order);
    if (simulated)
        put_diagnosis(f, contestants, n, order);
}

enum vp_status vp_compare_table(const struct vp_contestant *contestants, int n,
                                char **text_out)
{
    double *values = calloc((size_t)n, sizeof(*values));
    int *order = calloc((size_t)n, sizeof(*order));
    int width = name_width(contestants, n);
    enum vp_status st = VP_ERR_NOMEM;
    char *text = NULL;
    size_t n_bytes;
    FILE *f = values && order ? open_memstream(&text, &n_bytes) : NULL;

    if (f) {
        bool failed;

        put_rows(f, contestants, n, width);
        put_memory(f, contestants, n, width);
        if (n > 1)
            put_orders(f, contestants, n, values, order);
        failed = ferror(f);
        failed |= fclose(f) != 0;
        st = failed ? VP_ERR_NOMEM : VP_OK;
    }
    if (st == VP_OK)
        *text_out = text;
    else
        free(text);
    free(order);
    free(values);
    return st;
}
