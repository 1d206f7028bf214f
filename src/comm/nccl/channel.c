/* Channels between GPUs. Heads are sent by a channel of MPI, together with the
 * size and sender of the body; NCCL transfers the body, on a stream of the
 * sender and one of the receiver. The receive of a body is started as soon as
 * its head has arrived and a buffer is free, also while the receiver computes,
 * so that a channel has the same number of messages in flight as one of MPI. On
 * the device:
 *
 *   sender     ... write | written |                 send | read |  write ...
 *   receiver   ... use   | read |    receive | written |  use ...
 *
 * Each sender of a channel has a communicator with the receiver, so that a wait
 * for one sender does not delay the others. */
#include "comm/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

/* The message of MPI: this struct, then the head. */
struct envelope {
    size_t n_body;
    int sender; /* index in the senders of the link */
};

struct slot {
    struct vp_buffer buffer;
    struct envelope *envelope;
};

struct vp_nccl_channel {
    struct vp_channel base;
    struct vp_nccl_channel *next;    /* in the world's list of receivers */
    struct vp_channel *heads;        /* the channel of MPI */
    struct vp_nccl_clique **cliques; /* per sender; NULL: not a member */
    int me;                          /* index in the senders, or -1 */
    struct slot *in, *out;
    int n_in;
    char *envelopes;
    uint64_t n_asked, n_released; /* messages whose receive was started, and
                                     messages released */
};

static struct vp_nccl_channel *channel_of(struct vp_channel *channel)
{
    return (struct vp_nccl_channel *)channel;
}

static struct vp_nccl_world *world_of(const struct vp_nccl_channel *channel)
{
    return vp_nccl_world_of(channel->base.world);
}

/* ---- The sender --------------------------------------------------------- */

static enum vp_status acquire(struct vp_channel *base, uint64_t j,
                              struct vp_limit limit, void **buffer_out)
{
    struct vp_channel *heads = channel_of(base)->heads;
    void *slot;

    VP_TRY(vp_channel_acquire(heads, j, limit, &slot));
    *buffer_out = ((struct slot *)slot)->buffer.self;
    return VP_OK;
}

static void send_body(struct vp_nccl_channel *channel,
                      const struct vp_buffer *buffer, size_t n_body)
{
    struct vp_nccl_world *nccl = world_of(channel);
    struct vp_nccl_clique *clique = channel->cliques[channel->me];

    vp_nccl_check_device(nccl, vp_stream_wait(clique->stream, buffer->written),
                         "sending");
    vp_nccl_check(nccl,
                  nccl->api->send(buffer->body, n_body, VP_NCCL_BYTES, 1,
                                  clique->comm, clique->handle),
                  "sending");
    vp_nccl_check_device(nccl, vp_event_record(buffer->read, clique->stream),
                         "sending");
}

static void post(struct vp_channel *base, uint64_t j, size_t n_body)
{
    struct vp_nccl_channel *channel = channel_of(base);
    const struct slot *slot;
    void *held = NULL;

    /* The slot is held since acquire(): this does not wait. */
    VP_BUG_ON(vp_channel_acquire(channel->heads, j, VP_LIMIT_NOW, &held) !=
              VP_OK);
    slot = held;
    VP_BUG_ON(n_body > slot->buffer.n_body);
    slot->envelope->n_body = n_body;
    slot->envelope->sender = channel->me;
    memcpy(slot->envelope + 1, slot->buffer.head, slot->buffer.n_head);
    if (n_body > 0)
        send_body(channel, &slot->buffer, n_body);
    vp_channel_post(channel->heads, j, 0);
}

/* ---- The receiver ------------------------------------------------------- */

static void receive_body(struct vp_nccl_channel *channel,
                         const struct slot *slot)
{
    struct vp_nccl_world *nccl = world_of(channel);
    const struct vp_buffer *buffer = &slot->buffer;
    struct vp_nccl_clique *clique = channel->cliques[slot->envelope->sender];

    vp_device_attach(nccl->device);
    vp_nccl_check_device(nccl, vp_stream_wait(clique->stream, buffer->read),
                         "receiving");
    vp_nccl_check(nccl,
                  nccl->api->receive(buffer->body, slot->envelope->n_body,
                                     VP_NCCL_BYTES, 0, clique->comm,
                                     clique->handle),
                  "receiving");
    vp_nccl_check_device(nccl, vp_event_record(buffer->written, clique->stream),
                         "receiving");
}

/* Starts to receive the bodies of messages whose heads have arrived, in the
 * order of messages, as NCCL requires. The caller holds the world's lock. */
