/* Contract of the reader of HDF5 shards for arbitrary bytes: it refuses them
 * with one line, or gives samples that a model can be trained on. Shared by
 * fuzz_hdf5.c and test_hdf5.c. */
#ifndef VP_TESTS_FUZZ_SHARD_INPUT_H
#define VP_TESTS_FUZZ_SHARD_INPUT_H

#include "data/data.h"
#include "data/hdf5.h"
#include "data/internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_VOCAB = 200, FUZZ_BATCHES = 64 };

static const struct vp_dims fuzz_dims[] = { { 4, 16, 0, 8 }, { 4, 16, 0, 64 } };
static struct vp_hdf5_options fuzz_options;

static enum vp_status fuzz_open(const struct vp_data_config *config,
                                const struct vp_data_window *window,
                                struct vp_source *source, struct vp_err *err)
{
    (void)window;
    return vp_hdf5_open(config, &fuzz_options, source, err);
}

/* Checks the ranges of ids, masks and labels that models rely on. */
static void fuzz_check(const struct vp_batch *batch)
{
    const struct vp_dims *dims = &fuzz_dims[batch->bucket];

    for (int64_t i = 0; i < dims->batch * dims->seq; i++) {
        int32_t id = batch->array[VP_ROLE_TOKENS][i];

        VP_BUG_ON(id < 0 || id >= FUZZ_VOCAB);
        VP_BUG_ON(batch->array[VP_ROLE_TYPES][i] & ~1);
        VP_BUG_ON(batch->array[VP_ROLE_MASK][i] & ~1);
    }
    for (int64_t i = 0; i < dims->n_labels; i++) {
        int32_t row = batch->array[VP_ROLE_LABEL_ROWS][i];
        int32_t label = batch->array[VP_ROLE_LABELS][i];

        VP_BUG_ON(row < -1 || row >= batch->n_samples * dims->seq);
        VP_BUG_ON(label < -1 || label >= FUZZ_VOCAB);
        VP_BUG_ON((row < 0) != (label < 0));
    }
}

static void fuzz_check_line(const struct vp_err *err)
{
    VP_BUG_ON(!strstr(err->text, "; ") || strchr(err->text, '\n'));
}

/* Reads up to FUZZ_BATCHES batches. Returns the first error. */
static enum vp_status fuzz_read(struct vp_data *data, struct vp_err *err)
{
    int64_t n = vp_data_info(data)->n_batches;
    struct vp_batch *batch = NULL;
    enum vp_status st = vp_batch_create(data, &batch);

    for (int64_t m = 0; st == VP_OK && m < n && m < FUZZ_BATCHES; m++) {
        st = vp_data_fill(data, (uint64_t)m, batch, err);
        if (st == VP_OK)
            fuzz_check(batch);
    }
    vp_batch_free(batch);
    return st;
}

static void fuzz_hdf5(const uint8_t *bytes, size_t n)
{
    struct vp_source_ops ops = vp_source_hdf5;
    struct vp_data_config config = { .source = VP_DATA_HDF5,
                                     .task = VP_DATA_MASKED_LM,
                                     .vocab = FUZZ_VOCAB,
                                     .mask_prob = 0.15f,
                                     .dims = fuzz_dims,
                                     .n_dims = 2 };
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (n == 0)
        return;
    ops.open = fuzz_open;
    fuzz_options = (struct vp_hdf5_options){ 40, bytes, n };
    st = vp_data_open_source(&config, &ops, &data, &err);
    if (st == VP_OK)
        st = fuzz_read(data, &err);
    if (st != VP_OK)
        fuzz_check_line(&err);
    vp_data_close(data);
}

#endif
