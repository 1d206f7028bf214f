/* What a stage is made of, besides its blocks and the buffers that a schedule
 * asks for. */
#ifndef VP_RUNTIME_STAGE_STAGE_CONFIG_H
#define VP_RUNTIME_STAGE_STAGE_CONFIG_H

#include "backend/backend.h"
#include "graph/program.h"
#include "optim/optim.h"

/* The initial value of a parameter. */
typedef void (*vp_init_fn)(const struct vp_graph *graph, vp_par par,
                           uint64_t seed, float *out);

struct vp_stage_config {
    const struct vp_backend_ops *backend;
    const struct vp_graph *graphs; /* one per length bucket; borrowed */
    int n_graphs;
    bool has_eval; /* evaluations have programs of their own */
    vp_init_fn init;
    uint64_t seed;
    struct vp_optim_config optim;
    struct vp_scale_config scale;
    bool compress;  /* floats travel between stages as BF16 */
    int timeout_ms; /* the longest wait for a device */
};

#endif
