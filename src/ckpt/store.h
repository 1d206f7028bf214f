/* The folder of a run's checkpoints. Each is a folder step-<n>, and only what
 * is complete ever has such a name:
 *
 *   step-<n>.tmp    being written; what is left of one is removed
 *   step-<n>        complete: appears by one rename, after everything in it
 *                   has reached the disk
 *   step-<n>.old    the one before when step n is saved again; comes back if
 *                   the process ends before the new one has its name
 *   step-<n>.trash  being removed
 *
 * A process may end at any call: nothing that was complete is lost, and
 * nothing incomplete is taken for a checkpoint. One process may write. */
#ifndef VP_CKPT_STORE_H
#define VP_CKPT_STORE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VP_CKPT_MAX_STEP 999999999999999999

/* A checkpoint by its name alone; what is inside may still be broken. */
struct vp_ckpt_entry {
    int64_t step;
    char name[48]; /* step-<n>, or step-<n>.old */
};

/* Newest first; none if there is no such folder. Reads only. The caller frees
 * the list. */
enum vp_status vp_ckpt_list(const char *folder, struct vp_ckpt_entry **out,
                            int *n_out, struct vp_err *err);

/* The complete checkpoint with the lowest score, the earliest of equals.
 * Looks at manifests and sizes. VP_ERR_END if none has a score. */
enum vp_status vp_ckpt_best(const char *folder, int64_t *step_out,
                            double *score_out, struct vp_err *err);

/* Creates the folder if it is missing and clears what a process that ended too
 * early left behind. To be called once, before the first save. */
enum vp_status vp_ckpt_prepare(const char *folder, struct vp_err *err);

/* Removes the checkpoints after `step`. For a run that goes on from `step` and
 * will come to the later ones again. */
enum vp_status vp_ckpt_drop_newer(const char *folder, int64_t step,
                                  struct vp_err *err);

/* Keeps the `keep` newest complete checkpoints up to `step`, the best one, all
 * after `step` and what cannot be read; removes the others. 0 keeps all. */
enum vp_status vp_ckpt_prune(const char *folder, int64_t step, int keep,
                             struct vp_err *err);

/* VP_ERR_IO, with both numbers, if the disk that holds (or would hold) `path`
 * has less than `n_bytes` free. */
enum vp_status vp_ckpt_space(const char *path, int64_t n_bytes,
                             struct vp_err *err);

/* ---- Saving ------------------------------------------------------------- */

/* A whole file, as it will be on disk. */
struct vp_ckpt_image {
    int block;
    const unsigned char *bytes;
    int64_t n_bytes;
};

struct vp_ckpt_save {
    int64_t step;      /* 0 .. VP_CKPT_MAX_STEP */
    double score;      /* NAN = none */
    const char *facts; /* a JSON object */
    int n_images;
    const struct vp_ckpt_image *images; /* blocks rise */
    const atomic_bool *give_up; /* NULL, or turns true: VP_ERR_ABORTED soon */
};

/* Saves one checkpoint in a prepared folder. After a failure the folder is as
 * it was, or the checkpoint is there but may not survive a power cut. */
enum vp_status vp_ckpt_save(const char *folder, const struct vp_ckpt_save *save,
                            struct vp_err *err);

#endif
