/* Sums over GPUs. Pieces are cut into chunks, and each member adds its slice of
 * every chunk: it gets the terms of the others, adds all in their order, and
 * sends the sum back:
 *
 *   scattering -> the member adds -> gathering -> the next chunk
 *
 * NCCL wants the same calls in the same order everywhere: chunks go from the
 * last to the first, as gradients become final. Fast sums are all-reduces in
 * that order. */
#include "comm/nccl/group.h"

#include "base/clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4 * 1024 * 1024 }; /* floats: 16 MB */

struct chunk {
    int64_t begin, end;
    int piece;
};

/* What a member brings. */
struct list {
    int n_terms, n_added;
    int order[VP_MAX_TERMS]; /* of those that are added */
};

enum state { AT_REST, SCATTERING, GATHERING };

struct group {
    struct vp_group base;
    struct vp_group *mpi; /* of the same members */
    struct vp_nccl_clique *clique;
    int n_members, me;
    bool fast;
    vp_adder_fn add;
    void *add_ctx;

    int64_t n; /* floats */
    struct chunk *chunks;
    int n_chunks, n_pieces;
    int64_t slice_floats; /* the most */
    const struct vp_term *terms;
    int n_terms;
    struct list *lists; /* per member; NULL: not known yet */

    bool *given; /* per piece */
    int n_given;
    int next; /* chunk */
    enum state state;
};

static struct group *group_of(struct vp_group *group)
{
    return (struct group *)group;
}

static struct vp_nccl_world *world_of(const struct group *group)
{
    return vp_nccl_world_of(group->base.world);
}

/* ---- Chunks ------------------------------------------------------------- */

static int64_t slice_begin(const struct group *group, const struct chunk *chunk,
                           int member)
{
    return chunk->begin +
           (chunk->end - chunk->begin) * member / group->n_members;
}

static size_t slice_size(const struct group *group, const struct chunk *chunk,
                         int member)
{
    return (size_t)(slice_begin(group, chunk, member + 1) -
                    slice_begin(group, chunk, member));
}

/* From the last to the first; with NULL it only counts. */
static int list_chunks(const int64_t *ends, int n_pieces, struct chunk *out)
{
    int n = 0;

    for (int i = n_pieces - 1; i >= 0; i--) {
        int64_t begin = i > 0 ? ends[i - 1] : 0;

        for (int64_t end = ends[i]; end > begin; n++) {
            int64_t at = end - begin > CHUNK ? end - CHUNK : begin;

            if (out)
                out[n] = (struct chunk){ at, end, i };
            end = at;
        }
    }
    return n;
}

static enum vp_status connect_group(struct group *group, enum vp_nccl_use use)
{
    struct vp_nccl_world *nccl = world_of(group);
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_nccl_clique_connect(nccl, group->clique, use, &err);

    if (st != VP_OK)
        vp_world_abort(nccl->world, st, err.text);
    return st;
}

static enum vp_status cut(struct vp_group *base, const int64_t *ends,
                          int n_pieces)
{
    struct group *group = group_of(base);

    VP_BUG_ON(group->chunks || n_pieces < 1);
    group->n = ends[n_pieces - 1];
    group->n_pieces = n_pieces;
    group->n_chunks = list_chunks(ends, n_pieces, NULL);
    group->chunks = calloc((size_t)group->n_chunks + 1, sizeof(*group->chunks));
    group->given = calloc((size_t)n_pieces, sizeof(*group->given));
    if (!group->chunks || !group->given)
        return VP_ERR_NOMEM;
    list_chunks(ends, n_pieces, group->chunks);
    for (int i = 0; i < group->n_chunks; i++)
        for (int k = 0; k < group->n_members; k++) {
            int64_t n = (int64_t)slice_size(group, &group->chunks[i], k);

            group->slice_floats = n > group->slice_floats ? n
                                                          : group->slice_floats;
        }
    return connect_group(group, group->fast ? VP_NCCL_REDUCE : VP_NCCL_TRADE);
}

static enum vp_status set_length(struct vp_group *base, int member, int64_t n)
{
    struct group *group = group_of(base);

    (void)member;
    if (!group->chunks)
        return cut(base, &n, 1);
    VP_BUG_ON(group->n != n);
    return VP_OK;
}

/* ---- Terms -------------------------------------------------------------- */

static void describe(const struct group *group, struct list *list)
{
    list->n_terms = group->n_terms;
    list->n_added = 0;
    for (int i = 0; i < group->n_terms; i++)
        if (!group->terms[i].receives)
            list->order[list->n_added++] = group->terms[i].order;
}

