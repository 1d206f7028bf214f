/* What an export is given. */
#ifndef VP_HF_WRITE_CONFIG_H
#define VP_HF_WRITE_CONFIG_H

#include "hf/origin.h"
#include "hf/params.h"
#include "model/model.h"

struct vp_hf_write {
    const struct vp_model *model;
    const struct vp_model_config *config;
    struct vp_model_ids ids; /* for a config.json that is made */
    const struct vp_hf_origin
        *origin;           /* NULL: the model comes from no folder */
    const char *tokenizer; /* folder of its files, without origin; or NULL */
    /* VP_ST_F32, VP_ST_F16 or VP_ST_BF16 for all tensors; VP_ST_COUNT: those of
     * the origin, else F32. */
    enum vp_st_type type;
    /* The most bytes of tensors in a file, unless one tensor has more; 0: the
     * files of the origin, else 5 GB. A model whose embeddings are tied and the
     * origin's are not, or the reverse, has files of its own. */
    int64_t shard_bytes;
    bool trained; /* the weights are not those of the origin any more */
    /* Reads a parameter in the shape of its file. */
    enum vp_status (*read)(void *ctx, const struct vp_hf_param *param,
                           float *out, struct vp_err *err);
    void *read_ctx;
    vp_hf_note_fn note; /* what the folder lacks or holds unchanged; or NULL */
    void *note_ctx;
};

#endif
