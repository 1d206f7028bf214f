/* The struct of an open folder, shared by folder.c and folder_read.c. */
#ifndef VP_HF_INTERNAL_H
#define VP_HF_INTERNAL_H

#include "hf/names.h"
#include "hf/params.h"

struct vp_hf_tensor;

struct vp_hf_shard {
    const char *name;
    struct vp_st_file *file;
};

struct vp_hf_folder {
    struct vp_arena arena; /* owns strings and lists */
    const char *path;
    const struct vp_hf_arch *arch;
    const struct vp_model *model;
    struct vp_model_config config;
    struct vp_hf_params params;
    int n_shards;
    struct vp_hf_shard *shards;
    int n_tensors;
    struct vp_hf_tensor *tensors; /* sorted by name, then kind */
};

/* Returns the tensor that holds the parameter `name`, under its own name or
 * else under the name of a tied tensor. NULL if there is none. */
const struct vp_hf_tensor *vp_hf_holder(const struct vp_hf_folder *folder,
                                        const char *name);

#endif
