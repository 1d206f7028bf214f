/* The loss curve of a run in a fixed number of points: when all are used, each
 * pair of points is replaced by its mean. */
#ifndef VP_MONITOR_LOSS_CURVE_H
#define VP_MONITOR_LOSS_CURVE_H

#include <stdint.h>

enum { VP_LOSS_CURVE_POINTS = 120 };

/* Initialise to zero. */
struct vp_loss_curve {
    double points[VP_LOSS_CURVE_POINTS];
    int n_points;
    int64_t every; /* values per point; 0: no value was added yet */
    /* Values of the next point so far. */
    double sum;
    int64_t n_values;
};

/* Adds a value; ignores one that is not finite. */
void vp_loss_curve_add(struct vp_loss_curve *curve, double value);

#endif
