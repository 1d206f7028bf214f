/* The executor: one function per kind of action, and a walk over the list. */
#include "runtime/rank.h"

#include "base/clock.h"
#include "runtime/watch.h"

#include <math.h>
#include <time.h>

static struct vp_rank_stage *stage_of(struct vp_rank *rank,
                                      const struct vp_action *action)
{
    for (int i = 0; i < rank->n_stages; i++)
        if (rank->stages[i].index == action->stage)
            return &rank->stages[i];
    vp_bug(__FILE__, __LINE__, "action of a stage on another rank");
}

static const struct vp_schedule_stage *plan_of(const struct vp_rank *rank,
                                               int stage)
{
    return &rank->job->schedule->stages[stage];
}

static bool is_last(const struct vp_rank *rank, int stage)
{
    return stage == rank->crew->n_stages - 1;
}

/* The number of a minibatch in the run. A synchronous schedule numbers them
 * within its group, a stream within the run. */
static uint64_t run_minibatch(const struct vp_rank *rank, int mb)
{
    const struct vp_job *job = rank->job;

    return (uint64_t)(job->first_mb + rank->repeat * job->schedule->n_mb + mb);
}

static int64_t version_of(const struct vp_rank *rank,
                          const struct vp_rank_stage *rs,
                          const struct vp_action *action)
{
    return rank->job->sync ? rs->stage.newest : action->version;
}

static int64_t deadline(const struct vp_rank *rank)
{
    return vp_clock_ns() + (int64_t)rank->crew->config->timeout_ms * 1000000;
}

/* ---- Messages ----------------------------------------------------------- */

enum direction { ACT, GRAD };

/* A message of the schedule, found in the crew. */
struct message {
    struct vp_channel *channel;
    uint64_t number;
};

/* Message `msg` to (stage, replica): counted over all repeats and jobs. */
static struct message find_message(const struct vp_rank *rank, int stage,
                                   int replica, enum direction direction,
                                   int msg)
{
    const struct vp_stage_links *links = &rank->crew->links[stage];
    const struct vp_edge *edge = direction == ACT ? &links->act[replica]
                                                  : &links->grad[replica];
    int per_repeat =
        (rank->job->schedule->n_mb - replica + links->n_replicas - 1) /
        links->n_replicas;

    return (struct message){ edge->channel,
                             edge->base +
                                 (uint64_t)(rank->repeat * per_repeat + msg) };
}

/* The message that an F or B makes, or a SEND posts. */
static struct message outgoing(const struct vp_rank *rank,
                               const struct vp_action *action,
                               enum direction direction)
{
    int to = direction == ACT ? action->stage + 1 : action->stage - 1;
    int replica = 0;

    if (rank->crew->links[to].n_replicas > 1)
        replica = action->peer - plan_of(rank, to)->first_rank;
    return find_message(rank, to, replica, direction, action->msg);
}

static enum vp_status acquire(struct vp_rank *rank,
                              const struct vp_action *action,
                              enum direction direction, void **packet_out)
{
    struct message message = outgoing(rank, action, direction);
    enum vp_status st;

    vp_watch_wait(rank, true);
    st = vp_channel_acquire(message.channel, message.number, deadline(rank),
                            packet_out);
    vp_watch_wait(rank, false);
    return st;
}

static enum vp_status receive(struct vp_rank *rank,
                              const struct vp_action *action,
                              enum direction direction, void **packet_out)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct message message =
        find_message(rank, rs->index, rs->replica, direction, action->msg);
    enum vp_status st;

    vp_watch_wait(rank, true);
    st = vp_channel_wait(message.channel, message.number, deadline(rank),
                         packet_out);
    vp_watch_wait(rank, false);
    if (st == VP_OK)
        VP_BUG_ON(vp_packet_header(*packet_out)->minibatch !=
                  run_minibatch(rank, action->mb));
    return st;
}

/* Gives back the buffers of a minibatch that nothing reads any more. */
static void release(struct vp_rank *rank, const struct vp_action *action,
                    bool gradient_too)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    int own = vp_schedule_own_index(rank->job->schedule, rs->index,
                                    action->mb);
    struct message message;

    if (rs->index > 0) {
        message = find_message(rank, rs->index, rs->replica, ACT, own);
        vp_channel_release(message.channel, message.number);
    }
    if (gradient_too && !is_last(rank, rs->index)) {
        message = find_message(rank, rs->index, rs->replica, GRAD, own);
        vp_channel_release(message.channel, message.number);
    }
}

