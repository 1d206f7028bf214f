/* Channels between processes. Receives are posted ahead, into the receiver's
 * ring; messages are sent from the sender's own buffers, which are free again
 * when MPI has completed the send.
 *
 * A message is a head and a body in pieces, all with one tag: MPI keeps their
 * order. Messages that may be in flight at the same time have different
 * tags. */
#include "comm/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)1 << 30) /* an MPI count is at most 2^31 - 1 */

enum slot_state { SLOT_FREE, SLOT_HELD, SLOT_SENDING };

/* A buffer and its transfers. */
struct slot {
    struct vp_buffer buffer;
    MPI_Request *requests;
    int n_requests;
    enum slot_state state; /* used by senders only */
    uint64_t message;      /* senders: its message, unless free */
};

struct channel {
    struct vp_channel base;
    int receiver;
    int source; /* rank of the only sender, or MPI_ANY_SOURCE */
    int first_tag, n_tags;
    struct slot *in, *out;
    int n_in, n_out;
};

static struct channel *channel_of(struct vp_channel *channel)
{
    return (struct channel *)channel;
}

static struct vp_mpi_world *world_of(const struct channel *channel)
{
    return vp_mpi_world_of(channel->base.world);
}

static int tag_of(const struct channel *channel, uint64_t j)
{
    return channel->first_tag + (int)(j % (uint64_t)channel->n_tags);
}

/* ---- Transfers ---------------------------------------------------------- */

/* Returns the size of the piece at byte `at` of a body of `n` bytes; sender and
 * receiver cut in the same way. */
static size_t piece_at(size_t at, size_t n)
{
    return n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
}

static void start_send(struct channel *channel, struct slot *slot, uint64_t j,
                       size_t n_body)
{
    struct vp_mpi_world *world = world_of(channel);
    const struct vp_buffer *buffer = &slot->buffer;
    int n = 0, tag = tag_of(channel, j);

    /* A synchronous send completes only when the receiver has posted a buffer.
     * Otherwise MPI would store messages of a fast sender in the receiver's
     * memory. */
    vp_mpi_check(world,
                 MPI_Issend(buffer->head, (int)buffer->n_head, MPI_BYTE,
                            channel->receiver, tag, world->comm,
                            &slot->requests[n++]),
                 "sending");
    for (size_t at = 0; n < slot->n_requests; at += PIECE_BYTES) {
        size_t size = at < n_body ? piece_at(at, n_body) : 0;

        vp_mpi_check(world,
                     MPI_Isend((char *)buffer->body + (size ? at : 0),
                               (int)size, MPI_BYTE, channel->receiver, tag,
                               world->comm, &slot->requests[n++]),
                     "sending");
    }
}

static void start_receive(struct channel *channel, uint64_t j)
{
    struct slot *slot = &channel->in[j % (uint64_t)channel->n_in];
    struct vp_mpi_world *world = world_of(channel);
    const struct vp_buffer *buffer = &slot->buffer;
    int n = 0, tag = tag_of(channel, j);

    vp_mpi_check(world,
                 MPI_Irecv(buffer->head, (int)buffer->n_head, MPI_BYTE,
                           channel->source, tag, world->comm,
                           &slot->requests[n++]),
                 "receiving");
    for (size_t at = 0; at < buffer->n_body; at += PIECE_BYTES)
        vp_mpi_check(world,
                     MPI_Irecv((char *)buffer->body + at,
                               (int)piece_at(at, buffer->n_body), MPI_BYTE,
                               channel->source, tag, world->comm,
                               &slot->requests[n++]),
                     "receiving");
}

/* ---- The sender --------------------------------------------------------- */

/* Arguments and result of the tests below. */
struct query {
    struct channel *channel;
    uint64_t message;
    struct slot *slot;
};

/* Finds the slot that holds the message, or a free one. */
static bool find_slot(void *ctx)
{
    struct query *query = ctx;
    struct channel *channel = query->channel;

    for (int i = 0; i < channel->n_out; i++) {
        struct slot *slot = &channel->out[i];

        if (slot->state == SLOT_SENDING &&
            vp_mpi_done(world_of(channel), slot->n_requests, slot->requests))
            slot->state = SLOT_FREE;
        if (slot->state == SLOT_HELD && slot->message == query->message) {
            query->slot = slot;
            return true;
        }
    }
    for (int i = 0; i < channel->n_out; i++)
        if (channel->out[i].state == SLOT_FREE) {
            query->slot = &channel->out[i];
            return true;
        }
    return false;
}

static enum vp_status acquire(struct vp_channel *base, uint64_t j,
                              struct vp_limit limit, void **buffer_out)
{
    struct channel *channel = channel_of(base);
    struct query query = { channel, j, NULL };

    VP_BUG_ON(channel->n_out == 0);
    VP_TRY(vp_mpi_wait(world_of(channel), find_slot, &query, limit));
    query.slot->state = SLOT_HELD;
    query.slot->message = j;
    *buffer_out = query.slot->buffer.self;
    return VP_OK;
}

static void post(struct vp_channel *base, uint64_t j, size_t n_body)
{
    struct channel *channel = channel_of(base);
    struct query query = { channel, j, NULL };
    bool found;

    vp_mpi_lock(world_of(channel));
    found = find_slot(&query);
    VP_BUG_ON(!found || query.slot->state != SLOT_HELD ||
              n_body > query.slot->buffer.n_body);
    query.slot->state = SLOT_SENDING;
    start_send(channel, query.slot, j, n_body);
    vp_mpi_unlock(world_of(channel));
}

