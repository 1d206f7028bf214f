#include "lib/growth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static double growth_seconds(growth_fn fn, void *ctx, int n)
{
    struct timespec start, end;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    fn(ctx, n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (double)(end.tv_sec - start.tv_sec) +
           1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

void assert_grows_slowly(const char *what, growth_fn fn, void *ctx, int n)
{
    enum { TRIES = 8 };
    double once = 1e9, twice = 1e9;

    for (int i = 0; i < TRIES; i++) {
        double a = growth_seconds(fn, ctx, n);
        double b = growth_seconds(fn, ctx, 2 * n);

        once = a < once ? a : once;
        twice = b < twice ? b : twice;
        if (twice < 3.0 * once)
            return;
    }
    fail_msg("%s: %.4f s for %d, %.4f s for %d", what, once, n, twice, 2 * n);
}
