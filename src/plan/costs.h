/* Seconds of a plan: a profile and a plan give the costs of every stage, from
 * which the simulator makes the forecast. Pure. */
#ifndef VP_PLAN_COSTS_H
#define VP_PLAN_COSTS_H

#include "plan/price.h"
#include "plan/profile.h"

/* What each block of a model takes by a profile. Plain data; release it. */
struct vp_cost_table {
    const struct vp_workload *work;          /* borrowed */
    const struct vp_device_profile *profile; /* borrowed */
    int n_blocks;
    struct vp_profile_block *blocks; /* per block of the model */
    int n_estimated;                 /* blocks that the profile does not have */
};

enum vp_status vp_cost_table_init(struct vp_cost_table *table,
                                  const struct vp_workload *work,
                                  const struct vp_device_profile *profile);
void vp_cost_table_release(struct vp_cost_table *table);

/* Seconds of R for a set of a block: as measured, or by the rates. */
double vp_cost_recompute(const struct vp_cost_table *table, int block,
                         uint64_t ops);

/* The costs of a plan; `sched` borrows the arrays beside it, so that it must not
 * be copied. */
struct vp_plan_costs {
    struct vp_sched_costs sched;
    struct vp_stage_costs stages[VP_MAX_STAGES];
    struct vp_stage_costs busy[VP_MAX_STAGES]; /* while all ranks compute */
    struct vp_stage_costs first_slots[VP_MAX_STAGES]; /* see plan.slots */
    int n_first_slots[VP_MAX_STAGES];
    int *device; /* per rank; NULL: one each */
};

/* Fills `out` for a plan whose schedule was made and whose stages were priced.
 * Release it, also after a failure. */
enum vp_status vp_plan_costs_make(const struct vp_cost_table *table,
                                  const struct vp_plan *plan,
                                  const struct vp_schedule *schedule,
                                  const struct vp_stage_price *prices,
                                  struct vp_plan_costs *out,
                                  struct vp_err *err);
void vp_plan_costs_release(struct vp_plan_costs *costs);

/* Seconds of a step among many, by a simulation of its schedule: of an update,
 * from the begin of a rank's list to its end, on the rank where that is longest; of
 * a stream, of a minibatch once the pipeline is full. */
double vp_plan_step_seconds(const struct vp_schedule *schedule,
                            const struct vp_timing *timing);

/* What the simulator says about a plan. */
struct vp_plan_forecast_time {
    double step;                      /* vp_plan_step_seconds() */
    double per_mb;                    /* seconds per minibatch */
    double bubble;                    /* idle share of all ranks */
    double stage_busy[VP_MAX_STAGES]; /* seconds of a minibatch */
};
enum vp_status vp_plan_forecast_seconds(const struct vp_schedule *schedule,
                                        const struct vp_plan_costs *costs,
                                        struct vp_plan_forecast_time *out,
                                        struct vp_err *err);

#endif
