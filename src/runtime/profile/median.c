/* The median of measurements. */
#include "runtime/profile/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double vp_median(double *numbers, int n)
{
    qsort(numbers, (size_t)n, sizeof(*numbers), ascending);
    return numbers[(n - 1) / 2];
}
