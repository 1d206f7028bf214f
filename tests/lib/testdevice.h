/* The device that a test trains on: the CPU, or the backend that VP_TEST_DEVICE
 * names. A GPU then allocates host memory that both sides can access, so that
 * tests can read its buffers. */
#ifndef VP_TESTS_LIB_TESTDEVICE_H
#define VP_TESTS_LIB_TESTDEVICE_H

#include "backend/plugin.h"

#include <stdbool.h>

const struct vp_backend_ops *test_device(void);

/* Returns true if replicas on that device can own shards of the optimizer's state. */
bool can_shard(void);

#endif
