/* The losses of a run in a fixed number of points: when all are used, each pair
 * becomes its mean. */
#ifndef VP_MONITOR_LOSS_CURVE_H
#define VP_MONITOR_LOSS_CURVE_H

#include <stdint.h>

enum { VP_LOSS_CURVE_POINTS = 120 };

struct vp_loss_curve {
    double points[VP_LOSS_CURVE_POINTS];
    int n_points;
    int64_t every; /* values of a point; 0: nothing was added yet */
    /* Of the point in the making. */
    double sum;
    int64_t n_values;
};

/* A value that is not finite is left out. */
void vp_loss_curve_add(struct vp_loss_curve *curve, double value);

#endif
