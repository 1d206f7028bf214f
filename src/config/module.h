/* The original's modules: which model a name such as vgpus=4 stands for. */
#ifndef VP_CONFIG_MODULE_H
#define VP_CONFIG_MODULE_H

#include "model/model.h"

struct vp_module {
    const char *model; /* model_type */
    const char *name;
    const char *size; /* of the model */
};

/* Module number `i` of a model; NULL past the last one. */
const struct vp_module *vp_module_at(const struct vp_model *model, int i);
/* NULL if unknown. */
const struct vp_module *vp_module_find(const struct vp_model *model,
                                       const char *name);

#endif
