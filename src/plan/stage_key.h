/* Keys of stages: two stages with the same key have the same sizes. A model
 * repeats its layers, so most stages of a plan, and of the plans next to it, are
 * the same but for where they stand. Keys are 128-bit hashes. Private to
 * plan. */
#ifndef VP_PLAN_STAGE_KEY_H
#define VP_PLAN_STAGE_KEY_H

#include "plan/stage_plan.h"

struct vp_stage_key {
    uint64_t low, high;
};

/* What was hashed of a workload beforehand. */
struct vp_stage_keys;

/* `work` is borrowed during the call, its graphs for as long as the keys
 * live. */
enum vp_status vp_stage_keys_create(const struct vp_workload *work,
                                    struct vp_stage_keys **out);
void vp_stage_keys_free(struct vp_stage_keys *keys);

/* One block of the first graph, wherever it stands. */
struct vp_stage_key vp_stage_key_block(const struct vp_stage_keys *keys,
                                       int block);
/* By the numbers of the blocks: cheap, and different for every range. */
struct vp_stage_key vp_stage_key_place(const struct vp_stage_choices *choices);
/* By what the blocks hold: operators, parameters, values that cross the cuts. */
struct vp_stage_key vp_stage_key_content(
    const struct vp_stage_keys *keys, const struct vp_stage_choices *choices);

#endif
