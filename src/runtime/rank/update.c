/* Updates at the end of a group or round, after the sum over replicas: sums over
 * tied weights, the gradient norm, and the next weight version.
 *
 * If nothing depends on the norm, an asynchronous device is given the update, and
 * the actions after it up to the next backward, before the norm is known. The
 * rank reads the norm while the device still has work; ranks exchange norms at
 * the next update:
 *
 *   host     B0 U0 F1 B1 | waits, reads | U1, shares, F2 B2 | waits, reads |
 *   device   F0 .... B0 ............ U0   F1 .... B1 ............ U1   F2 ....
 */
#include "runtime/rank/internal.h"
#include "runtime/rank/members.h"
#include "runtime/rank/remote.h"
#include "runtime/rank/save.h"
#include "runtime/rank/watch.h"
#include "runtime/rank/watch_count.h"
#include "runtime/stage/stage_shard.h"

#include <math.h>

/* Lists the gradients of a tied parameter on this rank, one term per use. */
static int list_uses(const struct vp_rank *rank, const struct vp_tie *tie,
                     struct vp_term *terms)
{
    int n = 0;

    for (int s = 0; s < rank->n_stages; s++) {
        const struct vp_rank_stage *rs = &rank->stages[s];
        const struct vp_program *program = &rs->stage.plan.train[0];

        for (int i = 0; i < program->layout.n_entries; i++) {
            vp_par par = program->layout.entries[i].par;
            const struct vp_param *param = &program->graph->params[par];

            if (par != tie->owner && param->tied_to != tie->owner)
                continue;
            VP_BUG_ON(n == VP_MAX_USES);
            terms[n++] = (struct vp_term){ vp_stage_grad(&rs->stage, i),
                                           param->block, rs->replica > 0 };
        }
    }
    return n;
}

/* Copies the uses to the host and sets `terms` to the copies, or copies the sum
 * back. */
static enum vp_status copy_uses(struct vp_rank *rank, const struct vp_tie *tie,
                                struct vp_term *terms, int n, bool back)
{
    struct vp_stage *stage = &rank->stages[0].stage;
    size_t n_bytes = (size_t)tie->n * sizeof(float);

    for (int i = 0; tie->mirror && i < n; i++) {
        float *host = tie->mirror + i * tie->n;

        VP_TRY(vp_stream_copy(stage->stream, back ? terms[i].data : host,
                              back ? host : terms[i].data, n_bytes));
        if (!back)
            terms[i].data = host;
    }
    return tie->mirror ? vp_stage_wait(stage) : VP_OK;
}

/* Waits until the gradients that other ranks add are complete. */
static enum vp_status wait_for_uses(struct vp_rank *rank,
                                    const struct vp_tie *tie)
{
    for (int s = 0; !tie->own && s < rank->n_stages; s++)
        VP_TRY(vp_stage_wait(&rank->stages[s].stage));
    return VP_OK;
}

static enum vp_status add_tie(struct vp_rank *rank, const struct vp_tie *tie)
{
    struct vp_term terms[VP_MAX_USES];
    int n = list_uses(rank, tie, terms);
    enum vp_status st;

    if (tie->own && !vp_device_has_host_memory(rank->device))
        return vp_stage_add_uses(&rank->stages[0].stage, terms, n, tie->n);
    VP_TRY(wait_for_uses(rank, tie));
    VP_TRY(copy_uses(rank, tie, terms, n, false));
    vp_watch_begin_wait(rank);
    st = vp_group_add(tie->group, tie->member[rank->index], terms, n, tie->n,
                      limit_of(rank));
    vp_watch_end_wait(rank, st);
    VP_TRY(st);
    n = list_uses(rank, tie, terms);
    return copy_uses(rank, tie, terms, n, true);
}

/* Uses of a tied parameter are added in block order, independent of their
 * ranks; then every stage that has a copy makes the same update of it. */
static enum vp_status add_ties(struct vp_rank *rank)
{
    for (int t = 0; t < rank->pipeline->n_ties; t++)
        if (rank->pipeline->ties[t].member[rank->index] >= 0)
            VP_TRY(add_tie(rank, &rank->pipeline->ties[t]));
    return VP_OK;
}

/* ---- The norm ----------------------------------------------------------- */

/* Adds the squares of a stage's gradients per block, tensors in order: the
 * sum over blocks has the same bits however they are spread over stages. Tensors
 * that all members of a group have are added by the first member. */
static void add_squares(const struct vp_rank *rank,
                        const struct vp_stage *stage, double *per_block)
{
    for (int i = 0; i < stage->n_own_tensors; i++)
        if (rank->member == 0 ||
            stage->tensor_params[i]->slice.axis != VP_SLICE_NONE)
            per_block[stage->tensors[i].block] += stage->sums[i];
}

