/* Measures a profile of this machine for one workload: seconds of blocks, copies
 * and messages. The code is the same for all devices. Training is not affected:
 * separate stages are built, run and freed.
 *
 * A block is measured as it runs within a stage. A window of up to eight blocks
 * is lowered, compiled and given memory as the stage of a pipeline, with two
 * slots that alternate. Each list is run in two ways:
 *
 *   as a whole        |------------- F -------------|   t
 *   block by block    |- b0 -|--- b1 ---|-- b2 --|...   p0 + p1 + p2 + ... = p
 *
 * The parts give the ratio between blocks, but cut calls that run as one across
 * the border of two blocks; the whole gives the time of a stage. The seconds of
 * block i are t * pi / p. Weights and results of the other blocks go through
 * the caches between two runs of a block, as in training.
 *
 * Every number is the median of several runs in a fixed order. */
#ifndef VP_RUNTIME_PROFILE_PROFILE_MEASURE_H
#define VP_RUNTIME_PROFILE_PROFILE_MEASURE_H

#include "plan/profile.h"
#include "runtime/train_config.h"

struct vp_profile_request {
    /* Model (graphs[0]), device, optimizer, initial weights and, for pinned
     * ranks, devices. Data is not used and may be NULL. */
    const struct vp_train_config *config;
    struct vp_profile_facts facts; /* texts are borrowed */
    /* Number of ranks that will share the device or the cores. The capacity is
     * measured with all of them computing; on CPU cores, loads are measured
     * with 2, 4, ... and all ranks. 0 or 1: the capacity is 1, and there are no
     * loads. */
    int n_ranks;
    int n_repeats; /* runs of every measurement; 0: 9 */
    /* Time limit; 0: none. After it, a measurement takes three runs, and sets
     * are estimated from F. */
    double seconds;
};

/* Measures all blocks with different keys, in the order of the model. Blocks
 * live in `arena`. */
enum vp_status vp_profile_measure(const struct vp_profile_request *request,
                                  struct vp_arena *arena,
                                  struct vp_device_profile *out,
                                  struct vp_err *err);

#endif
