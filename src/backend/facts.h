/* What planning must know about a device, without the device. */
#ifndef VP_BACKEND_FACTS_H
#define VP_BACKEND_FACTS_H

#include "backend/backend.h"
#include "plan/stage_plan.h"

/* The facts about a device that is opened as `config` says, which is borrowed.
 * Opens nothing. */
struct vp_device_facts vp_backend_facts(const struct vp_backend_ops *ops,
                                        const struct vp_backend_config *config);

/* The instruction set that kernels on cores use, as VPIPE_ISA names it; and
 * whether it has products of bf16. Without them bf16 is widened to floats, which
 * is slower than fp32. */
const char *vp_cores_isa(void);
bool vp_cores_multiply_bf16(void);
/* Returns true if those products are faster than those of fp32: by AMX always, by
 * AVX512_BF16 where the processor's dot products are (AMD's are, those of Intel
 * are not). Timed once per process. */
bool vp_cores_prefer_bf16(void);

#endif
