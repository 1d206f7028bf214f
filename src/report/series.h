/* Curves of a run in constant memory: points are aggregated while they are
 * read. A bucket has the least, the most and the mean of each curve over
 * `stride` consecutive points. When all buckets are used, neighbours are merged
 * and the stride doubles. The same points give the same buckets. */
#ifndef VP_REPORT_SERIES_H
#define VP_REPORT_SERIES_H

#include "base/status.h"

#include <stdint.h>

enum { VP_SERIES_CURVES = 8 };

/* The position of a point on each of the x axes. */
struct vp_series_x {
    double step;
    double tokens;  /* total up to the point */
    double seconds; /* total up to the point */
};

/* Values of one curve in a bucket; n is 0 if no value was finite. */
struct vp_series_range {
    double least, most, sum;
    int64_t n;
};

struct vp_bucket {
    struct vp_series_x x; /* position of its last point */
    struct vp_series_range at[VP_SERIES_CURVES];
};

struct vp_series {
    struct vp_bucket *buckets;
    int n, capacity;
    int n_curves;
    int64_t stride; /* points per bucket */
    int64_t n_last; /* points in the last bucket */
};

/* Allocates `capacity` buckets, an even number. Once the series has had
 * `capacity` points, at least half of the buckets are used. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_series_init(struct vp_series *series, int n_curves,
                              int capacity);
void vp_series_release(struct vp_series *series);

/* Adds a point. `values` has a value for each curve; values that are not finite
 * are ignored. */
void vp_series_add(struct vp_series *series, const struct vp_series_x *x,
                   const double *values);

/* Returns the mean, or NAN if there was no value. */
double vp_range_mean(const struct vp_series_range *range);

#endif
