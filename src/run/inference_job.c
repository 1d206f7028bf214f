/* Agreement and error handling between the processes of an inference job. */
#include "run/inference_job.h"

#include "run/plan_agree.h"
#include "run/share_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vp_inference_job_is_lead(const struct vp_inference_job *job)
{
    return !job || !job->world ||
           vp_world_is_mine(job->world, vp_world_lead(job->world));
}

enum vp_status vp_inference_check(const struct vp_config *config,
                                  struct vp_err *err)
{
    for (int s = 0; s < config->replicas.n; s++)
        if (config->replicas.at[s] > 1)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'replicas': a trained model has one "
                              "rank for each stage; leave it out",
                              vp_config_place(config, "replicas"));
    if (vp_config_is_distributed(config) &&
        vp_config_rank_number(config, 0) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the first stage of a trained model must be on "
                          "rank 0, which has its input; it is on rank %d",
                          vp_config_blame(config, "placement stages"),
                          vp_config_rank_number(config, 0));
    return VP_OK;
}

/* ---- The same model ----------------------------------------------------- */

/* Compares the description of this process's checkpoint, `mine`, with the
 * lead's. */
static enum vp_status compare(const struct vp_config *config,
                              const struct vp_model_source *source,
                              const struct vp_world *world, const char *mine,
                              const char *leads, struct vp_err *err)
{
    int me = 0;

    if (strcmp(mine, leads) == 0)
        return VP_OK;
    while (!vp_world_is_mine(world, me))
        me++;
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: is a %s on rank %d, but rank %d has a %s; name the "
        "same checkpoint for all ranks",
        vp_model_source_path(source), mine, vp_config_rank_number(config, me),
        vp_config_rank_number(config, vp_world_lead(world)), leads);
}

static enum vp_status agree_on_source(const struct vp_config *config,
                                      const struct vp_model_source *source,
                                      struct vp_world *world,
                                      struct vp_err *err)
{
    char mine[128], *leads = NULL;
    bool is_lead = vp_world_is_mine(world, vp_world_lead(world));
    enum vp_status st;

    snprintf(mine, sizeof(mine), "%s with checksum %016" PRIx64,
             vp_model_source_what(source), vp_model_source_checksum(source));
    VP_TRY(vp_share_text(world, is_lead ? mine : NULL, &leads, err));
    st = compare(config, source, world, mine, leads, err);
    free(leads);
    return vp_world_agree(world, st, VP_LIMIT_NEVER, err);
}

enum vp_status vp_inference_agree(const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  struct vp_inference_job *job,
                                  struct vp_err *err)
{
    enum vp_status st;

    VP_TRY(vp_plan_agree(config, false, job->world, &job->agreed, err));
    if (!job->world)
        return VP_OK;
    st = agree_on_source(config, source, job->world, err);
    job->agreed = st != VP_OK;
    return st;
}

/* ---- Failures ----------------------------------------------------------- */

void vp_inference_give_up(struct vp_inference_job *job, enum vp_status status,
                          struct vp_err *err)
{
    if (!job->world || job->agreed)
        return;
    if (!job->told) /* the others wait in vp_inference_follow() */
        vp_world_agree(job->world, status, VP_LIMIT_NEVER, err);
    else
        vp_world_abort(job->world, status, err->text);
    job->agreed = true;
}
