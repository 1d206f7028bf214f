/* Messages between stages: passed on within a process, otherwise through host
 * memory, compressed if the plan says so. */
#ifndef VP_RUNTIME_STAGE_WIRE_H
#define VP_RUNTIME_STAGE_WIRE_H

#include "runtime/stage/stage.h"

/* Packs a message of list F (activations) or B (gradients) before it is sent,
 * or unpacks one that has arrived. `n_bytes_out`: bytes for the minibatch's
 * bucket. The received values do not depend on whether the message stays within
 * the process. */
enum vp_status vp_wire_pack(struct vp_stage *stage,
                            struct vp_stage_message *message, enum vp_list list,
                            size_t *n_bytes_out);
enum vp_status vp_wire_unpack(struct vp_stage *stage,
                              struct vp_stage_message *message,
                              enum vp_list list, size_t *n_bytes_out);
/* The stage has read the message for the last time: its sender may overwrite
 * it. */
enum vp_status vp_wire_give_back(struct vp_stage *stage,
                                 const struct vp_stage_message *message);

/* Host memory of messages to and from other processes. */
enum vp_status vp_wires_allocate(struct vp_stage *stage);
void vp_wires_free(struct vp_stage *stage);

#endif
