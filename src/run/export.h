/* Writes the weights of a checkpoint as a Hugging Face folder. */
#ifndef VP_RUN_EXPORT_H
#define VP_RUN_EXPORT_H

#include "ckpt/safetensors.h"
#include "run/notice.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_export_config {
    const char *from; /* a run, a checkpoint, or the result of vp_import() */
    const char *to;   /* folder to create; see `replace` */
    /* VP_ST_F32, VP_ST_F16 or VP_ST_BF16; VP_ST_COUNT: the type of the imported
     * files, or F32 if there was no import. */
    enum vp_st_type type;
    int64_t shard_bytes; /* 0: as in the imported files, or 5 GB */
    bool replace;      /* overwrite files in `to`; otherwise it must be empty */
    vp_notice_fn note; /* may be NULL */
    void *ctx;
};

struct vp_export_result {
    int64_t step;             /* step of the exported checkpoint */
    const char *architecture; /* static */
};

/* Writes the folder. `out` is written only on success. */
enum vp_status vp_export(const struct vp_export_config *config,
                         struct vp_export_result *out, struct vp_err *err);

/* Returns VP_ERR_INVALID if `path` exists and is not an empty folder. */
enum vp_status vp_export_check_place(const char *path, struct vp_err *err);

#endif
