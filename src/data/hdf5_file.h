/* Shard files: finds them, opens them with all checks and reads rows. hdf5.c
 * checks the values in the rows. hdf5_file.c is the only user of libhdf5. */
#ifndef VP_DATA_HDF5_FILE_H
#define VP_DATA_HDF5_FILE_H

#include "base/status.h"
#include "data/data_config.h"
#include "data/skipped.h"

#include <stddef.h>
#include <time.h>

enum vp_shard_set {
    VP_SHARD_IDS,
    VP_SHARD_MASK,
    VP_SHARD_TYPES,
    VP_SHARD_POSITIONS,
    VP_SHARD_LABELS,
    VP_SHARD_SETS
};

extern const char *const vp_shard_sets[VP_SHARD_SETS];

struct vp_shard {
    char *path;
    const void *image; /* bytes of the shard; NULL: read from the file */
    size_t n_image;

    /* Set by vp_shard_check(): */
    int64_t n_rows, seq, n_pred;
    int64_t n_bytes; /* size and modification time at the check */
    struct timespec changed;
};

struct vp_shards {
    struct vp_shard *shard;
    int n;
    bool is_split; /* the folder has separate shards for evaluation */
};

/* Finds the shards of a split; `path` may be a single file. Release with
 * vp_shards_release(), also after an error. */
enum vp_status vp_shards_find(const char *path, enum vp_data_split split,
                              struct vp_shards *shards, struct vp_err *err);
/* Makes a list of one shard in memory; borrows `image`. */
enum vp_status vp_shards_from_image(const void *image, size_t n_image,
                                    struct vp_shards *shards,
                                    struct vp_err *err);
void vp_shards_release(struct vp_shards *shards);
/* Counts the entries of the folder `path` that are not shards; hidden names do
 * not count. Returns false if there are none or `path` is not a folder. */
bool vp_shards_skipped(const char *path, struct vp_skipped *skipped);

/* Checks structure, types and shapes of a shard and sets its sizes. */
enum vp_status vp_shard_check(struct vp_shard *shard, struct vp_err *err);

/* A shard that is open for reading. */
struct vp_shard_file {
    const struct vp_shard *shard;
    int64_t handle;
};

/* Opens a checked shard; refuses a file that has changed since the check.
 * Allocates no memory except in libhdf5. */
enum vp_status vp_shard_open(const struct vp_shard *shard,
                             struct vp_shard_file *file, struct vp_err *err);
void vp_shard_close(struct vp_shard_file *file);
/* Reads rows [row, row + n_rows) of a data set. Numbers outside the range of
 * int32 are clamped. */
enum vp_status vp_shard_read(struct vp_shard_file *file, enum vp_shard_set set,
                             int64_t row, int64_t n_rows, int32_t *out,
                             struct vp_err *err);

#endif
