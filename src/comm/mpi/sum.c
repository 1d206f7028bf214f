/* Exact sums. Pieces are cut into chunks, and every chunk has an owner, which
 * receives the terms of the others, adds all in their order, and sends the sum
 * back:
 *
 *   owner    offered -> gathering -> ready -> adds, answering -> done
 *   others   offered -> giving ---------------> getting -------> done
 *
 * A chunk that only its owner needs is not sent back. The choice of owners does
 * not change the bits. Before its first offer of a sum a member sends the
 * others the number and order of its terms. */
#include "comm/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 64 * 1024,      /* floats: 256 kB, in cache while it is added */
    MAX_CHUNKS = 16 * 1024, /* one tag each; longer sums have longer chunks */
    N_ROOMS = 8,            /* chunks that an owner works on at once */
    TAG_LIST = VP_MPI_TAG_GATHER + 1,
    TAG_CHUNK,
};

enum chunk_state {
    CHUNK_IDLE, /* not offered, or done */
    CHUNK_GIVING,
    CHUNK_GETTING,
    CHUNK_OFFERED,
    CHUNK_GATHERING,
    CHUNK_READY,
    CHUNK_ANSWERING,
};

struct chunk {
    int64_t begin, end;
    int owner;
    bool kept; /* only the owner needs the sum */
    enum chunk_state state;
    int room; /* index in rooms[], from GATHERING on */
};

/* The terms that a member adds. */
struct list {
    int n;
    int order[VP_MAX_TERMS];
};

/* Memory of an owner for the terms of other members, for one chunk. */
struct room {
    bool taken;
    float *data; /* n_others x chunk_floats */
    MPI_Request *requests;
    int n_requests;
};

struct vp_mpi_sum {
    int n_pieces, n_chunks;
    int64_t n;            /* floats */
    int *first;           /* per piece: its first chunk; then n_chunks */
    int64_t chunk_floats; /* length of the longest chunk */
    struct chunk *chunks;

    const struct vp_term *terms;
    int n_terms;
    struct list *lists;     /* per member, this one included */
    MPI_Request *heard;     /* per member: receives its list */
    MPI_Request *told;      /* per member: sends it the own list */
    int n_others;           /* terms of other members; -1: lists not complete */
    MPI_Request *transfers; /* n_transfers per chunk that others own */
    int n_transfers;

    bool *given; /* per piece */
    int n_given;
    int *active; /* chunks, in the order they were offered */
    int n_active;
    struct room rooms[N_ROOMS];
    int n_room_terms; /* terms that a room has memory for */
};

static struct vp_mpi_world *world_of(const struct vp_mpi_group *group)
{
    return vp_mpi_world_of(group->base.world);
}

/* ---- Creating ----------------------------------------------------------- */

static void clear_requests(MPI_Request *requests, int n)
{
    for (int i = 0; i < n; i++)
        requests[i] = MPI_REQUEST_NULL;
}

static void drop_rooms(struct vp_mpi_sum *sum)
{
    for (int i = 0; i < N_ROOMS; i++) {
        free(sum->rooms[i].data);
        free(sum->rooms[i].requests);
        sum->rooms[i] = (struct room){ .taken = false };
    }
}

void vp_mpi_sum_free(struct vp_mpi_group *group)
{
    struct vp_mpi_sum *sum = group->sum;

    if (!sum)
        return;
    if (sum->heard)
        vp_mpi_drop(group->n_members, sum->heard, true);
    drop_rooms(sum);
    free(sum->first);
    free(sum->chunks);
    free(sum->lists);
    free(sum->heard);
    free(sum->told);
    free(sum->transfers);
    free(sum->given);
    free(sum->active);
    free(sum);
    group->sum = NULL;
}

static void hear_lists(struct vp_mpi_group *group)
{
    struct vp_mpi_sum *sum = group->sum;

    sum->n_others = -1;
    for (int k = 0; k < group->n_members; k++)
        if (k != group->me)
            vp_mpi_check(world_of(group),
                         MPI_Irecv(&sum->lists[k], (int)sizeof(sum->lists[k]),
                                   MPI_BYTE, k, TAG_LIST, group->comm,
                                   &sum->heard[k]),
                         "receiving");
}

