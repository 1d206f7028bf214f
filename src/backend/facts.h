/* What planning must know about a device, without the device. */
#ifndef VP_BACKEND_FACTS_H
#define VP_BACKEND_FACTS_H

#include "backend/backend.h"
#include "plan/stage_plan.h"

/* The facts about a device that is opened as `config` says, which is borrowed.
 * Opens nothing. */
struct vp_device_facts vp_backend_facts(const struct vp_backend_ops *ops,
                                        const struct vp_backend_config *config);

#endif
