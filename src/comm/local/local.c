/* The transport for ranks that are threads of one process: senders write into
 * the receiver's buffers, and nothing is copied. */
#include "comm/transport.h"

#include "base/counter.h"

#include <stdlib.h>
#include <string.h>

struct channel {
    struct vp_channel base;
    int n_buffers;
    void **buffers;
    struct vp_counter *arrived; /* per buffer: messages that arrived in it */
    struct vp_counter released; /* messages released, in order */
};

struct group {
    struct vp_group base;
    int n_members;
    size_t n_bytes;
    unsigned char *data;       /* 2 x n_members x n_bytes */
    struct vp_counter arrived; /* contributions, over all exchanges */
    uint64_t *n_exchanges;     /* per member: exchanges it has begun */

    /* Sums. */
    int n_pieces;
    int64_t *ends;              /* per piece; NULL: one piece of any length */
    struct share *shares;       /* per member */
    struct vp_counter *offered; /* per piece: offers, over all sums */
    struct vp_counter done;     /* members that added all, over all sums */
    struct vp_sum_part *parts;  /* NULL: all members need the whole sum */
    int n_parts;

    /* Gathers: members that have begun one, and received one, over all
     * gathers. */
    struct vp_counter begun, taken;
};

/* The state of one member in the current sum or gather. Other members read its
 * terms after it has offered a piece, and its gathers; all else is its own. */
struct share {
    _Alignas(64) const struct vp_term *terms;
    int n_terms;
    int64_t n;       /* floats, if the group is not cut */
    uint32_t n_sums; /* sums done */
    bool *given;     /* per piece: offered */
    int n_given;
    int *todo; /* offered pieces whose slice this member has not added yet */
    int n_todo;
    vp_adder_fn add; /* NULL: vp_terms_add() */
    void *add_ctx;
    /* The last two gathers, as a member may be one ahead of the others. */
    struct vp_gather gathers[2];
    uint32_t n_gathers; /* gathers ended */
    uint32_t n_taken;   /* value of the group's `taken` after these gathers */
};

static struct channel *channel_of(struct vp_channel *channel)
{
    return (struct channel *)channel;
}

static struct group *group_of(struct vp_group *group)
{
    return (struct group *)group;
}

/* ---- Channels ----------------------------------------------------------- */

static void channel_free(struct vp_channel *base)
{
    struct channel *channel = channel_of(base);

    free(channel->buffers);
    free(channel->arrived);
    free(channel);
}

static enum vp_status acquire(struct vp_channel *base, uint64_t j,
                              struct vp_limit limit, void **buffer_out)
{
    struct channel *channel = channel_of(base);
    uint64_t n = (uint64_t)channel->n_buffers;

    if (j >= n)
        VP_TRY(vp_counter_wait(&channel->released, (uint32_t)(j - n + 1), limit,
                               &base->world->stop));
    *buffer_out = channel->buffers[j % n];
    return VP_OK;
}

static void post(struct vp_channel *base, uint64_t j, size_t n_body)
{
    struct channel *channel = channel_of(base);

    (void)n_body;
    vp_counter_add(&channel->arrived[j % (uint64_t)channel->n_buffers]);
}

static enum vp_status wait_message(struct vp_channel *base, uint64_t j,
                                   struct vp_limit limit, void **buffer_out)
{
    struct channel *channel = channel_of(base);
    uint64_t n = (uint64_t)channel->n_buffers;

    VP_TRY(vp_counter_wait(&channel->arrived[j % n], (uint32_t)(j / n + 1),
                           limit, &base->world->stop));
    *buffer_out = channel->buffers[j % n];
    return VP_OK;
}

static void release(struct vp_channel *base, uint64_t j)
{
    struct channel *channel = channel_of(base);

    VP_BUG_ON(atomic_load(&channel->released.value) != (uint32_t)j);
    vp_counter_add(&channel->released);
}

static const struct vp_channel_ops channel_ops = {
    .free = channel_free,
    .acquire = acquire,
    .post = post,
    .wait = wait_message,
    .release = release,
};

