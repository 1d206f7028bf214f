/* Loading a checkpoint: named tensors and facts, whatever files they are in.
 *
 *   <folder>/step-<n>/manifest.json              facts, files, checksums
 *   <folder>/step-<n>/block-<kkkk>.safetensors   the tensors of a block
 *
 * No tensor is handed out before its file was verified. */
#ifndef VP_CKPT_CKPT_H
#define VP_CKPT_CKPT_H

#include "base/status.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_ckpt;

/* The checkpoint in the folder `path`, whatever its name. Reads all files.
 * Errors name the file and the cause: VP_ERR_INVALID if the checkpoint is
 * damaged, VP_ERR_IO if a file cannot be read now, VP_ERR_UNSUPPORTED for
 * another version of the format. */
enum vp_status vp_ckpt_open(const char *path, struct vp_ckpt **out,
                            struct vp_err *err);

/* The facts of the checkpoint in the folder `path`, from its manifest alone: no
 * other file is read or verified. Free with vp_facts_free(). */
enum vp_status vp_ckpt_read_facts(const char *path, struct vp_facts **out,
                                  struct vp_err *err);

/* Tells one checkpoint from all others; plain data, to be sent to other
 * processes. */
struct vp_ckpt_id {
    char path[2048]; /* of its folder */
    int64_t step;
    uint64_t checksum; /* of its manifest */
};

/* VP_ERR_INVALID if the path is too long for an id. */
enum vp_status vp_ckpt_identify(const struct vp_ckpt *ckpt,
                                struct vp_ckpt_id *out, struct vp_err *err);

/* Opens the checkpoint that another process has opened and verified. The files
 * of blocks with wanted[block] are verified now, other files at their first
 * read. VP_ERR_INVALID only for damaged files; a file that is missing, or a
 * manifest with another checksum, is VP_ERR_IO: this process sees something
 * else than the other one. */
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
/* NULL if there is none. */
const struct vp_st_tensor *vp_ckpt_find(const struct vp_ckpt *ckpt,
                                        const char *name);

/* Reads the tensor of this name into `buf`; type and shape must be those of
 * `want`, whose other fields are not looked at. Any number of threads may
 * read. */
enum vp_status vp_ckpt_read(const struct vp_ckpt *ckpt, const char *name,
                            const struct vp_st_tensor *want, void *buf,
                            struct vp_err *err);
/* The same of a matrix of F32, transposed: `want` is [rows, cols] as in the
 * file, `out` gets [cols, rows]. */
enum vp_status vp_ckpt_read_transposed(const struct vp_ckpt *ckpt,
                                       const char *name,
                                       const struct vp_st_tensor *want,
                                       float *out, struct vp_err *err);

#endif
