/* Finds the token files of a split. */
#ifndef VP_DATA_TOKENS_FIND_H
#define VP_DATA_TOKENS_FIND_H

#include "base/status.h"
#include "data/data_config.h"
#include "data/skipped.h"

/* Paths of `.bin` files, or of `.idx` files whose `.bin` lies beside them. */
struct vp_token_files {
    char **path;
    int n, capacity;
    bool is_split; /* the folder has files of its own for evaluation */
    struct vp_skipped skipped;
};

/* The files of config->split at config->path, which is a file or a folder, in
 * the byte order of names. `indexed`: those with an index. Release also after an
 * error. */
enum vp_status vp_token_files_find(const struct vp_data_config *config,
                                   bool indexed, struct vp_token_files *files,
                                   struct vp_err *err);
void vp_token_files_release(struct vp_token_files *files);

/* Writes `path` with another ending of four bytes: ".bin" for ".idx". */
void vp_token_files_beside(const char *path, const char *ending, char *out,
                           size_t n_bytes);

#endif
