/* Private to the executor: helpers that rank.c, reduce.c and update.c share. */
#ifndef VP_RUNTIME_RANK_INTERNAL_H
#define VP_RUNTIME_RANK_INTERNAL_H

#include "base/clock.h"
#include "runtime/rank/rank_state.h"

static inline struct vp_rank_stage *stage_of(struct vp_rank *rank,
                                             const struct vp_action *action)
{
    for (int i = 0; i < rank->n_stages; i++)
        if (rank->stages[i].index == action->stage)
            return &rank->stages[i];
    vp_bug(__FILE__, __LINE__, "action of a stage on another rank");
}

/* Returns the list of the schedule that the rank runs. */
static inline const struct vp_rank_list *list_of(const struct vp_rank *rank)
{
    return &rank->job->schedule->ranks[rank->group];
}

/* Returns the rank that is the peer of an action: the member with the same
 * number in another group. */
static inline int peer_of(const struct vp_rank *rank,
                          const struct vp_action *action)
{
    return action->peer < 0
               ? action->peer
               : action->peer * rank->pipeline->n_members + rank->member;
}

static inline const struct vp_schedule_stage *sched_stage_of(
    const struct vp_rank *rank, int stage)
{
    return &rank->job->schedule->stages[stage];
}

static inline bool is_last(const struct vp_rank *rank, int stage)
{
    return stage == rank->pipeline->n_stages - 1;
}

/* Returns the number of a minibatch in the run. A synchronous schedule numbers
 * minibatches within its group, a stream within the run. */
static inline uint64_t run_minibatch(const struct vp_rank *rank, int mb)
{
    const struct vp_job *job = rank->job;

    return (uint64_t)(job->first_mb + rank->repeat * job->schedule->n_mb + mb);
}

static inline int64_t version_of(const struct vp_rank *rank,
                                 const struct vp_rank_stage *rs,
                                 const struct vp_action *action)
{
    return rank->job->sync ? rs->stage.newest : action->version;
}

/* Returns the time limit for one wait of the rank. */
static inline struct vp_limit limit_of(const struct vp_rank *rank)
{
    return vp_limit_ms(rank->pipeline->config->timeout_ms);
}

/* rank.c: injects the fault that a test wants here. VP_OK: none, or drop the
 * message if `*skip` is set. */
enum vp_status vp_rank_inject(struct vp_rank *rank,
                              const struct vp_action *action, bool *skip);

/* reduce.c: runs the B or W of a minibatch. Within the last one before a REDUCE
 * the gradients are offered to the other replicas, bundle by bundle. */
enum vp_status vp_run_backward(struct vp_rank *rank,
                               const struct vp_action *action,
                               enum vp_list list,
                               const struct vp_launch_messages *messages);
enum vp_status vp_exec_reduce(struct vp_rank *rank,
                              const struct vp_action *action);

/* Adds `n` to a counter, in training only. Only the rank's own thread writes
 * counters. */
static inline void count(const struct vp_rank *rank, atomic_llong *sum,
                         int64_t n)
{
    if (rank->job->kind != VP_JOB_TRAIN)
        return;
    atomic_store_explicit(sum,
                          atomic_load_explicit(sum, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* update.c: if weights are being gathered from other replicas, waits for them.
 * Call it before the weights are read. */
enum vp_status vp_update_end_gather(struct vp_rank *rank,
                                    struct vp_rank_stage *rs);
struct vp_rate {
    float lr, grad_scale;
};
/* Returns true if the update of the stage is part of this backward, with its
 * `rate_out`. */
bool vp_update_is_early(struct vp_rank *rank, const struct vp_action *backward,
                        struct vp_rate *rate_out);
enum vp_status vp_exec_update(struct vp_rank *rank,
                              const struct vp_action *action);
/* Called after the device was given a backward: reads the gradient norm of the
 * previous update if it is pending. */
enum vp_status vp_update_poll(struct vp_rank *rank);
/* Reads back and reports the pending part of the last update. In synchronous
 * training all ranks must call it, because they exchange norms. */
enum vp_status vp_update_finish(struct vp_rank *rank);

#endif
