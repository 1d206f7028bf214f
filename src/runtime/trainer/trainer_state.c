/* The state of all stages of a trainer, and where its run stands. */
#include "runtime/trainer/trainer.h"

#include "runtime/rank/save.h"
#include "runtime/stage/stage_state.h"
#include "runtime/trainer/internal.h"

#include <stdlib.h>

/* ---- Items -------------------------------------------------------------- */

/* Stage `index`, on its first rank. */
static struct vp_rank_stage *find_stage(const struct vp_rank *ranks,
                                        int n_ranks, int index)
{
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i < ranks[r].n_stages; i++)
            if (ranks[r].stages[i].index == index)
                return &ranks[r].stages[i];
    vp_bug(__FILE__, __LINE__, "a stage without a rank");
}

/* The same if this process saves it, else NULL. */
static struct vp_rank_stage *find_own(const struct vp_rank *ranks, int n_ranks,
                                      int index)
{
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; ranks[r].is_here && i < ranks[r].n_stages; i++)
            if (ranks[r].stages[i].index == index &&
                ranks[r].stages[i].replica == 0 && ranks[r].member == 0)
                return &ranks[r].stages[i];
    return NULL;
}

int vp_trainer_n_blocks(const struct vp_trainer *trainer, int stage)
{
    return find_stage(trainer->ranks, trainer->pipeline.n_ranks, stage)
        ->stage.plan.spec.n_blocks;
}

int vp_trainer_state(const struct vp_trainer *trainer,
                     struct vp_state_item **items_out)
{
    int n = 0;

    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        const struct vp_rank_stage *rs = find_own(trainer->ranks,
                                                  trainer->pipeline.n_ranks, s);

        n += rs ? vp_stage_n_items(&rs->stage) : 0;
    }
    *items_out = calloc((size_t)n + 1, sizeof(**items_out));
    if (!*items_out)
        return -1;
    n = 0;
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        const struct vp_rank_stage *rs = find_own(trainer->ranks,
                                                  trainer->pipeline.n_ranks, s);

        n += rs ? vp_stage_list_items(&rs->stage, *items_out + n) : 0;
    }
    return n;
}

/* Members of one group that live in this process fill the same items. */
static void give_number(struct vp_rank *rank, int stage, int first_item)
{
    for (int i = 0; rank->is_here && i < rank->n_stages; i++)
        if (rank->stages[i].index == stage && rank->stages[i].replica == 0)
            rank->stages[i].first_item = first_item;
}

void vp_trainer_number_items(struct vp_trainer *trainer)
{
    int n = 0;

    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        struct vp_rank_stage *rs = find_own(trainer->ranks,
                                            trainer->pipeline.n_ranks, s);

        if (!rs)
            continue;
        rs->first_item = n;
        for (int r = 0; r < trainer->pipeline.n_ranks; r++)
            give_number(&trainer->ranks[r], s, n);
        n += vp_stage_n_items(&rs->stage);
    }
}

/* ---- Saving ------------------------------------------------------------- */

bool vp_trainer_is_due(const struct vp_trainer *trainer, int64_t every,
                       int64_t step)
{
    bool sync = !trainer->generator->stream;

    return vp_save_is_due(trainer->stream_begin,
                          vp_save_period(&trainer->schedule, sync), every,
                          step);
}

int64_t vp_trainer_next_due(const struct vp_trainer *trainer, int64_t every)
{
    int64_t period = vp_save_period(&trainer->schedule,
                                    !trainer->generator->stream);
    int64_t begin = trainer->stream_begin;
    int64_t ended = (trainer->n_steps - begin) / period * period + begin;
    int64_t asked = (ended / every + 1) * every; /* the first multiple after */

    return (asked - begin + period - 1) / period * period + begin;
}

enum vp_status vp_trainer_save_here(struct vp_trainer *trainer,
                                    const struct vp_saver *saver, int64_t step,
                                    struct vp_err *err)
{
    VP_TRY(saver->begin(saver->ctx, step, trainer->config.timeout_ms, err));
    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        struct vp_rank *rank = &trainer->ranks[r];

        for (int i = 0; rank->is_here && i < rank->n_stages; i++)
            if (rank->stages[i].replica == 0 &&
                vp_stage_save(&rank->stages[i].stage,
                              rank->stages[i].first_item, saver) != VP_OK)
                return vp_err_set(err, VP_ERR_IO, "saving stage %d failed",
                                  rank->stages[i].index);
    }
    return saver->filled ? saver->filled(saver->ctx, err) : VP_OK;
}

enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver, struct vp_err *err)
{
    const struct vp_order order = { .kind = VP_ORDER_SAVE,
                                    .step = trainer->n_steps };

    if (vp_remote_give(&trainer->pipeline, &order) != VP_OK)
        return vp_err_set(err, VP_ERR_TIMEOUT,
                          "another process takes no orders");
    return vp_trainer_save_here(trainer, saver, trainer->n_steps, err);
}

/* ---- Progress ----------------------------------------------------------- */

struct vp_progress vp_trainer_progress(const struct vp_trainer *trainer)
{
    struct vp_progress progress = { .step = trainer->n_steps,
                                    .minibatch = trainer->n_minibatches };

    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        const struct vp_schedule_stage *plan = &trainer->schedule.stages[s];
        int64_t rounds;

        progress.scale[s] = trainer->scales[s];
        if (!trainer->generator->stream) {
            progress.updates[s] = trainer->n_steps;
            continue;
        }
        rounds = (trainer->n_minibatches - trainer->stream_begin) /
                 plan->update_every;
        progress.updates[s] = trainer->version_begin[s] + rounds;
        rounds += trainer->version_past[s];
        progress.past[s] = rounds < plan->version_lag ? (int)rounds
                                                      : plan->version_lag;
    }
    return progress;
}

void vp_trainer_block_counts(const struct vp_trainer *trainer,
                             const struct vp_progress *progress,
                             struct vp_block_count *counts_out)
{
    int block = 0;

    for (int s = 0; s < trainer->pipeline.n_stages; s++)
        for (int b = 0; b < vp_trainer_n_blocks(trainer, s); b++, block++)
            counts_out[block] = (struct vp_block_count){
                progress->updates[s] + trainer->ahead[block].updates,
                progress->scale[s].n_skipped + trainer->ahead[block].n_skipped
            };
}
