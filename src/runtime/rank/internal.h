/* Private to the executor: what rank.c, reduce.c and update.c share. */
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

/* The list of the schedule that the rank walks. */
static inline const struct vp_rank_list *list_of(const struct vp_rank *rank)
{
    return &rank->job->schedule->ranks[rank->group];
}

/* The rank that is the peer of an action: the same member of another group. */
static inline int peer_of(const struct vp_rank *rank,
                          const struct vp_action *action)
{
    return action->peer < 0
               ? action->peer
               : action->peer * rank->pipeline->n_members + rank->member;
}

static inline const struct vp_schedule_stage *plan_of(
    const struct vp_rank *rank, int stage)
{
    return &rank->job->schedule->stages[stage];
}

static inline bool is_last(const struct vp_rank *rank, int stage)
{
    return stage == rank->pipeline->n_stages - 1;
}

/* The number of a minibatch in the run. A synchronous schedule numbers them
 * within its group, a stream within the run. */
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

/* For one wait of the rank. */
static inline struct vp_limit limit_of(const struct vp_rank *rank)
{
    return vp_limit_ms(rank->pipeline->config->timeout_ms);
}

/* rank.c: what a test wants to happen here; VP_OK: nothing, or `*skip`. */
enum vp_status vp_rank_inject(struct vp_rank *rank,
                              const struct vp_action *action, bool *skip);

/* reduce.c: runs the B or W of a minibatch; after the last one before a REDUCE
 * the gradients are on their way. */
enum vp_status vp_run_backward(struct vp_rank *rank,
                               const struct vp_action *action,
                               enum vp_list list,
                               const struct vp_launch_messages *messages);
enum vp_status vp_exec_reduce(struct vp_rank *rank,
                              const struct vp_action *action);

/* In training. Only the rank's own thread writes. */
static inline void count(const struct vp_rank *rank, atomic_llong *sum,
                         int64_t n)
{
    if (rank->job->kind != VP_JOB_TRAIN)
        return;
    atomic_store_explicit(sum,
                          atomic_load_explicit(sum, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* update.c: waits for the weights that other replicas have updated, if any are
 * under way: they are read next. */
enum vp_status vp_update_end_gather(struct vp_rank *rank,
                                    struct vp_rank_stage *rs);
struct vp_rate {
    float lr, grad_scale;
};
/* Returns true if the stage's update is made within this backward. */
bool vp_update_is_early(struct vp_rank *rank, const struct vp_action *backward,
                        struct vp_rate *rate_out);
enum vp_status vp_exec_update(struct vp_rank *rank,
                              const struct vp_action *action);
/* Called when the device has a backward to run: reads the gradient norm of the
 * update before it, if that is still pending. */
enum vp_status vp_update_poll(struct vp_rank *rank);
/* Reads back and reports what is pending of the last update. In bsp all ranks
 * must call it: they exchange norms. */
enum vp_status vp_update_finish(struct vp_rank *rank);

#endif
