/* Decides when a checkpoint is due, and saves a stage of a rank for it. */
#include "runtime/rank/save.h"

#include "runtime/rank/internal.h"
#include "runtime/rank/watch.h"
#include "runtime/stage/stage_state.h"

int64_t vp_save_period(const struct vp_schedule *schedule, bool sync)
{
    int64_t period = 1;

    for (int s = 0; !sync && s < schedule->n_stages; s++) {
        int64_t every = schedule->stages[s].update_every, n = period;

        while (n % every != 0)
            n += period;
        period = n;
    }
    return period;
}

bool vp_save_is_due(int64_t begin, int64_t period, int64_t every, int64_t step)
{
    return every > 0 && (step - begin) % period == 0 &&
           step / every > (step - period) / every;
}

bool vp_save_is_due_after(const struct vp_train_config *config,
                          const struct vp_schedule *schedule, bool sync,
                          int64_t step)
{
    return vp_save_is_due(schedule->segment_begin,
                          vp_save_period(schedule, sync),
                          config->saver ? config->saver->every : 0, step);
}

/* Called after each stage. The last stage of the rank, the only rank of its
 * process, completes the step here, even if this process saves nothing. */
static enum vp_status note_filled(struct vp_rank *rank,
                                  const struct vp_saver *saver)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (!saver->filled || ++rank->n_filled < rank->n_stages)
        return VP_OK;
    rank->n_filled = 0;
    st = saver->filled(saver->ctx, &err);
    if (st == VP_OK)
        return VP_OK;
    vp_world_abort(rank->pipeline->world, st, err.text);
    return VP_ERR_ABORTED;
}

/* If replicas own shards of the state, each sends its own to the first replica,
 * which saves all. */
static enum vp_status save_stage(struct vp_rank *rank, struct vp_rank_stage *rs)
{
    const struct vp_saver *saver = rank->pipeline->config->saver;
    const struct vp_peers none = { NULL, 0 };
    enum vp_status st;

    if (!rs->stage.shard)
        return rs->replica == 0
                   ? vp_stage_save(&rs->stage, &none, rs->first_item, saver)
                   : VP_OK;
    VP_TRY(vp_update_end_gather(rank, rs));
    vp_watch_begin_wait(rank);
    st = rs->replica == 0
             ? vp_stage_save(&rs->stage, &none, rs->first_item, saver)
             : vp_stage_give(&rs->stage);
    vp_watch_end_wait(rank, st);
    return st;
}

enum vp_status vp_rank_save(struct vp_rank *rank, struct vp_rank_stage *rs,
                            int64_t step)
{
    const struct vp_train_config *config = rank->pipeline->config;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (!vp_save_is_due_after(config, rank->job->schedule, rank->job->sync,
                              step))
        return VP_OK;
    if (rs->replica > 0 && rank->pipeline->is_lead)
        return save_stage(rank, rs);
    vp_watch_begin_wait(rank);
    st = config->saver->begin(config->saver->ctx, step, config->timeout_ms,
                              &err);
    vp_watch_end_wait(rank, st);
    if (st != VP_OK) {
        vp_world_abort(rank->pipeline->world, st, err.text);
        return VP_ERR_ABORTED;
    }
    VP_TRY(save_stage(rank, rs));
    return note_filled(rank, config->saver);
}
