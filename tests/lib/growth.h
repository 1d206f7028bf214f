/* Does the work on twice as much take about twice as long? Measured in
 * processor time, so that other programs matter little, and repeated until the
 * answer is clear. The including file includes cmocka.h first. */
#ifndef VP_TESTS_GROWTH_H
#define VP_TESTS_GROWTH_H

#include <time.h>

typedef void (*growth_fn)(void *ctx, int n);

static inline double growth_seconds(growth_fn fn, void *ctx, int n)
{
    struct timespec start, end;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    fn(ctx, n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (double)(end.tv_sec - start.tv_sec) +
           1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

/* Linear work has a ratio of 2, quadratic work one of 4. The least of several
 * times is the one that was disturbed least. */
static inline void assert_grows_slowly(const char *what, growth_fn fn,
                                       void *ctx, int n)
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

#endif
