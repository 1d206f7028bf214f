/* The executor: one function per kind of action, and a loop over the action
 * list. */
#include "runtime/rank/rank.h"

#include "runtime/rank/device_log.h"
#include "runtime/rank/internal.h"
#include "runtime/rank/remote.h"
#include "runtime/rank/watch.h"
#include "runtime/rank/watch_count.h"
#include "runtime/stage/wire.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* ---- Messages ----------------------------------------------------------- */

enum direction { ACT, GRAD };

/* A message of the schedule: its channel, and its number there. */
struct message_id {
    struct vp_channel *channel;
    uint64_t number;
};

/* Finds message `msg` to (stage, replica). Numbers count over all repeats and
 * jobs. */
static struct message_id find_message(const struct vp_rank *rank, int stage,
                                      int replica, enum direction direction,
                                      int msg)
{
    const struct vp_stage_links *links = &rank->pipeline->links[stage];
    int at = replica * rank->pipeline->n_members + rank->member;
    const struct vp_edge *edge = direction == ACT ? &links->act[at]
                                                  : &links->grad[at];
    int per_repeat = (rank->job->schedule->n_mb - replica + links->n_replicas -
                      1) /
                     links->n_replicas;

    return (struct message_id){
        edge->channel, edge->base + (uint64_t)(rank->repeat * per_repeat + msg)
    };
}

/* Finds the message that an F or B writes, or a SEND posts. */
static struct message_id outgoing(const struct vp_rank *rank,
                                  const struct vp_action *action,
                                  enum direction direction)
{
    int to = direction == ACT ? action->stage + 1 : action->stage - 1;
    int replica = 0;

    if (rank->pipeline->links[to].n_replicas > 1)
        replica = action->peer - sched_stage_of(rank, to)->first_rank;
    return find_message(rank, to, replica, direction, action->msg);
}

/* Gets a buffer to write a message into. On the device, work of the last
 * receiver with this buffer comes first. */
static enum vp_status acquire(struct vp_rank *rank,
                              const struct vp_action *action,
                              enum direction direction,
                              struct vp_stage_message **message_out)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct message_id id = outgoing(rank, action, direction);
    enum vp_status st;
    void *message;

    vp_watch_begin_wait(rank);
    st = vp_channel_acquire(id.channel, id.number, limit_of(rank), &message);
    count(rank, &rs->count.way[direction].send_ns, vp_watch_end_wait(rank, st));
    VP_TRY(st);
    *message_out = message;
    VP_TRY(vp_stream_wait(rs->stage.stream, (*message_out)->read));
    vp_device_log_begin(rank, action);
    return VP_OK;
}

static enum vp_status receive(struct vp_rank *rank,
                              const struct vp_action *action,
                              enum direction direction,
                              struct vp_stage_message **message_out)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct message_id id = find_message(rank, rs->index, rs->replica, direction,
                                        action->msg);
    struct vp_way_count *way = &rs->count.way[direction];
    enum vp_status st;
    size_t n_bytes;
    void *message;

    vp_watch_begin_wait(rank);
    st = vp_channel_wait(id.channel, id.number, limit_of(rank), &message);
    count(rank, &way->receive_ns, vp_watch_end_wait(rank, st));
    VP_TRY(st);
    *message_out = message;
    VP_BUG_ON((*message_out)->header.minibatch !=
              run_minibatch(rank, action->mb));
    VP_TRY(vp_wire_unpack(&rs->stage, *message_out,
                          direction == ACT ? VP_LIST_F : VP_LIST_B, &n_bytes));
    count(rank, &way->bytes_received, (int64_t)n_bytes);
    count(rank, &way->n_received, 1);
    return VP_OK;
}

static enum vp_status release_one(struct vp_rank *rank,
                                  const struct vp_action *action,
                                  enum direction direction)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_slot *slot = &rs->stage.slots[action->slot];
    const struct vp_stage_message *message = direction == ACT ? slot->message
                                                              : slot->grad;
    int own = vp_schedule_own_index(rank->job->schedule, rs->index, action->mb);
    struct message_id id = find_message(rank, rs->index, rs->replica, direction,
                                        own);

    VP_TRY(vp_wire_give_back(&rs->stage, message));
    vp_channel_release(id.channel, id.number);
    return VP_OK;
}

