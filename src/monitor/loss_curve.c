/* A curve that halves its resolution when it is full. */
#include "monitor/loss_curve.h"

#include <math.h>

static void halve(struct vp_loss_curve *curve)
{
    curve->n_points /= 2;
    for (int i = 0; i < curve->n_points; i++)
        curve->points[i] = 0.5 *
                           (curve->points[2 * i] + curve->points[2 * i + 1]);
    curve->every *= 2;
}

void vp_loss_curve_add(struct vp_loss_curve *curve, double value)
{
    if (!isfinite(value))
        return;
    if (curve->every == 0)
        curve->every = 1;
    curve->sum += value;
    if (++curve->n_values < curve->every)
        return;
    if (curve->n_points == VP_LOSS_CURVE_POINTS) {
        halve(curve);
        return; /* the value starts the next, larger point */
    }
    curve->points[curve->n_points++] = curve->sum / (double)curve->n_values;
    curve->sum = 0.0;
    curve->n_values = 0;
}
