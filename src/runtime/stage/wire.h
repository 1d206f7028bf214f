/* Messages between stages on their way: handed over within a process, else
 * carried in memory of the host, and compressed if the run wants that. */
#ifndef VP_RUNTIME_STAGE_WIRE_H
#define VP_RUNTIME_STAGE_WIRE_H

#include "runtime/stage/stage.h"

/* A message of list F (activations) or B (gradients) that leaves, or has
 * arrived; its bytes are those of the minibatch's bucket. The same values
 * arrive, whether it travels or is handed over. */
enum vp_status vp_wire_pack(struct vp_stage *stage,
                            struct vp_stage_message *message, enum vp_list list,
                            size_t *n_bytes_out);
enum vp_status vp_wire_unpack(struct vp_stage *stage,
                              struct vp_stage_message *message,
                              enum vp_list list, size_t *n_bytes_out);
/* The stage needs nothing more of a message: its sender may write again. */
enum vp_status vp_wire_give_back(struct vp_stage *stage,
                                 const struct vp_stage_message *message);

/* Host memory of messages to and from other processes. */
enum vp_status vp_wires_allocate(struct vp_stage *stage);
void vp_wires_free(struct vp_stage *stage);

#endif
