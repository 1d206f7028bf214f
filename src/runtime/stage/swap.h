/* Memory of the host and copiers for what a stage swaps. */
#ifndef VP_RUNTIME_STAGE_SWAP_H
#define VP_RUNTIME_STAGE_SWAP_H

#include "runtime/stage/stage.h"

enum vp_status vp_stage_swap_allocate(struct vp_stage *stage);
/* Waits for copies under way. */
void vp_stage_swap_release(struct vp_stage *stage);

#endif
