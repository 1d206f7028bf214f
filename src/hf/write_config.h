/* The input of an export: model, parameters, options. Plain data. */
#ifndef VP_HF_WRITE_CONFIG_H
#define VP_HF_WRITE_CONFIG_H

#include "hf/origin.h"
#include "hf/params.h"
#include "model/model.h"

struct vp_hf_write {
    const struct vp_model *model;
    const struct vp_model_config *config;
    struct vp_model_ids ids; /* for config.json, if there is no origin */
    /* NULL: the model was not imported from a folder. */
    const struct vp_hf_origin *origin;
    /* Folder of tokenizer files, if there is no origin; NULL: none. */
    const char *tokenizer;
    /* VP_ST_F32, VP_ST_F16 or VP_ST_BF16: type of all tensors; VP_ST_COUNT:
     * types of the origin, or F32 without one. */
    enum vp_st_type type;
    /* Most bytes of tensors in a file, unless one tensor is larger. 0: the same
     * files as the origin; 5 GB without an origin, or if the embeddings are
     * tied in only one of model and origin. */
    int64_t shard_bytes;
    bool trained; /* the weights differ from those of the origin */
    /* Reads a parameter in the shape that it has in the file. */
    enum vp_status (*read)(void *ctx, const struct vp_hf_param *param,
                           float *out, struct vp_err *err);
    void *read_ctx;
    vp_hf_note_fn note; /* receives lines about missing or unchanged parts; may
                           be NULL */
    void *note_ctx;
};

#endif