/* Returns the part of the sum that element `at` belongs to; without parts, one
 * part that all members need. */
static struct vp_sum_part part_at(const struct vp_mpi_group *group, int64_t at)
{
    for (int i = 0; i < group->n_parts; i++)
        if (at < group->parts[i].end)
            return group->parts[i];
    return (struct vp_sum_part){ INT64_MAX, -1 };
}

/* Writes the chunks of all pieces to `chunks`, and the index of the first one
 * of each piece to `first`; both may be NULL. Returns the number of chunks. */
static int64_t cut_chunks(const struct vp_mpi_group *group, const int64_t *ends,
                          int n_pieces, int64_t size, struct chunk *chunks,
                          int *first)
{
    int64_t begin = 0, n = 0;

    for (int i = 0; i < n_pieces; i++) {
        if (first)
            first[i] = (int)n;
        for (; begin < ends[i]; n++) {
            struct vp_sum_part part = part_at(group, begin);
            int64_t end = begin + size < ends[i] ? begin + size : ends[i];

            end = part.end < end ? part.end : end;
            if (chunks)
                chunks[n] = (struct chunk){
                    .begin = begin,
                    .end = end,
                    .owner = part.owner < 0 ? (int)(n % group->n_members)
                                            : part.owner,
                    .kept = part.owner >= 0,
                };
            begin = end;
        }
    }
    if (first)
        first[n_pieces] = (int)n;
    return n;
}

static enum vp_status make_sum(struct vp_mpi_group *group, const int64_t *ends,
                               int n_pieces)
{
    struct vp_mpi_sum *sum = calloc(1, sizeof(*sum));
    size_t n_members = (size_t)group->n_members, n;

    if (!sum)
        return VP_ERR_NOMEM;
    vp_mpi_sum_free(group);
    group->sum = sum;
    sum->n_pieces = n_pieces;
    sum->n = ends[n_pieces - 1];
    sum->chunk_floats = CHUNK;
    while (cut_chunks(group, ends, n_pieces, sum->chunk_floats, NULL, NULL) >
           MAX_CHUNKS + n_pieces + group->n_parts)
        sum->chunk_floats *= 2;
    sum->n_chunks = (int)cut_chunks(group, ends, n_pieces, sum->chunk_floats,
                                    NULL, NULL);
    n = (size_t)sum->n_chunks + 1;
    sum->first = calloc((size_t)n_pieces + 1, sizeof(*sum->first));
    sum->chunks = calloc(n, sizeof(*sum->chunks));
    sum->lists = calloc(n_members, sizeof(*sum->lists));
    sum->heard = calloc(n_members, sizeof(MPI_Request));
    sum->told = calloc(n_members, sizeof(MPI_Request));
    sum->given = calloc((size_t)n_pieces, sizeof(*sum->given));
    sum->active = calloc(n, sizeof(*sum->active));
    if (!sum->first || !sum->chunks || !sum->lists || !sum->heard ||
        !sum->told || !sum->given || !sum->active)
        return VP_ERR_NOMEM;
    clear_requests(sum->heard, group->n_members);
    clear_requests(sum->told, group->n_members);
    cut_chunks(group, ends, n_pieces, sum->chunk_floats, sum->chunks,
               sum->first);
    hear_lists(group);
    return VP_OK;
}

enum vp_status vp_mpi_cut(struct vp_group *base, const int64_t *ends,
                          int n_pieces)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    enum vp_status st;

    VP_BUG_ON(group->sum || n_pieces < 1);
    vp_mpi_lock(world_of(group));
    st = make_sum(group, ends, n_pieces);
    vp_mpi_unlock(world_of(group));
    return st;
}

enum vp_status vp_mpi_set_length(struct vp_group *base, int member, int64_t n)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);

    (void)member;
    if (!group->sum)
        return vp_mpi_cut(base, &n, 1);
    VP_BUG_ON(group->sum->n != n);
    return VP_OK;
}

/* ---- Terms -------------------------------------------------------------- */

