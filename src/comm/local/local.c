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
    unsigned char *data; /* 2 x n_members x n_bytes */
    struct sum {
        const struct vp_term *terms;
        int n_terms;
    } * sums;                  /* what the members add up */
    struct vp_counter arrived; /* contributions, over all exchanges */
    struct vp_counter done;    /* slices summed, over all additions */
    uint64_t *n_exchanges;     /* per member: its own count */
    uint64_t *n_additions;
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

static void group_free(struct vp_group *group)
{
    free(group->data);
    free(group->sums);
    free(group->n_exchanges);
    free(group->n_additions);
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

enum vp_status vp_group_create(struct vp_world *world, int n_members,
                               size_t n_bytes, struct vp_group **out)
{
    struct vp_group *group = aligned_alloc(64, sizeof(*group));
    size_t n = (size_t)n_members;

    if (!group)
        return VP_ERR_NOMEM;
    memset(group, 0, sizeof(*group));
    group->world = world;
    group->n_members = n_members;
    group->n_bytes = n_bytes;
    group->data = calloc(2 * n, n_bytes ? n_bytes : 1);
    group->sums = calloc(n, sizeof(*group->sums));
    group->n_exchanges = calloc(n, sizeof(*group->n_exchanges));
    group->n_additions = calloc(n, sizeof(*group->n_additions));
    if (!group->data || !group->sums || !group->n_exchanges ||
        !group->n_additions) {
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

/* The terms of all members; those to be added come first, in order. */
static int sort_terms(const struct vp_group *group, struct vp_term *sorted,
                      int *n_added_out)
{
    int n = 0, n_added = 0;

    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; i < group->sums[k].n_terms; i++) {
            struct vp_term term = group->sums[k].terms[i];
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

/* Sums one slice in the first term, then copies it to the others. */
static void add_slice(const struct vp_group *group, int slice, int64_t n)
{
    struct vp_term terms[VP_MAX_TERMS];
    int64_t begin = n * slice / group->n_members;
    int64_t end = n * (slice + 1) / group->n_members;
    int n_added;
    int n_terms = sort_terms(group, terms, &n_added);
    float *sum = terms[0].data;

    for (int k = 1; k < n_added; k++)
        for (int64_t i = begin; i < end; i++)
            sum[i] += terms[k].data[i];
    for (int k = 1; k < n_terms; k++)
        memcpy(terms[k].data + begin, sum + begin,
               (size_t)(end - begin) * sizeof(float));
}

/* Member i sums slice i and writes it back to everybody. */
enum vp_status vp_group_add(struct vp_group *group, int member,
                            const struct vp_term *terms, int n_terms, int64_t n,
                            int64_t deadline_ns)
{
    uint64_t k = ++group->n_additions[member];

    group->sums[member] = (struct sum){ terms, n_terms };
    VP_TRY(vp_group_exchange(group, member, NULL, 0, NULL, deadline_ns));
    add_slice(group, member, n);
    vp_counter_add(&group->done);
    return vp_counter_wait(&group->done,
                           (uint32_t)(k * (uint64_t)group->n_members),
                           deadline_ns, &group->world->stop);
}
