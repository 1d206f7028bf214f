/* What a run must keep: listing, saving and restoring the state of stages. */
#include "runtime/rank/state.h"
#include "base/clock.h"
#include "runtime/rank/watch.h"
#include "runtime/trainer/conductor.h"

#include <stdlib.h>

/* ---- Items -------------------------------------------------------------- */

static int n_kinds(const struct vp_stage *stage)
{
    return 1 + vp_optim_n_moments(stage->config->optim.kind) +
           stage->shape.n_versions - 1;
}

/* Kind number `k` of a tensor: weights, moments, then older versions. */
static struct vp_state_item item_of(const struct vp_stage *stage, int tensor,
                                    int k)
{
    int n_moments = vp_optim_n_moments(stage->config->optim.kind);
    struct vp_state_item item = {
        .name = stage->tensor_names[tensor],
        .block = stage->tensors[tensor].block,
        .cols = stage->tensor_params[tensor]->cols,
        .transposed = stage->tensor_params[tensor]->stored_transposed,
    };

    item.rows = stage->tensors[tensor].n / item.cols;
    if (k == 0) {
        item.kind = VP_STATE_WEIGHT;
    } else if (k <= n_moments) {
        item.kind = k == 1 ? VP_STATE_MOMENT1 : VP_STATE_MOMENT2;
    } else {
        item.kind = VP_STATE_VERSION;
        item.age = k - n_moments;
    }
    return item;
}

static enum vp_dtype dtype_of(const struct vp_stage *stage,
                              const struct vp_state_item *item)
{
    return item->kind == VP_STATE_VERSION ? stage->config->graphs[0].dtype
                                          : VP_DTYPE_F32;
}

/* Of all but the weights, which vp_stage_get_weights() gives. */
static void *array_of(const struct vp_stage *stage, int tensor,
                      const struct vp_state_item *item)
{
    int64_t offset = stage->tensors[tensor].offset;

    switch (item->kind) {
    case VP_STATE_MOMENT1:
        return stage->moment[0] + offset;
    case VP_STATE_MOMENT2:
        return stage->moment[1] + offset;
    case VP_STATE_VERSION:
        /* Before the first updates, places of the ring are unused: any will
         * do, as nothing will ask for them. */
        return (char *)vp_stage_weights(stage, stage->newest - item->age +
                                                   stage->shape.n_versions) +
               offset * vp_dtype_bytes(dtype_of(stage, item));
    default:
        vp_bug(__FILE__, __LINE__, "weights are not in one array");
    }
}

int vp_stage_n_items(const struct vp_stage *stage)
{
    return stage->n_own_tensors * n_kinds(stage);
}

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
                ranks[r].stages[i].replica == 0)
                return &ranks[r].stages[i];
    return NULL;
}

int vp_trainer_n_blocks(const struct vp_trainer *trainer, int stage)
{
    return find_stage(trainer->ranks, trainer->crew.n_ranks, stage)
        ->stage.spec.n_blocks;
}

int vp_trainer_state(const struct vp_trainer *trainer,
                     struct vp_state_item **items_out)
{
    int n = 0;

    for (int s = 0; s < trainer->crew.n_stages; s++) {
        const struct vp_rank_stage *rs = find_own(trainer->ranks,
                                                  trainer->crew.n_ranks, s);

        n += rs ? vp_stage_n_items(&rs->stage) : 0;
    }
    *items_out = calloc((size_t)n + 1, sizeof(**items_out));
    if (!*items_out)
        return -1;
    n = 0;
    for (int s = 0; s < trainer->crew.n_stages; s++) {
        const struct vp_rank_stage *rs = find_own(trainer->ranks,
                                                  trainer->crew.n_ranks, s);

        for (int i = 0; rs && i < rs->stage.n_own_tensors; i++)
            for (int k = 0; k < n_kinds(&rs->stage); k++)
                (*items_out)[n++] = item_of(&rs->stage, i, k);
    }
    return n;
}

void vp_state_number(struct vp_rank *ranks, int n_ranks, int n_stages)
{
    int n = 0;

    for (int s = 0; s < n_stages; s++) {
        struct vp_rank_stage *rs = find_own(ranks, n_ranks, s);

        if (!rs)
            continue;
        rs->first_item = n;
        n += vp_stage_n_items(&rs->stage);
    }
}

