#include "lib/configlib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void assert_ints(const struct vp_int_list *list, int n, const int *want)
{
    assert_int_equal(list->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(list->at[i], want[i]);
}

void assert_reals(const struct vp_real_list *list, int n, const double *want)
{
    assert_int_equal(list->n, n);
    for (int i = 0; i < n; i++)
        assert_true(list->at[i] == want[i]);
}
