/* Messages between stages on their way: handed over within a process, else
 * carried in memory of the host, and compressed if the run wants that. */
#ifndef VP_RUNTIME_STAGE_WIRE_H
#define VP_RUNTIME_STAGE_WIRE_H

#include "runtime/stage/stage.h"

/* Do messages through a space go from device to device, without the host? */
bool vp_wire_is_direct(const struct vp_stage *stage, enum vp_space space);
/* The most bytes of a message through IN, OUT, DIN or DOUT. */
int64_t vp_wire_bytes(const struct vp_stage *stage, enum vp_space space);

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

/* Of all messages of a stage. The plan adds what its device has to hold. */
void vp_wires_plan(struct vp_stage *stage);
enum vp_status vp_wires_allocate(struct vp_stage *stage);
void vp_wires_free(struct vp_stage *stage);

#endif