/* Releases the messages of a minibatch after their last use. */
static enum vp_status release(struct vp_rank *rank,
                              const struct vp_action *action, bool gradient_too)
{
    if (action->stage > 0)
        VP_TRY(release_one(rank, action, ACT));
    if (gradient_too && !is_last(rank, action->stage))
        VP_TRY(release_one(rank, action, GRAD));
    return VP_OK;
}

/* ---- Forward ------------------------------------------------------------ */

static enum vp_status next_batch(struct vp_rank *rank, uint64_t minibatch,
                                 const struct vp_batch **out)
{
    const struct vp_train_config *config = rank->pipeline->config;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    *out = rank->eval_batch;
    if (rank->job->kind == VP_JOB_EVAL && config->feed)
        st = config->feed->next(config->feed->ctx, minibatch, out, &err);
    else if (rank->job->kind == VP_JOB_EVAL)
        st = vp_data_fill(config->eval_data, minibatch, rank->eval_batch, &err);
    else
        st = vp_prefetch_next(rank->reader, config->timeout_ms, out, &err);
    if (st != VP_OK)
        vp_world_abort(rank->pipeline->world, st, err.text);
    return st;
}

/* Returns true for the first minibatch of an update on this replica: it writes
 * gradients, the others add to them. */
static bool begins_update(const struct vp_rank *rank,
                          const struct vp_rank_stage *rs, int mb)
{
    const struct vp_schedule *schedule = rank->job->schedule;
    int own = vp_schedule_own_index(schedule, rs->index, mb);
    int n_replicas = rank->pipeline->links[rs->index].n_replicas;
    int every = sched_stage_of(rank, rs->index)->update_every / n_replicas;

    return rank->job->sync ? own == 0 : every < 2 || own % every == 0;
}

static void set_scalars(struct vp_rank *rank, const struct vp_rank_stage *rs,
                        struct vp_slot *slot, int mb)
{
    const struct vp_train_config *config = rank->pipeline->config;
    float mean = rank->job->sync ? 1.0f / (float)config->plan.accumulation_steps
                                 : 1.0f;

    slot->mb = (struct vp_mb){
        .seed = config->seed,
        .first_sample = slot->message->header.first_sample,
        .loss_grad = mean * vp_scale_factor(&rs->stage.scale),
        .accumulate = !begins_update(rank, rs, mb),
        .train = rank->job->kind == VP_JOB_TRAIN,
    };
}

/* In training, the FLOPs of the action are those of `list`. */
static void note_flops(struct vp_rank *rank, const struct vp_rank_stage *rs,
                       const struct vp_slot *slot, enum vp_list list)
{
    if (rank->job->kind == VP_JOB_TRAIN)
        rank->action_flops = vp_stage_program(&rs->stage, slot)->flops[list];
}

/* Waits until reports have freed a place in the ring of results, with the usual
 * time limit. */
static enum vp_status wait_for_room(struct vp_rank *rank, uint64_t minibatch)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    struct vp_limit limit = limit_of(rank);

    while ((int64_t)minibatch - atomic_load(&rank->pipeline->n_reported) >=
           rank->pipeline->n_results) {
        if (vp_limit_is_over(&limit))
            return VP_ERR_TIMEOUT;
        VP_TRY(vp_world_status(rank->pipeline->world, NULL));
        nanosleep(&pause, NULL);
    }
    return VP_OK;
}

static enum vp_status refuse_loss(struct vp_rank *rank, uint64_t minibatch)
{
    struct vp_pipeline *pipeline = rank->pipeline;
    struct vp_err err;

    pipeline->has_bad_loss = true;
    pipeline->bad_minibatch = minibatch;
    vp_err_set(&err, VP_ERR_NONFINITE, "non-finite loss, minibatch %llu",
               (unsigned long long)minibatch);
    vp_world_abort(pipeline->world, VP_ERR_NONFINITE, err.text);
    return VP_ERR_NONFINITE;
}

