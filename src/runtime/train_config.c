/* Backend and stage configurations, derived from that of a trainer. */
#include "runtime/train_config.h"

#include "backend/facts.h"

struct vp_backend_config vp_train_backend_config(
    const struct vp_train_config *config, int rank)
{
    struct vp_backend_config backend = config->backend_config;

    if (config->plan.devices) {
        backend.pinned = true;
        backend.device = config->plan.devices[rank];
    }
    return backend;
}

struct vp_stage_config vp_train_stage_config(
    const struct vp_train_config *config,
    const struct vp_backend_config *device)
{
    return (struct vp_stage_config){
        .backend = config->backend,
        .work = {
            .graphs = config->graphs,
            .n_graphs = config->n_graphs,
            .has_eval = config->eval_data != NULL,
            .optim = config->optim,
            .scale = config->scale,
            .device = vp_backend_facts(config->backend, device),
        },
        .init = config->init,
        .only_constants = config->takes_over || config->loader,
        .init_threads = device->n_threads,
        .seed = config->seed,
        .timeout_ms = config->timeout_ms,
        .swap_delay_us = config->swap_delay_us,
    };
}
