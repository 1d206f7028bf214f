/* A device whose kernels sleep in place of computing, for tests of timing: each
 * call takes a time in proportion to its FLOPs. */
#ifndef VP_TESTS_LIB_SLEEPDEVICE_H
#define VP_TESTS_LIB_SLEEPDEVICE_H

#include "backend/backend.h"

/* Factor by which kernels of this thread take longer; 0 counts as 1. */
extern _Thread_local double sleep_slower;

void sleep_ns(double ns);

/* Returns the nanoseconds of all calls of a list, without sleep_slower. */
double sleep_list_ns(const struct vp_exe *exe, enum vp_list list);

/* Sets the nanoseconds per FLOP, and per weight in an update. Returns the same
 * table at each call. */
const struct vp_backend_ops *sleep_device(double ns_per_flop,
                                          double ns_per_weight);

#endif
