/* Older versions of weights for a move to another plan of an asynchronous run.
 *
 * Stage s uses the weights of W_s rounds ago, and W decreases along the
 * pipeline. A block that moves to an earlier stage needs versions that its
 * stage does not have any more. Its stage therefore keeps versions that it
 * would overwrite (stage_kept.h) until the next plan can take over:
 *
 *   next trainer created | round  round  round | move
 *                        ^ stages begin to keep versions */
#ifndef VP_RUNTIME_TRAINER_OLDER_VERSIONS_H
#define VP_RUNTIME_TRAINER_OLDER_VERSIONS_H

#include "runtime/trainer/internal.h"

/* Returns the stage that has block `block` of the model. */
int vp_block_stage(const struct vp_trainer *trainer, int block);
/* Returns true if both schedules have the same number of stages, and every
 * stage has the same length of a round and the same version lag in both. */
bool vp_schedules_have_same_depths(const struct vp_schedule *a,
                                   const struct vp_schedule *b);
/* Finds the versions that stages of `from` must keep for the next plan, which
 * has the schedule `next` and `partition`. None if its stages have other
 * depths: then a new segment starts. */
void vp_older_needs_find(const struct vp_trainer *from,
                         const struct vp_schedule *next, const int *partition,
                         struct vp_older_needs *out);
/* Returns the bytes that rank `rank` of `from` needs to keep them. */
int64_t vp_older_needs_bytes(const struct vp_trainer *from,
                             const struct vp_older_needs *needs, int rank);

/* Allocates memory for the versions and makes the stages of this process keep
 * what they overwrite. `from` may train at the same time. */
enum vp_status vp_older_versions_create(struct vp_trainer *from,
                                        const struct vp_older_needs *needs,
                                        struct vp_older_versions *out);
/* Returns the number of versions that stage `stage` has kept, at most the
 * number that it must keep. A stage of another process counts as complete. */
int vp_older_versions_count(const struct vp_older_versions *older, int stage);
/* Returns true if the stages of this process have kept all versions, and those
 * of other processes had enough time to. Call it on the thread that runs
 * `from`. */
bool vp_older_versions_are_there(struct vp_older_versions *older);
/* Stops keeping versions and frees their memory. The ranks of `from` must be
 * idle. */
void vp_older_versions_release(struct vp_older_versions *older);

#endif
