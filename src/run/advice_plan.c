/* Suggests `vpipe plan` where the configuration's own plan does not fit
 * memory_limit, after checking that a plan which fits exists. */
#include "run/advice.h"

#include "run/command.h"
#include "run/planning.h"
#include "runtime/fit.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns true if the plan of `train` exceeds memory_limit, and nothing else is
 * too small. */
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

/* Returns the command that makes the plan; the caller frees it. NULL: out of
 * memory. */
static char *print_command(const struct vp_config *config)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);

    if (!out)
        return NULL;
    fputs("vpipe plan ", out);
    vp_command_write_word(out, config->path);
    for (int i = 0; i < config->n_sets; i++) {
        fputs(" --set ", out);
        vp_command_write_word(out, config->sets[i]);
    }
    fputs(" --out plan.json", out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void vp_advice_plan(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err)
{
    char *command;

    if (config->memory_limit == 0 || train->loader || config->piped ||
        !lacks_limit(train) || !finds_plan(config))
        return;
    command = print_command(config);
    if (command)
        vp_err_suffix(err, "; or train with a plan that fits: %s", command);
    free(command);
}
