/* Does the work on twice as much take about twice as long? Measured in
 * processor time, so that other programs matter little, and repeated until the
 * answer is clear. */
#ifndef VP_TESTS_LIB_GROWTH_H
#define VP_TESTS_LIB_GROWTH_H

typedef void (*growth_fn)(void *ctx, int n);

/* Linear work has a ratio of 2, quadratic work one of 4. The least of several
 * times is the one that was disturbed least. */
void assert_grows_slowly(const char *what, growth_fn fn, void *ctx, int n);

#endif
