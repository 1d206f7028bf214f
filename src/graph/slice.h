/* How parameters are cut among the members of a tensor-parallel group.
 *
 * Files hold whole tensors; a member has a slice of each section of a part:
 *
 *   ROWS, three sections, two members        COLS, one section, two members
 *     | q: member 0 | q: member 1 |            | member 0 | member 1 |
 *     | k: member 0 | k: member 1 |            | member 0 | member 1 |
 *     | v: member 0 | v: member 1 |            ...
 *
 * If the whole does not divide evenly, the last slices end in zeros. */
#ifndef VP_GRAPH_SLICE_H
#define VP_GRAPH_SLICE_H

#include "graph/graph.h"

/* Returns the row or column of the whole at which the slice of `member` begins,
 * in a parameter of one section. */
int64_t vp_slice_first(const struct vp_param *param, int member);

/* Copy the slice of `member`, of `n_members`, out of a whole part, or back into
 * it. The slice of a parameter that is not cut is all of it. */
void vp_slice_take(const struct vp_param *param, int part, int member,
                   int n_members, const float *whole, float *slice);
void vp_slice_put(const struct vp_param *param, int part, int member,
                  int n_members, const float *slice, float *whole);

#endif
