/* A folder in which files are written before they are published,
 * FOLDER/.NAME.partial.
 * It is locked while a process writes; the lock ends with the process, so the
 * next one recognises what a killed process has left and removes it. */
#ifndef VP_DATA_CORPUS_WORK_H
#define VP_DATA_CORPUS_WORK_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_work {
    char folder[PATH_MAX]; /* where the files will be */
    char path[PATH_MAX];   /* where they are written */
    char name[256];
    int lock;
    bool created_folder;
};

/* True if a file of this name would be read together with new ones. `name` has
 * the given beginning; `rest` is what follows it. */
typedef bool (*vp_work_present_fn)(const char *rest);

/* Creates the folder if it is missing. Refused if it holds files whose names
 * begin with `name` and for which `present` returns true, or if another process
 * writes files of this name. */
enum vp_status vp_work_open(const char *folder, const char *name,
                            vp_work_present_fn present, struct vp_work *out,
                            struct vp_err *err);
/* Moves all files to the folder and ends the work. `last`, which may be NULL, is
 * moved last: without this file the set is seen to be incomplete. After an error
 * nothing is left behind. */
enum vp_status vp_work_publish(struct vp_work *work, const char *last,
                               struct vp_err *err);
/* Removes what was written. */
void vp_work_abandon(struct vp_work *work);

/* Writes "FOLDER/.NAME.partial/<file>". */
enum vp_status vp_work_path(const struct vp_work *work, const char *file,
                            char out[PATH_MAX], struct vp_err *err);

/* Refuses if the disk of `path` is known to have less than n_bytes left. */
enum vp_status vp_work_check_space(const char *path, int64_t n_bytes,
                                   struct vp_err *err);

#endif
