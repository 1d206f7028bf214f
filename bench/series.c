/* Median, least and most of a few measurements. */
#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void series_add(struct series *series, double value)
{
    if (series->n < SERIES_MAX)
        series->at[series->n++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the i-th smallest value. */
static double ranked(const struct series *series, int i)
{
    double sorted[SERIES_MAX];

    if (series->n == 0)
        return 0.0;
    memcpy(sorted, series->at, (size_t)series->n * sizeof(*sorted));
    qsort(sorted, (size_t)series->n, sizeof(*sorted), compare);
    return sorted[i];
}

double series_median(const struct series *series)
{
    int n = series->n;

    return 0.5 * (ranked(series, (n - 1) / 2) + ranked(series, n / 2));
}

double series_min(const struct series *series)
{
    return ranked(series, 0);
}

double series_max(const struct series *series)
{
    return ranked(series, series->n - 1);
}

struct series series_ratio(const struct series *a, const struct series *b)
{
    struct series out = { .n = 0 };

    for (int i = 0; i < a->n && i < b->n; i++)
        series_add(&out, a->at[i] / b->at[i]);
    return out;
}

const char *series_text(const struct series *series, char text[48])
{
    snprintf(text, 48, "%.3f (%.3f..%.3f)", series_median(series),
             series_min(series), series_max(series));
    return text;
}

const char *series_json(const struct series *series, char text[64])
{
    snprintf(text, 64, "[%.6g, %.6g, %.6g]", series_median(series),
             series_min(series), series_max(series));
    return text;
}
