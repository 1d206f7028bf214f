/* Checks that the disk has space for the checkpoints that a run will write. */
#ifndef VP_RUN_DISK_SPACE_H
#define VP_RUN_DISK_SPACE_H

#include "config/config.h"
#include "run/summary.h"

struct vp_disk_space {
    int64_t n_bytes; /* bytes of one checkpoint on disk */
    int64_t n_saves; /* checkpoints still to be written, at most */
    int64_t n_there; /* checkpoints that are on the disk already */
    int keep;        /* keep_checkpoints */
    bool keeps_best; /* the checkpoint with the best score is kept as well */
    int64_t n_free;  /* free bytes on the disk */
    char aside[128]; /* names of checkpoints that were set aside; "": none */
};

/* Returns the largest number of checkpoints that exist at a time beyond those
 * on the disk: an old one is removed only after the new one is complete. */
int64_t vp_disk_space_need(const struct vp_disk_space *disk);
/* Returns VP_ERR_INVALID, with the numbers and a remedy, if they do not fit. */
enum vp_status vp_disk_space_judge(const struct vp_disk_space *disk,
                                   const char *folder, struct vp_err *err);

/* Fills `out` for the run folder `folder`, which need not exist yet. */
enum vp_status vp_disk_space_measure(const struct vp_config *config,
                                     const struct vp_run_summary *summary,
                                     const char *folder,
                                     struct vp_disk_space *out,
                                     struct vp_err *err);
/* vp_disk_space_measure(), then vp_disk_space_judge(). */
enum vp_status vp_disk_space_check(const struct vp_config *config,
                                   const struct vp_run_summary *summary,
                                   const char *folder, struct vp_err *err);

#endif
