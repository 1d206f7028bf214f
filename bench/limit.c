#include "limit.h"

#include <stdio.h>
#include <stdlib.h>

static const double most_product = 1.08, most_memory = 1.3;

static const char *judge(bool *met, double value, double most)
{
    *met &= value <= most;
    return value <= most ? "met" : "MISSED";
}

/* Milliseconds of a step. */
static double per_step(const struct limit *limit, double seconds)
{
    return 1e3 * seconds / limit->n_steps;
}

/* What the row would take at its limit. */
static double least(const struct limit *limit, const struct vp_profile_row *row)
{
    return row->kind == VP_PROFILE_PRODUCT ? row->alone
                                           : row->bytes / limit->copy_rate;
}

static int longer_first(const void *a, const void *b)
{
    const struct vp_profile_row *x = a, *y = b;

    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Rows of a kind; a row for each, and their sum. */
static bool print_kind(const struct limit *limit, enum vp_profile_kind kind,
                       const char *title, double most, bool each)
{
    double in_step = 0.0, at_limit = 0.0;
    bool met = true;

    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];
        double ratio = row->seconds / least(limit, row);

        if (row->kind != kind || row->seconds <= 0.0)
            continue;
        in_step += row->seconds;
        at_limit += least(limit, row);
        printf("  %8.4f %8.4f  %6.3f %-6s %4d x %s\n",
               per_step(limit, row->seconds),
               per_step(limit, least(limit, row)), ratio,
               each ? judge(&met, ratio, most) : "",
               row->count / limit->n_steps, row->name);
    }
    printf("  %8.4f %8.4f  %6.3f %-6s %s (<= %.2f)\n", per_step(limit, in_step),
           per_step(limit, at_limit), in_step / at_limit,
           judge(&met, in_step / at_limit, most), title, most);
    return met;
}

/* What is judged by neither. */
static void print_rest(const struct limit *limit)
{
    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];

        if (row->kind == VP_PROFILE_ATTENTION)
            printf("  %8.4f  %.0f TFLOP/s %4d x %s\n",
                   per_step(limit, row->seconds),
                   row->flops / row->seconds / 1e12,
                   row->count / limit->n_steps, row->name);
        else if (row->kind == VP_PROFILE_OTHER)
            printf("  %8.4f  %s\n", per_step(limit, row->seconds), row->name);
    }
}

static bool print_idle(const struct limit *limit)
{
    const struct vp_profile *replays = &limit->replays;
    double busy = per_step(limit, replays->busy);
    double idle = 1.0 - busy / series_median(&limit->ms);
    bool met = true;

    printf("  idle %.2f %% of a step (<= %.0f %%) %s: %d kernels busy for "
           "%.3f ms\n",
           100.0 * idle, 100.0 * limit->most_idle,
           judge(&met, idle, limit->most_idle),
           replays->n_kernels / limit->n_steps, busy);
    printf("  while recorded: %.3f ms per step, longest gap %.1f us, %.1f "
           "gaps > 10 us per step\n",
           per_step(limit, replays->window), 1e6 * replays->longest_gap,
           (double)replays->n_gaps / limit->n_steps);
    return met;
}

static void print_json(const struct limit *limit)
{
    char text[64];

    printf("{\"case\": \"gpu-limit\", \"model\": \"%s\", \"ms\": %s, "
           "\"busy_ms\": %.4f, \"longest_gap_us\": %.2f, \"rows\": [",
           limit->name, series_json(&limit->ms, text),
           per_step(limit, limit->replays.busy),
           1e6 * limit->replays.longest_gap);
    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];

        printf("%s{\"name\": \"%s\", \"ms\": %.5f, \"least_ms\": %.5f}",
               i ? ", " : "", row->name, per_step(limit, row->seconds),
               per_step(limit, least(limit, row)));
    }
    puts("]}");
}

bool limit_print(const struct limit *limit)
{
    struct limit sorted = *limit;
    char text[48];
    bool met;

    print_json(limit);
    qsort(sorted.calls.rows, (size_t)sorted.calls.n_rows,
          sizeof(sorted.calls.rows[0]), longer_first);
    printf("\n%s: %s ms per step\n", limit->name,
           series_text(&limit->ms, text));
    met = print_idle(&sorted);
    if (sorted.calls.n_rows == 0)
        return met;
    puts("  ms in it at least   ratio");
    met &= print_kind(&sorted, VP_PROFILE_PRODUCT,
                      "products / each at its best alone", most_product, false);
    met &= print_kind(&sorted, VP_PROFILE_MEMORY,
                      "memory / bytes at the copy rate", most_memory, true);
    print_rest(&sorted);
    printf("  %8.4f busy, call by call\n",
           per_step(&sorted, sorted.calls.busy));
    return met;
}
