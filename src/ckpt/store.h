/* The folder of a run's checkpoints. Each checkpoint is a folder step-<n>;
 * other names mark other states:
 *
 *   step-<n>.tmp    being written; vp_ckpt_prepare() removes leftovers
 *   step-<n>        complete: renamed from .tmp after all its files were synced
 *   step-<n>.old    the previous checkpoint while step n is saved again;
 *                   renamed back if the process ends before the new one is
 *                   complete
 *   step-<n>.trash  being removed
 *   step-<n>.aside-<k>  newer than the step from which a run was resumed, and
 *                   not usable then; removed after that run has written a
 *                   checkpoint and read it back
 *
 * If the process is killed at any call, no complete checkpoint is lost, and no
 * incomplete one is used. One process may write a checkpoint, or several as a
 * team, each its own files. */
#ifndef VP_CKPT_STORE_H
#define VP_CKPT_STORE_H

#include "base/status.h"
#include "ckpt/safetensors.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A checkpoint found by its name; its content is not checked. */
struct vp_ckpt_entry {
    int64_t step;
    char name[48]; /* step-<n>, step-<n>.old or step-<n>.aside-<k> */
};

/* Lists checkpoints step-<n> and step-<n>.old, newest first; an empty list if
 * the folder does not exist. Changes nothing. The caller frees the list. */
enum vp_status vp_ckpt_list(const char *folder, struct vp_ckpt_entry **out,
                            int *n_out, struct vp_err *err);

/* Finds the complete checkpoint with the lowest score, the earliest of equals.
 * Checks manifests and file sizes only. Returns VP_ERR_END if none has a
 * score. */
enum vp_status vp_ckpt_best(const char *folder, int64_t *step_out,
                            double *score_out, struct vp_err *err);

/* Creates the folder if it is missing, and removes or restores what a killed
 * process has left. Must be called once, before the first save. */
enum vp_status vp_ckpt_prepare(const char *folder, struct vp_err *err);

/* Renames the checkpoints that vp_ckpt_list() lists before `name` to
 * step-<n>.aside-<k>, for a run that resumes from `name` in this folder and
 * will write these steps again. Returns VP_ERR_IO and changes nothing if `name`
 * does not exist. `name` NULL: the run starts from the beginning, and all
 * checkpoints are set aside. */
enum vp_status vp_ckpt_set_aside(const char *folder, const char *name,
                                 struct vp_err *err);
/* Lists checkpoints that were set aside, newest first. The caller frees the
 * list. */
enum vp_status vp_ckpt_list_aside(const char *folder,
                                  struct vp_ckpt_entry **out, int *n_out,
                                  struct vp_err *err);
/* Removes all checkpoints that were set aside. */
enum vp_status vp_ckpt_drop_aside(const char *folder, struct vp_err *err);

/* Keeps the `keep` newest complete checkpoints up to `step`, the best one, all
 * after `step`, and those that cannot be read; removes the others. `keep` 0
 * keeps all. */
enum vp_status vp_ckpt_prune(const char *folder, int64_t step, int keep,
                             struct vp_err *err);

/* Returns the disk space for `n_files` files of `n_bytes` in total, a manifest
 * and an allowance for the file system. */
int64_t vp_ckpt_disk_bytes(int64_t n_bytes, int n_files);

/* Reads the free bytes of the disk that holds (or would hold) `path`; INT64_MAX
 * if the file system does not report them. */
enum vp_status vp_ckpt_free_bytes(const char *path, int64_t *n_out,
                                  struct vp_err *err);

/* Returns VP_ERR_IO and a message with both numbers if less than `n_bytes` are
 * free. */
enum vp_status vp_ckpt_space(const char *path, int64_t n_bytes,
                             struct vp_err *err);

/* ---- Saving ------------------------------------------------------------- */

/* The content of one file in memory. */
struct vp_ckpt_image {
    int block;
    const unsigned char *bytes;
    int64_t n_bytes;
};

/* A file of a checkpoint that was written to disk. */
struct vp_ckpt_part {
    int block;
    struct vp_st_seal seal;
};

/* Several processes that save one checkpoint: each writes its own blocks. When
 * all files are written, the lead writes the manifest and renames the folder.
 * The folder must be the same for all. */
struct vp_ckpt_team {
    void *ctx;
    bool is_lead;
    /* Called by processes other than the lead: reports the `n` written files to
     * the lead; n is -1 after a failure. */
    enum vp_status (*report_files)(void *ctx, int64_t step,
                                   const struct vp_ckpt_part *parts, int n,
                                   const atomic_bool *give_up,
                                   struct vp_err *err);
    /* Called by the lead: collects the files that all others have written, in
     * any order. `parts` has max_parts elements. Returns when no other process
     * is writing, also if one has failed; earlier only if *give_up is true. */
    enum vp_status (*collect_files)(void *ctx, int64_t step,
                                    struct vp_ckpt_part *parts, int *n_out,
                                    const atomic_bool *give_up,
                                    struct vp_err *err);
    int max_parts;
};

struct vp_ckpt_save {
    int64_t step;      /* 0 .. VP_CKPT_MAX_STEP */
    double score;      /* NAN = none */
    const char *facts; /* a JSON object */
    int n_images;
    const struct vp_ckpt_image *images; /* blocks ascend */
    const atomic_bool *give_up; /* set to true by another thread: the save ends
                                   soon with VP_ERR_ABORTED; may be NULL */
    const struct vp_ckpt_team *team; /* NULL: this process writes all */
    /* Optional. Called by the lead when all files are on disk, before the
     * checkpoint is renamed; an error prevents that. */
    enum vp_status (*before_publish)(void *ctx, struct vp_err *err);
    void *publish_ctx;
};

/* Saves one checkpoint in a prepared folder. After a failure either the folder
 * is unchanged, or the checkpoint exists but may be lost in a power failure. In
 * a team all processes save the same step, and for processes other than the
 * lead VP_OK does not mean that the checkpoint is complete. */
enum vp_status vp_ckpt_save(const char *folder, const struct vp_ckpt_save *save,
                            struct vp_err *err);

#endif