enum vp_status vp_local_channel_create(struct vp_world *world,
                                       const struct vp_link *link,
                                       struct vp_channel **out)
{
    struct channel *channel = aligned_alloc(64, sizeof(*channel));
    size_t n = (size_t)link->n_buffers;

    if (!channel)
        return VP_ERR_NOMEM;
    memset(channel, 0, sizeof(*channel));
    channel->base.ops = &channel_ops;
    channel->base.world = world;
    channel->n_buffers = link->n_buffers;
    channel->buffers = calloc(n, sizeof(*channel->buffers));
    channel->arrived = aligned_alloc(64, n * sizeof(*channel->arrived));
    if (!channel->buffers || !channel->arrived) {
        channel_free(&channel->base);
        return VP_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++)
        channel->buffers[i] = link->buffers[i].self;
    memset(channel->arrived, 0, n * sizeof(*channel->arrived));
    *out = &channel->base;
    return VP_OK;
}

/* ---- Groups ------------------------------------------------------------- */

static void *zeroed(size_t n, size_t n_bytes)
{
    void *p = aligned_alloc(64, n * n_bytes);

    if (p)
        memset(p, 0, n * n_bytes);
    return p;
}

static void pieces_free(struct group *group)
{
    for (int i = 0; group->shares && i < group->n_members; i++) {
        free(group->shares[i].given);
        free(group->shares[i].todo);
    }
    free(group->ends);
    free(group->shares);
    free(group->offered);
    group->ends = NULL;
    group->shares = NULL;
    group->offered = NULL;
}

/* Allocates the tables for sums of `n` pieces. */
static enum vp_status make_pieces(struct group *group, int n)
{
    size_t n_members = (size_t)group->n_members;

    group->n_pieces = n;
    group->shares = zeroed(n_members, sizeof(*group->shares));
    group->offered = zeroed((size_t)n, sizeof(*group->offered));
    if (!group->shares || !group->offered)
        return VP_ERR_NOMEM;
    for (int i = 0; i < group->n_members; i++) {
        struct share *share = &group->shares[i];

        share->given = calloc((size_t)n, sizeof(*share->given));
        share->todo = calloc((size_t)n, sizeof(*share->todo));
        if (!share->given || !share->todo)
            return VP_ERR_NOMEM;
    }
    return VP_OK;
}

/* Two halves are enough: no member can begin exchange k + 2 before all members
 * have contributed to k + 1, and so have read k. */
static enum vp_status exchange(struct vp_group *base, int member,
                               const void *mine, size_t n_bytes, void *all,
                               struct vp_limit limit)
{
    struct group *group = group_of(base);
    uint64_t k = group->n_exchanges[member]++;
    unsigned char *half = group->data +
                          (k % 2) * (size_t)group->n_members * group->n_bytes;

    VP_BUG_ON(n_bytes > group->n_bytes);
    if (n_bytes > 0)
        memcpy(half + (size_t)member * group->n_bytes, mine, n_bytes);
    vp_counter_add(&group->arrived);
    VP_TRY(vp_counter_wait(&group->arrived,
                           (uint32_t)((k + 1) * (uint64_t)group->n_members),
                           limit, &group->base.world->stop));
    for (int i = 0; n_bytes > 0 && i < group->n_members; i++)
        memcpy((unsigned char *)all + (size_t)i * n_bytes,
               half + (size_t)i * group->n_bytes, n_bytes);
    return VP_OK;
}

/* ---- Sums --------------------------------------------------------------- */

/* Copies the terms of all members to `terms`, those that are added first, in
 * their order. Returns the number of all terms. */
static int gather_terms(const struct group *group, struct vp_term *terms,
                        int *n_added_out)
{
    int n = 0;

    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; i < group->shares[k].n_terms; i++) {
            VP_BUG_ON(n == VP_MAX_TERMS);
            terms[n++] = group->shares[k].terms[i];
        }
    *n_added_out = vp_terms_sort(terms, n);
    return n;
}

/* Adds elements [begin, end) and writes the sum to the arrays of `member`
 * only. */