static void receive_ready(struct vp_nccl_channel *channel)
{
    uint64_t end = channel->n_released + (uint64_t)channel->n_in;
    void *arrived;

    while (channel->n_asked < end &&
           vp_channel_wait(channel->heads, channel->n_asked, VP_LIMIT_NOW,
                           &arrived) == VP_OK) {
        const struct slot *slot = arrived;

        memcpy(slot->buffer.head, slot->envelope + 1, slot->buffer.n_head);
        if (slot->envelope->n_body > 0)
            receive_body(channel, slot);
        channel->n_asked++;
    }
}

void vp_nccl_receive_all(struct vp_nccl_world *nccl)
{
    for (struct vp_nccl_channel *channel = nccl->channels; channel;
         channel = channel->next)
        receive_ready(channel);
}

static enum vp_status wait_message(struct vp_channel *base, uint64_t j,
                                   struct vp_limit limit, void **buffer_out)
{
    struct vp_nccl_channel *channel = channel_of(base);
    struct vp_nccl_world *nccl = world_of(channel);
    void *slot;

    VP_TRY(vp_channel_wait(channel->heads, j, limit, &slot));
    pthread_mutex_lock(&nccl->lock);
    receive_ready(channel);
    VP_BUG_ON(channel->n_asked <= j && !atomic_load(&base->world->stop));
    pthread_mutex_unlock(&nccl->lock);
    *buffer_out = ((struct slot *)slot)->buffer.self;
    return VP_OK;
}

static void release(struct vp_channel *base, uint64_t j)
{
    struct vp_nccl_channel *channel = channel_of(base);
    struct vp_nccl_world *nccl = world_of(channel);

    pthread_mutex_lock(&nccl->lock);
    VP_BUG_ON(channel->n_released != j);
    vp_channel_release(channel->heads, j);
    channel->n_released++;
    pthread_mutex_unlock(&nccl->lock);
}

/* ---- Creating ----------------------------------------------------------- */

static void forget(struct vp_nccl_world *nccl, struct vp_nccl_channel *channel)
{
    struct vp_nccl_channel **at = &nccl->channels;

    pthread_mutex_lock(&nccl->lock);
    while (*at && *at != channel)
        at = &(*at)->next;
    if (*at)
        *at = channel->next;
    pthread_mutex_unlock(&nccl->lock);
}

/* Does not free the communicators: they belong to the world. */
static void channel_free(struct vp_channel *base)
{
    struct vp_nccl_channel *channel = channel_of(base);

    forget(world_of(channel), channel);
    if (channel->heads)
        channel->heads->ops->free(channel->heads);
    free(channel->cliques);
    free(channel->in);
    free(channel->out);
    free(channel->envelopes);
    free(channel);
}

static const struct vp_channel_ops channel_ops = {
    .free = channel_free,
    .acquire = acquire,
    .post = post,
    .wait = wait_message,
    .release = release,
};

static size_t round_up(size_t n)
{
    return (n + _Alignof(struct envelope) - 1) / _Alignof(struct envelope) *
           _Alignof(struct envelope);
}

/* Makes the slots of `buffers`, and writes to `heads_out` the buffers of the
 * MPI channel: the envelopes. */
static struct slot *make_slots(const struct vp_buffer *buffers, int n,
                               char *envelopes, struct vp_buffer *heads_out)
{
    struct slot *slots = calloc((size_t)n + 1, sizeof(*slots));

    for (int i = 0; slots && i < n; i++) {
        size_t n_head = round_up(sizeof(struct envelope) + buffers[i].n_head);

        slots[i].buffer = buffers[i];
        slots[i].envelope = (struct envelope *)envelopes;
        heads_out[i] = (struct vp_buffer){ .self = &slots[i],
                                           .head = envelopes,
                                           .n_head = n_head };
        envelopes += n_head;
    }
    return slots;
}

static size_t envelope_bytes(const struct vp_buffer *buffers, int n)
{
    return (size_t)n * round_up(sizeof(struct envelope) + buffers[0].n_head);
}

static enum vp_status link_heads(struct vp_nccl_channel *channel,
                                 const struct vp_link *link,
                                 struct vp_buffer *in, struct vp_buffer *out)
{
    struct vp_nccl_world *nccl = world_of(channel);
    bool receives = nccl->rank == link->receiver, sends = channel->me >= 0;
    struct vp_link heads = *link;
    size_t n_in = 0, n_out = 0;

