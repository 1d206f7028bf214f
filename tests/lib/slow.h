/* SLOW is 1 in builds with a sanitizer or without optimisation. Tests then run
 * a part of their cases; the optimised build runs all. */
#ifndef VP_TESTS_LIB_SLOW_H
#define VP_TESTS_LIB_SLOW_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1
#else
#define SLOW 0
#endif

#endif
