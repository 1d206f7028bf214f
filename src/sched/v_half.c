/* V-Half and V-Min (Qi et al., Pipeline Parallelism with Controllable Memory,
 * NeurIPS 2024): two building blocks. In V-Min every pass of a minibatch goes
 * from rank to rank without a pause; in V-Half those away from rank 0 take two
 * slots per rank. The shift for some P keeps the actions of different
 * minibatches out of each other's slots. */
#include "sched/internal.h"

#include <stdlib.h>

int vp_v_half_keeps(int n_ranks)
{
    return n_ranks + 2 - n_ranks % 2;
}

int vp_v_min_keeps(int n_ranks)
{
    return 2 * ((n_ranks + 4) / 3);
}

/* An action's slot on rank 0, and the slots from rank to rank. */
struct line {
    int first, step;
};

static void write_lines(const struct line lines[VP_V_BLOCK],
                        const struct vp_schedule *schedule,
                        struct vp_sched_list *lists)
{
    size_t n_ranks = (size_t)schedule->n_ranks;
    int(*block)[VP_V_BLOCK] = calloc(n_ranks, sizeof(*block));

    lists[0].failed = !block;
    if (!block)
        return;
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        for (int k = 0; k < VP_V_BLOCK; k++)
            block[rank][k] = lines[k].first + lines[k].step * rank;
    vp_v_block_write((const int(*)[VP_V_BLOCK])block, schedule, lists);
    free(block);
}

void vp_generate_v_half(const struct vp_schedule *schedule,
                        struct vp_sched_list *lists)
{
    int p = schedule->n_ranks, shift = p % 2 == 0 ? 3 : 0;
    const struct line lines[] = { { 0, 2 },
                                  { 3 * p - 2, -1 },
                                  { 3 * p - 1 + shift, 2 },
                                  { 6 * p - 2 + shift, -1 } };

    write_lines(lines, schedule, lists);
}

void vp_generate_v_min(const struct vp_schedule *schedule,
                       struct vp_sched_list *lists)
{
    int p = schedule->n_ranks, shift = p % 3 == 0 ? 2 : 0;
    const struct line lines[] = { { 0, 1 },
                                  { 2 * p - 1, -1 },
                                  { 2 * p + shift, 1 },
                                  { 4 * p - 1 + shift, -1 } };

    write_lines(lines, schedule, lists);
}
