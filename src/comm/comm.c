/* The functions of comm.h that are the same for all transports; the others call
 * the transport's tables. */
#include "base/blocking.h"
#include "comm/transport.h"

#include <stdio.h>
#include <string.h>

/* ---- World -------------------------------------------------------------- */

void vp_world_free(struct vp_world *world)
{
    if (!world)
        return;
    world->ops->leave(world);
    while (world->channels) {
        struct vp_channel *next = world->channels->next;

        world->channels->ops->free(world->channels);
        world->channels = next;
    }
    while (world->groups) {
        struct vp_group *next = world->groups->next;

        world->groups->ops->free(world->groups);
        world->groups = next;
    }
    world->ops->free(world);
}

int vp_world_n_ranks(const struct vp_world *world)
{
    return world->n_ranks;
}

bool vp_world_is_mine(const struct vp_world *world, int rank)
{
    return world->ops->is_mine(world, rank);
}

bool vp_world_is_apart(const struct vp_world *world, int a, int b)
{
    return world->ops->is_apart(world, a, b);
}

int vp_world_lead(const struct vp_world *world)
{
    return world->lead;
}

int vp_world_n_here(const struct vp_world *world)
{
    return world->n_here;
}

void vp_world_poll(struct vp_world *world)
{
    world->ops->poll(world);
}

