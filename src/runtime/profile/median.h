/* The median of measurements; robust against outliers. */
#ifndef VP_RUNTIME_PROFILE_MEDIAN_H
#define VP_RUNTIME_PROFILE_MEDIAN_H

/* Sorts `numbers` and returns their median, the lower one of two; n > 0. */
double vp_median(double *numbers, int n);

#endif