static void add_for(const struct group *group, int member,
                    const struct vp_term *terms, int n_added, int64_t begin,
                    int64_t end)
{
    enum { BLOCK = 16 * 1024 }; /* floats: stay in cache while they are added */
    const struct share *share = &group->shares[member];

    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;

        vp_terms_add(terms, n_added, 1, at, at + n);
        for (int i = 0; i < share->n_terms; i++)
            if (share->terms[i].data != terms[0].data)
                memcpy(share->terms[i].data + at, terms[0].data + at,
                       (size_t)n * sizeof(float));
    }
}

/* Adds elements [begin, end) of a sum with parts: member i adds the parts that
 * it owns, and slice i of parts that all need. */
static void add_parts(const struct group *group, int member,
                      const struct vp_term *terms, int n_added, int n_terms,
                      int64_t begin, int64_t end)
{
    int64_t first = 0;

    for (int i = 0; i < group->n_parts && first < end; i++) {
        int64_t from = first > begin ? first : begin;
        int64_t to = group->parts[i].end < end ? group->parts[i].end : end;
        int64_t n = to - from;

        first = group->parts[i].end;
        if (n <= 0)
            continue;
        if (group->parts[i].owner == member)
            add_for(group, member, terms, n_added, from, to);
        else if (group->parts[i].owner < 0)
            vp_terms_add(terms, n_added, n_terms,
                         from + n * member / group->n_members,
                         from + n * (member + 1) / group->n_members);
    }
}

/* Member i adds slice i of a piece and writes the sum to the arrays of all
 * members. */
static void add_slice(const struct group *group, int member, int piece)
{
    struct vp_term terms[VP_MAX_TERMS];
    int n_added;
    int n_terms = gather_terms(group, terms, &n_added);
    int64_t first = group->ends && piece > 0 ? group->ends[piece - 1] : 0;
    int64_t n = group->ends ? group->ends[piece] - first
                            : group->shares[member].n;
    int64_t begin = first + n * member / group->n_members;
    int64_t end = first + n * (member + 1) / group->n_members;

    if (group->parts) {
        add_parts(group, member, terms, n_added, n_terms, first, first + n);
        return;
    }
    if (group->shares[member].add) {
        group->shares[member].add(group->shares[member].add_ctx, terms, n_added,
                                  n_terms, begin, end);
        return;
    }
    vp_terms_add(terms, n_added, n_terms, begin, end);
}

/* Returns the value that counters have after all members have done their part
 * of this sum. */
static uint32_t target_of(const struct group *group, const struct share *share)
{
    return (share->n_sums + 1) * (uint32_t)group->n_members;
}

static enum vp_status cut(struct vp_group *base, const int64_t *ends,
                          int n_pieces)
{
    struct group *group = group_of(base);
    size_t n_bytes = (size_t)n_pieces * sizeof(*ends);

    VP_BUG_ON(group->ends || group->shares[0].n_sums > 0 || n_pieces < 1);
    pieces_free(group);
    VP_TRY(make_pieces(group, n_pieces));
    group->ends = malloc(n_bytes);
    if (!group->ends)
        return VP_ERR_NOMEM;
    memcpy(group->ends, ends, n_bytes);
    return VP_OK;
}

static enum vp_status set_length(struct vp_group *base, int member, int64_t n)
{
    struct group *group = group_of(base);

    VP_BUG_ON(group->ends && group->ends[group->n_pieces - 1] != n);
    group->shares[member].n = n;
    return VP_OK;
}

static void set_terms(struct vp_group *base, int member,
                      const struct vp_term *terms, int n_terms)
{
    struct share *share = &group_of(base)->shares[member];

    VP_BUG_ON(share->n_given > 0);
    share->terms = terms;
    share->n_terms = n_terms;
}

static void set_adder(struct vp_group *base, int member, vp_adder_fn add,
                      void *ctx)
{
    struct share *share = &group_of(base)->shares[member];

    share->add = add;
    share->add_ctx = ctx;
}

/* Members add in memory already: there is nothing faster. */
static void set_fast(struct vp_group *group)
{
    (void)group;
}

