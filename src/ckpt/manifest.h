/* manifest.json: what a checkpoint consists of. It is the last file written
 * and carries its own checksum, so no byte of a checkpoint is unchecked. */
#ifndef VP_CKPT_MANIFEST_H
#define VP_CKPT_MANIFEST_H

#include "base/status.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"

#include <stdint.h>

#define VP_MANIFEST_FILE "manifest.json"
#define VP_MANIFEST_VERSION 2

#define VP_CKPT_MAX_STEP 999999999999999999

struct vp_manifest_file {
    char name[40]; /* block-<kkkk>.safetensors */
    struct vp_st_seal seal;
};

struct vp_manifest {
    int64_t step;
    double score; /* of an evaluation, lower is better; NAN = none */
    struct vp_facts *facts;
    int n_files;
    struct vp_manifest_file *files;
    uint64_t checksum; /* that the text ends with; set by parsing */
};

/* The file name of a block. */
void vp_manifest_name(int block, struct vp_manifest_file *file);
/* The block of a file name; -1 if it is not the name of a block file. */
int vp_manifest_block(const char *name);

/* The caller frees the text; it ends with a 0 that is not counted. */
enum vp_status vp_manifest_format(const struct vp_manifest *manifest,
                                  char **text_out, size_t *n_out,
                                  struct vp_err *err);

/* Checks everything that the text alone can tell. VP_ERR_UNSUPPORTED for
 * another version. */
enum vp_status vp_manifest_parse(const char *text, size_t n_text,
                                 struct vp_manifest *out, struct vp_err *err);
void vp_manifest_release(struct vp_manifest *manifest);

/* The manifest of the checkpoint in `folder`. Messages name the file. */
enum vp_status vp_manifest_read(const char *folder, struct vp_manifest *out,
                                struct vp_err *err);

#endif
