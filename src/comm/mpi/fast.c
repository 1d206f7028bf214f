/* Fast sums by MPI's all-reduce, which decides the order of additions and so
 * the bits. All members must start collectives in the same order: pieces go
 * from the last to the first, the order in which gradients become final. */
#include "comm/mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

struct vp_mpi_fast {
    int n_pieces;
    int64_t *ends;
    struct vp_term term;
    bool *given;
    int n_given;
    int next; /* piece to start next */
    MPI_Request *requests;
};

static struct vp_mpi_world *world_of(const struct vp_mpi_group *group)
{
    return vp_mpi_world_of(group->base.world);
}

void vp_mpi_fast_free(struct vp_mpi_group *group)
{
    struct vp_mpi_fast *fast = group->fast;

    if (!fast)
        return;
    free(fast->ends);
    free(fast->given);
    free(fast->requests);
    free(fast);
    group->fast = NULL;
}

enum vp_status vp_mpi_fast_cut(struct vp_group *base, const int64_t *ends,
                               int n_pieces)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_fast *fast = calloc(1, sizeof(*fast));
    size_t n = (size_t)n_pieces;

    VP_BUG_ON(group->sum || group->fast || n_pieces < 1);
    group->fast = fast;
    if (!fast)
        return VP_ERR_NOMEM;
    fast->n_pieces = n_pieces;
    fast->next = n_pieces - 1;
    fast->ends = malloc(n * sizeof(*ends));
    fast->given = calloc(n, sizeof(*fast->given));
    fast->requests = malloc(n * sizeof(MPI_Request));
    if (!fast->ends || !fast->given || !fast->requests)
        return VP_ERR_NOMEM;
    memcpy(fast->ends, ends, n * sizeof(*ends));
    for (int i = 0; i < n_pieces; i++)
        fast->requests[i] = MPI_REQUEST_NULL;
    return VP_OK;
}

enum vp_status vp_mpi_fast_set_length(struct vp_group *base, int member,
                                      int64_t n)
{
    const struct vp_mpi_fast *fast = vp_mpi_group_of(base)->fast;

    (void)member;
    if (!fast)
        return vp_mpi_fast_cut(base, &n, 1);
    VP_BUG_ON(fast->ends[fast->n_pieces - 1] != n);
    return VP_OK;
}

void vp_mpi_fast_set_terms(struct vp_group *base, int member,
                           const struct vp_term *terms, int n_terms)
{
    struct vp_mpi_fast *fast = vp_mpi_group_of(base)->fast;

    (void)member;
    VP_BUG_ON(!fast || fast->n_given > 0 || n_terms != 1);
    fast->term = terms[0];
}

/* Starts the all-reduce of all offered pieces that are next in order. A member
 * with nothing to add adds zeros. Locked. */
static void start(struct vp_mpi_group *group)
{
    struct vp_mpi_fast *fast = group->fast;

    for (; fast->next >= 0 && fast->given[fast->next]; fast->next--) {
        int64_t begin = fast->next > 0 ? fast->ends[fast->next - 1] : 0;
        int64_t n = fast->ends[fast->next] - begin;
        float *data = fast->term.data + begin;

        if (fast->term.receives)
            memset(data, 0, (size_t)n * sizeof(float));
        vp_mpi_check(world_of(group),
                     MPI_Iallreduce(MPI_IN_PLACE, data, (int)n, MPI_FLOAT,
                                    MPI_SUM, group->comm,
                                    &fast->requests[fast->next]),
                     "a sum");
    }
}

void vp_mpi_fast_offer(struct vp_group *base, int member, int piece)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_fast *fast = group->fast;

    (void)member;
    VP_BUG_ON(fast->given[piece]);
    fast->given[piece] = true;
    fast->n_given++;
    vp_mpi_lock(world_of(group));
    start(group);
    vp_mpi_unlock(world_of(group));
}

void vp_mpi_fast_offer_rest(struct vp_group *base, int member)
{
    const struct vp_mpi_fast *fast = vp_mpi_group_of(base)->fast;

    for (int i = fast->n_pieces - 1; i >= 0; i--)
        if (!fast->given[i])
            vp_mpi_fast_offer(base, member, i);
}

/* MPI adds; this only polls. */
bool vp_mpi_fast_progress(struct vp_group *base, int member)
{
    (void)member;
    vp_world_poll(base->world);
    return false;
}

static bool all_added(void *ctx)
{
    struct vp_mpi_group *group = ctx;

    return vp_mpi_done(world_of(group), group->fast->n_pieces,
                       group->fast->requests);
}

enum vp_status vp_mpi_fast_await(struct vp_group *base, int member,
                                 struct vp_limit limit, bool *done_out)
{
    struct vp_mpi_group *group = vp_mpi_group_of(base);
    struct vp_mpi_fast *fast = group->fast;

    (void)member;
    VP_BUG_ON(fast->n_given < fast->n_pieces);
    VP_TRY(vp_mpi_wait(world_of(group), all_added, group, limit));
    memset(fast->given, 0, (size_t)fast->n_pieces * sizeof(*fast->given));
    fast->n_given = 0;
    fast->next = fast->n_pieces - 1;
    *done_out = true;
    return VP_OK;
}
