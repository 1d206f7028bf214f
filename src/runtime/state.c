/* Joins blocks, each with its own history, to the stages of a plan. */
#include "runtime/state.h"

/* Returns false if a version that the stage needs is missing. */
static bool join_stage(const struct vp_block_state *blocks, int n, int lag,
                       int stage, struct vp_progress *progress)
{
    bool exact = true;

    progress->updates[stage] = blocks[0].updates;
    progress->scale[stage] = blocks[0].scale;
    progress->past[stage] = lag;
    for (int b = 0; b < n; b++) {
        if (blocks[b].scale.in_a_row < progress->scale[stage].in_a_row)
            progress->scale[stage].in_a_row = blocks[b].scale.in_a_row;
        exact &= blocks[b].past >= lag || !blocks[b].full;
        if (blocks[b].past < progress->past[stage])
            progress->past[stage] = blocks[b].past;
    }
    return exact;
}

bool vp_progress_join(const struct vp_block_state *blocks, const int *n_blocks,
                      const int *lags, int n_stages,
                      struct vp_progress *progress)
{
    bool exact = true;
    int first = 0;

    for (int s = 0; s < n_stages; s++) {
        exact &= join_stage(blocks + first, n_blocks[s], lags[s], s, progress);
        first += n_blocks[s];
    }
    for (int s = 0; !exact && s < n_stages; s++)
        progress->past[s] = 0;
    return exact;
}
