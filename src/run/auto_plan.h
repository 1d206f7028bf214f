/* Key `auto_plan`: the plan of a run is searched for before its first step. */
#ifndef VP_RUN_AUTO_PLAN_H
#define VP_RUN_AUTO_PLAN_H

#include "comm/comm.h"
#include "config/load.h"

struct vp_auto_plan_options {
    struct vp_config_source source; /* that the configuration was loaded from */
    const char *resume; /* a run or checkpoint that goes on; NULL: a new run */
    bool measure;       /* this machine, if no profile is known */
    struct vp_world *world; /* of several processes, which all come here */
};

/* Loads `config`, whose auto_plan is not OFF, again with a plan: that of the run
 * folder of `resume`, unless auto_plan is AGAIN or the plan is for another
 * number of ranks; else the fastest one that the search finds for memory_limit,
 * or for the memory of the device. Of several processes the lead plans, and all
 * get its plan. `*line_out`, to be freed, says which plan it is and why; it is
 * written only on success. `config` stays as it was after a failure, which all
 * processes return; the one that failed has the text. */
enum vp_status vp_auto_plan(struct vp_config *config,
                            const struct vp_auto_plan_options *options,
                            char **line_out, struct vp_err *err);

#endif