static double add_blocks(const struct vp_stage *stage, const double *per_block)
{
    double total = 0.0;

    for (int b = 0; b < stage->plan.spec.n_blocks; b++)
        total += per_block[stage->plan.spec.first_block + b];
    return total;
}

/* Returns the norm of the gradients without the loss scale. */
static double norm_of(double squares, const struct vp_scale *scale)
{
    return isfinite(squares) ? sqrt(squares) / (double)vp_scale_factor(scale)
                             : (double)INFINITY;
}

/* Refuses non-finite gradients, except under a loss scale, where they are
 * expected; see advance(). */
static enum vp_status refuse_nonfinite(struct vp_rank *rank,
                                       const struct vp_rank_stage *rs)
{
    struct vp_err err = { .text = "" };

    if (isfinite(rs->norm) || rs->stage.scale.value > 0.0f)
        return VP_OK;
    if (vp_stage_blame_grads(&rs->stage, rs->index, (uint64_t)rank->pending_mb,
                             &err) == VP_OK)
        return VP_OK; /* another stage reports it */
    vp_world_abort(rank->pipeline->world, VP_ERR_NONFINITE, err.text);
    return VP_ERR_NONFINITE;
}

/* Returns the factor of the mean over the minibatches of a round; for a
 * synchronous round it is part of the loss. */
static float mean_of(const struct vp_rank *rank, const struct vp_rank_stage *rs)
{
    if (rank->job->sync)
        return 1.0f;
    return 1.0f / (float)sched_stage_of(rank, rs->index)->update_every;
}

/* Replicas with shards of the optimizer's state wait for each other. */
static enum vp_status sum_grads(struct vp_rank *rank, struct vp_stage *stage)
{
    enum vp_status st;

    if (!stage->shard)
        return vp_stage_sum_grads(stage);
    vp_watch_begin_wait(rank);
    st = vp_stage_sum_grads(stage);
    vp_watch_end_wait(rank, st);
    return st;
}

/* Starts the sums of squares. The gradients are final at this point of the
 * stream; `mb` is their last minibatch. */
static enum vp_status square_stages(struct vp_rank *rank, int64_t mb)
{
    VP_TRY(vp_members_add_grads(rank));
    VP_TRY(add_ties(rank));
    for (int s = 0; s < rank->n_stages; s++)
        VP_TRY(sum_grads(rank, &rank->stages[s].stage));
    rank->pending = VP_PENDING_SUMS;
    rank->pending_mb = mb;
    return VP_OK;
}

/* Reads the squares of all stages of this rank and computes the norm of
 * each. */
static enum vp_status read_sums(struct vp_rank *rank)
{
    int n_blocks = rank->pipeline->config->graphs[0].n_blocks;

    for (int b = 0; b < n_blocks; b++)
        rank->mine[b] = 0.0;
    for (int s = 0; s < rank->n_stages; s++) {
        VP_TRY(vp_stage_wait_sums(&rank->stages[s].stage));
        add_squares(rank, &rank->stages[s].stage, rank->mine);
    }
    VP_TRY(vp_members_add(rank, rank->mine, n_blocks));
    for (int s = 0; s < rank->n_stages; s++) {
        struct vp_rank_stage *rs = &rank->stages[s];

        rs->norm = norm_of(add_blocks(&rs->stage, rank->mine),
                           &rs->stage.scale) *
                   (double)mean_of(rank, rs);
        VP_TRY(refuse_nonfinite(rank, rs));
    }
    rank->pending = VP_PENDING_NORM;
    rank->seen = vp_watch_mark(rank);
    return VP_OK;
}

/* Exchanges the squares of all blocks and the stop flags with all ranks. */
static enum vp_status share_norm(struct vp_rank *rank)
{
    struct vp_pipeline *pipeline = rank->pipeline;
    int n_blocks = pipeline->config->graphs[0].n_blocks;
    size_t n = (size_t)n_blocks + 1; /* squares per block, stop flag */
    double total = 0.0;
    enum vp_status st;

    for (int b = 0;
         b < n_blocks && (rank->stages[0].replica > 0 || rank->member > 0); b++)
        rank->mine[b] = 0.0;
    rank->mine[n_blocks] = atomic_load(&pipeline->stop_asked);
    vp_watch_begin_wait(rank);
    st = vp_group_exchange(pipeline->everybody, rank->index, rank->mine,
                           n * sizeof(double), rank->all, limit_of(rank));
    vp_watch_end_wait(rank, st);
    VP_TRY(st);
    for (int b = 0; b < n_blocks; b++)
        for (int r = 0; r < pipeline->n_ranks; r++)
            total += rank->all[(size_t)r * n + (size_t)b];
    rank->norm = norm_of(total, &rank->stages[0].stage.scale);
    rank->stop = false;
    for (int r = 0; r < pipeline->n_ranks; r++)
        rank->stop |= rank->all[(size_t)r * n + (size_t)n_blocks] != 0.0;
    rank->pending = VP_PENDING_NOTHING;
    return VP_OK;
}

