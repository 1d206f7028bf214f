/* manifest.json: the list of files of a checkpoint with their checksums, and
 * its facts. It is written last and holds a checksum of itself, so every byte
 * of a checkpoint is covered. */
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
    double score; /* loss of an evaluation, lower is better; NAN = none */
    struct vp_facts *facts;
    int n_files;
    struct vp_manifest_file *files;
    uint64_t checksum; /* checksum of the text; set by vp_manifest_parse() */
};

/* Sets file->name to the file name of `block`. */
void vp_manifest_name(int block, struct vp_manifest_file *file);
/* Returns the block of a file name, -1 if it is not the name of a block
 * file. */
int vp_manifest_block(const char *name);

/* Writes the manifest as text, which the caller frees. *n_out: its length
 * without the final 0. */
enum vp_status vp_manifest_format(const struct vp_manifest *manifest,
                                  char **text_out, size_t *n_out,
                                  struct vp_err *err);

/* Parses and checks the text; does not access files. Returns VP_ERR_UNSUPPORTED
 * for another version, VP_ERR_INVALID for damaged text. */
enum vp_status vp_manifest_parse(const char *text, size_t n_text,
                                 struct vp_manifest *out, struct vp_err *err);
void vp_manifest_release(struct vp_manifest *manifest);

/* Reads the manifest of the checkpoint in `folder`. Messages name the file. */
enum vp_status vp_manifest_read(const char *folder, struct vp_manifest *out,
                                struct vp_err *err);

#endif
