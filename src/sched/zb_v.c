/* ZB-V (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 6): P
 * ranks, 2P stages placed 0 .. P-1, P-1 .. 0, backward split in B and W.
 * The list of rank p, with capitals for its first stage p and small letters for
 * its second, 2P - 1 - p:
 *
 *   F x (2(P - p) - 1)      until the second stage's first input arrives
 *   (f F) x p
 *   (f b w) x (P - p)       the first gradients come back
 *   (B W F f b w) ...       while there are forwards, a minibatch each way
 *   (B b) x p               W is deferred, so that gradients arrive in time
 *   (B W) x (P - p)
 *   w ..., W ...            the deferred ones
 *
 * A rank owns 2P slots, the memory of rank 0 in 1f1b: its first stage 2P - 1 -
 * p, its second p + 1. The rule needs M >= 2P - 1 minibatches. */
#include "sched/internal.h"

void vp_generate_zb_v(const struct vp_schedule *schedule,
                      struct vp_sched_list *lists)
{
    int n_ranks = schedule->n_ranks, n_mb = schedule->n_mb;

    for (int rank = 0; rank < n_ranks; rank++) {
        struct vp_v_writer w = vp_v_writer_of(schedule, rank, lists);
        int behind = n_ranks - rank;

        vp_v_write(&w, "F", 2 * behind - 1);
        vp_v_write(&w, "fF", rank);
        vp_v_write(&w, "fbw", behind);
        vp_v_write(&w, "BWFfbw", n_mb - n_ranks);
        vp_v_write(&w, "Bb", rank);
        vp_v_write(&w, "BW", behind);
        vp_v_write(&w, "w", n_mb);
        vp_v_write(&w, "W", n_mb);
    }
}