/* ---- Forward ------------------------------------------------------------ */

static enum vp_status load(struct vp_rank *rank, struct vp_rank_stage *rs,
                           struct vp_slot *slot, uint64_t minibatch)
{
    const struct vp_train_config *config = rank->crew->config;
    const struct vp_batch *batch = rank->eval_batch;
    struct vp_err err = { "" };
    enum vp_status st;

    if (rank->job->kind == VP_JOB_EVAL)
        st = vp_data_fill(config->eval_data, minibatch, rank->eval_batch, &err);
    else
        st = vp_prefetch_next(rank->reader, config->timeout_ms, &batch, &err);
    if (st != VP_OK) {
        vp_world_abort(rank->crew->world, st, err.text);
        return st;
    }
    return vp_stage_load(&rs->stage, slot->packet, batch, minibatch);
}

/* True for the first minibatch of an update on this replica: its gradients
 * are written, those of the others added. */
static bool begins_update(const struct vp_rank *rank,
                          const struct vp_rank_stage *rs, int mb)
{
    const struct vp_schedule *schedule = rank->job->schedule;
    int own = vp_schedule_own_index(schedule, rs->index, mb);
    int n_replicas = rank->crew->links[rs->index].n_replicas;
    int every = plan_of(rank, rs->index)->update_every / n_replicas;

    return rank->job->sync ? own == 0 : every < 2 || own % every == 0;
}

static void set_scalars(struct vp_rank *rank, const struct vp_rank_stage *rs,
                        struct vp_slot *slot, int mb)
{
    const struct vp_train_config *config = rank->crew->config;

    slot->mb = (struct vp_mb){
        .seed = config->seed,
        .first_sample = vp_packet_header(slot->packet)->first_sample,
        .loss_grad = rank->job->sync
                         ? 1.0f / (float)config->accumulation_steps
                         : 1.0f,
        .accumulate = !begins_update(rank, rs, mb),
        .train = rank->job->kind == VP_JOB_TRAIN,
    };
}

/* Results are read in time; a reader that hangs is a time-out like others. */
static enum vp_status wait_for_room(struct vp_rank *rank, uint64_t minibatch)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int64_t limit = deadline(rank);

    while ((int64_t)minibatch - atomic_load(&rank->crew->n_reported) >=
           VP_RESULT_RING) {
        if (vp_clock_ns() > limit)
            return VP_ERR_TIMEOUT;
        VP_TRY(vp_world_status(rank->crew->world, NULL));
        nanosleep(&pause, NULL);
    }
    return VP_OK;
}

static enum vp_status refuse_loss(struct vp_rank *rank, uint64_t minibatch)
{
    struct vp_crew *crew = rank->crew;
    struct vp_err err;

    crew->has_bad_loss = true;
    crew->bad_minibatch = minibatch;
    vp_err_set(&err, VP_ERR_NONFINITE, "non-finite loss, minibatch %llu",
               (unsigned long long)minibatch);
    vp_world_abort(crew->world, VP_ERR_NONFINITE, err.text);
    return VP_ERR_NONFINITE;
}

/* The last stage knows the loss. */
static enum vp_status note_result(struct vp_rank *rank,
                                  struct vp_rank_stage *rs,
                                  const struct vp_slot *slot)
{
    const struct vp_header *header = vp_packet_header(slot->packet);
    struct vp_result *result =
        &rank->crew->results[header->minibatch % VP_RESULT_RING];
    bool eval = rank->job->kind == VP_JOB_EVAL;

    if (!eval)
        VP_TRY(wait_for_room(rank, header->minibatch));
    VP_TRY(vp_stage_loss(&rs->stage, slot, eval, &result->loss));
    result->n_samples = header->n_samples;
    result->n_tokens = header->n_tokens;
    result->flops = rank->crew->bucket_flops[header->bucket];
    if (!eval && !isfinite(result->loss))
        return refuse_loss(rank, header->minibatch);
    return VP_OK;
}

