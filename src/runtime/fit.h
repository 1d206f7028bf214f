/* Planning a training run without a device: what its plan costs, and whether
 * this machine and the user's limits have room for it. */
#ifndef VP_RUNTIME_FIT_H
#define VP_RUNTIME_FIT_H

#include "plan/price.h"
#include "runtime/train_config.h"

/* The plan's schedule, proven, and the price of every stage. Opens no device,
 * starts no thread. */
struct vp_priced_plan {
    struct vp_schedule schedule;
    struct vp_stage_price stages[VP_MAX_STAGES];
};

/* Refuses shards of the optimizer's state where the device cannot have them. */
enum vp_status vp_fit_check_shards(const struct vp_train_config *config,
                                   struct vp_err *err);
enum vp_status vp_priced_plan_make(const struct vp_train_config *config,
                                   struct vp_priced_plan *out,
                                   struct vp_err *err);
void vp_priced_plan_release(struct vp_priced_plan *priced);

/* Bytes of the host that the ranks of this process need, and bytes that the host
 * has left, SIZE_MAX if not known. */
struct vp_host_need {
    /* Stages, the copies that save them, and what they swap; the last alone on a
     * device with memory of its own. */
    size_t memory, memory_left;
    size_t space, space_left; /* address space: these, threads, libraries */
    size_t swapped;           /* of `memory` */
};

/* `stages` has a price per stage of the schedule. */
struct vp_host_need vp_fit_host_need(const struct vp_train_config *config,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_price *stages);

/* What a plan has too little of. */
enum vp_lack {
    VP_LACK_NONE,
    VP_LACK_LIMIT,     /* memory_limit, for a stage */
    VP_LACK_MEMORY,    /* of this machine, for its ranks */
    VP_LACK_ADDRESSES, /* ulimit -v and -d, for this process */
};

/* The message says how much is missing, and no remedy. */
enum vp_lack vp_fit_lacks(const struct vp_train_config *config,
                          const struct vp_schedule *schedule,
                          const struct vp_stage_price *stages,
                          struct vp_err *err);

#endif
