/* Building the ranks of a trainer and the links between them. */
#ifndef VP_RUNTIME_TRAINER_PIPELINE_H
#define VP_RUNTIME_TRAINER_PIPELINE_H

#include "runtime/rank/rank.h"

/* Opens a backend per rank. */
enum vp_status vp_pipeline_open(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_err *err);
/* In a world of several processes, which all come here: finds out whose devices
 * reach each other. */
enum vp_status vp_pipeline_meet(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_limit limit);
/* Plans the stages; `schedule` says who owns what and how many slots, versions
 * and buffers there are. */
enum vp_status vp_pipeline_plan(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks,
                                const struct vp_schedule *schedule,
                                struct vp_err *err);
/* Channels, groups, result rings. The stages' buffers must exist. */
enum vp_status vp_pipeline_connect(struct vp_pipeline *pipeline,
                                   struct vp_rank *ranks,
                                   const struct vp_schedule *schedule,
                                   struct vp_err *err);
/* Readers of data, from the minibatch on at which the run stands. */
enum vp_status vp_pipeline_open_readers(struct vp_rank *ranks,
                                        const struct vp_schedule *schedule,
                                        struct vp_err *err);
/* Minibatches of a stream that must be under way beyond one that is to be
 * reported: those that fill its round, and the forwards that stand before the
 * last backward of the round. */
int64_t vp_pipeline_ahead(const struct vp_schedule *schedule);
void vp_pipeline_release(struct vp_pipeline *pipeline, struct vp_rank *ranks);

#endif
