/* Finds the token files of a split by their names. */
#ifndef VP_DATA_TOKENS_FIND_H
#define VP_DATA_TOKENS_FIND_H

#include "base/status.h"
#include "data/data_config.h"
#include "data/skipped.h"

/* Paths of `.bin` files, or of `.idx` files with a `.bin` of the same name. */
struct vp_token_files {
    char **path;
    int n, capacity;
    bool is_split; /* the folder has separate files for evaluation */
    struct vp_skipped skipped;
};

/* Finds the files of config->split at config->path, a file or a folder, in the
 * byte order of names. `indexed`: files with an index; false: without. Release
 * `files` also after an error. */
enum vp_status vp_token_files_find(const struct vp_data_config *config,
                                   bool indexed, struct vp_token_files *files,
                                   struct vp_err *err);
void vp_token_files_release(struct vp_token_files *files);

/* Writes `path` with its last four bytes replaced by `ending`: ".bin" or
 * ".idx". */
void vp_token_files_beside(const char *path, const char *ending, char *out,
                           size_t n_bytes);

#endif
