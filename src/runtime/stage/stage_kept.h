/* Versions of weights that a stage keeps longer than its schedule needs them, for
 * a move to another plan.
 *
 * An asynchronous stage owns a ring of weight versions, and every update writes
 * over the oldest one. Blocks that move to an earlier stage, which runs on older
 * versions, need some that are gone by then. So before a move the oldest version
 * is copied aside each time it is about to be overwritten:
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
    int64_t first, n;  /* elements of the stage's weights that are kept */
    int64_t n_bytes;   /* of them */
    int n_versions;    /* the newest of those overwritten; a ring, too */
    void **versions;   /* version v is number v mod n_versions */
    atomic_int n_kept; /* since the start, by the rank of the stage */
};

/* Bytes for `n_versions` of the blocks [first, first + n) of the stage. */
int64_t vp_kept_bytes(const struct vp_stage *stage, int first, int n,
                      int n_versions);
/* Allocates them on the device of the stage. */
enum vp_status vp_kept_create(const struct vp_stage *stage, int first, int n,
                              int n_versions, struct vp_kept **out);
void vp_kept_free(struct vp_kept *kept);

/* Called by the rank before it writes version newest + 1: keeps the one that is
 * overwritten. The device copies; nothing waits. */
enum vp_status vp_stage_keep_overwritten(struct vp_stage *stage);
/* Where version `version` of the weights is that start at element `at`: in the ring,
 * or kept. */
void *vp_stage_version_at(const struct vp_stage *stage, int64_t version,
                          int64_t at);

#endif
