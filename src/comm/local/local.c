/* Ranks as threads: buffers are handed over, never copied. */
#include "comm/comm.h"

#include "base/counter.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vp_channel {
    struct vp_channel *next;
    struct vp_world *world;
    int n_buffers;
    void **buffers;
    struct vp_counter *arrived; /* per buffer: messages it has carried */
    struct vp_counter released; /* messages, in order */
};

struct vp_group {
    struct vp_group *next;
    struct vp_world *world;
    int n_members;
    size_t n_bytes;
    unsigned char *data;       /* 2 x n_members x n_bytes */
    struct vp_counter arrived; /* contributions, over all exchanges */
    uint64_t *n_exchanges;     /* per member: its own count */

    /* Sums. */
    int n_pieces;
    int64_t *ends;              /* of the pieces; NULL: one of any length */
    struct share *shares;       /* per member */
    struct vp_counter *offered; /* per piece: offers, over all sums */
    struct vp_counter done;     /* members with all slices added, likewise */
};

/* What a member has to do with the sum being made. Others read the terms of
 * what it offered; the rest is its own. */
struct share {
    _Alignas(64) const struct vp_term *terms;
    int n_terms;
    int64_t n;       /* floats, if the group is not cut */
    uint32_t n_sums; /* done */
    bool *given;     /* per piece: offered */
    int n_given;
    int *todo; /* pieces offered here whose slice was not added yet */
    int n_todo;
    vp_adder_fn add; /* NULL: on this thread */
    void *add_ctx;
};

struct vp_world {
    int n_ranks;
    atomic_bool stop;
    pthread_mutex_t lock; /* protects status and text */
    enum vp_status status;
    struct vp_err err;
    struct vp_channel *channels;
    struct vp_group *groups;
};

/* ---- World -------------------------------------------------------------- */

enum vp_status vp_world_create(int n_ranks, struct vp_world **out)
{
    struct vp_world *world = calloc(1, sizeof(*world));

    if (!world)
        return VP_ERR_NOMEM;
    world->n_ranks = n_ranks;
    pthread_mutex_init(&world->lock, NULL);
    *out = world;
    return VP_OK;
}

static void channel_free(struct vp_channel *channel)
{
    free(channel->buffers);
    free(channel->arrived);
    free(channel);
}

static void pieces_free(struct vp_group *group)
{
    for (int i = 0; group->shares && i < group->n_members; i++) {
        free(group->shares[i].given);
        free(group->shares[i].todo);
    }
    free(group->ends);
    free(group->shares);
    free(group->offered);
}

static void group_free(struct vp_group *group)
{
    pieces_free(group);
    free(group->data);
    free(group->n_exchanges);
    free(group);
}

void vp_world_free(struct vp_world *world)
{
    if (!world)
        return;
    while (world->channels) {
        struct vp_channel *next = world->channels->next;

        channel_free(world->channels);
        world->channels = next;
    }
    while (world->groups) {
        struct vp_group *next = world->groups->next;

        group_free(world->groups);
        world->groups = next;
    }
    pthread_mutex_destroy(&world->lock);
    free(world);
}

void vp_world_abort(struct vp_world *world, enum vp_status status,
                    const char *text)
{
    pthread_mutex_lock(&world->lock);
    if (world->status == VP_OK) {
        world->status = status;
        snprintf(world->err.text, sizeof(world->err.text), "%s",
                 text ? text : vp_status_name(status));
    }
    pthread_mutex_unlock(&world->lock);
    atomic_store(&world->stop, true);
}

enum vp_status vp_world_status(const struct vp_world *world, struct vp_err *err)
{
    struct vp_world *w = (struct vp_world *)(uintptr_t)world;
    enum vp_status status;

