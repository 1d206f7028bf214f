/* Moves the arrays of a run from the stages of one trainer to those of another:
 * by copies within a process, by messages (pieces) between processes.
 *
 * Every rank receives its arrays in the order in which its stages are restored.
 * Senders use the same order: every process has the plans of all stages. They
 * send to one rank after the other, all in the same order, so that a rank that
 * waits is never behind one that waits for it. */
#ifndef VP_RUNTIME_TRAINER_TRANSFER_H
#define VP_RUNTIME_TRAINER_TRANSFER_H

#include "runtime/trainer/internal.h"

struct vp_transfer;

/* Creates the links between processes. All processes call it. `progress` gives
 * the number of weight versions. */
enum vp_status vp_transfer_create(struct vp_trainer *next,
                                  struct vp_trainer *from,
                                  const struct vp_progress *progress,
                                  struct vp_transfer **out);
void vp_transfer_free(struct vp_transfer *transfer);

/* The load() of a vp_loader whose ctx is the transfer. vp_stage_restore() calls
 * it on the threads of the ranks of `next`. */
enum vp_status vp_transfer_load(void *ctx, const struct vp_state_item *item,
                                float *out, struct vp_err *err);
/* Sends the arrays that ranks of other processes load, while the ranks of this
 * process load theirs. */
enum vp_status vp_transfer_send(struct vp_transfer *transfer,
                                struct vp_err *err);

#endif
