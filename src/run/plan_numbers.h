/* Numbers that a configuration leaves to the planner: batch_size,
 * accumulation_steps, replicas and mp_size with the value auto. They change what
 * the model learns, mp_size by rounding alone, so others are never changed. */
#ifndef VP_RUN_PLAN_NUMBERS_H
#define VP_RUN_PLAN_NUMBERS_H

#include "config/load.h"
#include "run/planning.h"

/* Chosen numbers as arguments of --set. */
enum { VP_PLAN_NUMBERS_MAX = 5, VP_PLAN_NUMBERS_BYTES = 320 };
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
 * so are accumulation_steps, from one to eight per rank of the schedule; replicas
 * and mp_size are any divisors of the number of ranks, the same for all stages.
 * The number of ranks is that of `config`, where mp_size auto counts as 1. */
enum vp_status vp_plan_numbers_choose(const struct vp_plan_numbers_config *with,
                                      struct vp_plan_numbers *out,
                                      struct vp_err *err);

/* Adds the numbers of a resumed run, whose resolved configuration is `run`, for
 * the keys of `config` that are auto: batch_size and accumulation_steps, which
 * must not change. */
void vp_plan_numbers_keep(const struct vp_config *config,
                          const struct vp_config *run,
                          struct vp_plan_numbers *numbers);
/* Does the same for stages, replicas and mp_size of a run that keeps its plan. */
void vp_plan_numbers_keep_ranks(const struct vp_config *config,
                                const struct vp_config *run,
                                struct vp_plan_numbers *numbers);
/* Does the same for the mp_size of a run that gets a new plan, unless that does not
 * divide its ranks. */
void vp_plan_numbers_keep_members(const struct vp_config *config,
                                  const struct vp_config *run,
                                  struct vp_plan_numbers *numbers);
/* Adds the numbers of `more`; a key that both have gets the value of `more`. */
void vp_plan_numbers_join(struct vp_plan_numbers *numbers,
                          const struct vp_plan_numbers *more);

/* Appends the numbers to the sets of `source`. Returns the new list of sets,
 * which borrows from both and which the caller frees; NULL: out of memory. */
const char **vp_plan_numbers_add(const struct vp_plan_numbers *numbers,
                                 struct vp_config_source *source);

#endif