    pthread_mutex_lock(&w->lock);
    status = w->status;
    if (status != VP_OK && err)
        *err = w->err;
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- Channels ----------------------------------------------------------- */

enum vp_status vp_channel_create(struct vp_world *world, int n_buffers,
                                 void *const *buffers, struct vp_channel **out)
{
    struct vp_channel *channel = aligned_alloc(64, sizeof(*channel));
    size_t n = (size_t)n_buffers;

    if (!channel)
        return VP_ERR_NOMEM;
    memset(channel, 0, sizeof(*channel));
    channel->world = world;
    channel->n_buffers = n_buffers;
    channel->buffers = calloc(n, sizeof(*channel->buffers));
    channel->arrived = aligned_alloc(64, n * sizeof(*channel->arrived));
    if (!channel->buffers || !channel->arrived) {
        channel_free(channel);
        return VP_ERR_NOMEM;
    }
    memcpy(channel->buffers, buffers, n * sizeof(*buffers));
    memset(channel->arrived, 0, n * sizeof(*channel->arrived));
    channel->next = world->channels;
    world->channels = channel;
    *out = channel;
    return VP_OK;
}

enum vp_status vp_channel_acquire(struct vp_channel *channel, uint64_t j,
                                  int64_t deadline_ns, void **buffer_out)
{
    uint64_t n = (uint64_t)channel->n_buffers;

    if (j >= n)
        VP_TRY(vp_counter_wait(&channel->released, (uint32_t)(j - n + 1),
                               deadline_ns, &channel->world->stop));
    *buffer_out = channel->buffers[j % n];
    return VP_OK;
}

void vp_channel_post(struct vp_channel *channel, uint64_t j)
{
    vp_counter_add(&channel->arrived[j % (uint64_t)channel->n_buffers]);
}

enum vp_status vp_channel_wait(struct vp_channel *channel, uint64_t j,
                               int64_t deadline_ns, void **buffer_out)
{
    uint64_t n = (uint64_t)channel->n_buffers;

    VP_TRY(vp_counter_wait(&channel->arrived[j % n], (uint32_t)(j / n + 1),
                           deadline_ns, &channel->world->stop));
    *buffer_out = channel->buffers[j % n];
    return VP_OK;
}

void vp_channel_release(struct vp_channel *channel, uint64_t j)
{
    VP_BUG_ON(atomic_load(&channel->released.value) != (uint32_t)j);
    vp_counter_add(&channel->released);
}

/* ---- Groups ------------------------------------------------------------- */

static void *zeroed(size_t n, size_t n_bytes)
{
    void *p = aligned_alloc(64, n * n_bytes);

    if (p)
        memset(p, 0, n * n_bytes);
    return p;
}

/* Tables for sums of `n` pieces. */
static enum vp_status make_pieces(struct vp_group *group, int n)
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

enum vp_status vp_group_create(struct vp_world *world, int n_members,
                               size_t n_bytes, struct vp_group **out)
{
    struct vp_group *group = zeroed(1, sizeof(*group));
    size_t n = (size_t)n_members;

    if (!group)
        return VP_ERR_NOMEM;
    group->world = world;
    group->n_members = n_members;
    group->n_bytes = n_bytes;
    group->data = calloc(2 * n, n_bytes ? n_bytes : 1);
    group->n_exchanges = calloc(n, sizeof(*group->n_exchanges));
    if (!group->data || !group->n_exchanges || make_pieces(group, 1) != VP_OK) {
        group_free(group);
        return VP_ERR_NOMEM;
    }
    group->next = world->groups;
    world->groups = group;
    *out = group;
    return VP_OK;
}

/* Two halves are enough: nobody can start exchange k + 2 before everybody has
 * contributed to k + 1, that is, has read k. */
enum vp_status vp_group_exchange(struct vp_group *group, int member,
                                 const void *mine, size_t n_bytes, void *all,
                                 int64_t deadline_ns)
{
    uint64_t k = group->n_exchanges[member]++;
    unsigned char *half = group->data +
                          (k % 2) * (size_t)group->n_members * group->n_bytes;

    VP_BUG_ON(n_bytes > group->n_bytes);
    if (n_bytes > 0)
        memcpy(half + (size_t)member * group->n_bytes, mine, n_bytes);
    vp_counter_add(&group->arrived);
    VP_TRY(vp_counter_wait(&group->arrived,
                           (uint32_t)((k + 1) * (uint64_t)group->n_members),
                           deadline_ns, &group->world->stop));
    for (int i = 0; n_bytes > 0 && i < group->n_members; i++)
        memcpy((unsigned char *)all + (size_t)i * n_bytes,
               half + (size_t)i * group->n_bytes, n_bytes);
    return VP_OK;
}

/* ---- Sums --------------------------------------------------------------- */

enum { BLOCK = 4096 }; /* floats: the sum is still in cache when copied */

/* The terms of all members; those to be added come first, in order. */
static int sort_terms(const struct vp_group *group, struct vp_term *sorted,
                      int *n_added_out)
{
    int n = 0, n_added = 0;

    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; i < group->shares[k].n_terms; i++) {
            struct vp_term term = group->shares[k].terms[i];
            int at = n++;

            VP_BUG_ON(n > VP_MAX_TERMS);
            n_added += !term.receives;
            while (at > 0 && !term.receives &&
                   (sorted[at - 1].receives ||
                    sorted[at - 1].order > term.order)) {
                sorted[at] = sorted[at - 1];
                at--;
            }
            sorted[at] = term;
        }
    *n_added_out = n_added;
    return n;
}