    if (receives)
        n_in = envelope_bytes(link->buffers, link->n_buffers);
    if (sends)
        n_out = envelope_bytes(link->out, link->n_out);
    channel->envelopes = calloc(1, n_in + n_out + 1);
    if (!channel->envelopes)
        return VP_ERR_NOMEM;
    if (receives) {
        channel->n_in = link->n_buffers;
        channel->in = make_slots(link->buffers, link->n_buffers,
                                 channel->envelopes, in);
        heads.buffers = in;
    }
    if (sends) {
        channel->out = make_slots(link->out, link->n_out,
                                  channel->envelopes + n_in, out);
        heads.out = out;
    }
    if ((receives && !channel->in) || (sends && !channel->out))
        return VP_ERR_NOMEM;
    return nccl->mpi->channel_create(nccl->world, &heads, &channel->heads);
}

/* Gives all ranks the ids of the communicators, which the receiver makes, one
 * for each sender. */
static enum vp_status share_ids(struct vp_nccl_world *nccl,
                                const struct vp_link *link,
                                struct vp_nccl_id *mine, struct vp_nccl_id *all)
{
    size_t n = (size_t)link->n_senders;
    struct vp_err err = { .text = "" };

    for (size_t i = 0; nccl->rank == link->receiver && i < n; i++)
        if (vp_nccl_make_id(nccl, &mine[i], &err) != VP_OK)
            vp_world_abort(nccl->world, VP_ERR_IO, err.text);
    return vp_group_exchange(nccl->everybody, nccl->rank, mine,
                             n * sizeof(*mine), all, vp_nccl_limit());
}

static enum vp_status join_pair(struct vp_nccl_channel *channel, int sender,
                                int me, const struct vp_nccl_id *id)
{
    struct vp_nccl_world *nccl = world_of(channel);
    struct vp_err err = { .text = "" };
    enum vp_status st;

    st = vp_nccl_clique_create(nccl, id, 2, me, &channel->cliques[sender],
                               &err);
    if (st == VP_OK)
        st = vp_nccl_clique_connect(nccl, channel->cliques[sender],
                                    VP_NCCL_PASS, &err);
    if (st != VP_OK)
        vp_world_abort(nccl->world, st, err.text);
    return st;
}

static enum vp_status join_pairs(struct vp_nccl_channel *channel,
                                 const struct vp_link *link)
{
    struct vp_nccl_world *nccl = world_of(channel);
    size_t n = (size_t)link->n_senders;
    struct vp_nccl_id *ids = calloc(n * (size_t)(nccl->world->n_ranks + 1),
                                    sizeof(*ids));
    const struct vp_nccl_id *theirs;
    enum vp_status st = VP_ERR_NOMEM;

    if (ids)
        st = share_ids(nccl, link, ids, ids + n);
    theirs = ids + n + (size_t)link->receiver * n;
    for (int i = 0; st == VP_OK && i < link->n_senders; i++) {
        if (nccl->rank == link->receiver)
            st = join_pair(channel, i, 1, &theirs[i]);
        if (channel->me == i)
            st = join_pair(channel, i, 0, &theirs[i]);
    }
    free(ids);
    return st;
}

static int find_me(const struct vp_nccl_world *nccl, const struct vp_link *link)
{
    for (int i = 0; i < link->n_senders; i++)
        if (link->senders[i] == nccl->rank)
            return i;
    return -1;
}

static enum vp_status fill(struct vp_nccl_channel *channel,
                           const struct vp_link *link)
{
    size_t n_in = (size_t)link->n_buffers, n_out = (size_t)link->n_out;
    struct vp_buffer *heads = calloc(n_in + n_out + 1, sizeof(*heads));
    enum vp_status st = VP_ERR_NOMEM;

    channel->cliques = calloc((size_t)link->n_senders,
                              sizeof(struct vp_nccl_clique *));
    if (heads && channel->cliques)
        st = link_heads(channel, link, heads, heads + n_in);
    free(heads);
    VP_TRY(st);
    return join_pairs(channel, link);
}

enum vp_status vp_nccl_channel_create(struct vp_world *world,
                                      const struct vp_link *link,
                                      struct vp_channel **out)
{
    struct vp_nccl_channel *channel = calloc(1, sizeof(*channel));
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);
    enum vp_status st;

    if (!channel)
        return VP_ERR_NOMEM;
    channel->base.ops = &channel_ops;
    channel->base.world = world;
    channel->me = find_me(nccl, link);
    st = fill(channel, link);
    if (st != VP_OK) {
        channel_free(&channel->base);
        return st;
    }
    if (channel->n_in > 0) {
        pthread_mutex_lock(&nccl->lock);
        channel->next = nccl->channels;
        nccl->channels = channel;
        pthread_mutex_unlock(&nccl->lock);
    }
    *out = &channel->base;
    return VP_OK;
}
