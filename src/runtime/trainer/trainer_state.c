/* The state of all stages of a trainer, and the position of its run. */
#include "runtime/trainer/trainer.h"

#include "graph/slice.h"
#include "runtime/rank/save.h"
#include "runtime/stage/stage_state.h"
#include "runtime/trainer/internal.h"

#include <stdlib.h>

/* ---- Items -------------------------------------------------------------- */

/* Returns stage `index` on its first rank. */
static struct vp_rank_stage *find_stage(const struct vp_rank *ranks,
                                        int n_ranks, int index)
{
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i < ranks[r].n_stages; i++)
            if (ranks[r].stages[i].index == index)
                return &ranks[r].stages[i];
    vp_bug(__FILE__, __LINE__, "a stage without a rank");
}

/* Returns stage `index` on the rank that saves it if it is in this process,
 * else NULL. */
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

/* Members of a group in this process fill the same items. */
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
    /* First multiple after `ended`. */
    int64_t asked = (ended / every + 1) * every;

    return (asked - begin + period - 1) / period * period + begin;
}

/* Lists the replicas in this process that own shards together with `rs`, which
 * is member `member` of its group. Returns their number. */
static int list_peers(const struct vp_trainer *trainer,
                      const struct vp_rank_stage *rs, int member,
                      struct vp_stage **peers)
{
    int n = 0;

    for (int r = 0; rs->stage.shard && r < trainer->pipeline.n_ranks; r++) {
        const struct vp_rank *rank = &trainer->ranks[r];

        for (int i = 0;
             rank->is_here && rank->member == member && i < rank->n_stages; i++)
            if (rank->stages[i].index == rs->index && &rank->stages[i] != rs)
                peers[n++] = &rank->stages[i].stage;
    }
    return n;
}

/* Saves the part of a stage that this process has: through its first replica,
 * or by sending it to that replica in another process. */
static enum vp_status save_part(const struct vp_trainer *trainer,
                                struct vp_rank_stage *rs, int member,
                                const struct vp_saver *saver)
{
    struct vp_peers peers = {
        calloc((size_t)trainer->pipeline.n_ranks, sizeof(struct vp_stage *)), 0
    };
    enum vp_status st = VP_OK;

    if (!peers.at)
        return VP_ERR_NOMEM;
    peers.n = list_peers(trainer, rs, member, peers.at);
    if (rs->replica == 0)
        st = vp_stage_save(&rs->stage, &peers, rs->first_item, saver);
    else if (rs->stage.shard && peers.n == 0)
        st = vp_stage_give(&rs->stage);
    free(peers.at);
    return st;
}

/* Every member of a tensor-parallel group has slices of the stage. */
static enum vp_status save_stage(const struct vp_trainer *trainer, int index,
                                 const struct vp_saver *saver)
{
    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        const struct vp_rank *rank = &trainer->ranks[r];

        for (int i = 0; rank->is_here && i < rank->n_stages; i++)
            if (rank->stages[i].index == index)
                VP_TRY(
                    save_part(trainer, &rank->stages[i], rank->member, saver));
    }
    return VP_OK;
}

/* ---- Weights ------------------------------------------------------------ */

/* Returns the layout entry of a parameter; -1: the stage does not have it. */
static int find_entry(const struct vp_rank_stage *rs, vp_par par)
{
    const struct vp_layout *layout = &rs->stage.plan.train[0].layout;

    for (int e = 0; e < layout->n_entries; e++)
        if (layout->entries[e].par == par)
            return e;
    return -1;
}

/* Collects the part of a parameter that a replica of a stage has, including
 * shards of the master on other replicas. VP_ERR_END: it has none. */
static enum vp_status collect(const struct vp_trainer *trainer,
                              const struct vp_rank *rank, vp_par par,
                              int replica, float *out)
{
    const struct vp_graph *graph = &trainer->config.graphs[0];
    const struct vp_param *param = &graph->params[par];
    struct vp_peers peers = {
        calloc((size_t)trainer->pipeline.n_ranks, sizeof(struct vp_stage *)), 0
    };
    enum vp_status st = peers.at ? VP_ERR_END : VP_ERR_NOMEM;

    for (int i = 0; i < rank->n_stages && st == VP_ERR_END; i++) {
        struct vp_rank_stage *rs = &rank->stages[i];
        int e = find_entry(rs, par);

        if (rs->replica != replica || e < 0)
            continue;
        peers.n = list_peers(trainer, rs, rank->member, peers.at);
        st = vp_stage_collect_weights(
            &rs->stage, &peers,
            rs->stage.plan.train[0].layout.entries[e].offset /
                vp_dtype_bytes(graph->dtype),
            param->rows * param->cols, out);
    }
    free(peers.at);
    return st;
}

/* Puts the part of a parameter that a rank has into the whole. VP_ERR_END: it
 * has none. */
static enum vp_status get_slice(const struct vp_trainer *trainer,
                                const struct vp_rank *rank, vp_par par,
                                int replica, float *out)
{
    const struct vp_graph *graph = &trainer->config.graphs[0];
    const struct vp_param *param = &graph->params[par];
    float *slice = malloc((size_t)(param->rows * param->cols) * sizeof(*slice));
    enum vp_status st;

    if (!slice)
        return VP_ERR_NOMEM;
    st = collect(trainer, rank, par, replica, slice);
    for (int i = 0; i < param->n_parts && st == VP_OK; i++) {
        struct vp_shape shape = vp_param_whole(param, i);

        vp_slice_put(param, i, rank->member, graph->n_members,
                     slice + param->part[i].row * param->cols, out);
        out += shape.rows * shape.cols;
    }
    free(slice);
    return st;
}

enum vp_status vp_trainer_get_weights(const struct vp_trainer *trainer,
                                      vp_par par, int replica, float *out)
{
    enum vp_status found = VP_ERR_INVALID;

    for (int r = 0; r < trainer->pipeline.n_ranks; r++) {
        const struct vp_rank *rank = &trainer->ranks[r];
        enum vp_status st = get_slice(trainer, rank, par, replica, out);

        if (st != VP_OK && st != VP_ERR_END)
            return st;
        if (st == VP_OK)
            found = VP_OK;
        /* Tied copies in later stages are equal. */
        if (found == VP_OK && rank->member + 1 == trainer->pipeline.n_members)
            break;
    }
    return found;
}

/* ---- Saving all --------------------------------------------------------- */

enum vp_status vp_trainer_save_here(struct vp_trainer *trainer,
                                    const struct vp_saver *saver, int64_t step,
                                    struct vp_err *err)
{
    VP_TRY(saver->begin(saver->ctx, step, trainer->config.timeout_ms, err));
    for (int s = 0; s < trainer->pipeline.n_stages; s++) {
        if (save_stage(trainer, s, saver) != VP_OK)
            return vp_err_set(err, VP_ERR_IO, "saving stage %d failed", s);
    }
    return saver->filled ? saver->filled(saver->ctx, err) : VP_OK;
}

enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver, struct vp_err *err)
{
    const struct vp_order order = { .kind = VP_ORDER_SAVE,
                                    .step = trainer->n_steps };

    if (vp_remote_send_order(&trainer->pipeline, &order) != VP_OK)
        return vp_err_set(err, VP_ERR_TIMEOUT,
                          "another process does not respond; see its log");
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
