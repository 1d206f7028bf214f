/* Some of the tests of a program, chosen by environment variables. */
#ifndef VP_TESTS_LIB_RUN_PART_H
#define VP_TESTS_LIB_RUN_PART_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs all tests; with VP_TEST_PART=2/5 every fifth one from the second on, so
 * that several processes share the work; with VP_TEST_FILTER those whose names
 * match the pattern. */
int run_part(const struct CMUnitTest *tests, size_t n);

#endif
