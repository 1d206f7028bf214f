/* Checks that the time of some work grows about linearly with its size.
 * Measures processor time, which other programs disturb little, and repeats
 * until the answer is clear. */
#ifndef VP_TESTS_LIB_GROWTH_H
#define VP_TESTS_LIB_GROWTH_H

typedef void (*growth_fn)(void *ctx, int n);

/* Fails if 2 n take 3 times as long as n. Linear work takes 2 times as long,
 * quadratic work 4 times. Compares the shortest of several times, which were
 * disturbed least. */
void assert_grows_slowly(const char *what, growth_fn fn, void *ctx, int n);

#endif
