/* What `precision: auto` becomes. */
#ifndef VP_CONFIG_PRECISION_H
#define VP_CONFIG_PRECISION_H

#include "config/config.h"

/* Returns true if the ranks of this process would compute on cores: `device` says
 * so, or says auto and there is no GPU. Loads the plugin for GPUs where it must. */
bool vp_config_uses_cpu(const struct vp_config *config);

/* Replaces auto by `agreed`, or, if it is NULL, by what this process prefers: bf16
 * on a GPU and on cores that multiply it faster than fp32, else fp32. Sets
 * `config->precision_is_auto`. */
void vp_config_set_precision(struct vp_config *config,
                             const enum vp_precision *agreed);

#endif
