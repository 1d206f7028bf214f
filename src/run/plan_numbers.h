/* Numbers that a configuration leaves to the planner: batch_size,
 * accumulation_steps and replicas that say auto. They change what is learnt, so
 * they are chosen only then. */
#ifndef VP_RUN_PLAN_NUMBERS_H
#define VP_RUN_PLAN_NUMBERS_H

#include "config/load.h"
#include "run/planning.h"

/* As values of --set. */
enum { VP_PLAN_NUMBERS_MAX = 4, VP_PLAN_NUMBERS_BYTES = 320 };
struct vp_plan_numbers {
    char sets[VP_PLAN_NUMBERS_MAX][VP_PLAN_NUMBERS_BYTES];
    int n;
    int n_tried; /* combinations that fit */
    bool stages; /* is among them: lists by stage are not the user's any more */
};

struct vp_plan_numbers_config {
    struct vp_config_source source; /* that `config` was loaded from */
    const struct vp_config *config; /* some of its auto_keys are set */
    struct vp_planning_options planning;
    /* Called before each plan is made; may be NULL. */
    void (*alive)(void *ctx);
    void *ctx;
};

/* Finds the combination with the most samples per second that fits memory.
 * Batches are doubled until that gains less than 1 % or does not fit;
 * accumulation_steps likewise, from one per rank up to eight; replicas are any
 * divisor of the number of ranks, the same for all stages. */
enum vp_status vp_plan_numbers_choose(const struct vp_plan_numbers_config *with,
                                      struct vp_plan_numbers *out,
                                      struct vp_err *err);

/* Adds the numbers of a run that goes on, for the keys of `config` that say auto:
 * batch_size and accumulation_steps, which must not change, or `replicas` and
 * stages. `run` is its resolved configuration. */
void vp_plan_numbers_keep(const struct vp_config *config,
                          const struct vp_config *run, bool replicas,
                          struct vp_plan_numbers *numbers);

/* Gives `source` the numbers behind its own sets. The caller frees the list that
 * is returned, which borrows both; NULL: memory is exhausted. */
const char **vp_plan_numbers_add(const struct vp_plan_numbers *numbers,
                                 struct vp_config_source *source);

#endif