/* Passes the logits to the sink without copying them. */
static enum vp_status give_logits(struct vp_rank *rank,
                                  const struct vp_rank_stage *rs,
                                  const struct vp_slot *slot)
{
    const struct vp_train_config *config = rank->pipeline->config;
    const struct vp_message_header *header = &slot->message->header;
    const struct vp_graph *graph = &config->graphs[header->bucket];
    struct vp_logits logits = {
        .minibatch = header->minibatch,
        .bucket = header->bucket,
        .at = vp_stage_logits(&rs->stage, slot, true),
    };

    if (!logits.at || !config->sink)
        return VP_OK;
    logits.dtype = graph->values[graph->logits].dtype;
    logits.rows = graph->values[graph->logits].rows;
    logits.cols = graph->values[graph->logits].cols;
    return vp_remote_send_logits(rank, &logits);
}

/* Reports the loss of a minibatch, on the last stage. In training it is called
 * after the device was given the backward, too. */
static enum vp_status note_result(struct vp_rank *rank,
                                  struct vp_rank_stage *rs,
                                  const struct vp_slot *slot)
{
    const struct vp_message_header *header = &slot->message->header;
    bool eval = rank->job->kind == VP_JOB_EVAL;
    struct vp_note note = {
        .kind = VP_NOTE_RESULT,
        .number = (int64_t)header->minibatch,
        .of.result = { .eval = eval,
                       .n_samples = header->n_samples,
                       .n_tokens = header->n_tokens },
    };

    if (!eval && rank->pipeline->is_lead)
        VP_TRY(wait_for_room(rank, header->minibatch));
    VP_TRY(vp_stage_take_loss(&rs->stage, slot, note.of.result.loss));
    if (!eval && !isfinite(note.of.result.loss[VP_LOSS_MEAN]))
        return refuse_loss(rank, header->minibatch);
    if (eval)
        VP_TRY(give_logits(rank, rs, slot));
    note.of.result.n_logits = vp_remote_n_logits(rank->pipeline);
    return vp_remote_send_note(rank, &note);
}

/* All members of a group have the same result; the first one reports it. */
static bool tells_result(const struct vp_rank *rank,
                         const struct vp_rank_stage *rs)
{
    return is_last(rank, rs->index) && rank->member == 0;
}

static enum vp_status exec_forward(struct vp_rank *rank,
                                   const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_slot *slot = &rs->stage.slots[action->slot];
    bool eval = rank->job->kind == VP_JOB_EVAL;
    uint64_t minibatch = run_minibatch(rank, action->mb);
    struct vp_launch_messages messages = { NULL, NULL, NULL };
    const struct vp_batch *batch = NULL;

    if (rs->index == 0)
        VP_TRY(next_batch(rank, minibatch, &batch));
    if (!is_last(rank, rs->index))
        VP_TRY(acquire(rank, action, ACT, &messages.out));
    else if (batch)
        vp_device_log_begin(rank, action);
    if (batch)
        VP_TRY(vp_stage_load(&rs->stage, slot->message, batch, minibatch));
    else
        slot->message = rs->act;
    slot->version = version_of(rank, rs, action);
    vp_stage_take_buffers(
        &rs->stage, slot,
        vp_schedule_own_index(rank->job->schedule, rs->index, action->mb));
    set_scalars(rank, rs, slot, action->mb);
    note_flops(rank, rs, slot, VP_LIST_F);
    if (messages.out)
        messages.out->header = slot->message->header;
    VP_TRY(vp_update_end_gather(rank, rs));
    VP_TRY(vp_stage_run(&rs->stage, slot, VP_LIST_F, slot->version, eval,
                        &messages));
    if (is_last(rank, rs->index))
        VP_TRY(vp_stage_fetch_outputs(&rs->stage, slot, eval));
    if (!rank->job->schedule->forward_only)
        return VP_OK;
    if (tells_result(rank, rs))
        VP_TRY(note_result(rank, rs, slot));
    return release(rank, action, false);
}

/* ---- Backward ----------------------------------------------------------- */

static enum vp_status exec_recompute(struct vp_rank *rank,
                                     const struct vp_action *action)
{
    const struct vp_launch_messages none = { NULL, NULL, NULL };
    struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_slot *slot = &rs->stage.slots[action->slot];

    note_flops(rank, rs, slot, VP_LIST_R);
    VP_TRY(vp_update_end_gather(rank, rs));
    return vp_stage_run(&rs->stage, slot, VP_LIST_R,
                        version_of(rank, rs, action), false, &none);
}

