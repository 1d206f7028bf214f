/* Builds the ranks of a trainer and the links between them. */
#ifndef VP_RUNTIME_TRAINER_PIPELINE_H
#define VP_RUNTIME_TRAINER_PIPELINE_H

#include "runtime/rank/rank.h"

/* Opens a backend for each rank. */
enum vp_status vp_pipeline_open(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_err *err);
/* Finds out which devices can access each other. Called by every process of a
 * world. */
enum vp_status vp_pipeline_meet(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_limit limit);
/* Plans the stages. `schedule` gives the ranks of each stage and the number of
 * its slots, versions and buffers. */
enum vp_status vp_pipeline_plan(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks,
                                const struct vp_schedule *schedule,
                                struct vp_err *err);
/* Creates channels, groups and rings of results. The stages must be
 * allocated. */
enum vp_status vp_pipeline_connect(struct vp_pipeline *pipeline,
                                   struct vp_rank *ranks,
                                   const struct vp_schedule *schedule,
                                   struct vp_err *err);
/* Opens the readers of data, starting with the next minibatch of the run. */
enum vp_status vp_pipeline_open_readers(struct vp_rank *ranks,
                                        const struct vp_schedule *schedule,
                                        struct vp_err *err);
/* Returns how many minibatches of a stream must be posted beyond the one to be
 * reported: those that complete its round, and the forwards that precede the
 * last backward of the round. */
int64_t vp_pipeline_ahead(const struct vp_schedule *schedule);
void vp_pipeline_release(struct vp_pipeline *pipeline, struct vp_rank *ranks);

#endif
