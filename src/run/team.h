/* Lets processes save a checkpoint together: each reports the files that it has
 * written to the lead. */
#ifndef VP_RUN_TEAM_H
#define VP_RUN_TEAM_H

#include "ckpt/store.h"
#include "comm/comm.h"

struct vp_team;

/* To be called by all processes of the world. To be freed before the world. */
enum vp_status vp_team_create(struct vp_world *world, int n_blocks,
                              struct vp_team **out, struct vp_err *err);
void vp_team_free(struct vp_team *team);

/* Returns the functions for the checkpoint writer; NULL if `team` is NULL. */
const struct vp_ckpt_team *vp_team_ckpt(struct vp_team *team);

#endif