static enum vp_status exec_backward(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_slot *slot = &rs->stage.slots[action->slot];
    struct vp_launch_messages messages = { .dout = rs->grad };

    slot->grad = rs->grad;
    note_flops(rank, rs, slot, VP_LIST_B);
    if (rs->index > 0) {
        VP_TRY(acquire(rank, action, GRAD, &messages.din));
        messages.din->header = slot->message->header;
    }
    VP_TRY(vp_run_backward(rank, action, VP_LIST_B, &messages));
    VP_TRY(vp_update_poll(rank));
    if (tells_result(rank, rs))
        VP_TRY(note_result(rank, rs, slot));
    return rank->job->schedule->split ? VP_OK : release(rank, action, true);
}

static enum vp_status exec_weights(struct vp_rank *rank,
                                   const struct vp_action *action)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_slot *slot = &rs->stage.slots[action->slot];
    const struct vp_launch_messages messages = { .dout = slot->grad };

    note_flops(rank, rs, slot, VP_LIST_W);
    VP_TRY(vp_run_backward(rank, action, VP_LIST_W, &messages));
    return release(rank, action, true);
}

/* ---- Swapping ----------------------------------------------------------- */

static struct vp_slot *slot_of(struct vp_rank *rank,
                               const struct vp_action *action)
{
    return &stage_of(rank, action)->stage.slots[action->slot];
}

static enum vp_status exec_swap_out(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    return vp_stage_swap_out(&stage_of(rank, action)->stage,
                             slot_of(rank, action));
}

static enum vp_status exec_swap_in(struct vp_rank *rank,
                                   const struct vp_action *action)
{
    return vp_stage_swap_in(&stage_of(rank, action)->stage,
                            slot_of(rank, action));
}

/* Waits for a copy. */
static enum vp_status exec_swap_end(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    struct vp_stage *stage = &stage_of(rank, action)->stage;
    const struct vp_slot *slot = slot_of(rank, action);
    enum vp_status st;

    vp_watch_begin_wait(rank);
    st = action->kind == VP_ACTION_SWAP_FREE ? vp_stage_swap_free(stage, slot)
                                             : vp_stage_swap_ready(stage, slot);
    vp_watch_end_wait(rank, st);
    return st;
}

/* ---- Sending and receiving ---------------------------------------------- */

/* Marks the message as written at this point of the stream. The ring has one
 * event per message buffer, so an event is not reused before its message was
 * taken. */
static enum vp_status mark_written(struct vp_rank *rank,
                                   struct vp_rank_stage *rs,
                                   struct message_id id,
                                   enum direction direction,
                                   size_t *n_bytes_out)
{
    uint64_t k = rs->n_messages[direction]++ % (uint64_t)rs->n_sent[direction];
    enum vp_space space = direction == ACT ? VP_SPACE_OUT : VP_SPACE_DIN;
    struct vp_stage_message *message;
    void *buffer;

    /* Returns at once: the buffer was acquired before the computation. */
    VP_TRY(vp_channel_acquire(id.channel, id.number, limit_of(rank), &buffer));
    message = buffer;
    if (vp_stage_edge(&rs->stage.plan.shape, space) != VP_EDGE_DEVICE)
        message->written = rs->sent[direction][k];
    VP_TRY(vp_wire_pack(&rs->stage, message,
                        direction == ACT ? VP_LIST_F : VP_LIST_B, n_bytes_out));
    return vp_event_record(message->written, rs->stage.stream);
}

static enum vp_status send_message(struct vp_rank *rank,
                                   const struct vp_action *action,
                                   enum direction direction)
{
    struct vp_rank_stage *rs = stage_of(rank, action);
    struct vp_way_count *way = &rs->count.way[direction];
    struct message_id id = outgoing(rank, action, direction);
    size_t n_bytes;

    VP_TRY(mark_written(rank, rs, id, direction, &n_bytes));
    vp_channel_post(id.channel, id.number, n_bytes);
    count(rank, &way->bytes_sent, (int64_t)n_bytes);
    count(rank, &way->n_sent, 1);
    return VP_OK;
}

static enum vp_status exec_send_act(struct vp_rank *rank,
                                    const struct vp_action *action)
{
    return send_message(rank, action, ACT);
}

