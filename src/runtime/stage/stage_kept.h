/* Weight versions that a stage keeps longer than its schedule needs them, for
 * a move to another plan.
 *
 * An asynchronous stage owns a ring of weight versions, and every update
 * overwrites the oldest one. Blocks that move to an earlier stage, which uses
 * older versions, need some that are gone by then. Before a move, therefore,
 * the oldest version is copied each time before it is overwritten:
 *
 *   ring of 2   [ 7 8 ]   update 9 writes over 7   ->   [ 9 8 ], kept: 7
 *               [ 9 8 ]   update 10 writes over 8  ->   [ 9 10 ], kept: 7 8
 */
#ifndef VP_RUNTIME_STAGE_STAGE_KEPT_H
#define VP_RUNTIME_STAGE_STAGE_KEPT_H

#include "runtime/stage/stage.h"

#include <stdatomic.h>

struct vp_kept {
    struct vp_device *device;
    int64_t first, n; /* range of elements of the stage's weights */
    int64_t n_bytes;  /* size of this range */
    /* Length of the ring: the newest of the overwritten versions. */
    int n_versions;
    void **versions; /* version v is at v mod n_versions */
    /* Versions kept so far; written by the rank of the stage. */
    atomic_int n_kept;
};

/* Returns the bytes of `n_versions` versions of the blocks [first, first +
 * n). */
int64_t vp_kept_bytes(const struct vp_stage *stage, int first, int n,
                      int n_versions);
/* Allocates this memory on the device of the stage. */
enum vp_status vp_kept_create(const struct vp_stage *stage, int first, int n,
                              int n_versions, struct vp_kept **out);
void vp_kept_free(struct vp_kept *kept);

/* Called by the rank before it writes version newest + 1: copies the version
 * that will be overwritten. Does not wait for the device. */
enum vp_status vp_stage_keep_overwritten(struct vp_stage *stage);
/* Returns the address of element `at` in version `version` of the weights: in
 * the ring, or among the kept versions. */
void *vp_stage_version_at(const struct vp_stage *stage, int64_t version,
                          int64_t at);

#endif
