/* Processes that save a checkpoint together: which files each one wrote. */
#ifndef VP_RUN_TEAM_H
#define VP_RUN_TEAM_H

#include "ckpt/store.h"
#include "comm/comm.h"

struct vp_team;

/* All processes of the world make one, and free it before the world. */
enum vp_status vp_team_create(struct vp_world *world, int n_blocks,
                              struct vp_team **out, struct vp_err *err);
void vp_team_free(struct vp_team *team);

const struct vp_ckpt_team *vp_team_ckpt(struct vp_team *team);

#endif
