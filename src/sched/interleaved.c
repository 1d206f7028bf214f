/* Interleaved 1f1b (Narayanan et al., SC'21): rank p owns stages p, P + p, ...
 * so that the pipeline fills v times faster.
 *
 * A rank works in groups of minibatches: chunk 0 of the whole group, then chunk
 * 1, ...; backwards the same from the last chunk. A group of at least P
 * minibatches never waits for itself at the change of chunk. So M minibatches
 * make M / P groups whose sizes differ by at most one, and any M works as well
 * as a multiple of P (fewer than P make one group).
 *
 *   rank 0 of 2, 2 chunks, 3 minibatches (stages 0 and 2)
 *     0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2
 */
#include "sched/internal.h"

#include <stdlib.h>

struct step {
    int chunk, mb;
};

/* Writes the order of one rank's forwards and backwards. Returns the size of
 * the largest group. */
static int order_steps(int n_ranks, int n_chunks, int n_mb, struct step *f,
                       struct step *b)
{
    int n_groups = n_mb > n_ranks ? n_mb / n_ranks : 1;
    int n = 0, first = 0;

    for (int g = 0; g < n_groups; g++) {
        int size = n_mb / n_groups + (g < n_mb % n_groups);

        for (int chunk = 0; chunk < n_chunks; chunk++)
            for (int i = 0; i < size; i++) {
                f[n] = (struct step){ chunk, first + i };
                b[n++] = (struct step){ n_chunks - 1 - chunk, first + i };
            }
        first += size;
    }
    return n_mb / n_groups + (n_mb % n_groups > 0);
}

/* Returns the number of forwards before the first backward: those that start
 * until the last chunk of the first minibatch has passed the later ranks and
 * its gradient has come back. */
static int warm_up(int n_ranks, int n_chunks, int rank, int group)
{
    int behind = n_ranks - 1 - rank;

    if (n_chunks == 1)
        return behind;
    return 2 * behind + (n_chunks - 1) * group;
}

void vp_generate_interleaved(const struct vp_schedule *schedule,
                             struct vp_sched_list *lists)
{
    int n_ranks = schedule->n_ranks;
    int n_chunks = schedule->n_stages / n_ranks;
    int64_t n = (int64_t)n_chunks * schedule->n_mb;
    struct step *f = calloc((size_t)n, sizeof(*f));
    struct step *b = calloc((size_t)n, sizeof(*b));
    int group = 0;

    lists[0].failed = !f || !b;
    if (!lists[0].failed)
        group = order_steps(n_ranks, n_chunks, schedule->n_mb, f, b);
    for (int rank = 0; group > 0 && rank < n_ranks; rank++) {
        int64_t n_f = warm_up(n_ranks, n_chunks, rank, group);
        struct vp_sched_list *list = &lists[rank];

        n_f = n_f < n ? n_f : n;
        for (int64_t i = 0; i < n_f; i++)
            vp_sched_list_put(list, VP_ACTION_F, f[i].chunk * n_ranks + rank,
                              f[i].mb);
        for (int64_t i = 0; i < n; i++, n_f++) {
            if (n_f < n)
                vp_sched_list_put(list, VP_ACTION_F,
                                  f[n_f].chunk * n_ranks + rank, f[n_f].mb);
            vp_sched_list_put(list, VP_ACTION_B, b[i].chunk * n_ranks + rank,
                              b[i].mb);
        }
    }
    free(f);
    free(b);
}
