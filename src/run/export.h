/* Writes the weights of a checkpoint as a Hugging Face folder. */
#ifndef VP_RUN_EXPORT_H
#define VP_RUN_EXPORT_H

#include "ckpt/safetensors.h"
#include "run/notice.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_export_config {
    const char *from; /* a run, a checkpoint, or what vp_import() made */
    const char *to;   /* is made; see `replace` */
    /* VP_ST_F32, VP_ST_F16 or VP_ST_BF16; VP_ST_COUNT: as imported, else F32. */
    enum vp_st_type type;
    int64_t shard_bytes; /* 0: as imported, else 5 GB */
    bool replace;        /* write over what is in `to`; else it must be empty */
    vp_notice_fn note;   /* NULL: none */
    void *ctx;
};

struct vp_export_result {
    int64_t step;
    const char *architecture; /* never freed */
};

enum vp_status vp_export(const struct vp_export_config *config,
                         struct vp_export_result *out, struct vp_err *err);

/* VP_ERR_INVALID if `path` exists and is not an empty folder. */
enum vp_status vp_export_check_place(const char *path, struct vp_err *err);

#endif
