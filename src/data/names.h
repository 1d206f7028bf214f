/* Reads the names in a folder in sorted order: the order of readdir() differs
 * between file systems. */
#ifndef VP_DATA_NAMES_H
#define VP_DATA_NAMES_H

#include "base/status.h"

#include <stdbool.h>

struct vp_names {
    char **name;
    size_t n, capacity;
};

/* Reads the names in the folder `path` that do not begin with a dot, in byte
 * order. `names` must be zero before; release it also after an error. */
enum vp_status vp_names_read(const char *path, struct vp_names *names,
                             struct vp_err *err);
void vp_names_release(struct vp_names *names);

#endif
