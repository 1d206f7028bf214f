/* Which tensors an export writes, where each comes from and which file it goes
 * to. Private to hf. */
#ifndef VP_HF_WRITE_PLAN_H
#define VP_HF_WRITE_PLAN_H

#include "hf/write_config.h"

struct vp_hf_item {
    /* The value: a parameter, a tensor that is carried, or zeros if both are
     * NULL. */
    const struct vp_hf_param *param;
    const struct vp_st_tensor *carried;
};

struct vp_hf_file {
    const char *name;
    struct vp_st_tensor *tensors; /* [n] as they will be written */
    struct vp_hf_item *items;     /* [n] */
    int n;
    int n_meta;
    const struct vp_st_meta *meta;
};

struct vp_hf_plan {
    struct vp_arena arena; /* holds all below */
    const struct vp_hf_arch *arch;
    struct vp_hf_params params;
    int n_files;
    struct vp_hf_file *files;
};

/* VP_ERR_INVALID if the origin does not fit the model. Release with
 * vp_hf_plan_release(). */
enum vp_status vp_hf_plan_make(const struct vp_hf_write *with,
                               struct vp_hf_plan *out, struct vp_err *err);
void vp_hf_plan_release(struct vp_hf_plan *plan);

#endif
