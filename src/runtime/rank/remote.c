/* Orders, notes and logits between the processes of a run. */
#include "runtime/rank/remote.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* N_NOTES is large enough for a burst, such as a trace, not to wait for the
 * lead. */
enum { N_ORDERS = 4, N_NOTES = 256, N_NOTES_OUT = 16, N_LOGITS = 2 };

/* Channels in both directions between the lead and another rank. */
struct line {
    struct vp_channel *orders, *notes;
    uint64_t n_orders, n_notes; /* number sent or taken by this process */
    struct vp_order order[N_ORDERS];
    struct vp_note note[N_NOTES];
};

/* Channel from the last stage to the lead. */
struct logits_line {
    struct vp_channel *channel; /* NULL: no end in this process */
    uint64_t n;                 /* messages sent or taken by this process */
    int64_t n_bytes;            /* size of a body */
    struct vp_logits head[N_LOGITS];
    char *body[N_LOGITS];
};

struct vp_remote {
    struct line **lines; /* per rank; NULL: no end in this process */
    struct logits_line logits;
};

static struct vp_limit limit_of(const struct vp_pipeline *pipeline)
{
    return vp_limit_ms(pipeline->config->timeout_ms);
}

/* ---- Orders ------------------------------------------------------------- */

enum vp_status vp_remote_send_order(struct vp_pipeline *pipeline,
                                    const struct vp_order *order)
{
    for (int r = 0; pipeline->remote && r < pipeline->n_ranks; r++) {
        struct line *line = pipeline->remote->lines[r];
        void *buffer;

        if (!line)
            continue;
        VP_TRY(vp_channel_acquire(line->orders, line->n_orders,
                                  limit_of(pipeline), &buffer));
        *(struct vp_order *)buffer = *order;
        vp_channel_post(line->orders, line->n_orders++, 0);
    }
    return VP_OK;
}

bool vp_remote_take_order(struct vp_pipeline *pipeline, struct vp_order *out)
{
    struct line *line = pipeline->remote->lines[pipeline->me];
    void *buffer;

    if (vp_channel_wait(line->orders, line->n_orders, VP_LIMIT_NOW, &buffer) !=
        VP_OK)
        return false;
    *out = *(const struct vp_order *)buffer;
    vp_channel_release(line->orders, line->n_orders++);
    return true;
}

/* ---- Logits ------------------------------------------------------------- */

static enum vp_status call_sink(const struct vp_pipeline *pipeline,
                                const struct vp_logits *logits)
{
    const struct vp_sink *sink = pipeline->config->sink;
    struct vp_err err = { .text = "" };
    enum vp_status st = sink->take(sink->ctx, logits, &err);

    if (st != VP_OK)
        vp_world_abort(pipeline->world, st, err.text);
    return st;
}

/* Returns the body of the message with the head `head`. */
static char *body_of(struct logits_line *line, const void *head)
{
    return line->body[(const struct vp_logits *)head - line->head];
}

/* Sends the rows of `part` in one message. */
static enum vp_status send_part(struct vp_pipeline *pipeline,
                                const struct vp_logits *part, size_t n_bytes)
{
    struct logits_line *line = &pipeline->remote->logits;
    void *head;

    VP_TRY(
        vp_channel_acquire(line->channel, line->n, limit_of(pipeline), &head));
    *(struct vp_logits *)head = *part;
    /* This address is invalid in the other process. */
    ((struct vp_logits *)head)->at = NULL;
    memcpy(body_of(line, head), part->at, n_bytes);
    vp_channel_post(line->channel, line->n++, n_bytes);
    return VP_OK;
}

enum vp_status vp_remote_send_logits(struct vp_rank *rank,
                                     const struct vp_logits *logits)
{
    struct vp_pipeline *pipeline = rank->pipeline;
    int64_t row_bytes = logits->cols * vp_dtype_bytes(logits->dtype);
    struct vp_logits part = *logits;
    int64_t most;

    if (pipeline->is_lead)
        return call_sink(pipeline, logits);
    most = pipeline->remote->logits.n_bytes / row_bytes;
    for (int64_t row = 0; row < logits->rows; row += most) {
        part.first = logits->first + row;
        part.rows = logits->rows - row < most ? logits->rows - row : most;
        part.at = (const char *)logits->at + row * row_bytes;
        VP_TRY(send_part(pipeline, &part, (size_t)(part.rows * row_bytes)));
    }
    return VP_OK;
}

uint64_t vp_remote_n_logits(const struct vp_pipeline *pipeline)
{
    return pipeline->remote ? pipeline->remote->logits.n : 0;
}

/* Called by the lead. Passes arrived logits to the sink; waits for at least the
 * first `n_sent` messages of the run, which have been sent. */
