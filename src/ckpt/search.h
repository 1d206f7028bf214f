/* Searches the folder of a run for a usable checkpoint, newest first.
 *
 * A checkpoint is skipped only if it is certainly damaged: a file is truncated,
 * changed or missing. If it cannot be read now (permission, disk, too many open
 * files) or has another version of the format, the search ends with an error
 * that names the next older checkpoint: a run that continued from the older one
 * would overwrite newer checkpoints that may be good. */
#ifndef VP_CKPT_SEARCH_H
#define VP_CKPT_SEARCH_H

#include "ckpt/ckpt.h"

struct vp_ckpt_search;

/* Lists `folder`; borrows the string. A folder that does not exist counts as
 * empty. */
enum vp_status vp_ckpt_search_create(const char *folder,
                                     struct vp_ckpt_search **out,
                                     struct vp_err *err);
void vp_ckpt_search_free(struct vp_ckpt_search *search);

/* Opens the next checkpoint that is not damaged. Returns VP_ERR_END if the
 * folder holds no checkpoint; VP_ERR_INVALID, with the first cause, if all are
 * damaged; otherwise the error of the checkpoint that cannot be read. */
enum vp_status vp_ckpt_search_next(struct vp_ckpt_search *search,
                                   struct vp_ckpt **out, struct vp_err *err);

/* Marks the checkpoint that was opened last as damaged, because another process
 * found it so. `reason` is one line; it is copied. */
enum vp_status vp_ckpt_search_reject(struct vp_ckpt_search *search,
                                     const char *reason, struct vp_err *err);

/* Writes "; to go on from an older checkpoint: --resume <path>" with the next
 * checkpoint, or "; there is no older checkpoint". */
void vp_ckpt_search_hint(const struct vp_ckpt_search *search, char *out,
                         size_t n);

/* Receives one line about a skipped checkpoint. */
typedef void (*vp_ckpt_note_fn)(void *ctx, const char *line);

/* Calls `note` for each skipped checkpoint, with a line of file, cause and
 * `step`, the step that is used instead. */
void vp_ckpt_search_tell(const struct vp_ckpt_search *search, int64_t step,
                         vp_ckpt_note_fn note, void *ctx);

/* Does the whole search in one call; `note` may be NULL. */
enum vp_status vp_ckpt_open_newest(const char *folder, vp_ckpt_note_fn note,
                                   void *ctx, struct vp_ckpt **out,
                                   struct vp_err *err);

#endif
