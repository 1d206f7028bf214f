/* The plan of an export: its tensors, the source of each value, and the file of
 * each tensor. Private to hf. */
#ifndef VP_HF_WRITE_PLAN_H
#define VP_HF_WRITE_PLAN_H

#include "hf/write_config.h"

struct vp_hf_item {
    /* Source of the value: a parameter, a carried tensor, or zeros if both are
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
    struct vp_arena
        arena; /* owns the files; `params` has an arena of its own */
    const struct vp_hf_arch *arch;
    struct vp_hf_params params;
    int n_files;
    struct vp_hf_file *files;
};

/* Makes the plan. Returns VP_ERR_INVALID if the origin does not match the
 * model. Release with vp_hf_plan_release(). */
enum vp_status vp_hf_plan_make(const struct vp_hf_write *with,
                               struct vp_hf_plan *out, struct vp_err *err);
void vp_hf_plan_release(struct vp_hf_plan *plan);

#endif