static enum vp_status exec_forward(struct vp_rank *rank,
                                   const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_slot *slot = &rs->stage.slots[action->slot];
    bool eval = rank->job->kind == VP_JOB_EVAL;
    struct vp_boundary boundary = { NULL, NULL, NULL };

    if (rs->index == 0)
        VP_TRY(load(rank, rs, slot, run_minibatch(rank, action->mb)));
    else
        slot->packet = rs->act;
    slot->version = version_of(rank, rs, action);
    set_scalars(rank, rs, slot, action->mb);
    if (!is_last(rank, rs->index)) {
        VP_TRY(acquire(rank, action, ACT, &boundary.out));
        *vp_packet_header(boundary.out) = *vp_packet_header(slot->packet);
    }
    VP_TRY(vp_stage_run(&rs->stage, slot, VP_LIST_F, slot->version, eval,
                        &boundary));
    if (is_last(rank, rs->index))
        VP_TRY(note_result(rank, rs, slot));
    if (rank->job->schedule->forward_only)
        release(rank, action, false);
    return VP_OK;
}

/* ---- Backward ----------------------------------------------------------- */

static enum vp_status exec_recompute(struct vp_rank *rank,
                                     const struct vp_action *action)
{
    const struct vp_boundary none = { NULL, NULL, NULL };
    struct vp_rank_stage *rs = stage_of(rank, action);

    return vp_stage_run(&rs->stage, &rs->stage.slots[action->slot], VP_LIST_R,
                        version_of(rank, rs, action), false, &none);
}

static enum vp_status exec_backward(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_slot *slot = &rs->stage.slots[action->slot];
    struct vp_boundary boundary = { .dout = rs->grad };

    slot->grad = rs->grad;
    if (rs->index > 0) {
        VP_TRY(acquire(rank, action, GRAD, &boundary.din));
        *vp_packet_header(boundary.din) = *vp_packet_header(slot->packet);
    }
    VP_TRY(vp_stage_run(&rs->stage, slot, VP_LIST_B,
                        version_of(rank, rs, action), false, &boundary));
    if (!rank->job->schedule->split)
        release(rank, action, true);
    return VP_OK;
}

static enum vp_status exec_weights(struct vp_rank *rank,
                                   const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_slot *slot = &rs->stage.slots[action->slot];
    const struct vp_boundary boundary = { .dout = slot->grad };

    VP_TRY(vp_stage_run(&rs->stage, slot, VP_LIST_W,
                        version_of(rank, rs, action), false, &boundary));
    release(rank, action, true);
    return VP_OK;
}

static enum vp_status exec_send_act(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    struct message message = outgoing(rank, action, ACT);

    vp_channel_post(message.channel, message.number);
    return VP_OK;
}

static enum vp_status exec_send_grad(struct vp_rank *rank,
                                     const struct vp_action *action)
{
    struct message message = outgoing(rank, action, GRAD);

    vp_channel_post(message.channel, message.number);
    return VP_OK;
}

static enum vp_status exec_recv_act(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    return receive(rank, action, ACT, &stage_of(rank, action)->act);
}

static enum vp_status exec_recv_grad(struct vp_rank *rank,
                                     const struct vp_action *action)
{
    return receive(rank, action, GRAD, &stage_of(rank, action)->grad);
}

/* ---- Updates ------------------------------------------------------------ */

static enum vp_status exec_reduce(struct vp_rank *rank,
                                  const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_stage *stage = &rs->stage;
    const struct vp_stage_links *links = &rank->crew->links[rs->index];
    struct vp_term term = { stage->grads, rs->replica, false };
    enum vp_status st;

    if (!links->replicas)
        return VP_OK;
    vp_watch_wait(rank, true);
    st = vp_group_add(links->replicas, rs->replica, &term, 1,
                      stage->n_bytes[VP_SPACE_GRAD] / (int64_t)sizeof(float),
                      deadline(rank));
    vp_watch_wait(rank, false);
    return st;
}

/* The gradients of a tied parameter on this rank, one term per use. */
static int list_uses(const struct vp_rank *rank, const struct vp_tie *tie,
                     struct vp_term *terms)
{
    int n = 0;

