/* Aggregates points into buckets, and halves the buckets when they are full. */
#include "report/series.h"

#include <math.h>
#include <stdlib.h>

enum vp_status vp_series_init(struct vp_series *series, int n_curves,
                              int capacity)
{
    VP_BUG_ON(n_curves < 1 || n_curves > VP_SERIES_CURVES || capacity < 2 ||
              capacity % 2 != 0);
    *series = (struct vp_series){ .capacity = capacity,
                                  .n_curves = n_curves,
                                  .stride = 1 };
    series->buckets = calloc((size_t)capacity, sizeof(*series->buckets));
    return series->buckets ? VP_OK : VP_ERR_NOMEM;
}

void vp_series_release(struct vp_series *series)
{
    free(series->buckets);
    *series = (struct vp_series){ .n = 0 };
}

static void merge(struct vp_series_range *into,
                  const struct vp_series_range *from)
{
    if (from->n == 0)
        return;
    if (into->n == 0) {
        *into = *from;
        return;
    }
    into->least = fmin(into->least, from->least);
    into->most = fmax(into->most, from->most);
    into->sum += from->sum;
    into->n += from->n;
}

/* Merges every two neighbouring buckets. */
static void halve(struct vp_series *series)
{
    series->n /= 2;
    for (int i = 0; i < series->n; i++) {
        struct vp_bucket bucket = series->buckets[2 * i];
        const struct vp_bucket *second = &series->buckets[2 * i + 1];

        bucket.x = second->x;
        for (int c = 0; c < series->n_curves; c++)
            merge(&bucket.at[c], &second->at[c]);
        series->buckets[i] = bucket;
    }
    series->stride *= 2;
    series->n_last = series->stride;
}

void vp_series_add(struct vp_series *series, const struct vp_series_x *x,
                   const double *values)
{
    struct vp_bucket *bucket;

    if (series->n == series->capacity && series->n_last == series->stride)
        halve(series);
    if (series->n == 0 || series->n_last == series->stride) {
        series->buckets[series->n++] = (struct vp_bucket){ .x = *x };
        series->n_last = 0;
    }
    bucket = &series->buckets[series->n - 1];
    bucket->x = *x;
    series->n_last++;
    for (int c = 0; c < series->n_curves; c++) {
        const struct vp_series_range one = { values[c], values[c], values[c],
                                             1 };

        if (isfinite(values[c]))
            merge(&bucket->at[c], &one);
    }
}

double vp_range_mean(const struct vp_series_range *range)
{
    return range->n > 0 ? range->sum / (double)range->n : (double)NAN;
}