static void hear_logits(struct vp_pipeline *pipeline, uint64_t n_sent)
{
    struct logits_line *line = &pipeline->remote->logits;
    enum vp_status st = VP_OK;

    while (line->channel && st == VP_OK) {
        struct vp_logits *logits;
        void *head;

        st = vp_channel_wait(
            line->channel, line->n,
            line->n < n_sent ? limit_of(pipeline) : VP_LIMIT_NOW, &head);
        if (st == VP_ERR_TIMEOUT && line->n < n_sent)
            vp_world_abort(pipeline->world, st,
                           "logits of the last stage do not arrive; look at "
                           "the network, or raise watchdog_seconds");
        if (st != VP_OK)
            return;
        logits = head;
        logits->at = body_of(line, head);
        st = call_sink(pipeline, logits);
        vp_channel_release(line->channel, line->n++);
    }
}

/* ---- Notes -------------------------------------------------------------- */

static void take_result(struct vp_pipeline *pipeline,
                        const struct vp_note *note)
{
    struct vp_result *result =
        &pipeline->results[note->number % pipeline->n_results];

    memcpy(result->loss, note->of.result.loss, sizeof(result->loss));
    result->n_samples = note->of.result.n_samples;
    result->n_tokens = note->of.result.n_tokens;
    if (pipeline->remote)
        hear_logits(pipeline, note->of.result.n_logits);
    if (!note->of.result.eval)
        atomic_store(&result->n_minibatches, note->number + 1);
}

static void take_update(struct vp_pipeline *pipeline, struct vp_rank *rank,
                        const struct vp_note *note)
{
    struct vp_rank_stage *rs = &rank->stages[note->stage];
    int64_t at = (note->number - 1) % pipeline->n_notes;

    if (rs->replica == 0 && rank->member == 0) {
        pipeline->norms[at * pipeline->n_stages + rs->index] =
            note->of.update.norm;
        pipeline->scales[at * pipeline->n_stages + rs->index] =
            note->of.update.scale;
    }
    pipeline->marks[at * pipeline->n_ranks + rank->index] =
        note->of.update.mark;
    if (rs->replica == 0 && rs->index == 0 && rank->member == 0)
        pipeline->global_norms[at] = note->of.update.global_norm;
    if (!rank->is_here)
        rs->told = note->of.update.stats;
    vp_counter_add(&rank->n_updates);
}

static void take_trace(struct vp_rank *rank, const struct vp_note *note)
{
    for (int i = 0; i < note->of.trace.n; i++)
        vp_recorder_add(rank->recorder, note->of.trace.events[i]);
    if (note->number == 0)
        atomic_store(&rank->is_heard, true);
}

static void take_note(struct vp_pipeline *pipeline, struct vp_rank *rank,
                      const struct vp_note *note)
{
    if (note->stop) {
        atomic_store(&pipeline->stop_asked, true);
        atomic_store(&pipeline->stopped, true);
    }
    if (!rank->is_here)
        atomic_fetch_add(&rank->blackbox->n_actions, 1); /* a sign of life */
    switch (note->kind) {
    case VP_NOTE_RESULT:
        take_result(pipeline, note);
        break;
    case VP_NOTE_UPDATE:
        take_update(pipeline, rank, note);
        break;
    case VP_NOTE_STATS:
        rank->stages[note->stage].told = note->of.stats;
        break;
    case VP_NOTE_DONE:
        rank->repeat = note->number;
        rank->last = note->of.mark;
        vp_counter_add(&pipeline->n_done[rank->index]);
        break;
    case VP_NOTE_TRACE:
        take_trace(rank, note);
        break;
    }
}

enum vp_status vp_remote_send_note(struct vp_rank *rank,
                                   const struct vp_note *note)
{
    struct vp_pipeline *pipeline = rank->pipeline;
    struct line *line;
    void *buffer;

    if (pipeline->is_lead) {
        take_note(pipeline, rank, note);
        return VP_OK;
    }
    line = pipeline->remote->lines[rank->index];
    VP_TRY(vp_channel_acquire(line->notes, line->n_notes, limit_of(pipeline),
                              &buffer));
    *(struct vp_note *)buffer = *note;
    ((struct vp_note *)buffer)->stop = atomic_load(&pipeline->stop_asked);
    vp_channel_post(line->notes, line->n_notes++, 0);
    return VP_OK;
}

void vp_remote_handle_notes(struct vp_pipeline *pipeline, struct vp_rank *ranks)
{
    if (pipeline->remote)
        hear_logits(pipeline, 0);
    for (int r = 0; pipeline->remote && r < pipeline->n_ranks; r++) {
        struct line *line = pipeline->remote->lines[r];
        void *buffer;

        while (line && vp_channel_wait(line->notes, line->n_notes, VP_LIMIT_NOW,
                                       &buffer) == VP_OK) {
            take_note(pipeline, &ranks[r], buffer);
            vp_channel_release(line->notes, line->n_notes++);
        }
    }
}

/* ---- Links -------------------------------------------------------------- */

static struct vp_buffer wrap(void *at, size_t n_bytes)
{
    return (struct vp_buffer){ .self = at, .head = at, .n_head = n_bytes };
}