void vp_world_abort(struct vp_world *world, enum vp_status status,
                    const char *text)
{
    bool first = false;

    pthread_mutex_lock(&world->lock);
    if (world->status == VP_OK) {
        first = true;
        world->status = status;
        snprintf(world->err.text, sizeof(world->err.text), "%s",
                 text ? text : vp_status_name(status));
    }
    pthread_mutex_unlock(&world->lock);
    atomic_store(&world->stop, true);
    if (first)
        world->ops->tell_abort(world, status);
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

/* Registers a wait without a limit as a blocking call: only the watchdog can
 * end it. */
static int begin_wait(struct vp_limit limit)
{
    return limit.length_ns < INT64_MAX
               ? -1
               : vp_blocking_begin(VP_BLOCKING_PEERS, "waiting for other ranks",
                                   NULL, -1);
}

static enum vp_status end_wait(int call, enum vp_status st)
{
    if (call >= 0)
        vp_blocking_end(call);
    return st;
}

enum vp_status vp_world_agree(struct vp_world *world, enum vp_status status,
                              struct vp_limit limit, struct vp_err *err)
{
    enum vp_status agreed = VP_OK, st;
    int rank = 0, call = begin_wait(limit);

    st = world->ops->agree(world, status, limit, &rank, &agreed);
    end_wait(call, st);
    if (st == VP_ERR_ABORTED)
        return vp_world_status(world, err);
    if (st != VP_OK)
        return vp_err_set(err, st,
                          "the other processes did not start in time; look at "
                          "what they say, or raise watchdog_seconds");
    if (agreed != VP_OK && !vp_world_is_mine(world, rank))
        err->text[0] = '\0';
    return agreed;
}

enum vp_status vp_world_share(struct vp_world *world, void *bytes, size_t n,
                              struct vp_limit limit)
{
    int call = begin_wait(limit);

    return end_wait(call, world->ops->share(world, bytes, n, limit));
}

/* ---- Devices ------------------------------------------------------------ */

enum vp_status vp_world_meet(struct vp_world *world, const char *address,
                             struct vp_limit limit)
{
    int call = begin_wait(limit);

    return end_wait(call, world->ops->meet
                              ? world->ops->meet(world, address, limit)
                              : VP_OK);
}

bool vp_world_is_direct(const struct vp_world *world, int a, int b)
{
    return world->ops->is_direct && world->ops->is_direct(world, a, b);
}

const char *vp_world_indirect_reason(const struct vp_world *world)
{
    return world->ops->indirect_reason ? world->ops->indirect_reason(world)
                                       : "";
}

void vp_world_set_device(struct vp_world *world, struct vp_device *device)
{
    if (world->ops->set_device)
        world->ops->set_device(world, device);
}

/* ---- Links -------------------------------------------------------------- */

int vp_world_begin_links(struct vp_world *world)
{
    return ++world->links;
}

void vp_world_free_links(struct vp_world *world, int number)
{
    struct vp_channel **channel = &world->channels;
    struct vp_group **group = &world->groups;

    while (*channel) {
        struct vp_channel *it = *channel;

        if (it->links != number) {
            channel = &it->next;
            continue;
        }
        *channel = it->next;
        it->ops->free(it);
    }
    while (*group) {
        struct vp_group *it = *group;

        if (it->links != number) {
            group = &it->next;
            continue;
        }
        *group = it->next;
        it->ops->free(it);
    }
}

/* ---- Channels ----------------------------------------------------------- */

enum vp_status vp_channel_create(struct vp_world *world,
                                 const struct vp_link *link,
                                 struct vp_channel **out)
{
    VP_TRY(world->ops->channel_create(world, link, out));
    (*out)->links = world->links;
    (*out)->next = world->channels;
    world->channels = *out;
    return VP_OK;
}

enum vp_status vp_channel_acquire(struct vp_channel *channel, uint64_t j,
                                  struct vp_limit limit, void **buffer_out)
{
    return channel->ops->acquire(channel, j, limit, buffer_out);
}

void vp_channel_post(struct vp_channel *channel, uint64_t j, size_t n_body)
{
    channel->ops->post(channel, j, n_body);
}

enum vp_status vp_channel_wait(struct vp_channel *channel, uint64_t j,
                               struct vp_limit limit, void **buffer_out)
{
    return channel->ops->wait(channel, j, limit, buffer_out);
}

void vp_channel_release(struct vp_channel *channel, uint64_t j)
{
    channel->ops->release(channel, j);
}

/* ---- Groups ------------------------------------------------------------- */

static void keep_group(struct vp_world *world, struct vp_group *group)
{
    if (!group)
        return;
    group->links = world->links;
    group->next = world->groups;
    world->groups = group;
}

enum vp_status vp_group_create(struct vp_world *world, const int *ranks,
                               int n_members, size_t n_bytes,
                               struct vp_group **out)
{
    *out = NULL;
    VP_TRY(world->ops->group_create(world, ranks, n_members, n_bytes, out));
    keep_group(world, *out);
    return VP_OK;
}

enum vp_status vp_direct_group_create(struct vp_world *world, const int *ranks,
                                      int n_members, struct vp_group **out)
{
    *out = NULL;
    VP_BUG_ON(!world->ops->direct_group_create);
    VP_TRY(world->ops->direct_group_create(world, ranks, n_members, out));
    keep_group(world, *out);
    return VP_OK;
}

enum vp_status vp_direct_gather_create(struct vp_world *world, const int *ranks,
                                       int n_members, struct vp_group **out)
{
    *out = NULL;
    VP_BUG_ON(!world->ops->direct_gather_create);
    VP_TRY(world->ops->direct_gather_create(world, ranks, n_members, out));
    keep_group(world, *out);
    return VP_OK;
}

enum vp_status vp_group_exchange(struct vp_group *group, int member,
                                 const void *mine, size_t n_bytes, void *all,
                                 struct vp_limit limit)
{
    int call = begin_wait(limit);

    return end_wait(
        call, group->ops->exchange(group, member, mine, n_bytes, all, limit));
}

void vp_group_set_adder(struct vp_group *group, int member, vp_adder_fn add,
                        void *ctx)
{
    group->ops->set_adder(group, member, add, ctx);
}

void vp_group_set_fast(struct vp_group *group)
{
    group->ops->set_fast(group);
}

enum vp_status vp_group_set_parts(struct vp_group *group,
                                  const struct vp_sum_part *parts, int n_parts)
{
    VP_BUG_ON(!group->ops->set_parts || n_parts < 1);
    return group->ops->set_parts(group, parts, n_parts);
}

void vp_group_gather(struct vp_group *group, int member,
                     const struct vp_gather *gather)
{
    VP_BUG_ON(!group->ops->gather);
    group->ops->gather(group, member, gather);
}

enum vp_status vp_group_end_gather(struct vp_group *group, int member,
                                   struct vp_limit limit)
{
    return group->ops->end_gather(group, member, limit);
}

enum vp_status vp_group_gather_direct(struct vp_group *group, const void *mine,
                                      size_t n_bytes, void *all, void *stream)
{
    VP_BUG_ON(!group->ops->gather_direct);
    return group->ops->gather_direct(group, mine, n_bytes, all, stream);
}

enum vp_status vp_group_cut(struct vp_group *group, const int64_t *ends,
                            int n_pieces)
{
    return group->ops->cut(group, ends, n_pieces);
}

void vp_group_set_terms(struct vp_group *group, int member,
                        const struct vp_term *terms, int n_terms)
{
    group->ops->set_terms(group, member, terms, n_terms);
}

void vp_group_offer(struct vp_group *group, int member, int piece)
{
    group->ops->offer(group, member, piece);
}

void vp_group_offer_rest(struct vp_group *group, int member)
{
    group->ops->offer_rest(group, member);
}

bool vp_group_progress(struct vp_group *group, int member)
{
    return group->ops->progress(group, member);
}

enum vp_status vp_group_await(struct vp_group *group, int member,
                              struct vp_limit limit, bool *done_out)
{
    return group->ops->await(group, member, limit, done_out);
}

enum vp_status vp_group_add(struct vp_group *group, int member,
                            const struct vp_term *terms, int n_terms, int64_t n,
                            struct vp_limit limit)
{
    bool done = false;

    VP_TRY(group->ops->set_length(group, member, n));
    vp_group_set_terms(group, member, terms, n_terms);
    vp_group_offer_rest(group, member);
    while (!done) {
        while (vp_group_progress(group, member))
            ;
        VP_TRY(vp_group_await(group, member, limit, &done));
    }
    return VP_OK;
}

/* ---- Sums --------------------------------------------------------------- */

enum { BLOCK = 4096 }; /* floats: the sum is still in cache when it is copied */

int vp_terms_sort(struct vp_term *terms, int n_terms)
{
    int n_added = 0;

    for (int i = 0; i < n_terms; i++) {
        struct vp_term term = terms[i];
        int at = i;

        n_added += !term.receives;
        while (at > 0 && !term.receives &&
               (terms[at - 1].receives || terms[at - 1].order > term.order)) {
            terms[at] = terms[at - 1];
            at--;
        }
        terms[at] = term;
    }
    return n_added;
}

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

void vp_terms_add(const struct vp_term *terms, int n_added, int n_terms,
                  int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at += BLOCK)
        add_block(terms, n_added, n_terms, at,
                  at + BLOCK < end ? at + BLOCK : end);
}
