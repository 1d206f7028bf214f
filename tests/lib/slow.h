/* SLOW: the build is a sanitizer's or not optimised, so that sweeps are thinner;
 * the optimised build makes them whole. */
#ifndef VP_TESTS_LIB_SLOW_H
#define VP_TESTS_LIB_SLOW_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    !defined(__OPTIMIZE__)
#define SLOW 1
#else
#define SLOW 0
#endif

#endif
