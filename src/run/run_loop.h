/* The loop of a run that is set up. */
#ifndef VP_RUN_RUN_LOOP_H
#define VP_RUN_RUN_LOOP_H

#include "run/run_state.h"

/* Reads reports, decides when to evaluate and to save. */
enum vp_status vp_run_lead(struct vp_run_state *run, struct vp_err *err);
/* The other processes of a run: until the lead ends it. */
enum vp_status vp_run_follow(struct vp_run_state *run, struct vp_err *err);

#endif
