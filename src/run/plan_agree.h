/* Processes of a job must train the same plan: each one resolves it from its own
 * configuration, and compares it with the lead's. */
#ifndef VP_RUN_PLAN_AGREE_H
#define VP_RUN_PLAN_AGREE_H

#include "comm/comm.h"
#include "config/config.h"

/* All processes of the world come here before they do anything else together.
 * The lead tells the others its plan and the keys that training depends on:
 * their values, those of long ones shortened, with a checksum. If a process has
 * other values, all fail: one of them names the first difference, both values,
 * ranks and hosts; the message of the others is empty. `resumes`: the run goes
 * on from a checkpoint. `world`: NULL if there is one process. `agreed_out`: a
 * failure is known to all processes. */
enum vp_status vp_plan_agree(const struct vp_config *config, bool resumes,
                             struct vp_world *world, bool *agreed_out,
                             struct vp_err *err);

#endif
