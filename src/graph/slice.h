/* How parameters are cut among the members of a tensor-parallel group.
 *
 * Files hold whole tensors; a member has a slice of each section of a part:
 *
 *   ROWS, three sections, two members        COLS, one section, two members
 *     | q: member 0 | q: member 1 |            | member 0 | member 1 |
 *     | k: member 0 | k: member 1 |            | member 0 | member 1 |
 *     | v: member 0 | v: member 1 |            ...
 *
 * Of a whole that does not divide, the last slices are filled up with zeros. */
#ifndef VP_GRAPH_SLICE_H
#define VP_GRAPH_SLICE_H

#include "graph/graph.h"

/* Rows or columns of the whole that come before those of `member`, in a parameter
 * of one section. */
int64_t vp_slice_first(const struct vp_param *param, int member);

/* Copies the slice of member number `member` of `n_members` out of a whole part, or
 * back into it. Without an axis: all of it. */
void vp_slice_take(const struct vp_param *param, int part, int member,
                   int n_members, const float *whole, float *slice);
void vp_slice_put(const struct vp_param *param, int part, int member,
                  int n_members, const float *slice, float *whole);

#endif