static void set_terms(struct vp_group *base, int member,
                      const struct vp_term *terms, int n_terms)
{
    struct group *group = group_of(base);

    (void)member;
    VP_BUG_ON(group->n_given > 0 || n_terms < 1 || n_terms > VP_MAX_TERMS ||
              (group->fast && n_terms > 1));
    VP_BUG_ON(group->lists && n_terms != group->lists[group->me].n_terms);
    group->terms = terms;
    group->n_terms = n_terms;
}

/* Others' terms are put where there is room, or zeros are taken from there. */
static enum vp_status make_room(struct group *group, const struct list *lists)
{
    struct vp_device *device = world_of(group)->device;
    int64_t n_floats = 0;

    for (int k = 0; k < group->n_members && !group->fast; k++)
        n_floats += k == group->me ? 0 : lists[k].n_added * group->slice_floats;
    if (group->fast && group->terms[0].receives)
        n_floats = group->n < CHUNK ? group->n : CHUNK;
    if (n_floats == 0)
        return VP_OK;
    group->clique->n_room_bytes = (size_t)n_floats * sizeof(float);
    return vp_device_alloc(device, group->clique->n_room_bytes,
                           &group->clique->room);
}

/* Once; the members say the same in every sum. */
static enum vp_status learn_lists(struct group *group, struct vp_limit limit)
{
    struct list mine;
    struct list *lists;
    enum vp_status st;

    if (group->lists)
        return VP_OK;
    lists = calloc((size_t)group->n_members, sizeof(*lists));
    if (!lists)
        return VP_ERR_NOMEM;
    memset(&mine, 0, sizeof(mine));
    describe(group, &mine);
    st = vp_group_exchange(group->mpi, group->me, &mine, sizeof(mine), lists,
                           limit);
    if (st == VP_OK)
        st = make_room(group, lists);
    if (st != VP_OK) {
        free(lists);
        return st;
    }
    group->lists = lists;
    return VP_OK;
}

/* ---- Transfers ---------------------------------------------------------- */

static void send_floats(struct group *group, const float *data, size_t n,
                        int to)
{
    struct vp_nccl_world *nccl = world_of(group);

    if (n > 0)
        vp_nccl_check(nccl,
                      nccl->api->send(data, n, VP_NCCL_FLOATS, to,
                                      group->clique->comm,
                                      group->clique->handle),
                      "a sum");
}

static void receive(struct group *group, float *data, size_t n, int from)
{
    struct vp_nccl_world *nccl = world_of(group);

    if (n > 0)
        vp_nccl_check(nccl,
                      nccl->api->receive(data, n, VP_NCCL_FLOATS, from,
                                         group->clique->comm,
                                         group->clique->handle),
                      "a sum");
}

static void mark_done(struct group *group)
{
    struct vp_nccl_world *nccl = world_of(group);

    vp_nccl_check_device(
        nccl, vp_event_record(group->clique->done, group->clique->stream),
        "a sum");
}

static bool is_done(struct group *group)
{
    struct vp_nccl_world *nccl = world_of(group);
    enum vp_status st = vp_event_sync(group->clique->done, 0);

    if (st != VP_ERR_TIMEOUT && st != VP_ERR_ABORTED)
        vp_nccl_check_device(nccl, st, "a sum");
    return st == VP_OK;
}

/* Each member gets all terms of its slice. */
static void scatter(struct group *group, const struct chunk *chunk)
{
    const struct vp_nccl_api *api = world_of(group)->api;
    size_t n_mine = slice_size(group, chunk, group->me);
    float *room = group->clique->room;

    vp_nccl_check(world_of(group), api->group_start(), "a sum");
    for (int k = 0; k < group->n_members; k++) {
        int64_t begin = slice_begin(group, chunk, k);

        if (k == group->me)
            continue;
        for (int i = 0; i < group->n_terms; i++)
            if (!group->terms[i].receives)
                send_floats(group, group->terms[i].data + begin,
                            slice_size(group, chunk, k), k);
        for (int i = 0; i < group->lists[k].n_added; i++) {
            receive(group, room, n_mine, k);
            room += group->slice_floats;
        }
    }
    vp_nccl_check(world_of(group), api->group_end(), "a sum");
    mark_done(group);
}