    for (int s = 0; s < rank->n_stages; s++) {
        const struct vp_rank_stage *rs = &rank->stages[s];
        const struct vp_program *program = &rs->stage.buckets[0].train;

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

/* Uses of a tied parameter are added in block order, wherever they are; every
 * stage that has a copy then makes the same update of it. */
static enum vp_status add_ties(struct vp_rank *rank)
{
    struct vp_term terms[VP_MAX_USES];

    for (int t = 0; t < rank->crew->n_ties; t++) {
        const struct vp_tie *tie = &rank->crew->ties[t];
        enum vp_status st;

        if (tie->member[rank->index] < 0)
            continue;
        vp_watch_wait(rank, true);
        st = vp_group_add(tie->group, tie->member[rank->index], terms,
                          list_uses(rank, tie, terms), tie->n, deadline(rank));
        vp_watch_wait(rank, false);
        VP_TRY(st);
    }
    return VP_OK;
}

/* Adds the squares of a stage's gradients per block, tensors in order: the
 * sum over blocks has the same bits however they are spread over stages. */
static double add_squares(const struct vp_stage *stage, double *per_block)
{
    double total = 0.0;

    for (int i = 0; i < stage->n_own_tensors; i++)
        per_block[stage->tensors[i].block] += stage->sums[i];
    for (int b = 0; b < stage->spec.n_blocks; b++)
        total += per_block[stage->spec.first_block + b];
    return total;
}

static enum vp_status refuse_nonfinite(struct vp_rank *rank,
                                       const struct vp_rank_stage *rs,
                                       double norm, int mb)
{
    struct vp_err err = { "" };

    if (isfinite(norm))
        return VP_OK;
    if (vp_stage_blame_grads(&rs->stage, rs->index, run_minibatch(rank, mb),
                             &err) == VP_OK)
        return VP_OK; /* another stage's */
    vp_world_abort(rank->crew->world, VP_ERR_NONFINITE, err.text);
    return VP_ERR_NONFINITE;
}

/* Squares of all stages of this rank, and the norm of each. */
static enum vp_status square_stages(struct vp_rank *rank, double *per_block)
{
    int n_blocks = rank->crew->config->graphs[0].n_blocks;

    for (int b = 0; b < n_blocks; b++)
        per_block[b] = 0.0;
    for (int s = 0; s < rank->n_stages; s++) {
        struct vp_rank_stage *rs = &rank->stages[s];

        VP_TRY(vp_stage_sum_grads(&rs->stage));
        rs->norm = sqrt(add_squares(&rs->stage, per_block));
        VP_TRY(refuse_nonfinite(rank, rs, rs->norm,
                                rank->job->schedule->n_mb - 1));
    }
    return VP_OK;
}

/* Before the first update of a synchronous group: ties, then the norm over
 * all blocks and the stop flags of all ranks. */
static enum vp_status settle(struct vp_rank *rank)
{
    struct vp_crew *crew = rank->crew;
    int n_blocks = crew->config->graphs[0].n_blocks;
    size_t n = (size_t)n_blocks + 1; /* squares per block, stop flag */
    double total = 0.0;
    enum vp_status st;

    VP_TRY(add_ties(rank));
    VP_TRY(square_stages(rank, rank->mine));
    for (int b = 0; b < n_blocks && rank->stages[0].replica > 0; b++)
        rank->mine[b] = 0.0;
    rank->mine[n_blocks] = atomic_load(&crew->stop_asked);
    vp_watch_wait(rank, true);
    st = vp_group_exchange(crew->everybody, rank->index, rank->mine,
                           n * sizeof(double), rank->all, deadline(rank));
    vp_watch_wait(rank, false);
    VP_TRY(st);
    for (int b = 0; b < n_blocks; b++)
        for (int r = 0; r < crew->n_ranks; r++)
            total += rank->all[(size_t)r * n + (size_t)b];
    rank->norm = sqrt(total);
    rank->stop = false;
    for (int r = 0; r < crew->n_ranks; r++)
        rank->stop |= rank->all[(size_t)r * n + (size_t)n_blocks] != 0.0;
    return VP_OK;
}

static enum vp_status update_sync(struct vp_rank *rank,
                                  struct vp_rank_stage *rs)
{
    const struct vp_train_config *config = rank->crew->config;
    double norm;

    if (rs == &rank->stages[0])
        VP_TRY(settle(rank));
    norm = config->clip_per_stage ? rs->norm : rank->norm;
    return vp_stage_update(&rs->stage,
                           vp_lr_at(&config->lr, rs->stage.newest + 1),
                           vp_optim_clip_scale(norm, config->optim.grad_clip));
}

/* One update per round, with the rate of the round's last minibatch; the mean
 * over the round's minibatches. */
static enum vp_status update_async(struct vp_rank *rank,
                                   struct vp_rank_stage *rs, int round)
{
    const struct vp_train_config *config = rank->crew->config;
    const struct vp_schedule *schedule = rank->job->schedule;
    int every = plan_of(rank, rs->index)->update_every;
    int last = schedule->segment_begin + (round + 1) * every - 1;
    float mean = 1.0f / (float)every;

    VP_TRY(add_ties(rank));
    VP_TRY(square_stages(rank, rank->mine));
    rs->norm *= mean;
    VP_TRY(vp_stage_update(
        &rs->stage, vp_lr_at(&config->lr, (int64_t)last + 1),
        mean * vp_optim_clip_scale(rs->norm, config->optim.grad_clip)));
    return VP_OK;
}

static enum vp_status exec_update(struct vp_rank *rank,
                                  const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_crew *crew = rank->crew;
    double *norms = crew->norms + (rs->stage.newest % VP_RESULT_RING) *
                                      crew->n_stages;

    if (rank->job->sync)
        VP_TRY(update_sync(rank, rs));
    else
        VP_TRY(update_async(rank, rs, action->mb));
    if (rs->replica == 0)
        norms[rs->index] = rs->norm;
    if (rank->job->sync && rs->replica == 0 && rs->index == 0)
        crew->global_norms[(rs->stage.newest - 1) % VP_RESULT_RING] =
            rank->norm;
    vp_counter_add(&rank->n_updates);
    return VP_OK;
}

/* ---- The walk ----------------------------------------------------------- */

typedef enum vp_status (*exec_fn)(struct vp_rank *rank,
                                  const struct vp_action *action);

static const exec_fn exec_table[VP_ACTION_KIND_COUNT] = {
    [VP_ACTION_F] = exec_forward,
    [VP_ACTION_R] = exec_recompute,
    [VP_ACTION_B] = exec_backward,
    [VP_ACTION_W] = exec_weights,
    [VP_ACTION_SEND_ACT] = exec_send_act,
    [VP_ACTION_RECV_ACT] = exec_recv_act,
    [VP_ACTION_SEND_GRAD] = exec_send_grad,
    [VP_ACTION_RECV_GRAD] = exec_recv_grad,
    [VP_ACTION_REDUCE] = exec_reduce,
    [VP_ACTION_UPDATE] = exec_update,
};

/* The first failure is reported; those that follow from it are not. */
static void fail(struct vp_rank *rank, enum vp_status st)
{
    struct vp_err err = { "" };

    if (st == VP_ERR_ABORTED)
        return;
    if (st == VP_ERR_TIMEOUT)
        vp_watch_report(rank, &err);
    vp_world_abort(rank->crew->world, st, err.text[0] ? err.text : NULL);
}

static enum vp_status walk(struct vp_rank *rank)
{
    const struct vp_rank_list *list = &rank->job->schedule->ranks[rank->index];

    for (int i = 0; i < list->n_actions; i++) {
        enum vp_status st;

        vp_watch_begin(rank, i);
        st = exec_table[list->actions[i].kind](rank, &list->actions[i]);
        if (st != VP_OK)
            return st;
        vp_watch_end(rank);
    }
    return VP_OK;
}

void vp_rank_run(struct vp_rank *rank, const struct vp_job *job)
{
    enum vp_status st = VP_OK;

    rank->job = job;
    rank->stop = false;
    for (rank->repeat = 0; rank->repeat < job->n_repeats && !rank->stop;
         rank->repeat++) {
        st = walk(rank);
        if (st != VP_OK)
            break;
    }
    if (st != VP_OK)
        fail(rank, st);
    else
        atomic_store(&rank->doing, -1);
}