void vp_mpi_set_terms(struct vp_group *base, int member,
                      const struct vp_term *terms, int n_terms)
{
    struct vp_mpi_sum *sum = vp_mpi_group_of(base)->sum;

    (void)member;
    VP_BUG_ON(!sum || sum->n_given > 0 || n_terms < 1 ||
              n_terms > VP_MAX_TERMS);
    sum->terms = terms;
    sum->n_terms = n_terms;
    if (n_terms <= sum->n_transfers)
        return;
    free(sum->transfers);
    sum->transfers = calloc((size_t)sum->n_chunks + 1,
                            (size_t)n_terms * sizeof(MPI_Request));
    VP_BUG_ON(!sum->transfers);
    sum->n_transfers = n_terms;
    clear_requests(sum->transfers, sum->n_chunks * n_terms);
}

static void tell_list(struct vp_mpi_group *group)
{
    struct vp_mpi_sum *sum = group->sum;
    struct list *mine = &sum->lists[group->me];
    int n_bytes;

    mine->n = 0;
    for (int i = 0; i < sum->n_terms; i++)
        if (!sum->terms[i].receives)
            mine->order[mine->n++] = sum->terms[i].order;
    n_bytes = (1 + mine->n) * (int)sizeof(int);
    for (int k = 0; k < group->n_members; k++)
        if (k != group->me)
            vp_mpi_check(world_of(group),
                         MPI_Isend(mine, n_bytes, MPI_BYTE, k, TAG_LIST,
                                   group->comm, &sum->told[k]),
                         "sending");
}

/* Allocates rooms for the terms of all other members; kept for later sums.
 * Returns false if memory is short. */
static bool make_rooms(struct vp_mpi_sum *sum, int n_members)
{
    size_t n = (size_t)(sum->n_others + n_members);

    if (sum->n_others <= sum->n_room_terms && sum->rooms[0].requests)
        return true;
    drop_rooms(sum);
    for (int i = 0; i < N_ROOMS; i++) {
        struct room *room = &sum->rooms[i];

        room->data = malloc((size_t)(sum->n_others * sum->chunk_floats + 1) *
                            sizeof(float));
        room->requests = calloc(n, sizeof(MPI_Request));
        if (!room->data || !room->requests)
            return false;
        clear_requests(room->requests, (int)n);
    }
    sum->n_room_terms = sum->n_others;
    return true;
}

/* Returns true once the lists of all members have arrived. */
static bool know_lists(struct vp_mpi_group *group)
{
    struct vp_mpi_sum *sum = group->sum;
    int n = 0;

    if (sum->n_others >= 0)
        return true;
    if (!vp_mpi_done(world_of(group), group->n_members, sum->heard))
        return false;
    for (int k = 0; k < group->n_members; k++)
        n += k == group->me ? 0 : sum->lists[k].n;
    VP_BUG_ON(n + sum->lists[group->me].n > VP_MAX_TERMS);
    sum->n_others = n;
    VP_BUG_ON(!make_rooms(sum, group->n_members));
    return true;
}

/* ---- Transfers ---------------------------------------------------------- */

static int tag_of(const struct vp_mpi_sum *sum, const struct chunk *chunk)
{
    return TAG_CHUNK + (int)(chunk - sum->chunks);
}

static int size_of(const struct chunk *chunk)
{
    return (int)(chunk->end - chunk->begin);
}

static MPI_Request *transfers_of(const struct vp_mpi_sum *sum,
                                 const struct chunk *chunk)
{
    return &sum->transfers[(chunk - sum->chunks) * sum->n_transfers];
}

static void give(struct vp_mpi_group *group, struct chunk *chunk)
{
    const struct vp_mpi_sum *sum = group->sum;
    MPI_Request *request = transfers_of(sum, chunk);

    chunk->state = CHUNK_GIVING;
    for (int i = 0; i < sum->n_terms; i++)
        if (!sum->terms[i].receives)
            vp_mpi_check(world_of(group),
                         MPI_Isend(sum->terms[i].data + chunk->begin,
                                   size_of(chunk), MPI_FLOAT, chunk->owner,
                                   tag_of(sum, chunk), group->comm, request++),
                         "sending");
}

