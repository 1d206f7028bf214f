/* Loads a checkpoint: its named tensors and facts, independent of the files
 * that hold them.
 *
 *   <folder>/step-<n>/manifest.json              facts, files, checksums
 *   <folder>/step-<n>/block-<kkkk>.safetensors   the tensors of a block
 *
 * A tensor is read only after its file has been verified. */
#ifndef VP_CKPT_CKPT_H
#define VP_CKPT_CKPT_H

#include "base/status.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_ckpt;

/* Opens the checkpoint in the folder `path`, which may have any name, and
 * verifies all its files. Errors name the file and the cause: VP_ERR_INVALID if
 * the checkpoint is damaged, VP_ERR_IO if a file cannot be read now,
 * VP_ERR_UNSUPPORTED for another version of the format. */
enum vp_status vp_ckpt_open(const char *path, struct vp_ckpt **out,
                            struct vp_err *err);

/* Reads the facts of the checkpoint in the folder `path` from its manifest; no
 * other file is read or verified. Free with vp_facts_free(). */
enum vp_status vp_ckpt_read_facts(const char *path, struct vp_facts **out,
                                  struct vp_err *err);

/* Identifies a checkpoint. Plain data that can be sent to other processes. */
struct vp_ckpt_id {
    char path[2048]; /* path of its folder */
    int64_t step;
    uint64_t checksum; /* checksum of its manifest */
};

/* Writes the id of `ckpt`. Returns VP_ERR_INVALID if its path is too long. */
enum vp_status vp_ckpt_identify(const struct vp_ckpt *ckpt,
                                struct vp_ckpt_id *out, struct vp_err *err);

/* Opens a checkpoint that another process has opened and verified. Files of
 * blocks with wanted[block] are verified now, other files at their first read.
 * Returns VP_ERR_INVALID only for damaged files; VP_ERR_IO if a file is missing
 * or the manifest has another checksum, that is, if this process does not see
 * the same files as the other one. */
enum vp_status vp_ckpt_open_same(const struct vp_ckpt_id *id,
                                 const bool *wanted, int n_blocks,
                                 struct vp_ckpt **out, struct vp_err *err);
void vp_ckpt_close(struct vp_ckpt *ckpt);

const char *vp_ckpt_path(const struct vp_ckpt *ckpt);
int64_t vp_ckpt_step(const struct vp_ckpt *ckpt);
double vp_ckpt_score(const struct vp_ckpt *ckpt); /* NAN = none */
const struct vp_facts *vp_ckpt_facts(const struct vp_ckpt *ckpt);

/* All tensors, sorted by name. */
int vp_ckpt_n_tensors(const struct vp_ckpt *ckpt);
const struct vp_st_tensor *vp_ckpt_tensor(const struct vp_ckpt *ckpt, int i);
/* Returns NULL if there is no tensor of this name. */
const struct vp_st_tensor *vp_ckpt_find(const struct vp_ckpt *ckpt,
                                        const char *name);

/* Reads the tensor `name` into `buf`. Its type and shape must be those of
 * `want`, whose other fields are ignored. Any number of threads may read. */
enum vp_status vp_ckpt_read(const struct vp_ckpt *ckpt, const char *name,
                            const struct vp_st_tensor *want, void *buf,
                            struct vp_err *err);
/* The same for a matrix of F32, with transposition: `want` is [rows, cols] as
 * in the file, `out` is [cols, rows]. */
enum vp_status vp_ckpt_read_transposed(const struct vp_ckpt *ckpt,
                                       const char *name,
                                       const struct vp_st_tensor *want,
                                       float *out, struct vp_err *err);

#endif