static enum vp_status report_update(struct vp_rank *rank,
                                    const struct vp_rank_stage *rs,
                                    struct vp_mark mark)
{
    struct vp_note note = {
        .kind = VP_NOTE_UPDATE,
        .stage = (int)(rs - rank->stages),
        .number = rs->stage.newest,
        .of.update = { .norm = rs->norm,
                       .global_norm = rank->norm,
                       .mark = mark,
                       .scale = rs->stage.scale },
    };

    if (!rank->pipeline->is_lead)
        vp_stage_stats_add(rs, &note.of.update.stats);
    return vp_remote_send_note(rank, &note);
}

static enum vp_status report_late(struct vp_rank *rank)
{
    rank->pending = VP_PENDING_NOTHING;
    for (int s = 0; s < rank->n_stages; s++)
        VP_TRY(report_update(rank, &rank->stages[s], rank->seen));
    return VP_OK;
}

/* Each stage of a stream has its own norm, which is reported without an
 * exchange. */
enum vp_status vp_update_poll(struct vp_rank *rank)
{
    if (rank->pending != VP_PENDING_SUMS)
        return VP_OK;
    VP_TRY(read_sums(rank));
    return rank->job->sync ? VP_OK : report_late(rank);
}

enum vp_status vp_update_finish(struct vp_rank *rank)
{
    if (rank->pending == VP_PENDING_SUMS)
        VP_TRY(read_sums(rank));
    if (rank->pending == VP_PENDING_NOTHING)
        return VP_OK;
    if (rank->job->sync)
        VP_TRY(share_norm(rank));
    return report_late(rank);
}

/* ---- The update --------------------------------------------------------- */

static enum vp_status give_up(struct vp_rank *rank, float scale)
{
    struct vp_err err;

    vp_err_set(&err, VP_ERR_NONFINITE,
               "%d updates in a row were skipped, the last with loss_scale "
               "%.8g: gradients are not finite; lower learning_rate%s, or use "
               "another precision",
               VP_SCALE_GIVES_UP_AFTER, (double)scale,
               rank->pipeline->config->scale.dynamic ? "" : " or loss_scale");
    vp_world_abort(rank->pipeline->world, VP_ERR_NONFINITE, err.text);
    return VP_ERR_NONFINITE;
}

enum vp_status vp_update_end_gather(struct vp_rank *rank,
                                    struct vp_rank_stage *rs)
{
    struct vp_stage *stage = &rs->stage;
    enum vp_status st;

    if (!stage->shard || !stage->shard->gathers)
        return VP_OK;
    vp_watch_begin_wait(rank);
    st = vp_stage_shard_end(stage, limit_of(rank));
    vp_watch_end_wait(rank, st);
    return st;
}

/* Exchanges with members of the group mark their own waits. */
static enum vp_status measure(struct vp_rank *rank, struct vp_stage *stage,
                              float lr, float grad_scale)
{
    enum vp_status st;

    if (stage->shard)
        vp_watch_begin_wait(rank);
    st = vp_stage_measure(stage, lr, grad_scale);
    if (stage->shard)
        vp_watch_end_wait(rank, st);
    VP_TRY(st);
    return vp_stage_set_ratios(stage);
}

/* Makes the next version. `made` false: without an update, because the norm is
 * not finite. That still counts as a step for the learning rate and the length
 * of the run, but not for the optimizer, whose moments stay unchanged. */
static enum vp_status advance(struct vp_rank *rank, struct vp_stage *stage,
                              bool made, float lr, float grad_scale)
{
    float factor = vp_scale_factor(&stage->scale);

    vp_scale_note(&stage->scale, stage->config.work.scale.dynamic, made);
    if (made) {
        VP_TRY(measure(rank, stage, lr, grad_scale / factor));
        return vp_stage_update(stage, lr, grad_scale / factor);
    }
    if (stage->scale.in_a_row <= -VP_SCALE_GIVES_UP_AFTER)
        return give_up(rank, factor);
    return vp_stage_skip(stage);
}

/* Returns the learning rate, before clipping, and the factor of the gradients.
 * A stream makes one update per round, with the learning rate of the round's
 * last minibatch and the mean over its minibatches. */
