/* Moves arrays of a run from one trainer to another, within and between
 * processes. */
#include "runtime/trainer/transfer.h"

#include "runtime/stage/stage_state.h"

#include <stdlib.h>
#include <string.h>

/* Size of a piece, and number of buffers at each end. */
enum { MOST_BYTES = 4 << 20, N_BUFFERS = 2 };

struct piece {
    uint64_t n_bytes;
    char *body;
};

/* Link from one rank of `from` to one of `next` in another process. */
struct lane {
    struct vp_channel *channel; /* NULL: nothing to send */
    struct piece pieces[N_BUFFERS];
    uint64_t n; /* pieces sent or received so far */
};

struct vp_transfer {
    struct vp_trainer *next, *from;
    const struct vp_progress *progress;
    struct lane *lanes; /* [rank of from * n_ranks + rank of next] */
    int n_ranks, links_number;
};

/* ---- Owners of arrays --------------------------------------------------- */

/* Returns the first replica of the stage that owns an array, from which it is
 * read. */
static struct vp_rank_stage *find_owner(const struct vp_trainer *from,
                                        const char *name, int *rank_out)
{
    for (int r = 0; r < from->pipeline.n_ranks; r++)
        for (int i = 0; i < from->ranks[r].n_stages; i++) {
            struct vp_rank_stage *rs = &from->ranks[r].stages[i];

            if (rs->replica == 0 && vp_stage_owns(&rs->stage, name)) {
                *rank_out = r;
                return rs;
            }
        }
    return NULL;
}

static struct lane *lane_at(const struct vp_transfer *t, int from, int to)
{
    return &t->lanes[from * t->n_ranks + to];
}

/* Calls `fn` for every item that rank `to` of `next` loads. */
static enum vp_status each_loaded(struct vp_transfer *t, int to, vp_item_fn fn,
                                  void *ctx)
{
    const struct vp_rank *rank = &t->next->ranks[to];

    for (int i = 0; i < rank->n_stages; i++)
        VP_TRY(vp_stage_each_restored(&rank->stages[i].stage,
                                      t->progress->past[rank->stages[i].index],
                                      fn, ctx));
    return VP_OK;
}

/* ---- Links -------------------------------------------------------------- */

struct marking {
    struct vp_transfer *transfer;
    int to;
    bool *needed; /* per rank of `from` */
};

static enum vp_status mark(void *ctx, const struct vp_state_item *item)
{
    struct marking *marking = ctx;
    int rank;

    if (!find_owner(marking->transfer->from, item->name, &rank))
        return VP_ERR_INVALID;
    marking->needed[rank] = true;
    return VP_OK;
}

static enum vp_status make_lane(struct vp_transfer *t, int from, int to)
{
    struct lane *lane = lane_at(t, from, to);
    bool ends_here = t->from->ranks[from].is_here || t->next->ranks[to].is_here;
    struct vp_buffer buffers[N_BUFFERS];
    struct vp_link link = { .receiver = to,
                            .senders = &from,
                            .n_senders = 1,
                            .n_buffers = N_BUFFERS,
                            .buffers = ends_here ? buffers : NULL,
                            .out = ends_here ? buffers : NULL,
                            .n_out = N_BUFFERS };

    for (int i = 0; ends_here && i < N_BUFFERS; i++) {
        struct piece *piece = &lane->pieces[i];

        piece->body = malloc(MOST_BYTES);
        if (!piece->body)
            return VP_ERR_NOMEM;
        buffers[i] = (struct vp_buffer){ .self = piece,
                                         .head = &piece->n_bytes,
                                         .n_head = sizeof(piece->n_bytes),
                                         .body = piece->body,
                                         .n_body = MOST_BYTES };
    }
    return vp_channel_create(t->next->pipeline.world, &link, &lane->channel);
}

static enum vp_status make_lanes(struct vp_transfer *t)
{
    bool *needed = calloc((size_t)t->n_ranks, sizeof(*needed));
    enum vp_status st = needed ? VP_OK : VP_ERR_NOMEM;

    for (int to = 0; to < t->n_ranks && st == VP_OK; to++) {
        struct marking marking = { t, to, needed };

        memset(needed, 0, (size_t)t->n_ranks * sizeof(*needed));
        st = each_loaded(t, to, mark, &marking);
        for (int r = 0; r < t->n_ranks && st == VP_OK; r++)
            if (needed[r] && r != to)
                st = make_lane(t, r, to);
    }
    free(needed);
    return st;
}

enum vp_status vp_transfer_create(struct vp_trainer *next,
                                  struct vp_trainer *from,
                                  const struct vp_progress *progress,
                                  struct vp_transfer **out)
{
    struct vp_transfer *t = calloc(1, sizeof(*t));
    enum vp_status st = VP_OK;

