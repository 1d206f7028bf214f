/* A device that does not compute a model: losses and gradients are formulas of
 * samples and weights, and do not depend on the partition. All else is the CPU
 * backend, so weights, versions, the optimizer and the trainer's work on them
 * are real. */
#ifndef VP_TESTS_LIB_HALFDEVICE_H
#define VP_TESTS_LIB_HALFDEVICE_H

#include "base/halves.h"
#include "lib/trainlib.h"

#include <stdint.h>

struct vp_exe {
    const struct vp_program *program;
};

/* Returns the gradient of element `i` of a weight. Every third sample has
 * larger gradients, which overflow sooner. */
float half_gradient(const struct vp_mb *mb, uint16_t weight, int64_t i);

/* Returns the device of VP_TEST_DEVICE if it is set, otherwise this device. */
const struct vp_backend_ops *half_device(void);

/* Makes `setup` train in BF16 if `bf16` is not NULL. `bf16` is a test's
 * state. */
void set_type(struct setup *setup, const void *bf16);

#endif