static struct vp_rate rate_of(const struct vp_rank *rank,
                              const struct vp_rank_stage *rs,
                              const struct vp_action *update)
{
    const struct vp_lr_config *lr = &rank->pipeline->config->lr;
    int every = sched_stage_of(rank, rs->index)->update_every;
    int64_t last = rank->job->schedule->segment_begin +
                   (int64_t)(update->mb + 1) * every;

    if (rank->job->sync)
        last = rs->stage.newest + 1;
    return (struct vp_rate){ vp_lr_at(lr, last), mean_of(rank, rs) };
}

/* Returns true if the norm may be read after the update. Not before a
 * checkpoint, whose state must come from finite gradients. */
static bool may_be_late(const struct vp_rank *rank, int64_t step)
{
    const struct vp_train_config *config = rank->pipeline->config;

    return vp_device_is_async(rank->device) &&
           !vp_workload_needs_norm(&rank->stages[0].stage.config.work) &&
           !vp_save_is_due_after(config, rank->job->schedule, rank->job->sync,
                                 step);
}

static enum vp_status update_sync(struct vp_rank *rank,
                                  struct vp_rank_stage *rs,
                                  const struct vp_action *action, int64_t step)
{
    const struct vp_train_config *config = rank->pipeline->config;
    struct vp_rate rate = rate_of(rank, rs, action);
    int last_mb = rank->job->schedule->n_mb - 1;
    double norm;

    if (rs == &rank->stages[0]) {
        VP_TRY(vp_update_finish(rank));
        VP_TRY(square_stages(rank, (int64_t)run_minibatch(rank, last_mb)));
        if (!may_be_late(rank, step)) {
            VP_TRY(read_sums(rank));
            VP_TRY(share_norm(rank));
        }
    }
    if (rank->pending != VP_PENDING_NOTHING)
        return advance(rank, &rs->stage, true, rate.lr, rate.grad_scale);
    norm = config->clip_per_stage ? rs->norm : rank->norm;
    return advance(rank, &rs->stage, isfinite(rank->norm), rate.lr,
                   vp_optim_clip_scale(norm, config->optim.grad_clip));
}

static enum vp_status update_async(struct vp_rank *rank,
                                   struct vp_rank_stage *rs,
                                   const struct vp_action *action, int64_t step)
{
    float clip = rank->pipeline->config->optim.grad_clip;
    struct vp_rate rate = rate_of(rank, rs, action);

    VP_TRY(vp_update_finish(rank));
    VP_TRY(square_stages(rank, step - 1));
    if (may_be_late(rank, step))
        return advance(rank, &rs->stage, true, rate.lr, rate.grad_scale);
    VP_TRY(read_sums(rank));
    rank->pending = VP_PENDING_NOTHING;
    return advance(rank, &rs->stage, isfinite(rs->norm), rate.lr,
                   rate.grad_scale * vp_optim_clip_scale(rs->norm, clip));
}

/* Returns the next update of the stage; NULL if the stage computes before
 * it. */
static const struct vp_action *update_after(const struct vp_rank *rank,
                                            const struct vp_action *action)
{
    const struct vp_rank_list *list = list_of(rank);

    for (const struct vp_action *next = action + 1;
         next < list->actions + list->n_actions; next++) {
        if (next->stage != action->stage)
            continue;
        switch (next->kind) {
        case VP_ACTION_UPDATE:
            return next;
        case VP_ACTION_F:
        case VP_ACTION_R:
        case VP_ACTION_B:
        case VP_ACTION_W:
            return NULL;
        default:
            break;
        }
    }
    return NULL;
}

bool vp_update_is_early(struct vp_rank *rank, const struct vp_action *backward,
                        struct vp_rate *rate_out)
{
    const struct vp_rank_stage *rs = stage_of(rank, backward);
    const struct vp_action *update;

    if (rs->stage.mixed ||
        !vp_workload_updates_early(&rs->stage.config.work, rank->job->schedule,
                                   rs->index))
        return false;
    update = update_after(rank, backward);
    if (!update)
        return false;
    *rate_out = rate_of(rank, rs, update);
    return true;
}

/* Returns the step that an update ends; for a round, its last minibatch. */
static int64_t step_of(const struct vp_rank *rank,
                       const struct vp_rank_stage *rs,
                       const struct vp_action *action)
{
    if (rank->job->sync)
        return rs->stage.newest + 1;
    return rank->job->schedule->segment_begin +
           (int64_t)(action->mb + 1) *
               sched_stage_of(rank, rs->index)->update_every;
}

enum vp_status vp_exec_update(struct vp_rank *rank,
                              const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    int64_t step = step_of(rank, rs, action);

    if (rank->job->sync)
        VP_TRY(update_sync(rank, rs, action, step));
    else
        VP_TRY(update_async(rank, rs, action, step));
    VP_TRY(vp_rank_save(rank, rs, step));
    return rank->pending == VP_PENDING_NOTHING
               ? report_update(rank, rs, vp_watch_mark(rank))
               : VP_OK;
}
