/* The median: a disturbed measurement does not move it. */
#ifndef VP_RUNTIME_PROFILE_MEDIAN_H
#define VP_RUNTIME_PROFILE_MEDIAN_H

/* Of n > 0 numbers, which are sorted; the lower one of two in the middle. */
double vp_median(double *numbers, int n);

#endif
