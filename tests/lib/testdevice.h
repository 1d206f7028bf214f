/* The device that a test trains on: the CPU, or what VP_TEST_DEVICE names. A
 * GPU then gets memory of the host, which both can reach: tests look into
 * buffers and compare. */
#ifndef VP_TESTS_LIB_TESTDEVICE_H
#define VP_TESTS_LIB_TESTDEVICE_H

#include "backend/plugin.h"

#include <stdbool.h>

const struct vp_backend_ops *test_device(void);

/* Returns true if replicas on that device can own shards of the optimizer's state. */
bool can_shard(void);

#endif
