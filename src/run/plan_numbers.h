/* Numbers that a configuration leaves to the planner: batch_size,
 * accumulation_steps, replicas and mp_size that say auto. They change what is
 * learnt, mp_size by rounding alone, so they are chosen only then. */
#ifndef VP_RUN_PLAN_NUMBERS_H
#define VP_RUN_PLAN_NUMBERS_H

#include "config/load.h"
#include "run/planning.h"

/* As values of --set. */
enum { VP_PLAN_NUMBERS_MAX = 5, VP_PLAN_NUMBERS_BYTES = 320 };
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
 * accumulation_steps likewise, from one per rank of the schedule up to eight;
 * replicas and mp_size are any divisors of the number of ranks, the same for all
 * stages. The ranks stay as many as `config` has, in which an mp_size that is auto
 * counts as 1. */
enum vp_status vp_plan_numbers_choose(const struct vp_plan_numbers_config *with,
                                      struct vp_plan_numbers *out,
                                      struct vp_err *err);

/* Adds the numbers of a run that goes on, for the keys of `config` that say auto:
 * batch_size and accumulation_steps, which must not change. `run` is its resolved
 * configuration. */
void vp_plan_numbers_keep(const struct vp_config *config,
                          const struct vp_config *run,
                          struct vp_plan_numbers *numbers);
/* If its plan is kept: stages, replicas and mp_size. */
void vp_plan_numbers_keep_ranks(const struct vp_config *config,
                                const struct vp_config *run,
                                struct vp_plan_numbers *numbers);
/* If it gets a new plan: mp_size, unless that does not divide the ranks. */
void vp_plan_numbers_keep_members(const struct vp_config *config,
                                  const struct vp_config *run,
                                  struct vp_plan_numbers *numbers);
/* Adds the numbers of `more`; a key that both have gets the value of `more`. */
void vp_plan_numbers_join(struct vp_plan_numbers *numbers,
                          const struct vp_plan_numbers *more);

/* Gives `source` the numbers behind its own sets. The caller frees the list that
 * is returned, which borrows both; NULL: memory is exhausted. */
const char **vp_plan_numbers_add(const struct vp_plan_numbers *numbers,
                                 struct vp_config_source *source);

#endif
