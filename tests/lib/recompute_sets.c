#include "lib/recompute_sets.h"

void set_tail(const struct vp_graph *graph, double ratio,
              struct vp_stage_spec *spec, uint64_t sets[MAX_SETS])
{
    VP_BUG_ON(spec->n_blocks > MAX_SETS);
    VP_BUG_ON(vp_recompute_tail(graph, spec->first_block, spec->n_blocks, ratio,
                                sets, NULL) != VP_OK);
    spec->recompute = sets;
}

void random_sets(const struct vp_graph *graph, uint64_t (*next)(void),
                 uint64_t sets[MAX_SETS])
{
    VP_BUG_ON(graph->n_blocks > MAX_SETS);
    for (int b = 0; b < graph->n_blocks; b++) {
        int n_ops = graph->blocks[b].n_ops;
        uint64_t all = n_ops < 64 ? (UINT64_C(1) << n_ops) - 1 : UINT64_MAX;

        switch (next() % 8) {
        case 0:
            sets[b] = 0;
            break;
        case 1:
            sets[b] = all;
            break;
        case 2:
            sets[b] = UINT64_C(1) << next() % (unsigned)n_ops;
            break;
        case 3:
            sets[b] = all & ~(UINT64_C(1) << next() % (unsigned)n_ops);
            break;
        case 4:
            sets[b] = next() & next() & all;
            break;
        case 5:
            sets[b] = (next() | next()) & all;
            break;
        default:
            sets[b] = next() & all;
        }
    }
}
