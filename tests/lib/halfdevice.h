/* The CPU, except for what it computes: losses and gradients are formulas of
 * samples and weights, the same however a model is cut; weights, versions,
 * the optimizer and all that a trainer does with them are real. */
#ifndef VP_TESTS_LIB_HALFDEVICE_H
#define VP_TESTS_LIB_HALFDEVICE_H

#include "base/halves.h"
#include "lib/trainlib.h"

#include <stdint.h>

struct vp_exe {
    const struct vp_program *program;
};

/* Some minibatches have larger ones, which overflow sooner. */
float half_gradient(const struct vp_mb *mb, uint16_t weight, int64_t i);

/* The real one, where there is one. */
const struct vp_backend_ops *half_device(void);

/* `bf16` is the state of a test; NULL: weights are floats. */
void set_type(struct setup *setup, const void *bf16);

#endif