/* Receives the sum into the first term, whose elements have been sent. */
static void get(struct vp_mpi_group *group, struct chunk *chunk)
{
    const struct vp_mpi_sum *sum = group->sum;

    chunk->state = CHUNK_GETTING;
    vp_mpi_check(world_of(group),
                 MPI_Irecv(sum->terms[0].data + chunk->begin, size_of(chunk),
                           MPI_FLOAT, chunk->owner, tag_of(sum, chunk),
                           group->comm, transfers_of(sum, chunk)),
                 "receiving");
}

static void spread(const struct vp_mpi_sum *sum, const struct chunk *chunk,
                   const float *from)
{
    for (int i = 0; i < sum->n_terms; i++)
        if (sum->terms[i].data + chunk->begin != from)
            memcpy(sum->terms[i].data + chunk->begin, from,
                   (size_t)size_of(chunk) * sizeof(float));
}

static void gather(struct vp_mpi_group *group, struct chunk *chunk)
{
    struct vp_mpi_sum *sum = group->sum;
    struct room *room = NULL;
    int n = 0;

    for (int i = 0; i < N_ROOMS && !room; i++)
        if (!sum->rooms[i].taken) {
            room = &sum->rooms[i];
            chunk->room = i;
        }
    if (!room)
        return;
    room->taken = true;
    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; k != group->me && i < sum->lists[k].n; i++, n++)
            vp_mpi_check(world_of(group),
                         MPI_Irecv(room->data + n * sum->chunk_floats,
                                   size_of(chunk), MPI_FLOAT, k,
                                   tag_of(sum, chunk), group->comm,
                                   &room->requests[n]),
                         "receiving");
    room->n_requests = n;
    chunk->state = CHUNK_GATHERING;
}

static void answer(struct vp_mpi_group *group, struct chunk *chunk)
{
    struct vp_mpi_sum *sum = group->sum;
    struct room *room = &sum->rooms[chunk->room];
    int n = 0;

    for (int k = 0; k < group->n_members && !chunk->kept; k++)
        if (k != group->me)
            vp_mpi_check(world_of(group),
                         MPI_Isend(sum->terms[0].data + chunk->begin,
                                   size_of(chunk), MPI_FLOAT, k,
                                   tag_of(sum, chunk), group->comm,
                                   &room->requests[n++]),
                         "sending");
    room->n_requests = n;
    chunk->state = CHUNK_ANSWERING;
}

/* ---- Progress ----------------------------------------------------------- */

/* Moves a chunk to its next state if its transfers are complete; does not
 * add. */
static void advance(struct vp_mpi_group *group, struct chunk *chunk)
{
    struct vp_mpi_world *world = world_of(group);
    struct vp_mpi_sum *sum = group->sum;
    struct room *room = &sum->rooms[chunk->room];

    switch (chunk->state) {
    case CHUNK_GIVING:
        if (!vp_mpi_done(world, sum->n_transfers, transfers_of(sum, chunk)))
            break;
        if (chunk->kept)
            chunk->state = CHUNK_IDLE;
        else
            get(group, chunk);
        break;
    case CHUNK_GETTING:
        if (vp_mpi_done(world, 1, transfers_of(sum, chunk))) {
            spread(sum, chunk, sum->terms[0].data + chunk->begin);
            chunk->state = CHUNK_IDLE;
        }
        break;
    case CHUNK_OFFERED:
        if (know_lists(group))
            gather(group, chunk);
        break;
    case CHUNK_GATHERING:
        if (vp_mpi_done(world, room->n_requests, room->requests))
            chunk->state = CHUNK_READY;
        break;
    case CHUNK_ANSWERING:
        if (vp_mpi_done(world, room->n_requests, room->requests)) {
            room->taken = false;
            chunk->state = CHUNK_IDLE;
        }
        break;
    default:
        break;
    }
}

/* Advances all active chunks. Returns the first one that can be added, or
 * NULL. */
static struct chunk *advance_all(struct vp_mpi_group *group)
{
    struct vp_mpi_sum *sum = group->sum;
    struct chunk *ready = NULL;
    int n = 0;

