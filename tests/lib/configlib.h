/* Comparing the lists of a configuration: assert_ints(&list, INTS(1, 2)). */
#ifndef VP_TESTS_CONFIGLIB_H
#define VP_TESTS_CONFIGLIB_H

#include "config/config.h"

static inline void assert_ints(const struct vp_int_list *list, int n,
                               const int *want)
{
    assert_int_equal(list->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(list->at[i], want[i]);
}

static inline void assert_reals(const struct vp_real_list *list, int n,
                                const double *want)
{
    assert_int_equal(list->n, n);
    for (int i = 0; i < n; i++)
        assert_true(list->at[i] == want[i]);
}

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
