/* Chooses the precision for `precision: auto`. */
#ifndef VP_CONFIG_PRECISION_H
#define VP_CONFIG_PRECISION_H

#include "config/config.h"

/* Returns true if the ranks of this process compute on CPU cores: `device` is
 * cpu, or it is auto and there is no GPU. May load the plugin for GPUs. */
bool vp_config_uses_cpu(const struct vp_config *config);

/* Replaces auto by `agreed`, or, if that is NULL, by bf16 on a GPU and on cores
 * that multiply it faster than fp32, else by fp32. Sets
 * config->precision_is_auto. */
void vp_config_set_precision(struct vp_config *config,
                             const enum vp_precision *agreed);

#endif
