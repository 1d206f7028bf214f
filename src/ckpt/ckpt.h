/* Loading a checkpoint: named tensors and facts, whatever files they are in.
 *
 *   <folder>/step-<n>/manifest.json              facts, files, checksums
 *   <folder>/step-<n>/block-<kkkk>.safetensors   the tensors of a block
 *
 * Nothing is handed out before every byte of the checkpoint was verified. */
#ifndef VP_CKPT_CKPT_H
#define VP_CKPT_CKPT_H

#include "base/status.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <stdint.h>

struct vp_ckpt;

/* The checkpoint in the folder `path`, whatever its name. Reads all files.
 * VP_ERR_INVALID (with file and cause) for one that is broken. */
enum vp_status vp_ckpt_open(const char *path, struct vp_ckpt **out,
                            struct vp_err *err);

/* One line about a checkpoint that was passed over. */
typedef void (*vp_ckpt_note_fn)(void *ctx, const char *line);

/* The newest valid checkpoint of a run's folder. For each newer one that is
 * broken `note` (may be NULL) gets its file, the cause, and the step that is
 * used instead. VP_ERR_END if there is no checkpoint at all; if all are
 * broken, the error of the newest. */
enum vp_status vp_ckpt_open_newest(const char *folder, vp_ckpt_note_fn note,
                                   void *ctx, struct vp_ckpt **out,
                                   struct vp_err *err);
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