/* ---- Saving ------------------------------------------------------------- */

/* Saved are floats, whatever the device has. */
static enum vp_status save_item(struct vp_stage *stage, int tensor,
                                const struct vp_state_item *item, float *room)
{
    enum vp_dtype dtype = dtype_of(stage, item);
    int64_t n = stage->tensors[tensor].n;
    size_t n_bytes = (size_t)(n * vp_dtype_bytes(dtype));
    uint16_t *host;
    enum vp_status st;

    if (item->kind == VP_STATE_WEIGHT)
        return vp_stage_get_weights(stage, stage->tensors[tensor].offset, n,
                                    room);
    if (dtype == VP_DTYPE_F32)
        return stage->ops->copy(stage->backend, stage->stream, room,
                                array_of(stage, tensor, item), n_bytes);
    host = malloc(n_bytes);
    if (!host)
        return VP_ERR_NOMEM;
    st = stage->ops->copy(stage->backend, stage->stream, host,
                          array_of(stage, tensor, item), n_bytes);
    if (st == VP_OK)
        vp_dtype_expand(dtype, room, host, n);
    free(host);
    return st;
}

static enum vp_status save_stage(struct vp_stage *stage, int item,
                                 const struct vp_saver *saver)
{
    for (int i = 0; i < stage->n_own_tensors; i++)
        for (int k = 0; k < n_kinds(stage); k++) {
            struct vp_state_item one = item_of(stage, i, k);

            VP_TRY(save_item(stage, i, &one, saver->room(saver->ctx, item++)));
        }
    return VP_OK;
}

/* Steps between two that end a round of all stages: 1 in a synchronous schedule,
 * where a step is a group. */
static int64_t common_period(const struct vp_schedule *schedule, bool sync)
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

/* `begin`: the step before the first one of the segment. */
static bool is_due(int64_t begin, int64_t period, int64_t every, int64_t step)
{
    return every > 0 && (step - begin) % period == 0 &&
           step / every > (step - period) / every;
}

bool vp_state_due(const struct vp_train_config *config,
                  const struct vp_schedule *schedule, bool sync, int64_t step)
{
    return is_due(schedule->segment_begin, common_period(schedule, sync),
                  config->saver ? config->saver->every : 0, step);
}

bool vp_trainer_is_due(const struct vp_trainer *trainer, int64_t every,
                       int64_t step)
{
    bool sync = !trainer->generator->stream;

    return is_due(trainer->stream_begin,
                  common_period(&trainer->schedule, sync), every, step);
}

int64_t vp_trainer_next_due(const struct vp_trainer *trainer, int64_t every)
{
    int64_t period = common_period(&trainer->schedule,
                                   !trainer->generator->stream);
    int64_t begin = trainer->stream_begin;
    int64_t ended = (trainer->n_steps - begin) / period * period + begin;
    int64_t asked = (ended / every + 1) * every; /* the first multiple after */

    return (asked - begin + period - 1) / period * period + begin;
}

/* The last stage of the rank, which is the only one of its process, makes the
 * step complete here. One that saves nothing says so. */
static enum vp_status note_filled(struct vp_rank *rank,
                                  const struct vp_saver *saver)
{
    struct vp_err err = { "" };
    enum vp_status st;

    if (!saver->filled || ++rank->n_filled < rank->n_stages)
        return VP_OK;
    rank->n_filled = 0;
    st = saver->filled(saver->ctx, &err);
    if (st == VP_OK)
        return VP_OK;
    vp_world_abort(rank->crew->world, st, err.text);
    return VP_ERR_ABORTED;
}

enum vp_status vp_state_save(struct vp_rank *rank, struct vp_rank_stage *rs,
                             int64_t step)
{
    const struct vp_train_config *config = rank->crew->config;
    struct vp_err err = { "" };
    enum vp_status st;

    if (!vp_state_due(config, rank->job->schedule, rank->job->sync, step) ||
        (rs->replica > 0 && rank->crew->is_lead))
        return VP_OK;
    vp_watch_begin_wait(rank);
    st = config->saver->begin(config->saver->ctx, step, config->timeout_ms,
                              &err);
    vp_watch_end_wait(rank, st);
    if (st != VP_OK) {
        vp_world_abort(rank->crew->world, st, err.text);
        return VP_ERR_ABORTED;
    }
    if (rs->replica == 0)
        VP_TRY(save_stage(&rs->stage, rs->first_item, config->saver));
    return note_filled(rank, config->saver);
}

