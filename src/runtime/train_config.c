#include "runtime/train_config.h"

struct vp_stage_config vp_train_stage_config(
    const struct vp_train_config *config)
{
    return (struct vp_stage_config){
        .backend = config->backend,
        .graphs = config->graphs,
        .n_graphs = config->n_graphs,
        .has_eval = config->eval_data != NULL,
        .init = config->init,
        .seed = config->seed,
        .optim = config->optim,
        .scale = config->scale,
        .compress = config->plan.compress,
        .timeout_ms = config->timeout_ms,
    };
}
