/* Groups: a communicator of the members, and exchanges in it. */
#include "comm/mpi/gather.h"

#include <stdlib.h>
#include <string.h>

struct exchange_wait {
    struct vp_mpi_world *world;
    MPI_Request request;
};

static bool is_complete(void *ctx)
{
    struct exchange_wait *wait = ctx;

    return vp_mpi_done(wait->world, 1, &wait->request);
}

static enum vp_status exchange(struct vp_group *base, int member,
                               const void *mine, size_t n_bytes, void *all,
                               struct vp_limit limit)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_world *world = vp_mpi_world_of(base->world);
    struct exchange_wait wait = { world, MPI_REQUEST_NULL };

    VP_BUG_ON(member != group->me || n_bytes > group->n_bytes);
    vp_mpi_lock(world);
    vp_mpi_check(world,
                 MPI_Iallgather(mine, (int)n_bytes, MPI_BYTE, all, (int)n_bytes,
                                MPI_BYTE, group->comm, &wait.request),
                 "an exchange");
    vp_mpi_unlock(world);
    return vp_mpi_wait(world, is_complete, &wait, limit);
}

/* Not used: the caller copies arrays of a device to the host before a sum. */
static void set_adder(struct vp_group *group, int member, vp_adder_fn add,
                      void *ctx)
{
    (void)group;
    (void)member;
    (void)add;
    (void)ctx;
    vp_bug(__FILE__, __LINE__, "sums of other memory than the host's");
}

static void group_free(struct vp_group *base)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_world *world = vp_mpi_world_of(base->world);

    vp_mpi_lock(world);
    vp_mpi_sum_free(group);
    vp_mpi_fast_free(group);
    vp_mpi_gather_free(group);
    free(group->parts);
    if (group->comm != MPI_COMM_NULL)
        MPI_Comm_free(&group->comm);
    vp_mpi_unlock(world);
    free(group);
}

static enum vp_status set_parts(struct vp_group *base,
                                const struct vp_sum_part *parts, int n_parts)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    size_t n_bytes = (size_t)n_parts * sizeof(*parts);

    VP_BUG_ON(group->parts || group->sum);
    group->parts = malloc(n_bytes);
    if (!group->parts)
        return VP_ERR_NOMEM;
    memcpy(group->parts, parts, n_bytes);
    group->n_parts = n_parts;
    return VP_OK;
}

static void set_fast(struct vp_group *base);

static const struct vp_group_ops group_ops = {
    .free = group_free,
    .exchange = exchange,
    .set_adder = set_adder,
    .set_fast = set_fast,
    .set_parts = set_parts,
    .gather = vp_mpi_gather,
    .end_gather = vp_mpi_end_gather,
    .cut = vp_mpi_cut,
    .set_length = vp_mpi_set_length,
    .set_terms = vp_mpi_set_terms,
    .offer = vp_mpi_offer,
    .offer_rest = vp_mpi_offer_rest,
    .progress = vp_mpi_progress,
    .await = vp_mpi_await,
};

static const struct vp_group_ops fast_ops = {
    .free = group_free,
    .exchange = exchange,
    .set_adder = set_adder,
    .set_fast = set_fast,
    .set_parts = set_parts,
    .gather = vp_mpi_gather,
    .end_gather = vp_mpi_end_gather,
    .cut = vp_mpi_fast_cut,
    .set_length = vp_mpi_fast_set_length,
    .set_terms = vp_mpi_fast_set_terms,
    .offer = vp_mpi_fast_offer,
    .offer_rest = vp_mpi_fast_offer_rest,
    .progress = vp_mpi_fast_progress,
    .await = vp_mpi_fast_await,
};

static void set_fast(struct vp_group *base)
{
    VP_BUG_ON(vp_mpi_group_of(base)->sum);
    base->ops = &fast_ops;
}

static enum vp_status make_comm(struct vp_mpi_group *group, const int *ranks,
                                int tag)
{
    struct vp_mpi_world *world = vp_mpi_world_of(group->base.world);
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    int rc;

    vp_mpi_lock(world);
    rc = MPI_Comm_group(world->comm, &all);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(all, group->n_members, ranks, &members);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(world->comm, members, tag, &group->comm);
    if (rc == MPI_SUCCESS)
        MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    vp_mpi_unlock(world);
    return rc == MPI_SUCCESS ? VP_OK : VP_ERR_IO;
}

static int find_me(const struct vp_mpi_world *world, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == world->rank)
            return i;
    return -1;
}

enum vp_status vp_mpi_group_create(struct vp_world *base, const int *ranks,
                                   int n_members, size_t n_bytes,
                                   struct vp_group **out)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);
    int me = find_me(world, ranks, n_members), tag = world->next_tag++;
    struct vp_mpi_group *group;

    if (me < 0)
        return VP_OK;
    group = calloc(1, sizeof(*group));
    if (!group)
        return VP_ERR_NOMEM;
    group->base.ops = &group_ops;
    group->base.world = base;
    group->comm = MPI_COMM_NULL;
    group->n_members = n_members;
    group->me = me;
    group->n_bytes = n_bytes;
    if (make_comm(group, ranks, tag) != VP_OK) {
        group_free(&group->base);
        return VP_ERR_IO;
    }
    *out = &group->base;
    return VP_OK;
}
