/* DualPipe-V (DeepSeek-AI, DualPipe, 2025; the halved form of DualPipe): P
 * ranks, 2P stages placed 0 .. P-1, P-1 .. 0. DualPipe runs a forward and a
 * backward of different minibatches at the same time, so that each hides the
 * other's messages. Here a rank runs them one after the other: forward, then
 * backward. The list of rank p, with capitals for its first stage p and small
 * letters for its second, 2P - 1 - p; * is the oldest deferred W:
 *
 *   F x 2(P - 1 - p)
 *   (F f) x (p + 1)
 *   (b * f) x (P - 1 - p)
 *   (F bw  f BW) x (M - 2P + p + 1)    the pairs
 *   (bw  f BW) x (P - 1 - p)
 *   (bw BW) x (p + 1)                  the second half without w and W
 *   (* B) x (P - 1 - p)
 *   * x (p + 1)
 *
 * The rule needs M >= 2P minibatches, and a rank keeps 2P + 1. */
#include "sched/internal.h"

/* Writes (b B) x n with their weight gradients in the first half only, which
 * ends between b and B if n is odd. */
static void write_end(struct vp_v_writer *w, int n)
{
    for (int i = 0; i < n; i++) {
        vp_v_write(w, i < n / 2 || (i == n / 2 && n % 2 == 1) ? "bw" : "b", 1);
        vp_v_write(w, i < n / 2 ? "BW" : "B", 1);
    }
}

void vp_generate_dualpipe_v(const struct vp_schedule *schedule,
                            struct vp_sched_list *lists)
{
    int n_ranks = schedule->n_ranks, n_mb = schedule->n_mb;

    for (int rank = 0; rank < n_ranks; rank++) {
        struct vp_v_writer w = vp_v_writer_of(schedule, rank, lists);
        int behind = n_ranks - 1 - rank;

        vp_v_write(&w, "F", 2 * behind);
        vp_v_write(&w, "Ff", rank + 1);
        for (int i = 0; i < behind; i++) {
            vp_v_write(&w, "b", 1);
            vp_v_write_oldest_w(&w);
            vp_v_write(&w, "f", 1);
        }
        vp_v_write(&w, "FbwfBW", n_mb - 2 * n_ranks + rank + 1);
        vp_v_write(&w, "bwfBW", behind);
        write_end(&w, rank + 1);
        for (int i = 0; i < behind; i++) {
            vp_v_write_oldest_w(&w);
            vp_v_write(&w, "B", 1);
        }
        for (int i = 0; i < rank + 1; i++)
            vp_v_write_oldest_w(&w);
    }
}