    if (!t)
        return VP_ERR_NOMEM;
    t->next = next;
    t->from = from;
    t->progress = progress;
    t->n_ranks = next->pipeline.n_ranks;
    if (from->pipeline.remote) {
        t->lanes = calloc((size_t)t->n_ranks * (size_t)t->n_ranks,
                          sizeof(*t->lanes));
        t->links_number = vp_world_begin_links(next->pipeline.world);
        st = t->lanes ? make_lanes(t) : VP_ERR_NOMEM;
        vp_world_begin_links(next->pipeline.world);
    }
    if (st != VP_OK) {
        vp_transfer_free(t);
        return st;
    }
    *out = t;
    return VP_OK;
}

void vp_transfer_free(struct vp_transfer *t)
{
    if (!t)
        return;
    if (t->links_number > 0)
        vp_world_free_links(t->next->pipeline.world, t->links_number);
    for (int i = 0; t->lanes && i < t->n_ranks * t->n_ranks; i++)
        for (int k = 0; k < N_BUFFERS; k++)
            free(t->lanes[i].pieces[k].body);
    free(t->lanes);
    free(t);
}

/* ---- Loading ------------------------------------------------------------ */

static struct vp_limit limit_of(const struct vp_transfer *t)
{
    return vp_limit_ms(t->next->config.timeout_ms);
}

static enum vp_status receive(struct vp_transfer *t, struct lane *lane,
                              float *out, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        struct piece *piece;

        VP_TRY(vp_channel_wait(lane->channel, lane->n, limit_of(t),
                               (void **)&piece));
        VP_BUG_ON(piece->n_bytes > n_bytes - at);
        memcpy((char *)out + at, piece->body, piece->n_bytes);
        at += piece->n_bytes;
        vp_channel_release(lane->channel, lane->n++);
    }
    return VP_OK;
}

enum vp_status vp_transfer_load(void *ctx, const struct vp_state_item *item,
                                float *out, struct vp_err *err)
{
    struct vp_transfer *t = ctx;
    struct vp_rank_stage *owner;
    enum vp_status st;
    int rank = 0;

    owner = find_owner(t->from, item->name, &rank);
    if (!owner)
        return vp_err_set(err, VP_ERR_INVALID, "no stage has '%s'", item->name);
    st = t->from->ranks[rank].is_here
             ? vp_stage_read_item(&owner->stage, item, out)
             : receive(t, lane_at(t, rank, t->next->pipeline.me), out,
                       (size_t)(item->rows * item->cols) * sizeof(*out));
    return st == VP_OK ? VP_OK
                       : vp_err_set(err, st, "moving '%s' failed", item->name);
}

/* ---- Sending ------------------------------------------------------------ */

struct sending {
    struct vp_transfer *transfer;
    int to;
    float *host; /* buffer for an item */
    int64_t room;
};

static enum vp_status send_bytes(struct vp_transfer *t, struct lane *lane,
                                 const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t size = n - at < MOST_BYTES ? n - at : MOST_BYTES;
        struct piece *piece;

        VP_TRY(vp_channel_acquire(lane->channel, lane->n, limit_of(t),
                                  (void **)&piece));
        piece->n_bytes = size;
        memcpy(piece->body, bytes + at, size);
        vp_channel_post(lane->channel, lane->n++, size);
        at += size;
    }
    return VP_OK;
}

static enum vp_status send_item(void *ctx, const struct vp_state_item *item)
{
    struct sending *sending = ctx;
    struct vp_transfer *t = sending->transfer;
    int64_t n = item->rows * item->cols;
    struct vp_rank_stage *owner;
    int rank = 0;

    owner = find_owner(t->from, item->name, &rank);
    if (!owner || !t->from->ranks[rank].is_here)
        return VP_OK;
    if (n > sending->room) {
        free(sending->host);
        sending->host = malloc((size_t)n * sizeof(float));
        sending->room = sending->host ? n : 0;
        if (!sending->host)
            return VP_ERR_NOMEM;
    }
    VP_TRY(vp_stage_read_item(&owner->stage, item, sending->host));
    return send_bytes(t, lane_at(t, rank, sending->to),
                      (const char *)sending->host, (size_t)n * sizeof(float));
}

/* Waits until receivers have taken all pieces, so that their buffers can be
 * freed. */
static enum vp_status drain(struct vp_transfer *t)
{
    for (int i = 0; t->lanes && i < t->n_ranks * t->n_ranks; i++) {
        struct lane *lane = &t->lanes[i];
        void *piece;

        if (!lane->channel || !t->from->ranks[i / t->n_ranks].is_here)
            continue;
        for (uint64_t k = 0; k < N_BUFFERS; k++)
            VP_TRY(vp_channel_acquire(lane->channel, lane->n + k, limit_of(t),
                                      &piece));
    }
    return VP_OK;
}

enum vp_status vp_transfer_send(struct vp_transfer *t, struct vp_err *err)
{
    struct sending sending = { .transfer = t };
    enum vp_status st = VP_OK;

    for (int to = 0; t->lanes && to < t->n_ranks && st == VP_OK; to++) {
        sending.to = to;
        if (!t->next->ranks[to].is_here)
            st = each_loaded(t, to, send_item, &sending);
    }
    if (st == VP_OK)
        st = drain(t);
    free(sending.host);
    return st == VP_OK ? VP_OK
                       : vp_err_set(err, st,
                                    "sending the state to another "
                                    "process failed");
}
