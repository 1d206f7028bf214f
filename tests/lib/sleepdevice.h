/* A device whose kernels sleep instead of computing, for tests of time: each call
 * takes the time of its FLOPs. */
#ifndef VP_TESTS_LIB_SLEEPDEVICE_H
#define VP_TESTS_LIB_SLEEPDEVICE_H

#include "backend/backend.h"

/* Times as long that kernels of this thread take; 0: once. */
extern _Thread_local double sleep_slower;

void sleep_ns(double ns);

/* Nanoseconds that all calls of a list take, before sleep_slower. */
double sleep_list_ns(const struct vp_exe *exe, enum vp_list list);

/* Nanoseconds of a FLOP, and of a weight in an update. The same table at each
 * call. */
const struct vp_backend_ops *sleep_device(double ns_per_flop,
                                          double ns_per_weight);

#endif