    for (int i = 0; i < sum->n_active; i++) {
        struct chunk *chunk = &sum->chunks[sum->active[i]];

        advance(group, chunk);
        if (chunk->state == CHUNK_READY && !ready)
            ready = chunk;
        if (chunk->state != CHUNK_IDLE)
            sum->active[n++] = sum->active[i];
    }
    sum->n_active = n;
    return ready;
}

static void add_chunk(struct vp_mpi_group *group, struct chunk *chunk)
{
    const struct vp_mpi_sum *sum = group->sum;
    const struct room *room = &sum->rooms[chunk->room];
    struct vp_term terms[VP_MAX_TERMS];
    int n = 0, n_theirs = 0;

    for (int i = 0; i < sum->n_terms; i++)
        if (!sum->terms[i].receives)
            terms[n++] = (struct vp_term){ sum->terms[i].data + chunk->begin,
                                           sum->terms[i].order, false };
    for (int k = 0; k < group->n_members; k++)
        for (int i = 0; k != group->me && i < sum->lists[k].n; i++)
            terms[n++] = (struct vp_term){ room->data +
                                               n_theirs++ * sum->chunk_floats,
                                           sum->lists[k].order[i], false };
    VP_BUG_ON(n == 0);
    vp_terms_sort(terms, n);
    for (int k = 1; k < n; k++)
        for (int64_t i = 0; i < size_of(chunk); i++)
            terms[0].data[i] += terms[k].data[i];
    spread(sum, chunk, terms[0].data);
}

bool vp_mpi_progress(struct vp_group *base, int member)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_world *world = world_of(group);
    struct chunk *ready;

    (void)member;
    vp_mpi_lock(world);
    ready = advance_all(group);
    vp_mpi_unlock(world);
    if (!ready)
        return false;
    add_chunk(group, ready);
    vp_mpi_lock(world);
    answer(group, ready);
    vp_mpi_unlock(world);
    return true;
}

void vp_mpi_offer(struct vp_group *base, int member, int piece)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_sum *sum = group->sum;

    (void)member;
    VP_BUG_ON(sum->given[piece]);
    vp_mpi_lock(world_of(group));
    if (sum->n_given == 0)
        tell_list(group);
    sum->given[piece] = true;
    sum->n_given++;
    for (int i = sum->first[piece]; i < sum->first[piece + 1]; i++) {
        struct chunk *chunk = &sum->chunks[i];

        sum->active[sum->n_active++] = i;
        if (chunk->owner == group->me)
            chunk->state = CHUNK_OFFERED;
        else
            give(group, chunk);
    }
    vp_mpi_unlock(world_of(group));
}

void vp_mpi_offer_rest(struct vp_group *base, int member)
{
    const struct vp_mpi_sum *sum = vp_mpi_group_of(base)->sum;

    for (int i = 0; i < sum->n_pieces; i++)
        if (!sum->given[i])
            vp_mpi_offer(base, member, i);
}

/* A wait for a chunk that can be added, or for the end of the sum. */
struct sum_wait {
    struct vp_mpi_group *group;
    bool done; /* the sum is */
};

static bool can_go_on(void *ctx)
{
    struct sum_wait *wait = ctx;
    struct vp_mpi_group *group = wait->group;
    struct vp_mpi_sum *sum = group->sum;

    if (advance_all(group))
        return true;
    wait->done = sum->n_active == 0 && know_lists(group) &&
                 vp_mpi_done(world_of(group), group->n_members, sum->told);
    return wait->done;
}

enum vp_status vp_mpi_await(struct vp_group *base, int member,
                            struct vp_limit limit, bool *done_out)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_sum *sum = group->sum;
    struct sum_wait wait = { .group = group };

    (void)member;
    VP_BUG_ON(sum->n_given < sum->n_pieces);
    VP_TRY(vp_mpi_wait(world_of(group), can_go_on, &wait, limit));
    *done_out = wait.done;
    if (!wait.done)
        return VP_OK;
    memset(sum->given, 0, (size_t)sum->n_pieces * sizeof(*sum->given));
    sum->n_given = 0;
    vp_mpi_lock(world_of(group));
    hear_lists(group);
    vp_mpi_unlock(world_of(group));
    return VP_OK;
}
