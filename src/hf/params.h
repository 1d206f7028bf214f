/* The parameters of a model with their names and shapes in files. */
#ifndef VP_HF_PARAMS_H
#define VP_HF_PARAMS_H

#include "base/memory.h"
#include "ckpt/safetensors.h"
#include "model/model.h"

/* A tensor of a file that is a parameter of vpipe's model, or a part of one. */
struct vp_hf_param {
    const char *name;
    int block;
    int n_dims;
    int64_t dims[2]; /* in the file */
};

struct vp_hf_params {
    struct vp_arena arena; /* owns the list and its strings */
    int n_blocks;
    int n;
    struct vp_hf_param *at; /* sorted by name */
};

/* Lists the parameters of a model, except constants and copies of tied
 * parameters. Release with vp_hf_params_release(). */
enum vp_status vp_hf_params_list(const struct vp_model *model,
                                 const struct vp_model_config *config,
                                 struct vp_hf_params *out, struct vp_err *err);
void vp_hf_params_release(struct vp_hf_params *params);

/* Returns NULL if the model does not have the parameter. */
const struct vp_hf_param *vp_hf_params_find(const struct vp_hf_params *params,
                                            const char *name);

/* Returns name, type and shape, for vp_st_describe() and vp_ckpt_read(). */
struct vp_st_tensor vp_hf_param_tensor(const struct vp_hf_param *param,
                                       enum vp_st_type type);
int64_t vp_hf_param_elements(const struct vp_hf_param *param);

#endif
