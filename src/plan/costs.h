/* Time of a plan in seconds: a profile and a plan give the costs of every
 * stage, and the simulator computes the forecast from them. No device, no
 * I/O. */
#ifndef VP_PLAN_COSTS_H
#define VP_PLAN_COSTS_H

#include "plan/price.h"
#include "plan/profile.h"

/* Measured or estimated seconds of each block of a model. Plain data; call
 * vp_cost_table_release(). */
struct vp_cost_table {
    const struct vp_workload *work;          /* borrowed */
    const struct vp_device_profile *profile; /* borrowed */
    int n_blocks;
    struct vp_profile_block *blocks; /* per block of the model */
    int n_estimated;                 /* blocks that are not in the profile */
};

enum vp_status vp_cost_table_init(struct vp_cost_table *table,
                                  const struct vp_workload *work,
                                  const struct vp_device_profile *profile);
void vp_cost_table_release(struct vp_cost_table *table);

/* Returns the seconds that R takes to recompute the operators of `ops` (bit i:
 * operator i of the block): as measured, or else estimated from the rates. */
double vp_cost_recompute(const struct vp_cost_table *table, int block,
                         uint64_t ops);

/* The costs of a plan. Must not be copied: `sched` points to the arrays beside
 * it. */
struct vp_plan_costs {
    struct vp_sched_costs sched;
    struct vp_stage_costs stages[VP_MAX_STAGES];
    /* Costs while all ranks compute. */
    struct vp_stage_costs busy[VP_MAX_STAGES];
    /* Costs of the first slots, see plan.slots. */
    struct vp_stage_costs first_slots[VP_MAX_STAGES];
    int n_first_slots[VP_MAX_STAGES];
    /* Device number per rank; NULL: every rank has its own device. */
    int *device;
};

/* Fills `out` for a plan whose schedule was made and whose stages were priced.
 * Call vp_plan_costs_release() even after a failure. */
enum vp_status vp_plan_costs_make(const struct vp_cost_table *table,
                                  const struct vp_plan *plan,
                                  const struct vp_schedule *schedule,
                                  const struct vp_stage_price *prices,
                                  struct vp_plan_costs *out,
                                  struct vp_err *err);
void vp_plan_costs_release(struct vp_plan_costs *costs);

/* Returns the seconds of one step in a long run, from a simulation of its
 * schedule. Synchronous schedules: the time from the first to the last action
 * of a rank's list, for the rank where it is longest. Streams: the time per
 * minibatch once the pipeline is full. */
double vp_plan_step_seconds(const struct vp_schedule *schedule,
                            const struct vp_timing *timing);

/* Forecast of the simulator for a plan. */
struct vp_plan_forecast_time {
    double step;   /* vp_plan_step_seconds() */
    double per_mb; /* seconds per minibatch */
    double bubble; /* idle fraction of the time of all ranks */
    double stage_busy[VP_MAX_STAGES]; /* busy seconds per minibatch */
};
enum vp_status vp_plan_forecast_seconds(const struct vp_schedule *schedule,
                                        const struct vp_plan_costs *costs,
                                        struct vp_plan_forecast_time *out,
                                        struct vp_err *err);

#endif
