#include "lib/hdf5lib.h"

#include "data/hdf5.h"
#include "lib/datalib.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- Allocations and reads, wrapped at link time ------------------------ */

void *__real_malloc(size_t n);

void *__real_calloc(size_t n, size_t size);

void *__real_realloc(void *p, size_t n);

int __real_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out);

void *__wrap_malloc(size_t n);

void *__wrap_calloc(size_t n, size_t size);

void *__wrap_realloc(void *p, size_t n);

int __wrap_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out);

atomic_int n_allocations, n_reads;

int failing_allocation, failing_read;

static bool is_next(atomic_int *n, int failing)
{
    return atomic_fetch_add(n, 1) + 1 == failing;
}

void *__wrap_malloc(size_t n)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_realloc(p, n);
}

int __wrap_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out)
{
    if (is_next(&n_reads, failing_read))
        return -1;
    return __real_H5Dread(set, type, memory, file, plist, out);
}

/* ---- Shards and their contents ------------------------------------------ */

struct gold open_gold(const char *name)
{
    struct gold gold;
    char path[512];

    snprintf(path, sizeof(path), GOLDEN "%s", name);
    gold.file = golden_open(path);
    gold.ids = golden_i32(gold.file, "input_ids", &gold.n_rows, &gold.seq);
    gold.mask = golden_i32(gold.file, "input_mask", NULL, NULL);
    gold.types = golden_i32(gold.file, "segment_ids", NULL, NULL);
    gold.labels = golden_i32(gold.file, "labels", NULL, NULL);
    assert_true(gold.n_rows <= MAX_ROWS);
    return gold;
}

static struct vp_hdf5_options shard_options;

static enum vp_status open_with_options(const struct vp_data_config *config,
                                        const struct vp_data_window *window,
                                        struct vp_source *source,
                                        struct vp_err *err)
{
    (void)window;
    return vp_hdf5_open(config, &shard_options, source, err);
}

enum vp_status try_open(const struct setup *setup, struct shards *shards,
                        struct vp_err *err)
{
    int64_t batch = setup->batch ? setup->batch : 4;
    int64_t seq = setup->seq ? setup->seq : 16;
    static struct vp_source_ops ops;
    enum vp_status st;

    *shards = (struct shards){
        .dims = { { batch, seq, 0,
                    batch * (setup->max_pred ? setup->max_pred : 3) },
                  { batch, seq, 0, batch * seq } },
        .config = { .source = VP_DATA_HDF5,
                    .task = VP_DATA_MASKED_LM,
                    .split = setup->split,
                    .path = setup->path,
                    .vocab = setup->vocab ? setup->vocab : VOCAB,
                    .seed = setup->seed,
                    .mask_prob = 0.15f,
                    .n_dims = setup->one_bucket ? 1 : 2 },
    };
    shards->config.dims = shards->dims;
    ops = vp_source_hdf5;
    ops.open = open_with_options;
    shard_options = (struct vp_hdf5_options){ setup->block, setup->image,
                                              setup->n_image };
    st = vp_data_open_source(&shards->config, &ops, &shards->data, err);
    if (st == VP_OK)
        st = vp_batch_create(shards->data, &shards->batch);
    return st;
}

void close_shards(struct shards *shards)
{
    vp_batch_free(shards->batch);
    vp_data_close(shards->data);
}

void open_shards(const struct setup *setup, struct shards *shards)
{
    struct vp_err err = { .text = "" };

    if (try_open(setup, shards, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Batches to compare with -------------------------------------------- */

struct vp_batch *take_batch(const struct shards *shards, uint64_t m)
{
    struct vp_batch *batch = make_batch(shards->data);

    fill(shards->data, m, batch);
    return batch;
}

/* ---- Files -------------------------------------------------------------- */

void copy_file(const char *from, const char *to)
{
    int64_t n;
    char *bytes = golden_slurp(from, "", &n);

    write_file(to, bytes, (size_t)n);
    free(bytes);
}
