/* Contract of the CHID reader for arbitrary bytes: it refuses them with one
 * line that names the file, or gives valid batches. Shared by fuzz_chid.c and
 * test_chid.c. */
#ifndef VP_TESTS_FUZZ_CHID_INPUT_H
#define VP_TESTS_FUZZ_CHID_INPUT_H

#include "data/data.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHID_FUZZ_VOCAB = 300, CHID_FUZZ_SEQ = 12 };

static void chid_fuzz_check(const struct vp_batch *batch)
{
    for (int64_t i = 0; i < 4; i++) {
        int n_labels = 0;

        for (int64_t t = 0; t < CHID_FUZZ_SEQ; t++) {
            int64_t at = i * CHID_FUZZ_SEQ + t;
            int32_t id = batch->array[VP_ROLE_TOKENS][at];
            int32_t label = batch->array[VP_ROLE_LABELS][at];

            VP_BUG_ON(id < 0 || id >= CHID_FUZZ_VOCAB);
            VP_BUG_ON(label < -1 || label >= CHID_FUZZ_VOCAB);
            n_labels += label >= 0;
        }
        VP_BUG_ON(n_labels != (i < batch->n_samples));
    }
}

static enum vp_status chid_fuzz_read(const char *path, struct vp_err *err)
{
    static const struct vp_dims dims = { 4, CHID_FUZZ_SEQ, 0, 0 };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = path,
                                     .format = VP_FORMAT_CHID,
                                     .vocab = CHID_FUZZ_VOCAB,
                                     .dims = &dims,
                                     .n_dims = 1 };
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    enum vp_status st = vp_data_open(&config, &data, err);
    int64_t n = st == VP_OK ? vp_data_info(data)->n_batches : 0;

    if (st == VP_OK)
        st = vp_batch_create(data, &batch);
    for (int64_t m = 0; st == VP_OK && m < n; m++) {
        st = vp_data_fill(data, (uint64_t)m, batch, err);
        if (st == VP_OK)
            chid_fuzz_check(batch);
    }
    vp_batch_free(batch);
    vp_data_close(data);
    if (st != VP_OK)
        VP_BUG_ON(!strstr(err->text, "; ") || strchr(err->text, '\n') ||
                  !strstr(err->text, path));
    return st;
}

#endif
