/* Numbers that a configuration leaves to the planner: batch_size,
 * accumulation_steps and replicas with the value auto. They change what the
 * model learns, so others are never changed. */
#ifndef VP_RUN_PLAN_NUMBERS_H
#define VP_RUN_PLAN_NUMBERS_H

#include "config/load.h"
#include "run/planning.h"

/* Chosen numbers as arguments of --set. */
enum { VP_PLAN_NUMBERS_MAX = 4, VP_PLAN_NUMBERS_BYTES = 320 };
struct vp_plan_numbers {
    char sets[VP_PLAN_NUMBERS_MAX][VP_PLAN_NUMBERS_BYTES];
    int n;
    int n_tried; /* combinations that fit */
    bool stages; /* sets `stages`: the user's lists per stage do not apply */
};

struct vp_plan_numbers_config {
    struct vp_config_source source; /* source that `config` was loaded from */
    const struct vp_config *config; /* has at least one of auto_keys set */
    struct vp_planning_options planning;
    /* Called before each combination is planned; may be NULL. */
    void (*alive)(void *ctx);
    void *ctx;
};

/* Finds the combination with the most samples per second that fits into memory.
 * The batch size is doubled until that gains less than 1 % or does not fit, and
 * so are accumulation_steps, from one to eight per rank; replicas are any
 * divisor of the number of ranks, the same for all stages. */
enum vp_status vp_plan_numbers_choose(const struct vp_plan_numbers_config *with,
                                      struct vp_plan_numbers *out,
                                      struct vp_err *err);

/* Adds the numbers of a resumed run, whose resolved configuration is `run`, for
 * the keys of `config` that are auto: with `replicas`, replicas and stages;
 * otherwise batch_size and accumulation_steps, which must not change. */
void vp_plan_numbers_keep(const struct vp_config *config,
                          const struct vp_config *run, bool replicas,
                          struct vp_plan_numbers *numbers);

/* Appends the numbers to the sets of `source`. Returns the new list of sets,
 * which borrows from both and which the caller frees; NULL: out of memory. */
const char **vp_plan_numbers_add(const struct vp_plan_numbers *numbers,
                                 struct vp_config_source *source);

#endif
