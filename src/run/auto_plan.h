/* Replaces the plan of a configuration: with key `auto_plan` a plan is searched
 * for before the first step, and a resumed run that had moved to another plan
 * keeps that plan. */
#ifndef VP_RUN_AUTO_PLAN_H
#define VP_RUN_AUTO_PLAN_H

#include "comm/comm.h"
#include "config/load.h"

struct vp_auto_plan_options {
    struct vp_config_source source; /* source that `config` was loaded from */
    const char *resume; /* run or checkpoint to resume; NULL: a new run */
    bool measure;       /* measure this machine if it has no stored profile */
    struct vp_world *world; /* several processes, which all call; NULL: one */
};

/* Loads `config` again with a plan, if there is one for it:
 *
 *   auto_plan  the resumed run has a plan.json for the    otherwise
 *              number of ranks in `config`
 *   OFF        that plan if the run had moved to it,      none
 *              unless --set gives a key that it replaces
 *   ON         that plan                                  the search's
 *   AGAIN      the search's                               the search's
 *
 * The search finds the fastest plan for memory_limit, or for the memory of the
 * device. With several processes the lead decides and sends its plan to the
 * others. `*line_out`, which the caller frees, names the plan and the reason
 * for it; NULL: no plan. After a failure `config` is unchanged; all processes
 * return the error, and the process that failed has the message. */
enum vp_status vp_auto_plan(struct vp_config *config,
                            const struct vp_auto_plan_options *options,
                            char **line_out, struct vp_err *err);

#endif
