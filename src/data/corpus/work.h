/* A temporary folder, FOLDER/.NAME.partial, in which files are written before
 * they are renamed to FOLDER. It is locked while a process writes. The lock
 * ends with the process, so the next process can remove files that a killed
 * process has left. */
#ifndef VP_DATA_CORPUS_WORK_H
#define VP_DATA_CORPUS_WORK_H

#include "base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_work {
    char folder[PATH_MAX]; /* folder of the published files */
    char path[PATH_MAX];   /* folder of the temporary files */
    char name[256];
    int lock; /* descriptor of `path`; -1: not locked */
    bool created_folder;
};

/* Returns true if a file in FOLDER would be read together with the new ones.
 * The name of the file is NAME followed by `rest`. */
typedef bool (*vp_work_present_fn)(const char *rest);

/* Creates both folders if they are missing. Fails if `folder` holds files whose
 * names begin with `name` and for which `present` returns true, or if another
 * process writes files of this name. */
enum vp_status vp_work_open(const char *folder, const char *name,
                            vp_work_present_fn present, struct vp_work *out,
                            struct vp_err *err);
/* Renames all files to the folder and removes the temporary one. `last`, which
 * may be NULL, is renamed last: readers treat a set without it as incomplete.
 * After an error all files are removed. */
enum vp_status vp_work_publish(struct vp_work *work, const char *last,
                               struct vp_err *err);
/* Removes all temporary files, and `folder` if vp_work_open() created it. */
void vp_work_abandon(struct vp_work *work);

/* Writes "FOLDER/.NAME.partial/<file>". */
enum vp_status vp_work_path(const struct vp_work *work, const char *file,
                            char out[PATH_MAX], struct vp_err *err);

/* Returns an error if the file system of `path` has less than `n_bytes` of free
 * space; VP_OK if that is unknown. */
enum vp_status vp_work_check_space(const char *path, int64_t n_bytes,
                                   struct vp_err *err);

#endif
