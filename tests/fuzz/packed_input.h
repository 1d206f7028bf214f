/* Contract of the reader of Megatron-LM sentences for arbitrary bytes: it
 * refuses them with one line, or gives samples that BERT can be trained on.
 * Shared by fuzz_packed.c and test_packed.c. */
#ifndef VP_TESTS_FUZZ_PACKED_INPUT_H
#define VP_TESTS_FUZZ_PACKED_INPUT_H

#include "data/data.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKED_VOCAB = 4096, PACKED_SEQ = 32, PACKED_BATCH = 4 };

static const struct vp_dims packed_dims[] = {
    { PACKED_BATCH, PACKED_SEQ, 0, PACKED_BATCH * 5 },
    { PACKED_BATCH, PACKED_SEQ, 0, PACKED_BATCH *PACKED_SEQ },
};

static struct vp_data_config packed_config(const char *path)
{
    return (struct vp_data_config){ .source = VP_DATA_FILES,
                                    .task = VP_DATA_MASKED_LM,
                                    .path = path,
                                    .vocab = PACKED_VOCAB,
                                    .mask_prob = 0.15f,
                                    .has_special = true,
                                    .pad_token = 0,
                                    .cls_token = 1,
                                    .sep_token = 2,
                                    .mask_token = 3,
                                    .seed = 1,
                                    .dims = packed_dims,
                                    .n_dims = 2 };
}

/* Checks one row: [CLS] A [SEP] B [SEP], then padding. */
static inline void packed_check_row(const struct vp_batch *batch, int64_t row)
{
    const int32_t *ids = batch->array[VP_ROLE_TOKENS] + row * PACKED_SEQ;
    const int32_t *mask = batch->array[VP_ROLE_MASK] + row * PACKED_SEQ;
    const int32_t *types = batch->array[VP_ROLE_TYPES] + row * PACKED_SEQ;
    int64_t n = 0;

    while (n < PACKED_SEQ && mask[n] == 1)
        n++;
    VP_BUG_ON(n < 5 || ids[0] != 1 || ids[n - 1] != 2);
    for (int64_t t = 0; t < PACKED_SEQ; t++) {
        VP_BUG_ON(ids[t] < 0 || ids[t] >= PACKED_VOCAB);
        VP_BUG_ON(t >= n && (mask[t] != 0 || ids[t] != 0));
        VP_BUG_ON(t > 0 && t < n && types[t] < types[t - 1]);
    }
}

/* Opens the files at `path` and reads an epoch. Returns the first error. */
static inline enum vp_status packed_read(const char *path, float random_next,
                                         struct vp_err *err)
{
    struct vp_data_config config = packed_config(path);
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    enum vp_status st;
    int64_t n;

    config.random_next = random_next;
    config.format = VP_FORMAT_MEGATRON;
    st = vp_data_open(&config, &data, err);
    n = st == VP_OK ? vp_data_info(data)->n_batches : 0;
    if (st == VP_OK)
        st = vp_batch_create(data, &batch);
    for (int64_t m = 0; st == VP_OK && m < n && m < 64; m++) {
        st = vp_data_fill(data, (uint64_t)m, batch, err);
        for (int64_t i = 0; st == VP_OK && i < batch->n_samples; i++)
            packed_check_row(batch, i);
    }
    vp_batch_free(batch);
    vp_data_close(data);
    if (st != VP_OK)
        VP_BUG_ON(!strstr(err->text, "; ") || strchr(err->text, '\n'));
    return st;
}

#endif
