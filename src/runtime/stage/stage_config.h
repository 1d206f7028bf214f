/* What a stage is made of, besides its blocks and the buffers that a schedule
 * asks for. */
#ifndef VP_RUNTIME_STAGE_STAGE_CONFIG_H
#define VP_RUNTIME_STAGE_STAGE_CONFIG_H

#include "backend/backend.h"
#include "plan/stage_plan.h"

/* Elements [begin, begin + n) of the initial value of a parameter, as a whole; see
 * vp_param_init(). Called by several threads at once. */
typedef void (*vp_init_fn)(const struct vp_graph *graph, vp_par par,
                           uint64_t seed, int64_t begin, int64_t n, float *out);

struct vp_stage_config {
    const struct vp_backend_ops *backend;
    struct vp_workload work;
    vp_init_fn init;
    int member;          /* of a tensor-parallel group: whose slices it has */
    bool only_constants; /* are set at the start: all else will be restored */
    int init_threads;    /* that make the first weights */
    uint64_t seed;
    int timeout_ms;    /* the longest wait for a device */
    int swap_delay_us; /* for tests: see vp_copier_disturb(); 0: not */
};

#endif
