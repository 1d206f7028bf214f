/* Prices a plan: bytes per stage, exactly as the runtime allocates them, and
 * the simulated time of its schedule. Needs no device and allocates no stage
 * memory. */
#ifndef VP_PLAN_PRICE_H
#define VP_PLAN_PRICE_H

#include "plan/stage_plan.h"

struct vp_stage_price {
    struct vp_memory memory; /* device memory of one replica */
    /* Host memory. staging: buffers for messages, batches, gradients of other
     * processes and results, where the device has its own memory. snapshot: the
     * copy from which a checkpoint is written. */
    int64_t staging, snapshot;
    int64_t swapped; /* host memory that holds swapped values */
    /* Bytes that one minibatch copies to the host, and back again. */
    int64_t swap_bytes;
    /* FLOPs per minibatch of the first bucket, averaged over the slots. */
    double flops[VP_LIST_COUNT];
    /* Bytes of a message to the next stage, and of a gradient message back. */
    int64_t act_bytes, grad_bytes;
};

/* Prices plans of one workload. Remembers the sizes of every stage that it
 * lowered, also for stages with equal blocks elsewhere in the model, so that a
 * search can price thousands of plans. One thread at a time. */
struct vp_pricer;

/* Copies `work`; what its pointers refer to must outlive the pricer. */
enum vp_status vp_pricer_create(const struct vp_workload *work,
                                struct vp_pricer **out);
void vp_pricer_free(struct vp_pricer *pricer);

/* Prices every stage of the plan. `schedule` is that of the plan; `stages_out`
 * has an entry per stage. */
enum vp_status vp_plan_bytes(struct vp_pricer *pricer,
                             const struct vp_plan *plan,
                             const struct vp_schedule *schedule,
                             struct vp_stage_price *stages_out,
                             struct vp_err *err);
/* Returns the sizes of one stage, lowered now or remembered. */
enum vp_status vp_pricer_sizes(struct vp_pricer *pricer,
                               const struct vp_stage_choices *choices,
                               struct vp_stage_sizes *out, struct vp_err *err);
/* Returns the number of stages that had to be lowered so far. */
int vp_pricer_n_lowered(const struct vp_pricer *pricer);

/* Returns the price of one stage; `first` as in vp_stage_memory(). */
struct vp_stage_price vp_stage_price_of(const struct vp_workload *work,
                                        const struct vp_stage_sizes *sizes,
                                        const struct vp_stage_shape *shape,
                                        bool first);

/* Result of simulating one update of a schedule, or all minibatches of a
 * stream. */
struct vp_plan_time {
    double seconds; /* in the unit of the costs */
    double bubble;  /* idle fraction of the time of all ranks */
};
enum vp_status vp_plan_seconds(const struct vp_schedule *schedule,
                               const struct vp_sched_costs *costs,
                               struct vp_plan_time *out, struct vp_err *err);

#endif