/* Both ends allocate the whole rings; a sender uses a part of its ring. */
static enum vp_status connect_line(struct vp_pipeline *pipeline, int lead,
                                   int rank, struct line *line,
                                   struct vp_channel **orders,
                                   struct vp_channel **notes)
{
    struct vp_buffer order[N_ORDERS], note[N_NOTES];
    struct vp_link link = { .receiver = rank,
                            .senders = &lead,
                            .n_senders = 1,
                            .n_buffers = N_ORDERS,
                            .buffers = line ? order : NULL,
                            .out = line ? order : NULL,
                            .n_out = N_ORDERS };

    for (int i = 0; line && i < N_ORDERS; i++)
        order[i] = wrap(&line->order[i], sizeof(line->order[i]));
    for (int i = 0; line && i < N_NOTES; i++)
        note[i] = wrap(&line->note[i], sizeof(line->note[i]));
    VP_TRY(vp_channel_create(pipeline->world, &link, orders));
    link.receiver = lead;
    link.senders = &rank;
    link.n_buffers = N_NOTES;
    link.buffers = link.out = line ? note : NULL;
    link.n_out = N_NOTES_OUT;
    return vp_channel_create(pipeline->world, &link, notes);
}

/* The body of a message has room for one row, or for more if rows are short. */
static int64_t most_logits_bytes(const struct vp_train_config *config)
{
    int64_t most = 0;

    for (int i = 0; i < config->n_graphs; i++) {
        const struct vp_graph *graph = &config->graphs[i];
        const struct vp_value *logits = &graph->values[graph->logits];
        int64_t row = logits->cols * vp_dtype_bytes(logits->dtype);
        int64_t rows = VP_REMOTE_LOGITS_BYTES / row;

        rows = rows < 1 ? 1 : rows < logits->rows ? rows : logits->rows;
        most = rows * row > most ? rows * row : most;
    }
    return most;
}

/* Both ends allocate the whole ring. */
static enum vp_status connect_logits(struct vp_pipeline *pipeline, int lead,
                                     int sender)
{
    struct logits_line *line = &pipeline->remote->logits;
    bool ends_here = pipeline->is_lead ||
                     vp_world_is_mine(pipeline->world, sender);
    struct vp_buffer buffers[N_LOGITS];
    struct vp_channel *channel;
    struct vp_link link = { .receiver = lead,
                            .senders = &sender,
                            .n_senders = 1,
                            .n_buffers = N_LOGITS,
                            .buffers = ends_here ? buffers : NULL,
                            .out = ends_here ? buffers : NULL,
                            .n_out = N_LOGITS };

    line->n_bytes = most_logits_bytes(pipeline->config);
    for (int i = 0; ends_here && i < N_LOGITS; i++) {
        line->body[i] = malloc((size_t)line->n_bytes);
        if (!line->body[i])
            return VP_ERR_NOMEM;
        buffers[i] = wrap(&line->head[i], sizeof(line->head[i]));
        buffers[i].body = line->body[i];
        buffers[i].n_body = (size_t)line->n_bytes;
    }
    VP_TRY(vp_channel_create(pipeline->world, &link, &channel));
    line->channel = ends_here ? channel : NULL;
    return VP_OK;
}

enum vp_status vp_remote_connect(struct vp_pipeline *pipeline,
                                 const struct vp_schedule *schedule)
{
    int last = schedule->stages[schedule->n_stages - 1].first_rank;
    int lead = vp_world_lead(pipeline->world);
    struct vp_channel *orders, *notes;

    if (vp_world_is_mine(pipeline->world, 0) &&
        vp_world_is_mine(pipeline->world, pipeline->n_ranks - 1))
        return VP_OK;
    pipeline->remote = calloc(1, sizeof(*pipeline->remote));
    if (!pipeline->remote)
        return VP_ERR_NOMEM;
    pipeline->remote->lines = calloc((size_t)pipeline->n_ranks,
                                     sizeof(struct line *));
    if (!pipeline->remote->lines)
        return VP_ERR_NOMEM;
    for (int r = 0; r < pipeline->n_ranks; r++) {
        struct line *line = NULL;

        if (r == lead)
            continue;
        if (pipeline->is_lead || vp_world_is_mine(pipeline->world, r)) {
            line = calloc(1, sizeof(*line));
            if (!line)
                return VP_ERR_NOMEM;
        }
        pipeline->remote->lines[r] = line;
        VP_TRY(connect_line(pipeline, lead, r, line, &orders, &notes));
        if (line) {
            line->orders = orders;
            line->notes = notes;
        }
    }
    return pipeline->config->sink && last != lead
               ? connect_logits(pipeline, lead, last)
               : VP_OK;
}

void vp_remote_release(struct vp_pipeline *pipeline)
{
    if (!pipeline->remote)
        return;
    for (int r = 0; pipeline->remote->lines && r < pipeline->n_ranks; r++)
        free(pipeline->remote->lines[r]);
    for (int i = 0; i < N_LOGITS; i++)
        free(pipeline->remote->logits.body[i]);
    free(pipeline->remote->lines);
    free(pipeline->remote);
}
