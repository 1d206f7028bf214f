/* The plan of a run that is not the one of its configuration: with key `auto_plan` it
 * is searched for before the first step, and a run that has moved to another plan
 * keeps that when it is resumed. */
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

/* Loads `config` again with a plan, if there is one for it:
 *
 *   auto_plan  a resumed run has plan.json for as many ranks   else
 *   OFF        that plan if the run had moved to it, unless    none
 *              --set gives a key that it replaces
 *   ON         that plan                                       the search's
 *   AGAIN      the search's                                    the search's
 *
 * The search finds the fastest plan for memory_limit, or for the memory of the
 * device. Of several processes the lead decides, and all get its plan.
 * `*line_out`, to be freed, says which plan it is and why; NULL: none. `config`
 * stays as it was after a failure, which all processes return; the one that
 * failed has the text. */
enum vp_status vp_auto_plan(struct vp_config *config,
                            const struct vp_auto_plan_options *options,
                            char **line_out, struct vp_err *err);

#endif
