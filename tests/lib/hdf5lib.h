/* HDF5 shards of tests/golden, opened as training opens them. Allocations and
 * reads of libhdf5 are counted, and the n-th one can be made to fail. */
#ifndef VP_TESTS_LIB_HDF5LIB_H
#define VP_TESTS_LIB_HDF5LIB_H

#include "data/internal.h"
#include "lib/golden.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/hdf5/"

enum { VOCAB = 200, MAX_ROWS = 400, N_MUTANTS = 8400 };

/* ---- Allocations and reads, wrapped at link time ------------------------ */

extern atomic_int n_allocations, n_reads;

extern int failing_allocation, failing_read; /* the n-th fails; 0: none */

/* ---- Shards and their contents ------------------------------------------ */

struct gold {
    struct golden *file;
    int64_t n_rows, seq;
    const int32_t *ids, *mask, *types, *labels; /* [n_rows, seq] */
};

struct gold open_gold(const char *name);

/* How to open shards. A field that is 0 has its default. */
struct setup {
    const char *path;
    int64_t batch, seq, max_pred, block;
    enum vp_data_split split;
    uint64_t seed;
    const void *image;
    size_t n_image;
    int64_t vocab;
    bool one_bucket;
};

/* An open data set, and the dims that it borrows. */
struct shards {
    struct vp_dims dims[2];
    struct vp_data_config config;
    struct vp_data *data;
    struct vp_batch *batch;
};

enum vp_status try_open(const struct setup *setup, struct shards *shards,
                        struct vp_err *err);

void close_shards(struct shards *shards);

void open_shards(const struct setup *setup, struct shards *shards);

/* ---- Batches to compare with -------------------------------------------- */

/* Returns a copy of batch `m` to compare with. */
struct vp_batch *take_batch(const struct shards *shards, uint64_t m);

/* ---- Files -------------------------------------------------------------- */

void copy_file(const char *from, const char *to);

/* ---- Damaged files ------------------------------------------------------ */

#define BAD(name) GOLDEN "bad/" name ".h5"

#endif