/* Every array of a member gets the sums of the others' slices. */
static void gather(struct group *group, const struct chunk *chunk)
{
    const struct vp_nccl_api *api = world_of(group)->api;
    size_t n_mine = slice_size(group, chunk, group->me);
    const float *mine = group->terms[0].data +
                        slice_begin(group, chunk, group->me);

    vp_nccl_check(world_of(group), api->group_start(), "a sum");
    for (int k = 0; k < group->n_members; k++) {
        int64_t begin = slice_begin(group, chunk, k);

        if (k == group->me)
            continue;
        for (int i = 0; i < group->lists[k].n_terms; i++)
            send_floats(group, mine, n_mine, k);
        for (int i = 0; i < group->n_terms; i++)
            receive(group, group->terms[i].data + begin,
                    slice_size(group, chunk, k), k);
    }
    vp_nccl_check(world_of(group), api->group_end(), "a sum");
    mark_done(group);
}

/* Who has nothing to add, adds zeros. */
static void all_reduce(struct group *group, const struct chunk *chunk)
{
    struct vp_nccl_world *nccl = world_of(group);
    const struct vp_term *term = &group->terms[0];
    float *data = term->data + chunk->begin;

    vp_nccl_check(nccl,
                  nccl->api->all_reduce(
                      term->receives ? group->clique->room : data, data,
                      (size_t)(chunk->end - chunk->begin), VP_NCCL_FLOATS,
                      VP_NCCL_SUM, group->clique->comm, group->clique->handle),
                  "a sum");
    mark_done(group);
}

/* ---- Progress ----------------------------------------------------------- */

static void add_slice(struct group *group, const struct chunk *chunk)
{
    int64_t begin = slice_begin(group, chunk, group->me);
    int64_t n_floats = (int64_t)slice_size(group, chunk, group->me);
    struct vp_term terms[VP_MAX_TERMS];
    float *room = group->clique->room;
    int n = 0, n_added;

    for (int i = 0; i < group->n_terms; i++) {
        terms[n] = group->terms[i];
        terms[n++].data += begin;
    }
    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; k != group->me && i < group->lists[k].n_added; i++) {
            VP_BUG_ON(n == VP_MAX_TERMS);
            terms[n++] = (struct vp_term){ room, group->lists[k].order[i],
                                           false };
            room += group->slice_floats;
        }
    n_added = vp_terms_sort(terms, n);
    if (n_floats > 0)
        group->add(group->add_ctx, terms, n_added, n, 0, n_floats);
}

/* As far as it comes; true: there is a slice to add. */
static bool advance(struct group *group)
{
    while (group->lists && group->next < group->n_chunks) {
        const struct chunk *chunk = &group->chunks[group->next];

        if (group->state == AT_REST && !group->given[chunk->piece])
            return false;
        if (group->state != AT_REST && !is_done(group))
            return false;
        if (group->state == SCATTERING)
            return true;
        if (group->fast) {
            all_reduce(group, chunk);
            group->next++;
        } else if (group->state == GATHERING) {
            group->state = AT_REST;
            group->next++;
        } else {
            scatter(group, chunk);
            group->state = SCATTERING;
        }
    }
    return false;
}

static bool progress(struct vp_group *base, int member)
{
    struct group *group = group_of(base);
    const struct chunk *chunk;

    (void)member;
    if (atomic_load(&base->world->stop) || !advance(group))
        return false;
    chunk = &group->chunks[group->next];
    add_slice(group, chunk);
    gather(group, chunk);
    group->state = GATHERING;
    return true;
}

static void offer(struct vp_group *base, int member, int piece)
{
    struct group *group = group_of(base);

    (void)member;
    VP_BUG_ON(group->given[piece]);
    group->given[piece] = true;
    group->n_given++;
}

static void offer_rest(struct vp_group *base, int member)
{
    const struct group *group = group_of(base);

    for (int i = 0; i < group->n_pieces; i++)
        if (!group->given[i])
            offer(base, member, i);
}

static bool is_over(struct group *group)
{
    return group->next == group->n_chunks && is_done(group);
}

static enum vp_status await(struct vp_group *base, int member,
                            struct vp_limit limit, bool *done_out)
{
    struct group *group = group_of(base);

    (void)member;
    VP_BUG_ON(group->n_given < group->n_pieces);
    VP_TRY(learn_lists(group, limit));
    *done_out = false;
    while (!advance(group) && !is_over(group)) {
        if (atomic_load(&base->world->stop))
            return VP_ERR_ABORTED;
        if (vp_limit_is_over(&limit))
            return VP_ERR_TIMEOUT;
        vp_world_poll(base->world);
        sched_yield();
    }
    if (group->next < group->n_chunks)
        return VP_OK;
    memset(group->given, 0, (size_t)group->n_pieces * sizeof(*group->given));
    group->n_given = 0;
    group->next = 0;
    *done_out = true;
    return VP_OK;
}

/* ---- What is not for sums ----------------------------------------------- */

