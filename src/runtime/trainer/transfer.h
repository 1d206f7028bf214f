/* Arrays of a run that go from the stages of one trainer to those of another:
 * within a process they are copied, between processes they travel in pieces.
 *
 * Every rank that receives asks for its arrays in the order in which its stages
 * are restored. Senders know that order: every process has the plans of all
 * stages. They serve the ranks one after the other, all in the same order, so
 * that a rank that waits is never behind one that waits for it. */
#ifndef VP_RUNTIME_TRAINER_TRANSFER_H
#define VP_RUNTIME_TRAINER_TRANSFER_H

#include "runtime/trainer/internal.h"

struct vp_transfer;

/* Makes the links between processes that arrays will go over; all processes come
 * here. `progress` says how many versions of weights there are. */
enum vp_status vp_transfer_create(struct vp_trainer *next,
                                  struct vp_trainer *from,
                                  const struct vp_progress *progress,
                                  struct vp_transfer **out);
void vp_transfer_free(struct vp_transfer *transfer);

/* What vp_stage_restore() of the stages of `next` calls, on the threads of their
 * ranks: see vp_loader.load. `ctx` is the transfer. */
enum vp_status vp_transfer_load(void *ctx, const struct vp_state_item *item,
                                float *out, struct vp_err *err);
/* Sends what ranks of other processes ask for; meanwhile the ranks of this one
 * load. */
enum vp_status vp_transfer_send(struct vp_transfer *transfer,
                                struct vp_err *err);

#endif
