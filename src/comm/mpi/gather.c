/* Gathers: every member sends its bytes to all others, or to one of them. */
#include "comm/mpi/gather.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 }; /* per message: an MPI count is an int */

struct vp_mpi_gather {
    MPI_Request *requests;
    int n_requests, n_room;
};

static struct vp_mpi_world *world_of(const struct vp_mpi_group *group)
{
    return vp_mpi_world_of(group->base.world);
}

void vp_mpi_gather_free(struct vp_mpi_group *group)
{
    if (!group->gather)
        return;
    free(group->gather->requests);
    free(group->gather);
    group->gather = NULL;
}

static int64_t begin_of(const struct vp_gather *gather, int member)
{
    return member > 0 ? gather->ends[member - 1] : 0;
}

static int count_messages(const struct vp_gather *gather, int member)
{
    int64_t n = gather->ends[member] - begin_of(gather, member);

    return (int)((n + MOST_BYTES - 1) / MOST_BYTES);
}

/* Allocates requests for the messages to and from all members; kept for the
 * next gather. Returns false if memory is short. */
static bool make_room(struct vp_mpi_group *group,
                      const struct vp_gather *gather)
{
    struct vp_mpi_gather *state = group->gather;
    int n = 0;

    if (!state)
        state = group->gather = calloc(1, sizeof(*state));
    if (!state)
        return false;
    for (int i = 0; i < group->n_members; i++)
        n += count_messages(gather, i) + count_messages(gather, group->me);
    if (n <= state->n_room)
        return true;
    free(state->requests);
    state->requests = calloc((size_t)n, sizeof(*state->requests));
    state->n_room = state->requests ? n : 0;
    return state->requests != NULL;
}

/* Sends this member's bytes to `peer`, or receives those of member `of` from
 * it. Locked. */
static void post(struct vp_mpi_group *group, const struct vp_gather *gather,
                 int of, int peer)
{
    struct vp_mpi_gather *state = group->gather;
    int64_t begin = begin_of(gather, of), n = gather->ends[of] - begin;

    for (int64_t at = 0; at < n; at += MOST_BYTES) {
        int n_bytes = (int)(n - at < MOST_BYTES ? n - at : MOST_BYTES);
        MPI_Request *request = &state->requests[state->n_requests++];

        if (of == group->me)
            vp_mpi_check(world_of(group),
                         MPI_Isend((const char *)gather->mine + at, n_bytes,
                                   MPI_BYTE, peer, VP_MPI_TAG_GATHER,
                                   group->comm, request),
                         "sending");
        else
            vp_mpi_check(world_of(group),
                         MPI_Irecv((char *)gather->all + begin + at, n_bytes,
                                   MPI_BYTE, peer, VP_MPI_TAG_GATHER,
                                   group->comm, request),
                         "receiving");
    }
}

static void put_own(const struct vp_mpi_group *group,
                    const struct vp_gather *gather)
{
    int64_t begin = begin_of(gather, group->me);
    char *to = (char *)gather->all + begin;

    if (to != gather->mine && gather->ends[group->me] > begin)
        memcpy(to, gather->mine, (size_t)(gather->ends[group->me] - begin));
}

void vp_mpi_gather(struct vp_group *base, int member,
                   const struct vp_gather *gather)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    bool receives = gather->receiver < 0 || gather->receiver == group->me;

    VP_BUG_ON(member != group->me ||
              (group->gather && group->gather->n_requests > 0));
    VP_BUG_ON(!make_room(group, gather));
    if (receives)
        put_own(group, gather);
    vp_mpi_lock(world_of(group));
    for (int i = 0; i < group->n_members; i++) {
        if (i == group->me)
            continue;
        if (receives)
            post(group, gather, i, i);
        if (gather->receiver < 0 || gather->receiver == i)
            post(group, gather, group->me, i);
    }
    vp_mpi_unlock(world_of(group));
}

static bool is_complete(void *ctx)
{
    struct vp_mpi_group *group = ctx;

    return vp_mpi_done(world_of(group), group->gather->n_requests,
                       group->gather->requests);
}

enum vp_status vp_mpi_end_gather(struct vp_group *base, int member,
                                 struct vp_limit limit)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);

    (void)member;
    VP_TRY(vp_mpi_wait(world_of(group), is_complete, group, limit));
    group->gather->n_requests = 0;
    return VP_OK;
}
