/* The planner as a remedy: a plan that fits where the configuration's does not. */
#include "run/advice.h"

#include "run/planning.h"
#include "runtime/fit.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether the plan of `train` lacks memory of a stage, and nothing else. */
static bool lacks_limit(const struct vp_train_config *train)
{
    struct vp_train_config dry = *train;
    struct vp_priced_plan priced;
    struct vp_err err;
    bool lacks;

    dry.backend_config.plan_only = true;
    if (vp_priced_plan_make(&dry, &priced, &err) != VP_OK)
        return false;
    lacks = vp_fit_lacks(&dry, &priced.schedule, priced.stages, &err) ==
            VP_LACK_LIMIT;
    vp_priced_plan_release(&priced);
    return lacks;
}

static bool finds_plan(const struct vp_config *config)
{
    const struct vp_planning_options options = { .profile = "synthetic" };
    struct vp_search_result *result = calloc(1, sizeof(*result));
    struct vp_search_input input;
    struct vp_planning *planning;
    struct vp_err err;
    bool found = false;

    if (result &&
        vp_planning_open(config, &options, &planning, &err) == VP_OK) {
        input = *vp_planning_input(planning);
        input.any = true;
        found = vp_search_run(vp_planning_search(planning), &input, result,
                              &err) == VP_OK;
        if (found)
            vp_search_result_release(result);
        vp_planning_close(planning);
    }
    free(result);
    return found;
}

/* "16M", or bytes. */
static void size_text(size_t bytes, char *out, size_t n_bytes)
{
    const size_t mebi = (size_t)1 << 20;

    if (bytes % mebi == 0)
        snprintf(out, n_bytes, "%zuM", bytes / mebi);
    else
        snprintf(out, n_bytes, "%zu", bytes);
}

void vp_advice_plan(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err)
{
    char memory[32];

    if (config->memory_limit == 0 || train->loader || config->piped ||
        !lacks_limit(train) || !finds_plan(config))
        return;
    size_text(config->memory_limit, memory, sizeof(memory));
    vp_err_suffix(err,
                  "; or train with a plan that fits, from 'vpipe plan %.200s "
                  "--memory %s --out plan.json'",
                  config->path, memory);
}
