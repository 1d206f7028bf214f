/* What a plan costs: bytes per stage, exactly as the runtime allocates them, and
 * the time of its schedule as simulated. Needs neither device nor memory. */
#ifndef VP_PLAN_PRICE_H
#define VP_PLAN_PRICE_H

#include "plan/stage_plan.h"

struct vp_stage_price {
    struct vp_memory memory; /* of the device, for one replica */
    /* Of the host: memory that messages, batches, gradients of other processes
     * and results pass through where the device has memory of its own, and the
     * copy that a checkpoint is written from. */
    int64_t staging, snapshot;
    int64_t swapped; /* likewise: where swapped values wait */
    /* Bytes of a minibatch that are copied there and back. */
    int64_t swap_bytes;
    /* Of a minibatch of the first bucket; the mean over its slots. */
    double flops[VP_LIST_COUNT];
    /* Bytes of a message to the next stage, and of one back. */
    int64_t act_bytes, grad_bytes;
};

/* Prices plans of one workload. Stages that were priced before are remembered,
 * also those that differ only in where the same blocks stand in the model, so
 * that a search can price thousands of plans. Not for several threads. */
struct vp_pricer;

/* `work` is copied; what it borrows must outlive the pricer. */
enum vp_status vp_pricer_create(const struct vp_workload *work,
                                struct vp_pricer **out);
void vp_pricer_free(struct vp_pricer *pricer);

/* Prices every stage; `schedule` is that of the plan, `stages_out` has an entry
 * per stage of it. */
enum vp_status vp_plan_bytes(struct vp_pricer *pricer,
                             const struct vp_plan *plan,
                             const struct vp_schedule *schedule,
                             struct vp_stage_price *stages_out,
                             struct vp_err *err);
/* The sizes of one stage, remembered like the others. */
enum vp_status vp_pricer_sizes(struct vp_pricer *pricer,
                               const struct vp_stage_choices *choices,
                               struct vp_stage_sizes *out, struct vp_err *err);
/* Stages lowered so far: the others were remembered. */
int vp_pricer_n_lowered(const struct vp_pricer *pricer);

/* The price of one stage; `first` as in vp_stage_memory(). */
struct vp_stage_price vp_stage_price_of(const struct vp_workload *work,
                                        const struct vp_stage_sizes *sizes,
                                        const struct vp_stage_shape *shape,
                                        bool first);

/* Simulates one update of the schedule (of a stream: its minibatches). */
struct vp_plan_time {
    double seconds; /* in the unit of the costs */
    double bubble;  /* idle share of all ranks */
};
enum vp_status vp_plan_seconds(const struct vp_schedule *schedule,
                               const struct vp_sched_costs *costs,
                               struct vp_plan_time *out, struct vp_err *err);

#endif