/* ---- The receiver ------------------------------------------------------- */

static bool has_arrived(void *ctx)
{
    struct query *query = ctx;

    return vp_mpi_done(world_of(query->channel), query->slot->n_requests,
                       query->slot->requests);
}

static enum vp_status wait_message(struct vp_channel *base, uint64_t j,
                                   struct vp_limit limit, void **buffer_out)
{
    struct channel *channel = channel_of(base);
    struct slot *slot = &channel->in[j % (uint64_t)channel->n_in];
    struct query query = { channel, j, slot };

    VP_TRY(vp_mpi_wait(world_of(channel), has_arrived, &query, limit));
    *buffer_out = slot->buffer.self;
    return VP_OK;
}

static void release(struct vp_channel *base, uint64_t j)
{
    struct channel *channel = channel_of(base);

    vp_mpi_lock(world_of(channel));
    start_receive(channel, j + (uint64_t)channel->n_in);
    vp_mpi_unlock(world_of(channel));
}

/* ---- Creating ----------------------------------------------------------- */

static void free_slots(struct slot *slots, int n)
{
    for (int i = 0; slots && i < n; i++) {
        if (slots[i].requests)
            vp_mpi_drop(slots[i].n_requests, slots[i].requests,
                        slots[i].state == SLOT_FREE);
        free(slots[i].requests);
    }
    free(slots);
}

static void channel_free(struct vp_channel *base)
{
    struct channel *channel = channel_of(base);

    vp_mpi_lock(world_of(channel));
    free_slots(channel->in, channel->n_in);
    free_slots(channel->out, channel->n_out);
    vp_mpi_unlock(world_of(channel));
    free(channel);
}

static const struct vp_channel_ops channel_ops = {
    .free = channel_free,
    .acquire = acquire,
    .post = post,
    .wait = wait_message,
    .release = release,
};

static enum vp_status make_slots(const struct vp_buffer *buffers, int n,
                                 struct slot **out)
{
    struct slot *slots = calloc((size_t)n + 1, sizeof(*slots));

    *out = slots;
    if (!slots)
        return VP_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        struct slot *slot = &slots[i];
        size_t n_pieces = (buffers[i].n_body + PIECE_BYTES - 1) / PIECE_BYTES;

        slot->buffer = buffers[i];
        slot->n_requests = 1 + (int)n_pieces;
        slot->requests = malloc((1 + n_pieces) * sizeof(MPI_Request));
        if (!slot->requests)
            return VP_ERR_NOMEM;
        for (int k = 0; k < slot->n_requests; k++)
            slot->requests[k] = MPI_REQUEST_NULL;
    }
    return VP_OK;
}

/* One tag for each message that may be in flight at the same time: those that
 * the receiver has posted, and those that every sender holds. */
static enum vp_status take_tags(struct channel *channel,
                                const struct vp_link *link)
{
    struct vp_mpi_world *world = world_of(channel);

    channel->n_tags = link->n_buffers + (link->n_out + 1) * link->n_senders;
    channel->first_tag = world->next_tag;
    if (channel->n_tags > world->last_tag - world->next_tag)
        return VP_ERR_UNSUPPORTED;
    world->next_tag += channel->n_tags;
    return VP_OK;
}

/* Returns true for a link from a rank to itself. */
static bool is_loop(const struct vp_link *link)
{
    return link->n_senders == 1 && link->senders[0] == link->receiver;
}

static bool is_sender(const struct vp_link *link, int rank)
{
    for (int i = 0; i < link->n_senders; i++)
        if (link->senders[i] == rank)
            return true;
    return false;
}

static enum vp_status fill(struct channel *channel, const struct vp_link *link)
{
    int me = world_of(channel)->rank;

    if (is_loop(link))
        return VP_OK; /* local to another process */
    VP_TRY(take_tags(channel, link));
    if (me == link->receiver) {
        channel->n_in = link->n_buffers;
        VP_TRY(make_slots(link->buffers, link->n_buffers, &channel->in));
    }
    if (is_sender(link, me)) {
        channel->n_out = link->n_out;
        VP_TRY(make_slots(link->out, link->n_out, &channel->out));
    }
    return VP_OK;
}

enum vp_status vp_mpi_channel_create(struct vp_world *world,
                                     const struct vp_link *link,
                                     struct vp_channel **out)
{
    struct channel *channel;
    enum vp_status st;

    if (is_loop(link) && vp_world_is_mine(world, link->receiver))
        return vp_local_channel_create(world, link, out);
    channel = calloc(1, sizeof(*channel));
    if (!channel)
        return VP_ERR_NOMEM;
    channel->base.ops = &channel_ops;
    channel->base.world = world;
    channel->receiver = link->receiver;
    channel->source = link->n_senders == 1 ? link->senders[0] : MPI_ANY_SOURCE;
    st = fill(channel, link);
    if (st != VP_OK) {
        channel_free(&channel->base);
        return st;
    }
    vp_mpi_lock(world_of(channel));
    for (int i = 0; i < channel->n_in; i++)
        start_receive(channel, (uint64_t)i);
    vp_mpi_unlock(world_of(channel));
    *out = &channel->base;
    return VP_OK;
}