static enum vp_status set_parts(struct vp_group *base,
                                const struct vp_sum_part *parts, int n_parts)
{
    struct group *group = group_of(base);
    size_t n_bytes = (size_t)n_parts * sizeof(*parts);

    VP_BUG_ON(group->parts || group->ends);
    group->parts = malloc(n_bytes);
    if (!group->parts)
        return VP_ERR_NOMEM;
    memcpy(group->parts, parts, n_bytes);
    group->n_parts = n_parts;
    return VP_OK;
}

static void offer(struct vp_group *base, int member, int piece)
{
    struct group *group = group_of(base);
    struct share *share = &group->shares[member];

    VP_BUG_ON(share->given[piece]);
    share->given[piece] = true;
    share->n_given++;
    share->todo[share->n_todo++] = piece;
    vp_counter_add(&group->offered[piece]);
}

static void offer_rest(struct vp_group *base, int member)
{
    const struct group *group = group_of(base);

    for (int i = 0; i < group->n_pieces; i++)
        if (!group->shares[member].given[i])
            offer(base, member, i);
}

static bool progress(struct vp_group *base, int member)
{
    struct group *group = group_of(base);
    struct share *share = &group->shares[member];

    for (int i = 0; i < share->n_todo; i++) {
        int piece = share->todo[i];

        if (!vp_counter_reached(&group->offered[piece],
                                target_of(group, share)))
            continue;
        add_slice(group, member, piece);
        share->n_todo--; /* keeps the order: the oldest offer is ready first */
        memmove(&share->todo[i], &share->todo[i + 1],
                (size_t)(share->n_todo - i) * sizeof(*share->todo));
        if (share->n_todo == 0 && share->n_given == group->n_pieces)
            vp_counter_add(&group->done);
        return true;
    }
    return false;
}

static enum vp_status await(struct vp_group *base, int member,
                            struct vp_limit limit, bool *done_out)
{
    struct group *group = group_of(base);
    struct share *share = &group->shares[member];
    uint32_t target = target_of(group, share);

    VP_BUG_ON(share->n_given < group->n_pieces);
    if (share->n_todo > 0) {
        VP_TRY(vp_counter_wait(&group->offered[share->todo[0]], target, limit,
                               &group->base.world->stop));
        *done_out = false;
        return VP_OK;
    }
    VP_TRY(
        vp_counter_wait(&group->done, target, limit, &group->base.world->stop));
    *done_out = true;
    memset(share->given, 0, (size_t)group->n_pieces * sizeof(*share->given));
    share->n_given = 0;
    share->n_sums++;
    return VP_OK;
}

/* ---- Gathers ------------------------------------------------------------ */

static void gather(struct vp_group *base, int member,
                   const struct vp_gather *what)
{
    struct group *group = group_of(base);
    struct share *share = &group->shares[member];

    share->gathers[share->n_gathers % 2] = *what;
    vp_counter_add(&group->begun);
}

static void take_all(const struct group *group, const struct vp_gather *mine,
                     uint32_t k)
{
    for (int i = 0; i < group->n_members; i++) {
        const struct vp_gather *from = &group->shares[i].gathers[k % 2];
        int64_t begin = i > 0 ? mine->ends[i - 1] : 0;
        char *to = (char *)mine->all + begin;

        if (to != from->mine && mine->ends[i] > begin)
            memcpy(to, from->mine, (size_t)(mine->ends[i] - begin));
    }
}

/* Two entries of gathers[] are enough, as for exchanges: a member begins gather
 * k + 2 after all members have begun k + 1, and so have ended k. A member that
 * does not receive waits for the receiver, as it may then change its bytes. */
static enum vp_status end_gather(struct vp_group *base, int member,
                                 struct vp_limit limit)
{
    struct group *group = group_of(base);
    struct share *share = &group->shares[member];
    uint32_t k = share->n_gathers, n = (uint32_t)group->n_members;
    const struct vp_gather *mine = &share->gathers[k % 2];
    const atomic_bool *stop = &group->base.world->stop;
    bool receives = mine->receiver < 0 || mine->receiver == member;

