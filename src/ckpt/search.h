/* Looks for a usable checkpoint in the folder of a run, newest first.
 *
 * Only proven damage is passed over: a file that is cut, changed or missing. A
 * checkpoint that cannot be read now (permission, disk, too many open files) or
 * has another version of the format ends the search with an error that names
 * the next older checkpoint, because going on from an older step would take the
 * place of a newer one that may be sound. */
#ifndef VP_CKPT_SEARCH_H
#define VP_CKPT_SEARCH_H

#include "ckpt/ckpt.h"

struct vp_ckpt_search;

/* Lists `folder`, which is borrowed. A folder that does not exist is an empty
 * one. */
enum vp_status vp_ckpt_search_create(const char *folder,
                                     struct vp_ckpt_search **out,
                                     struct vp_err *err);
void vp_ckpt_search_free(struct vp_ckpt_search *search);

/* Opens the next checkpoint that is not damaged. VP_ERR_END if the folder holds
 * none at all; VP_ERR_INVALID, with the first cause, if all of them are
 * damaged; else the error of the one that cannot be read. */
enum vp_status vp_ckpt_search_next(struct vp_ckpt_search *search,
                                   struct vp_ckpt **out, struct vp_err *err);

/* Passes over the checkpoint opened last, which another process found damaged.
 * `reason` is one line; it is copied. */
enum vp_status vp_ckpt_search_reject(struct vp_ckpt_search *search,
                                     const char *reason, struct vp_err *err);

/* Writes "; to go on from an older checkpoint: --resume <path>" about the one
 * after that opened last, or that there is none. */
void vp_ckpt_search_hint(const struct vp_ckpt_search *search, char *out,
                         size_t n);

/* One line about a checkpoint that was passed over. */
typedef void (*vp_ckpt_note_fn)(void *ctx, const char *line);

/* Calls `note` for each checkpoint passed over: file, cause and `step`, which is
 * used instead. */
void vp_ckpt_search_tell(const struct vp_ckpt_search *search, int64_t step,
                         vp_ckpt_note_fn note, void *ctx);

/* The whole search in one call; `note` may be NULL. */
enum vp_status vp_ckpt_open_newest(const char *folder, vp_ckpt_note_fn note,
                                   void *ctx, struct vp_ckpt **out,
                                   struct vp_err *err);

#endif
