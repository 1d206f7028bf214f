/* Plans a training run without a device: the price of its plan, and whether it
 * fits this machine and the user's limits. */
#ifndef VP_RUNTIME_FIT_H
#define VP_RUNTIME_FIT_H

#include "plan/price.h"
#include "runtime/train_config.h"

/* The plan's schedule, proven to be free of deadlocks, and the price of every
 * stage. Making it opens no device and starts no thread. */
struct vp_priced_plan {
    struct vp_schedule schedule;
    struct vp_stage_price stages[VP_MAX_STAGES];
};

/* Refuses an optimizer that the device does not support: shards of its state, or LAMB
 * in tensor-parallel groups. */
enum vp_status vp_fit_check_optimizer(const struct vp_train_config *config,
                                   struct vp_err *err);
enum vp_status vp_priced_plan_make(const struct vp_train_config *config,
                                   struct vp_priced_plan *out,
                                   struct vp_err *err);
void vp_priced_plan_release(struct vp_priced_plan *priced);

/* Bytes of this host that the ranks of this process need, and bytes that are
 * left; SIZE_MAX if unknown. */
struct vp_host_need {
    /* Stages, their copies for checkpoints, and swapped activations; only the
     * latter for a device with its own memory. */
    size_t memory, memory_left;
    /* Address space: the same plus threads and libraries. */
    size_t space, space_left;
    size_t swapped; /* the part of `memory` that is swapped activations */
};

/* `stages` has a price per stage of the schedule. With host memory `space` is
 * set; else it is 0. */
struct vp_host_need vp_fit_host_need(const struct vp_train_config *config,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_price *stages);

/* The resource that a plan exceeds. */
enum vp_lack {
    VP_LACK_NONE,
    VP_LACK_LIMIT,     /* memory_limit of a stage */
    VP_LACK_MEMORY,    /* memory of this machine */
    VP_LACK_ADDRESSES, /* address space of this process: ulimit -v and -d */
};

/* Returns the first resource that the plan exceeds. The message says how much
 * is missing, without a remedy: the caller adds it. */
enum vp_lack vp_fit_lacks(const struct vp_train_config *config,
                          const struct vp_schedule *schedule,
                          const struct vp_stage_price *stages,
                          struct vp_err *err);

#endif