    VP_TRY(vp_counter_wait(&group->begun, (k + 1) * n, limit, stop));
    share->n_taken += mine->receiver < 0 ? n : 1;
    share->n_gathers++;
    if (!receives)
        return vp_counter_wait(&group->taken, share->n_taken, limit, stop);
    take_all(group, mine, k);
    vp_counter_add(&group->taken);
    return mine->taken
               ? vp_counter_wait(&group->taken, share->n_taken, limit, stop)
               : VP_OK;
}

/* ---- World -------------------------------------------------------------- */

static void group_free(struct vp_group *base)
{
    struct group *group = group_of(base);

    pieces_free(group);
    free(group->parts);
    free(group->data);
    free(group->n_exchanges);
    free(group);
}

static const struct vp_group_ops group_ops = {
    .free = group_free,
    .exchange = exchange,
    .set_adder = set_adder,
    .set_fast = set_fast,
    .set_parts = set_parts,
    .gather = gather,
    .end_gather = end_gather,
    .cut = cut,
    .set_length = set_length,
    .set_terms = set_terms,
    .offer = offer,
    .offer_rest = offer_rest,
    .progress = progress,
    .await = await,
};

static enum vp_status group_create(struct vp_world *world, const int *ranks,
                                   int n_members, size_t n_bytes,
                                   struct vp_group **out)
{
    struct group *group = zeroed(1, sizeof(*group));
    size_t n = (size_t)n_members;

    (void)ranks;
    if (!group)
        return VP_ERR_NOMEM;
    group->base.ops = &group_ops;
    group->base.world = world;
    group->n_members = n_members;
    group->n_bytes = n_bytes;
    group->data = calloc(2 * n, n_bytes ? n_bytes : 1);
    group->n_exchanges = calloc(n, sizeof(*group->n_exchanges));
    if (!group->data || !group->n_exchanges || make_pieces(group, 1) != VP_OK) {
        group_free(&group->base);
        return VP_ERR_NOMEM;
    }
    *out = &group->base;
    return VP_OK;
}

static void leave(struct vp_world *world)
{
    (void)world;
}

static void world_free(struct vp_world *world)
{
    pthread_mutex_destroy(&world->lock);
    free(world);
}

static bool is_mine(const struct vp_world *world, int rank)
{
    (void)world;
    (void)rank;
    return true;
}

static bool is_apart(const struct vp_world *world, int a, int b)
{
    (void)world;
    (void)a;
    (void)b;
    return false;
}

static void poll_world(struct vp_world *world)
{
    (void)world;
}

static void tell_abort(struct vp_world *world, enum vp_status status)
{
    (void)world;
    (void)status;
}

/* All ranks are in one process: the caller's status is that of all. */
static enum vp_status agree(struct vp_world *world, enum vp_status status,
                            struct vp_limit limit, int *rank_out,
                            enum vp_status *agreed_out)
{
    (void)limit;
    *rank_out = world->lead;
    *agreed_out = status;
    return VP_OK;
}

static enum vp_status share(struct vp_world *world, void *bytes, size_t n,
                            struct vp_limit limit)
{
    (void)world;
    (void)bytes;
    (void)n;
    (void)limit;
    return VP_OK;
}

static const struct vp_world_ops world_ops = {
    .name = "local",
    .leave = leave,
    .free = world_free,
    .is_mine = is_mine,
    .is_apart = is_apart,
    .poll = poll_world,
    .tell_abort = tell_abort,
    .agree = agree,
    .share = share,
    .channel_create = vp_local_channel_create,
    .group_create = group_create,
};

enum vp_status vp_world_create(int n_ranks, struct vp_world **out)
{
    struct vp_world *world = calloc(1, sizeof(*world));

    if (!world)
        return VP_ERR_NOMEM;
    world->ops = &world_ops;
    world->n_ranks = world->n_here = n_ranks;
    pthread_mutex_init(&world->lock, NULL);
    *out = world;
    return VP_OK;
}
