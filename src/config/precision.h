/* What `precision: auto` becomes on this machine. */
#ifndef VP_CONFIG_PRECISION_H
#define VP_CONFIG_PRECISION_H

#include "config/config.h"

/* Returns true if the ranks of this process would compute on cores: `device` says
 * so, or says auto and there is no GPU. Loads the plugin for GPUs where it must. */
bool vp_config_uses_cpu(const struct vp_config *config);

/* Replaces auto: bf16 on a GPU and on cores with instructions for its products,
 * else fp32. */
void vp_config_set_precision(struct vp_config *config);

#endif
