/* Prints the time of each kind of call beside its limit. */
#include "limit.h"

#include <stdio.h>
#include <stdlib.h>

static const double most_product = 1.08, most_memory = 1.3;

static const char *judge(bool *met, double value, double most)
{
    *met &= value <= most;
    return value <= most ? "met" : "MISSED";
}

/* Returns milliseconds per step. */
static double per_step(const struct limit *limit, double seconds)
{
    return 1e3 * seconds / limit->n_calls;
}

/* Returns the seconds of a row at its limit: products alone on the GPU, other
 * kernels at the copy rate. */
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

/* Prints the rows of a kind and their sum. */
static bool print_kind(const struct limit *limit, enum vp_profile_kind kind,
                       const char *title, double most, bool each)
{
    double in_step = 0.0, at_limit = 0.0;
    bool met = true;

    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];
        double floor = least(limit, row);

        if (row->kind != kind || row->seconds <= 0.0)
            continue;
        in_step += row->seconds;
        at_limit += floor;
        printf("  %8.4f %8.4f", per_step(limit, row->seconds),
               per_step(limit, floor));
        if (floor > 0.0)
            printf("  %6.3f %-6s", row->seconds / floor,
                   each ? judge(&met, row->seconds / floor, most) : "");
        else /* small sums alone */
            printf("  %6s %-6s", "-", "");
        printf(" %4d x %s\n", row->count / limit->n_calls, row->name);
    }
    printf("  %8.4f %8.4f  %6.3f %-6s %s (<= %.2f)\n", per_step(limit, in_step),
           per_step(limit, at_limit), in_step / at_limit,
           judge(&met, in_step / at_limit, most), title, most);
    return met;
}

/* Compares the products with long runs of the same product: the power limit of
 * the GPU also slows a product that runs without pauses. */
static void print_at_length(const struct limit *limit)
{
    double in_step = 0.0, at_length = 0.0;

    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];

        in_step += row->kind == VP_PROFILE_PRODUCT ? row->seconds : 0.0;
        at_length += row->kind == VP_PROFILE_PRODUCT ? row->at_length : 0.0;
    }
    printf("  %8.4f %8.4f  %6.3f        products / each alone, without "
           "pauses\n",
           per_step(limit, in_step), per_step(limit, at_length),
           in_step / at_length);
}

/* Prints rows that have no target. */
static void print_rest(const struct limit *limit)
{
    for (int i = 0; i < limit->calls.n_rows; i++) {
        const struct vp_profile_row *row = &limit->calls.rows[i];

        if (row->kind == VP_PROFILE_BOTH)
            printf("  %8.4f  %.0f TFLOP/s %4d x %s\n",
                   per_step(limit, row->seconds),
                   row->flops / row->seconds / 1e12,
                   row->count / limit->n_calls, row->name);
        else if (row->kind == VP_PROFILE_OTHER)
            printf("  %8.4f  %s\n", per_step(limit, row->seconds), row->name);
    }
}

static struct series idle_of(const struct limit *limit)
{
    struct series busy = series_ratio(&limit->busy, &limit->ms);
    struct series idle = { .n = 0 };

    for (int i = 0; i < busy.n; i++)
        series_add(&idle, 100.0 * (1.0 - busy.at[i]));
    return idle;
}

static bool print_idle(const struct limit *limit)
{
    const struct vp_profile *replays = &limit->replays;
    struct series idle = idle_of(limit);
    char text[48];
    bool met = true;

    printf("  idle, %% of a step       %s (<= %.0f) %s\n",
           series_text(&idle, text), 100.0 * limit->most_idle,
           judge(&met, series_median(&idle), 100.0 * limit->most_idle));
    printf("  busy, ms                %s in %d kernels\n",
           series_text(&limit->busy, text),
           replays->n_kernels / limit->n_replays);
    printf("  recorded, ms per step   %s, %.1f gaps > 10 us\n",
           series_text(&limit->recorded, text),
           (double)replays->n_gaps / limit->n_replays);
    for (int i = 0; i < VP_PROFILE_GAPS && replays->gaps[i].seconds > 0.0; i++)
        printf("  %8.1f us between %s and %s\n", 1e6 * replays->gaps[i].seconds,
               replays->gaps[i].before, replays->gaps[i].after);
    return met;
}

static void print_json(const struct limit *limit)
{
    char ms[64], busy[64], recorded[64];

    printf("{\"case\": \"gpu-limit\", \"model\": \"%s\", \"ms\": %s, "
           "\"busy_ms\": %s, \"recorded_ms\": %s, \"rows\": [",
           limit->name, series_json(&limit->ms, ms),
           series_json(&limit->busy, busy),
           series_json(&limit->recorded, recorded));
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
    print_at_length(&sorted);
    met &= print_kind(&sorted, VP_PROFILE_MEMORY,
                      "memory / bytes at the copy rate", most_memory, true);
    print_rest(&sorted);
    printf("  %8.4f busy, call by call\n",
           per_step(&sorted, sorted.calls.busy));
    return met;
}