static enum vp_status exec_send_grad(struct vp_rank *rank,
                                     const struct vp_action *action)
{
    return send_message(rank, action, GRAD);
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
    [VP_ACTION_REDUCE] = vp_exec_reduce,
    [VP_ACTION_UPDATE] = vp_exec_update,
    [VP_ACTION_SWAP_OUT] = exec_swap_out,
    [VP_ACTION_SWAP_FREE] = exec_swap_end,
    [VP_ACTION_SWAP_IN] = exec_swap_in,
    [VP_ACTION_SWAP_READY] = exec_swap_end,
};

/* Reports the first failure; those that follow from it are VP_ERR_ABORTED. */
static void fail(struct vp_rank *rank, enum vp_status st)
{
    const struct vp_action *action =
        &list_of(rank)->actions[atomic_load(&rank->doing)];
    const char *why = vp_device_last_error(rank->device);
    struct vp_err err = { .text = "" };
    char text[64];

    if (st == VP_ERR_ABORTED)
        return;
    vp_action_print(action, text, sizeof(text));
    if (st == VP_ERR_TIMEOUT)
        vp_watch_report(rank - rank->index, rank->pipeline->n_ranks,
                        rank->index, &err);
    else
        vp_err_set(&err, st, "rank %d, stage %d, minibatch %d: %s: %s",
                   vp_rank_number(rank->pipeline, rank->index), action->stage,
                   action->mb, text, *why ? why : vp_status_name(st));
    vp_world_abort(rank->pipeline->world, st, err.text);
}

enum vp_status vp_rank_inject(struct vp_rank *rank,
                              const struct vp_action *action, bool *skip)
{
    const struct vp_train_config *config = rank->pipeline->config;
    const struct timespec pause = { .tv_nsec = 1000000 };
    enum vp_status st = VP_OK;

    *skip = false;
    if (!config->fault)
        return VP_OK;
    switch (config->fault(config->fault_ctx, rank->index, action)) {
    case VP_FAULT_STALL:
        while (st == VP_OK) {
            nanosleep(&pause, NULL);
            st = vp_world_status(rank->pipeline->world, NULL);
        }
        return VP_ERR_ABORTED;
    case VP_FAULT_ERROR:
        return VP_ERR_IO;
    case VP_FAULT_DROP:
        *skip = true;
        return VP_OK;
    default:
        return VP_OK;
    }
}

/* Returns the tensors of a message in memory that the host can read; NULL on
 * failure. */
static const char *values_of(struct vp_rank *rank, struct vp_stage *stage,
                             const struct vp_stage_message *message,
                             int64_t n_bytes)
{
    if (vp_device_has_host_memory(stage->device))
        return message->tensors;
    if (rank->n_host_copy < n_bytes) {
        free(rank->host_copy);
        rank->host_copy = malloc((size_t)n_bytes);
        rank->n_host_copy = rank->host_copy ? n_bytes : 0;
    }
    if (!rank->host_copy ||
        vp_stream_copy(stage->stream, rank->host_copy, message->tensors,
                       (size_t)n_bytes) != VP_OK ||
        vp_stage_wait(stage) != VP_OK)
        return NULL;
    return rank->host_copy;
}

/* Fills in the content of a message before the receiver has it. */
static void show_message(struct vp_rank *rank, const struct vp_action *action,
                         struct vp_observation *what)
{
    bool act = action->kind == VP_ACTION_SEND_ACT;
    struct vp_stage *stage = &stage_of(rank, action)->stage;
    struct message_id id = outgoing(rank, action, act ? ACT : GRAD);
    const struct vp_program *program;
    const struct vp_stage_message *message;
    void *buffer;

    what->message = id.number;
    if (vp_channel_acquire(id.channel, id.number, limit_of(rank), &buffer) !=
        VP_OK)
        return;
    message = buffer;
    program = &stage->plan.train[message->header.bucket];
    what->graph = program->graph;
    what->boundary = act ? &program->out : &program->din;
    what->values = values_of(rank, stage, message, what->boundary->n_bytes);
}