static enum vp_status exchange(struct vp_group *base, int member,
                               const void *mine, size_t n_bytes, void *all,
                               struct vp_limit limit)
{
    (void)base;
    (void)member;
    (void)mine;
    (void)n_bytes;
    (void)all;
    (void)limit;
    vp_bug(__FILE__, __LINE__, "an exchange in a group of devices");
}

static void set_adder(struct vp_group *base, int member, vp_adder_fn add,
                      void *ctx)
{
    (void)member;
    group_of(base)->add = add;
    group_of(base)->add_ctx = ctx;
}

static void set_fast(struct vp_group *base)
{
    VP_BUG_ON(group_of(base)->chunks);
    group_of(base)->fast = true;
}

/* The communicator belongs to the world. */
static void group_free(struct vp_group *base)
{
    struct group *group = group_of(base);

    if (group->mpi)
        group->mpi->ops->free(group->mpi);
    free(group->chunks);
    free(group->lists);
    free(group->given);
    free(group);
}

/* ---- Gathers ------------------------------------------------------------ */

static enum vp_status gather_direct(struct vp_group *base, const void *mine,
                                    size_t n_bytes, void *all, void *stream)
{
    struct group *group = group_of(base);
    struct vp_nccl_world *nccl = world_of(group);
    int rc;

    if (atomic_load(&base->world->stop))
        return VP_ERR_ABORTED;
    rc = nccl->api->all_gather(mine, all, n_bytes, VP_NCCL_BYTES,
                               group->clique->comm, stream);
    vp_nccl_check(nccl, rc, "a gather");
    return rc == VP_NCCL_OK ? VP_OK : VP_ERR_ABORTED;
}

/* ---- Creating ----------------------------------------------------------- */

static const struct vp_group_ops group_ops = {
    .free = group_free,
    .exchange = exchange,
    .set_adder = set_adder,
    .set_fast = set_fast,
    .cut = cut,
    .set_length = set_length,
    .set_terms = set_terms,
    .offer = offer,
    .offer_rest = offer_rest,
    .progress = progress,
    .await = await,
};

static const struct vp_group_ops gather_ops = {
    .free = group_free,
    .exchange = exchange,
    .gather_direct = gather_direct,
};

static int find_me(const struct vp_nccl_world *nccl, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == nccl->rank)
            return i;
    return -1;
}

/* Member 0 names the id. */
static enum vp_status join(struct group *group)
{
    struct vp_nccl_world *nccl = world_of(group);
    struct vp_nccl_id mine = { "" };
    struct vp_nccl_id *all = calloc((size_t)group->n_members, sizeof(*all));
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_ERR_NOMEM;

    if (group->me == 0 && vp_nccl_make_id(nccl, &mine, &err) != VP_OK)
        vp_world_abort(nccl->world, VP_ERR_IO, err.text);
    if (all)
        st = vp_group_exchange(group->mpi, group->me, &mine, sizeof(mine), all,
                               vp_nccl_limit());
    if (st == VP_OK)
        st = vp_nccl_clique_create(nccl, &all[0], group->n_members, group->me,
                                   &group->clique, &err);
    free(all);
    if (st != VP_OK)
        vp_world_abort(nccl->world, st, err.text);
    return st;
}

enum vp_status vp_nccl_group_create(struct vp_world *world, const int *ranks,
                                    int n_members, struct vp_group **out)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);
    struct vp_group *mpi = NULL;
    struct group *group;
    enum vp_status st;

    VP_TRY(nccl->mpi->group_create(world, ranks, n_members, sizeof(struct list),
                                   &mpi));
    if (!mpi)
        return VP_OK;
    group = calloc(1, sizeof(*group));
    if (!group) {
        mpi->ops->free(mpi);
        return VP_ERR_NOMEM;
    }
    group->base.ops = &group_ops;
    group->base.world = world;
    group->mpi = mpi;
    group->n_members = n_members;
    group->me = find_me(nccl, ranks, n_members);
    st = join(group);
    if (st != VP_OK) {
        group_free(&group->base);
        return st;
    }
    *out = &group->base;
    return VP_OK;
}

enum vp_status vp_nccl_gather_create(struct vp_world *world, const int *ranks,
                                     int n_members, struct vp_group **out)
{
    enum vp_status st;

    VP_TRY(vp_nccl_group_create(world, ranks, n_members, out));
    if (!*out)
        return VP_OK;
    (*out)->ops = &gather_ops;
    st = connect_group(group_of(*out), VP_NCCL_GATHER);
    if (st != VP_OK) {
        group_free(*out);
        *out = NULL;
    }
    return st;
}
