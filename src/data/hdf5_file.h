/* Shard files: finding them, opening them with all checks, reading rows. What
 * is in the rows is the business of hdf5.c. Everything of libhdf5 is here. */
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
    const void *image; /* the bytes, or NULL: they are in the file */
    size_t n_image;

    /* Set by vp_shard_check(): */
    int64_t n_rows, seq, n_pred;
    int64_t n_bytes; /* the file as it was */
    struct timespec changed;
};

struct vp_shards {
    struct vp_shard *shard;
    int n;
    bool is_split; /* the folder has shards of its own for evaluation */
};

/* The shards of a split; `path` may be a single file. Release with
 * vp_shards_release(), also after an error. */
enum vp_status vp_shards_find(const char *path, enum vp_data_split split,
                              struct vp_shards *shards, struct vp_err *err);
/* One shard in memory; `image` is borrowed. */
enum vp_status vp_shards_from_image(const void *image, size_t n_image,
                                    struct vp_shards *shards,
                                    struct vp_err *err);
void vp_shards_release(struct vp_shards *shards);
/* Counts what lies beside the shards of a folder and is not read; hidden names
 * do not count. Returns false if there is nothing, or `path` is no folder. */
bool vp_shards_skipped(const char *path, struct vp_skipped *skipped);

/* Structure, types and shapes. */
enum vp_status vp_shard_check(struct vp_shard *shard, struct vp_err *err);

/* A shard that is open for reading. */
struct vp_shard_file {
    const struct vp_shard *shard;
    int64_t handle;
};

/* Refused if the file is not as it was when it was checked. Allocates nothing
 * but what libhdf5 does. */
enum vp_status vp_shard_open(const struct vp_shard *shard,
                             struct vp_shard_file *file, struct vp_err *err);
void vp_shard_close(struct vp_shard_file *file);
/* Rows [row, row + n_rows) of a data set; numbers beyond int32 become the
 * nearest int32. */
enum vp_status vp_shard_read(struct vp_shard_file *file, enum vp_shard_set set,
                             int64_t row, int64_t n_rows, int32_t *out,
                             struct vp_err *err);

#endif
