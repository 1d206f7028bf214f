/* Every operator in every variant at small odd sizes, for all tests of kernels.
 * one_op_init() in one_op.h builds an operator from its case. */
#ifndef VP_TESTS_LIB_OP_CASES_H
#define VP_TESTS_LIB_OP_CASES_H

#include "lib/one_op.h"

extern const struct op_spec op_cases[36];

/* Operators that only inference has, or that have other kernels there. */
extern const struct op_spec forward_cases[14];

#endif
