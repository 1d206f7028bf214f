/* Facts about a device that planning needs, available without opening the
 * device. */
#ifndef VP_BACKEND_FACTS_H
#define VP_BACKEND_FACTS_H

#include "backend/backend.h"
#include "plan/stage_plan.h"

/* Returns the facts about the device that ops->open(config) would open. Opens
 * nothing. The result borrows `config`. */
struct vp_device_facts vp_backend_facts(const struct vp_backend_ops *ops,
                                        const struct vp_backend_config *config);

/* Returns the name of the instruction set that the CPU kernels use, one of
 * those that VPIPE_ISA takes. */
const char *vp_cores_isa(void);
/* Returns true if that instruction set multiplies bf16. Without it bf16 is
 * widened to floats, which is slower than fp32. */
bool vp_cores_multiply_bf16(void);
/* Returns true if matrix products in bf16 are faster than in fp32: always with
 * AMX; with AVX512_BF16 it depends on the processor (true for AMD, false for
 * Intel) and is timed once per process. */
bool vp_cores_prefer_bf16(void);

#endif
