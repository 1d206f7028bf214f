/* Comparison of lists of a configuration: assert_ints(&list, INTS(1, 2)). */
#ifndef VP_TESTS_LIB_CONFIGLIB_H
#define VP_TESTS_LIB_CONFIGLIB_H

#include "config/config.h"

void assert_ints(const struct vp_int_list *list, int n, const int *want);

void assert_reals(const struct vp_real_list *list, int n, const double *want);

#define INTS(...)                                                \
    (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), (int[]) \
    {                                                            \
        __VA_ARGS__                                              \
    }

#define REALS(...)                                                        \
    (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), (double[]) \
    {                                                                     \
        __VA_ARGS__                                                       \
    }

#endif
