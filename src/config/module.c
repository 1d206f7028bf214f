/* The table of vPipe's modules. */
#include "config/module.h"

#include <string.h>

/* A module of vPipe is a folder of code that builds one model. Its name has the
 * number of devices that its plans are for; some models for eight devices have
 * twice the layers. */
static const struct vp_module modules[] = {
    { "bert", "vgpus=2", "large" },         { "bert", "vgpus=4", "large" },
    { "bert", "vgpus=8", "large-48" },      { "translation", "vgpus=4", "big" },
    { "translation", "vgpus=8", "big-12" }, { "cpm", "medium_4", "medium" },
    { "cpm", "medium_8", "medium" },        { "cpm", "medium_12", "medium" },
    { "cpm", "medium_dp", "medium" },       { "cpm", "large_4", "large" },
    { "cpm", "large_8", "large" },
};

const struct vp_module *vp_module_at(const struct vp_model *model, int i)
{
    for (size_t j = 0; j < VP_COUNT_OF(modules); j++)
        if (strcmp(modules[j].model, model->name) == 0 && i-- == 0)
            return &modules[j];
    return NULL;
}

const struct vp_module *vp_module_find(const struct vp_model *model,
                                       const char *name)
{
    const struct vp_module *module;

    for (int i = 0; (module = vp_module_at(model, i)); i++)
        if (strcmp(module->name, name) == 0)
            return module;
    return NULL;
}
