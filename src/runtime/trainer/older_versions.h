/* Older versions of weights for a move to another plan of an asynchronous run.
 *
 * Stage s runs on the weights of W_s rounds ago, and W falls along the pipeline. A
 * block that moves to an earlier stage needs versions that its stage does not
 * have any more. Its stage therefore keeps what it overwrites (stage_kept.h)
 * while it trains on, until the next plan can take over:
 *
 *   asked, prepared | round  round  round | move
 *                   ^ stages begin to keep versions */
#ifndef VP_RUNTIME_TRAINER_OLDER_VERSIONS_H
#define VP_RUNTIME_TRAINER_OLDER_VERSIONS_H

#include "runtime/trainer/internal.h"

/* Returns the stage that has block `block` of the model. */
int vp_block_stage(const struct vp_trainer *trainer, int block);
/* Returns true if stage s of both schedules, for every s, makes an update after as
 * many minibatches and runs on the weights of as many updates ago. */
bool vp_schedules_have_same_depths(const struct vp_schedule *a,
                                   const struct vp_schedule *b);
/* `next` is the schedule of the next plan, which has `partition`. Nothing is kept
 * if its stages have other depths: a segment starts with it. */
void vp_older_needs_find(const struct vp_trainer *from,
                         const struct vp_schedule *next, const int *partition,
                         struct vp_older_needs *out);
/* Bytes that rank `rank` of `from` needs for it. */
int64_t vp_older_needs_bytes(const struct vp_trainer *from,
                             const struct vp_older_needs *needs, int rank);

/* Allocates, and lets the stages of this process begin to keep what they overwrite.
 * `from` may train meanwhile. */
enum vp_status vp_older_versions_create(struct vp_trainer *from,
                                        const struct vp_older_needs *needs,
                                        struct vp_older_versions *out);
/* Versions that stage `stage` has kept, at most those it needs to keep. Stages of
 * other processes count as if they had all. */
int vp_older_versions_count(const struct vp_older_versions *older, int stage);
/* Returns true if the stages of this process have kept all, and those of others had
 * the time to. On the thread that runs `from`. */
bool vp_older_versions_are_there(struct vp_older_versions *older);
/* Stops keeping, and frees. The ranks of `from` are idle. */
void vp_older_versions_release(struct vp_older_versions *older);

#endif
