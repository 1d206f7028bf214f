/* Contract of the readers of token files for arbitrary bytes: they refuse them
 * with one line that names a file, or give batches that a model can be trained
 * on. Shared by fuzz_tokens.c and test_tokens.c. */
#ifndef VP_TESTS_FUZZ_TOKEN_INPUT_H
#define VP_TESTS_FUZZ_TOKEN_INPUT_H

#include "data/data.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKEN_FUZZ_VOCAB = 60000, TOKEN_FUZZ_BATCHES = 64 };

static const struct vp_dims token_fuzz_dims = { 4, 8, 0, 0 };

static void token_fuzz_check(const struct vp_batch *batch)
{
    for (int64_t i = 0; i < 4 * 8; i++) {
        int32_t id = batch->array[VP_ROLE_TOKENS][i];
        int32_t label = batch->array[VP_ROLE_LABELS][i];
        bool real = i < 8 * batch->n_samples;

        VP_BUG_ON(id < 0 || id >= TOKEN_FUZZ_VOCAB);
        VP_BUG_ON(label < (real ? 0 : -1) || label >= TOKEN_FUZZ_VOCAB);
        VP_BUG_ON(batch->array[VP_ROLE_MASK][i] != real);
    }
}

/* Opens the files at `path` and reads them. Returns the first error. */
static enum vp_status token_fuzz_read(const char *path,
                                      enum vp_data_format format, bool ends,
                                      struct vp_err *err)
{
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = path,
                                     .format = format,
                                     .has_document_end = ends,
                                     .document_end = 7,
                                     .vocab = TOKEN_FUZZ_VOCAB,
                                     .dims = &token_fuzz_dims,
                                     .n_dims = 1 };
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    enum vp_status st = vp_data_open(&config, &data, err);
    int64_t n = st == VP_OK ? vp_data_info(data)->n_batches : 0;
    char stem[512];

    if (st == VP_OK)
        st = vp_batch_create(data, &batch);
    for (int64_t m = 0; st == VP_OK && m < n && m < TOKEN_FUZZ_BATCHES; m++) {
        st = vp_data_fill(data, (uint64_t)m, batch, err);
        if (st == VP_OK)
            token_fuzz_check(batch);
    }
    vp_batch_free(batch);
    vp_data_close(data);
    if (st != VP_OK) {
        VP_BUG_ON(!strstr(err->text, "; ") || strchr(err->text, '\n'));
        /* The message names the index or the .bin beside it. */
        snprintf(stem, sizeof(stem), "%.*s", (int)strlen(path) - 3, path);
        VP_BUG_ON(!strstr(err->text, stem));
    }
    return st;
}

#endif