enum vp_status vp_state_save_all(struct vp_trainer *trainer,
                                 const struct vp_saver *saver, int64_t step,
                                 struct vp_err *err)
{
    VP_TRY(saver->begin(saver->ctx, step, trainer->config.timeout_ms, err));
    for (int s = 0; s < trainer->crew.n_stages; s++) {
        struct vp_rank_stage *rs = find_own(trainer->ranks,
                                            trainer->crew.n_ranks, s);

        if (rs && save_stage(&rs->stage, rs->first_item, saver) != VP_OK)
            return vp_err_set(err, VP_ERR_IO, "saving stage %d failed", s);
    }
    return saver->filled ? saver->filled(saver->ctx, err) : VP_OK;
}

enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver, struct vp_err *err)
{
    const struct vp_order order = { .kind = VP_ORDER_SAVE,
                                    .step = trainer->n_steps };

    if (vp_remote_give(&trainer->crew, &order) != VP_OK)
        return vp_err_set(err, VP_ERR_TIMEOUT,
                          "another process takes no orders");
    return vp_state_save_all(trainer, saver, trainer->n_steps, err);
}

/* ---- Restoring ---------------------------------------------------------- */

/* Weights go into every version, as at the start; older ones replace them. A
 * tied copy is loaded under its owner's name. */
static enum vp_status restore_item(struct vp_stage *stage, int tensor, int k,
                                   int past, float *host, void *scratch,
                                   struct vp_err *err)
{
    const struct vp_loader *loader = stage->config->loader;
    struct vp_state_item item = item_of(stage, tensor, k);
    int64_t at = stage->tensors[tensor].offset, n = stage->tensors[tensor].n;
    enum vp_dtype dtype = dtype_of(stage, &item);
    enum vp_status st;

    if (item.kind == VP_STATE_VERSION && item.age > past)
        return VP_OK;
    VP_TRY(loader->load(loader->ctx, &item, host, err));
    if (item.kind == VP_STATE_WEIGHT) {
        st = vp_stage_set_weights(stage, at, n, host);
    } else {
        if (dtype != VP_DTYPE_F32) /* exact: they were expanded from it */
            vp_dtype_round(dtype, (uint16_t *)scratch, host, n);
        st = stage->ops->copy(stage->backend, stage->stream,
                              array_of(stage, tensor, &item),
                              dtype == VP_DTYPE_F32 ? (void *)host : scratch,
                              (size_t)(n * vp_dtype_bytes(dtype)));
    }
    if (st != VP_OK)
        return vp_err_set(err, st, "copying '%s' failed", item.name);
    return VP_OK;
}

enum vp_status vp_state_restore(struct vp_rank_stage *rs, struct vp_err *err)
{
    struct vp_stage *stage = &rs->stage;
    const struct vp_progress *from = &stage->config->loader->progress;
    enum vp_status st = VP_OK;
    int64_t most = 1;
    float *host;

    stage->newest = from->updates[rs->index];
    for (int i = 0; i < stage->n_tensors; i++)
        most = stage->tensors[i].n > most ? stage->tensors[i].n : most;
    host = malloc(2 * (size_t)most * sizeof(*host));
    if (!host)
        return vp_err_set(err, VP_ERR_NOMEM, "restoring: out of memory");
    for (int k = 0; k < n_kinds(stage) && st == VP_OK; k++)
        for (int i = 0; i < stage->n_tensors && st == VP_OK; i++)
            st = restore_item(stage, i, k, from->past[rs->index], host,
                              host + most, err);
    free(host);
    return st;
}

/* ---- Progress ----------------------------------------------------------- */

struct vp_progress vp_trainer_progress(const struct vp_trainer *trainer)
{
    struct vp_progress progress = { .step = trainer->n_steps,
                                    .minibatch = trainer->n_minibatches };

    for (int s = 0; s < trainer->crew.n_stages; s++) {
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
