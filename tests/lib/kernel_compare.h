/* Compares the tensors that two kernels wrote, by the largest difference or bit
 * by bit, for tests of the fast CPU kernels. */
#ifndef VP_TESTS_LIB_KERNEL_COMPARE_H
#define VP_TESTS_LIB_KERNEL_COMPARE_H

#include "lib/one_op.h"

/* Compares all tensors that `phases` write. Fails if a distance exceeds
 * `tolerance` and the bits differ; a negative tolerance requires equal bits. */
void compare(const struct one_op *x, const struct one_op *y, unsigned phases,
             double tolerance, const char *how);

#endif
