/* vPipe's names of model sizes, such as vgpus=4 (key `module`). */
#ifndef VP_CONFIG_MODULE_H
#define VP_CONFIG_MODULE_H

#include "model/model.h"

struct vp_module {
    const char *model; /* model_type */
    const char *name;
    const char *size; /* name in the model's table of sizes */
};

/* Returns module number `i` of a model; NULL past the last one. */
const struct vp_module *vp_module_at(const struct vp_model *model, int i);
/* Returns the module with this name; NULL if there is none. */
const struct vp_module *vp_module_find(const struct vp_model *model,
                                       const char *name);

#endif