/* Sums a block in the first term, then copies it to the others. */
static void add_block(const struct vp_term *terms, int n_added, int n_terms,
                      int64_t begin, int64_t end)
{
    float *sum = terms[0].data;

    for (int k = 1; k < n_added; k++)
        for (int64_t i = begin; i < end; i++)
            sum[i] += terms[k].data[i];
    for (int k = 1; k < n_terms; k++)
        memcpy(terms[k].data + begin, sum + begin,
               (size_t)(end - begin) * sizeof(float));
}

/* Member i adds slice i of a piece and writes it back to everybody. */
static void add_slice(const struct vp_group *group, int member, int piece)
{
    struct vp_term terms[VP_MAX_TERMS];
    int n_added;
    int n_terms = sort_terms(group, terms, &n_added);
    int64_t first = group->ends && piece > 0 ? group->ends[piece - 1] : 0;
    int64_t n = group->ends ? group->ends[piece] - first
                            : group->shares[member].n;
    int64_t begin = first + n * member / group->n_members;
    int64_t end = first + n * (member + 1) / group->n_members;

    if (group->shares[member].add) {
        group->shares[member].add(group->shares[member].add_ctx, terms, n_added,
                                  n_terms, begin, end);
        return;
    }
    for (int64_t at = begin; at < end; at += BLOCK)
        add_block(terms, n_added, n_terms, at,
                  at + BLOCK < end ? at + BLOCK : end);
}

/* What counters reach when all members have done their part of this sum. */
static uint32_t target_of(const struct vp_group *group,
                          const struct share *share)
{
    return (share->n_sums + 1) * (uint32_t)group->n_members;
}

enum vp_status vp_group_cut(struct vp_group *group, const int64_t *ends,
                            int n_pieces)
{
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

void vp_group_set_terms(struct vp_group *group, int member,
                        const struct vp_term *terms, int n_terms)
{
    struct share *share = &group->shares[member];

    VP_BUG_ON(share->n_given > 0);
    share->terms = terms;
    share->n_terms = n_terms;
}

void vp_group_set_adder(struct vp_group *group, int member, vp_adder_fn add,
                        void *ctx)
{
    group->shares[member].add = add;
    group->shares[member].add_ctx = ctx;
}

void vp_group_offer(struct vp_group *group, int member, int piece)
{
    struct share *share = &group->shares[member];

    VP_BUG_ON(share->given[piece]);
    share->given[piece] = true;
    share->n_given++;
    share->todo[share->n_todo++] = piece;
    vp_counter_add(&group->offered[piece]);
}

void vp_group_offer_rest(struct vp_group *group, int member)
{
    for (int i = 0; i < group->n_pieces; i++)
        if (!group->shares[member].given[i])
            vp_group_offer(group, member, i);
}

bool vp_group_progress(struct vp_group *group, int member)
{
    struct share *share = &group->shares[member];

    for (int i = 0; i < share->n_todo; i++) {
        int piece = share->todo[i];

        if (!vp_counter_reached(&group->offered[piece],
                                target_of(group, share)))
            continue;
        add_slice(group, member, piece);
        share->n_todo--; /* the oldest stays first: others have it soonest */
        memmove(&share->todo[i], &share->todo[i + 1],
                (size_t)(share->n_todo - i) * sizeof(*share->todo));
        if (share->n_todo == 0 && share->n_given == group->n_pieces)
            vp_counter_add(&group->done);
        return true;
    }
    return false;
}

enum vp_status vp_group_await(struct vp_group *group, int member,
                              int64_t deadline_ns, bool *done_out)
{
    struct share *share = &group->shares[member];
    uint32_t target = target_of(group, share);

    VP_BUG_ON(share->n_given < group->n_pieces);
    if (share->n_todo > 0) {
        VP_TRY(vp_counter_wait(&group->offered[share->todo[0]], target,
                               deadline_ns, &group->world->stop));
        *done_out = false;
        return VP_OK;
    }
    VP_TRY(vp_counter_wait(&group->done, target, deadline_ns,
                           &group->world->stop));
    *done_out = true;
    memset(share->given, 0, (size_t)group->n_pieces * sizeof(*share->given));
    share->n_given = 0;
    share->n_sums++;
    return VP_OK;
}

enum vp_status vp_group_add(struct vp_group *group, int member,
                            const struct vp_term *terms, int n_terms, int64_t n,
                            int64_t deadline_ns)
{
    bool done = false;

    VP_BUG_ON(group->ends && group->ends[group->n_pieces - 1] != n);
    group->shares[member].n = n;
    vp_group_set_terms(group, member, terms, n_terms);
    vp_group_offer_rest(group, member);
    while (!done) {
        while (vp_group_progress(group, member))
            ;
        VP_TRY(vp_group_await(group, member, deadline_ns, &done));
    }
    return VP_OK;
}
