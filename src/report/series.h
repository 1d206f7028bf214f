/* Curves of a run, thinned while they are read: memory does not grow with the
 * number of points. A bucket holds the least, the most and the mean of each curve
 * over `stride` neighbouring points; when there are too many buckets, neighbours
 * are merged and the stride doubles. The same points give the same buckets. */
#ifndef VP_REPORT_SERIES_H
#define VP_REPORT_SERIES_H

#include "base/status.h"

#include <stdint.h>

enum { VP_SERIES_CURVES = 8 };

/* Where a point lies on each of the x axes. */
struct vp_series_x {
    double step;
    double tokens;  /* so far */
    double seconds; /* so far */
};

/* Values of one curve; n is 0 where no value was finite. */
struct vp_series_range {
    double least, most, sum;
    int64_t n;
};

struct vp_bucket {
    struct vp_series_x x; /* of its last point */
    struct vp_series_range at[VP_SERIES_CURVES];
};

struct vp_series {
    struct vp_bucket *buckets;
    int n, capacity;
    int n_curves;
    int64_t stride; /* points of a bucket */
    int64_t n_last; /* points of the last bucket */
};

/* At most `capacity` buckets, an even number; from half of it on if there are
 * enough points. */
enum vp_status vp_series_init(struct vp_series *series, int n_curves,
                              int capacity);
void vp_series_release(struct vp_series *series);

/* `values` has one value per curve; those that are not finite do not count. */
void vp_series_add(struct vp_series *series, const struct vp_series_x *x,
                   const double *values);

/* NAN where there was no value. */
double vp_range_mean(const struct vp_series_range *range);

#endif
