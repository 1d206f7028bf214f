/* Configuration of a stage, besides its blocks and the buffers that the
 * schedule needs. */
#ifndef VP_RUNTIME_STAGE_STAGE_CONFIG_H
#define VP_RUNTIME_STAGE_STAGE_CONFIG_H

#include "backend/backend.h"
#include "plan/stage_plan.h"

/* Writes elements [begin, begin + n) of the initial value of a whole parameter;
 * see vp_param_init(). Called by several threads at once. */
typedef void (*vp_init_fn)(const struct vp_graph *graph, vp_par par,
                           uint64_t seed, int64_t begin, int64_t n, float *out);

struct vp_stage_config {
    const struct vp_backend_ops *backend;
    struct vp_workload work;
    vp_init_fn init;
    int member; /* index in the tensor-parallel group */
    /* Set only constants at the start; the rest will be restored. */
    bool only_constants;
    int init_threads; /* number of threads that make the initial weights */
    uint64_t seed;
    int timeout_ms;    /* time limit of a wait for the device */
    int swap_delay_us; /* for tests, see vp_copier_disturb(); 0: none */
};

#endif
