/* Checks that all processes of a job train the same plan: each one resolves it
 * from its own configuration, and compares it with the lead's. */
#ifndef VP_RUN_PLAN_AGREE_H
#define VP_RUN_PLAN_AGREE_H

#include "comm/comm.h"
#include "config/config.h"

/* To be called by all processes of `world` before they do anything else
 * together; `world` NULL: there is one process. The lead sends the others its
 * plan and the values of the keys that training depends on; long values are
 * shortened to their first bytes and a checksum. If a process has other values,
 * all processes fail: one of them names the first difference, both values,
 * ranks and hosts; the message of the others is empty. `resumes`: the run
 * continues from a checkpoint. Sets `*agreed_out` to true if all processes know
 * of a failure. */
enum vp_status vp_plan_agree(const struct vp_config *config, bool resumes,
                             struct vp_world *world, bool *agreed_out,
                             struct vp_err *err);

#endif
