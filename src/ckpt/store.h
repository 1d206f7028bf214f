/* The folder of a run's checkpoints. Each is a folder step-<n>, and only what
 * is complete ever has such a name:
 *
 *   step-<n>.tmp    being written; what is left of one is removed
 *   step-<n>        complete: appears by one rename, after everything in it
 *                   has reached the disk
 *   step-<n>.old    the one before when step n is saved again; comes back if
 *                   the process ends before the new one has its name
 *   step-<n>.trash  being removed
 *   step-<n>.aside-<k>  newer than the step that a run went on from, and not
 *                   usable then; removed after that run has written a
 *                   checkpoint and read it back
 *
 * A process may end at any call: nothing that was complete is lost, and
 * nothing incomplete is taken for a checkpoint. One process may write, or
 * several as a team, each its own files. */
#ifndef VP_CKPT_STORE_H
#define VP_CKPT_STORE_H

#include "base/status.h"
#include "ckpt/safetensors.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A checkpoint by its name alone; what is inside may still be broken. */
struct vp_ckpt_entry {
    int64_t step;
    char name[48]; /* step-<n>, step-<n>.old or step-<n>.aside-<k> */
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

/* Renames the checkpoints that vp_ckpt_list() has before `name` to
 * step-<n>.aside-<k>, for a run that goes on from `name` in this folder and will
 * write those steps again. Changes nothing, and returns VP_ERR_IO, if `name` is
 * gone. NULL: the run starts anew, and all are set aside. */
enum vp_status vp_ckpt_set_aside(const char *folder, const char *name,
                                 struct vp_err *err);
/* What was set aside, newest first; the caller frees the list. */
enum vp_status vp_ckpt_list_aside(const char *folder,
                                  struct vp_ckpt_entry **out, int *n_out,
                                  struct vp_err *err);
/* Removes all that was set aside. */
enum vp_status vp_ckpt_drop_aside(const char *folder, struct vp_err *err);

/* Keeps the `keep` newest complete checkpoints up to `step`, the best one, all
 * after `step` and what cannot be read; removes the others. 0 keeps all. */
enum vp_status vp_ckpt_prune(const char *folder, int64_t step, int keep,
                             struct vp_err *err);

/* What `n_files` files of `n_bytes` in all take, with a manifest and what the
 * file system needs itself. */
int64_t vp_ckpt_disk_bytes(int64_t n_bytes, int n_files);

/* Free bytes on the disk that holds (or would hold) `path`; INT64_MAX where the
 * file system does not say. */
enum vp_status vp_ckpt_free_bytes(const char *path, int64_t *n_out,
                                  struct vp_err *err);

/* VP_ERR_IO, with both numbers, if that is less than `n_bytes`. */
enum vp_status vp_ckpt_space(const char *path, int64_t n_bytes,
                             struct vp_err *err);

/* ---- Saving ------------------------------------------------------------- */

/* A whole file, as it will be on disk. */
struct vp_ckpt_image {
    int block;
    const unsigned char *bytes;
    int64_t n_bytes;
};

/* A file of a checkpoint that is on disk. */
struct vp_ckpt_part {
    int block;
    struct vp_st_seal seal;
};

/* Several processes save one checkpoint: each writes its own blocks, and the
 * lead, once all files are there, the manifest and the name. The folder must be
 * the same for all. */
struct vp_ckpt_team {
    void *ctx;
    bool is_lead;
    /* Not the lead: tells it what was written; n is -1 after a failure. */
    enum vp_status (*tell)(void *ctx, int64_t step,
                           const struct vp_ckpt_part *parts, int n,
                           const atomic_bool *give_up, struct vp_err *err);
    /* The lead: what all others wrote, in any order. `parts` has room for
     * max_parts. Returns when none of them writes any more, also after one has
     * failed, unless it was given up. */
    enum vp_status (*hear)(void *ctx, int64_t step, struct vp_ckpt_part *parts,
                           int *n_out, const atomic_bool *give_up,
                           struct vp_err *err);
    int max_parts;
};

struct vp_ckpt_save {
    int64_t step;      /* 0 .. VP_CKPT_MAX_STEP */
    double score;      /* NAN = none */
    const char *facts; /* a JSON object */
    int n_images;
    const struct vp_ckpt_image *images; /* blocks rise */
    const atomic_bool *give_up; /* NULL, or turns true: VP_ERR_ABORTED soon */
    const struct vp_ckpt_team *team; /* NULL: this process writes all */
    /* Optional, NULL: nothing. Called by the lead when all files are on disk,
     * before the checkpoint gets its name; an error keeps it from that. */
    enum vp_status (*before_publish)(void *ctx, struct vp_err *err);
    void *publish_ctx;
};

/* Saves one checkpoint in a prepared folder. After a failure the folder is as
 * it was, or the checkpoint is there but may not survive a power cut. In a team
 * all save the same step; only the lead knows when it is complete. */
enum vp_status vp_ckpt_save(const char *folder, const struct vp_ckpt_save *save,
                            struct vp_err *err);

#endif
