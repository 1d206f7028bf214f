/* Chooses the precision for `precision: auto` by the device of this process. */
#include "config/precision.h"

#include "backend/facts.h"
#include "backend/plugin.h"

bool vp_config_uses_cpu(const struct vp_config *config)
{
    const struct vp_backend_ops *plugin = NULL;

    if (config->device != VP_DEVICE_KIND_AUTO)
        return config->device == VP_DEVICE_KIND_CPU;
    return config->reference_kernels ||
           vp_backend_load("cuda", &plugin, NULL) != VP_OK ||
           plugin->n_devices(NULL) == 0;
}

void vp_config_set_precision(struct vp_config *config,
                             const enum vp_precision *agreed)
{
    config->precision_is_auto = config->precision == VP_PRECISION_AUTO;
    if (!config->precision_is_auto)
        return;
    if (agreed)
        config->precision = *agreed;
    else
        config->precision = vp_config_uses_cpu(config) &&
                                    !vp_cores_prefer_bf16()
                                ? VP_PRECISION_FP32
                                : VP_PRECISION_BF16;
}
