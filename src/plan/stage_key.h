/* Keys of stages: stages with the same key have the same sizes. A model repeats
 * its layers, so most stages of a plan, and of similar plans, differ only in
 * their position. Keys are 128-bit hashes. Private to plan. */
#ifndef VP_PLAN_STAGE_KEY_H
#define VP_PLAN_STAGE_KEY_H

#include "plan/stage_plan.h"

struct vp_stage_key {
    uint64_t low, high;
};

/* Hashes of all blocks and cuts of a workload. */
struct vp_stage_keys;

/* Borrows `work` during the call, and its graphs until vp_stage_keys_free(). */
enum vp_status vp_stage_keys_create(const struct vp_workload *work,
                                    struct vp_stage_keys **out);
void vp_stage_keys_free(struct vp_stage_keys *keys);

/* Returns the key of one block of the first graph; independent of its
 * position. */
struct vp_stage_key vp_stage_key_block(const struct vp_stage_keys *keys,
                                       int block);
/* Returns a key of the choices and block numbers: quick, and different for
 * every range of blocks. */
struct vp_stage_key vp_stage_key_place(const struct vp_stage_choices *choices);
/* Returns a key of the content: choices, operators, parameters, values that
 * cross the cuts. Equal for equal blocks at other positions. */
struct vp_stage_key vp_stage_key_content(
    const struct vp_stage_keys *keys, const struct vp_stage_choices *choices);

#endif
