/* bench_input FILE [SECONDS [DOCUMENT_END]]: measures the tokens per second
 * that one core reads from token files, as batches of GPT-2 (8 x 1024), without
 * a model. The first pass may wait for the disk; the second reads from the page
 * cache. */
#include "base/clock.h"
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, SEQ = 1024 };

static double measure(const struct vp_data *data, struct vp_batch *batch,
                      uint64_t *m, double seconds)
{
    int64_t start = vp_clock_ns(), n_tokens = 0;
    struct vp_err err = { .text = "" };
    double past = 0.0;

    while (past < seconds) {
        if (vp_data_fill(data, (*m)++, batch, &err) != VP_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        n_tokens += batch->n_tokens;
        past = (double)(vp_clock_ns() - start) * 1e-9;
    }
    return (double)n_tokens / past;
}

int main(int argc, char **argv)
{
    static const struct vp_dims dims = { BATCH, SEQ, 0, 0 };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = argc > 1 ? argv[1] : NULL,
                                     .has_document_end = argc > 3,
                                     .seed = 1,
                                     .dims = &dims,
                                     .n_dims = 1 };
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 3.0;
    struct vp_err err = { .text = "" };
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    uint64_t m = 0;

    if (argc > 3)
        config.document_end = (int32_t)strtol(argv[3], NULL, 10);
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        printf("usage: bench_input FILE-OR-FOLDER [SECONDS [DOCUMENT_END]]\n");
        return argc < 2 ? 2 : 0;
    }
    if (vp_data_open(&config, &data, &err) != VP_OK ||
        vp_batch_create(data, &batch) != VP_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s\n", vp_data_info(data)->what);
    for (int pass = 0; pass < 2; pass++)
        printf("pass %d: %.1f M tokens/s\n", pass + 1,
               1e-6 * measure(data, batch, &m, seconds));
    vp_batch_free(batch);
    vp_data_close(data);
    return 0;
}