static void observe(struct vp_rank *rank, const struct vp_action *action)
{
    const struct vp_train_config *config = rank->pipeline->config;
    const struct vp_rank_stage *rs = stage_of(rank, action);
    const struct vp_schedule *schedule = rank->job->schedule;
    struct vp_observation what = {
        .rank = rank->index,
        .action = action,
        .minibatch = (int64_t)run_minibatch(rank, action->mb),
        .version = version_of(rank, rs, action),
    };

    if (action->kind == VP_ACTION_REDUCE || action->kind == VP_ACTION_UPDATE) {
        int every = sched_stage_of(rank, rs->index)->update_every;

        what.version = rs->stage.newest + 1;
        what.minibatch = rank->job->sync
                             ? (int64_t)run_minibatch(rank, schedule->n_mb - 1)
                             : schedule->segment_begin +
                                   (int64_t)(action->mb + 1) * every - 1;
    }
    if (action->kind == VP_ACTION_SEND_ACT ||
        action->kind == VP_ACTION_SEND_GRAD)
        show_message(rank, action, &what);
    config->observe(config->observe_ctx, &what);
}

static enum vp_status walk(struct vp_rank *rank)
{
    const struct vp_rank_list *list = list_of(rank);
    bool watched = rank->pipeline->config->observe &&
                   rank->job->kind == VP_JOB_TRAIN;

    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *action = &list->actions[i];
        bool skip;

        if (watched)
            observe(rank, action);
        vp_watch_begin(rank, i);
        VP_TRY(vp_rank_inject(rank, action, &skip));
        if (!skip)
            VP_TRY(exec_table[action->kind](rank, action));
        vp_watch_end(rank);
    }
    return VP_OK;
}

/* Reports the end of a job. In the lead the trainer waits for the thread
 * itself. */
static enum vp_status say_done(struct vp_rank *rank)
{
    struct vp_note note = { .kind = VP_NOTE_DONE, .number = rank->repeat };

    rank->last = note.of.mark = vp_watch_mark(rank);
    if (rank->pipeline->is_lead)
        return VP_OK;
    for (int i = 0; i < rank->n_stages; i++) {
        struct vp_note stats = { .kind = VP_NOTE_STATS, .stage = i };

        vp_stage_stats_add(&rank->stages[i], &stats.of.stats);
        VP_TRY(vp_remote_send_note(rank, &stats));
    }
    return vp_remote_send_note(rank, &note);
}

/* Waits until the device is idle. Not done between pieces of a stream, where
 * the device would have nothing to do until the next piece starts. */
static enum vp_status come_to_rest(struct vp_rank *rank)
{
    for (int s = 0; s < rank->n_stages; s++)
        VP_TRY(vp_stage_wait(&rank->stages[s].stage));
    VP_TRY(vp_update_finish(rank));
    vp_device_log_flush(rank);
    return VP_OK;
}

/* Sets the oldest version of each stage; see struct vp_schedule_stage. */
static void set_oldest_versions(struct vp_rank *rank, const struct vp_job *job)
{
    for (int i = 0; i < rank->n_stages; i++) {
        const struct vp_schedule_stage *plan =
            &job->schedule->stages[rank->stages[i].index];

        rank->stages[i].stage.oldest = plan->version_begin - plan->version_past;
    }
}

/* Waits for weights that are being gathered, so that the state is complete
 * between jobs. */
static enum vp_status end_gathers(struct vp_rank *rank)
{
    for (int s = 0; s < rank->n_stages; s++)
        VP_TRY(vp_update_end_gather(rank, &rank->stages[s]));
    return VP_OK;
}

void vp_rank_run(struct vp_rank *rank, const struct vp_job *job)
{
    enum vp_status st = VP_OK;

    rank->job = job;
    rank->stop = false;
    if (job->kind == VP_JOB_TRAIN && !job->sync)
        set_oldest_versions(rank, job);
    for (rank->repeat = 0; rank->repeat < job->n_repeats && !rank->stop;
         rank->repeat++) {
        st = walk(rank);
        if (st != VP_OK)
            break;
    }
    if (st == VP_OK)
        st = end_gathers(rank);
    if (st == VP_OK && job->schedule->drain)
        st = come_to_rest(rank);
    if (st == VP_OK)
        st = say_done(rank);
    if (st != VP_OK) {
        fail(rank, st);
        return;
    }
    vp_watch_rest(rank);
}
