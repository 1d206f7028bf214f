/* LAMB's trust ratios on ranks that have parts of tensors: shards of the
 * optimizer's state, slices of a tensor-parallel group, or shards of slices. */
#include "runtime/stage/shard_table.h"
#include "runtime/stage/stage.h"

static bool has_members(const struct vp_stage *stage)
{
    return stage->members && stage->members->n > 1;
}

bool vp_stage_is_measured(const struct vp_stage *stage)
{
    return stage->config.work.optim.kind == VP_OPTIM_LAMB &&
           (stage->shard || has_members(stage));
}

/* Adds the squares of slices in member order. A tensor that every member has
 * counts once, because all have the same sums of it. Zeros that pad a last
 * slice add nothing: weights, gradients and moments are zero there. */
static enum vp_status add_members(struct vp_stage *stage)
{
    const struct vp_members *members = stage->members;
    int n = stage->n_tensors;

    members->exchange(members->ctx, NULL, stage->squares,
                      (size_t)n * sizeof(*stage->squares), stage->all_squares);
    VP_TRY(members->status(members->ctx));
    for (int i = 0; i < n; i++) {
        if (stage->tensor_params[i]->slice.axis == VP_SLICE_NONE)
            continue;
        for (int which = 0; which < 2; which++) {
            double sum = 0.0;

            for (int k = 0; k < members->n; k++)
                sum += stage->all_squares[k * n + i][which];
            stage->squares[i][which] = sum;
        }
    }
    return VP_OK;
}

enum vp_status vp_stage_set_ratios(struct vp_stage *stage)
{
    const struct vp_shard_table *shard = stage->shard;

    if (!vp_stage_is_measured(stage))
        return VP_OK;
    if (has_members(stage))
        VP_TRY(add_members(stage));
    for (int i = 0; i < stage->n_tensors; i++)
        stage->ratios[i] = vp_optim_trust_ratio(stage->squares[i][0],
                                                stage->squares[i][1]);
    for (int c = 0; shard && c < shard->n_chunks; c++)
        shard->ratios[c] = stage->ratios[shard->tensors[c]];
    return VP_OK;
}
