/* Whether the disk has room for the checkpoints that a run will make. */
#ifndef VP_RUN_ROOM_H
#define VP_RUN_ROOM_H

#include "run/run.h"

struct vp_room {
    int64_t n_bytes; /* of a checkpoint on disk */
    int64_t n_saves; /* that are to come, at most */
    int64_t n_there; /* checkpoints that have their room already */
    int keep;        /* keep_checkpoints */
    bool keeps_best; /* one more, by its evaluation */
    int64_t n_free;  /* bytes */
    char aside[128]; /* names of checkpoints that were set aside; "": none */
};

/* The most checkpoints that there will be at a time beside those that are there:
 * an old one goes when the new one is complete. */
int64_t vp_room_need(const struct vp_room *room);
/* VP_ERR_INVALID, with the numbers and what helps, if that is too much. */
enum vp_status vp_room_judge(const struct vp_room *room, const char *folder,
                             struct vp_err *err);

/* Looks at the disk of the run folder, which need not exist yet. */
enum vp_status vp_room_measure(const struct vp_config *config,
                               const struct vp_run_summary *summary,
                               const char *folder, struct vp_room *out,
                               struct vp_err *err);
/* Measures and judges. */
enum vp_status vp_room_check(const struct vp_config *config,
                             const struct vp_run_summary *summary,
                             const char *folder, struct vp_err *err);

#endif
