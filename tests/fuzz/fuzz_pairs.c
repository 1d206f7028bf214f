/* libFuzzer target: reads any bytes as a dictionary of fairseq, as a .tsv of
 * two columns, and as lines of JSON with two languages. */
#include "data/data.h"
#include "data/tokens/dict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char path[2][64];

static void write_file(const char *name, const uint8_t *bytes, size_t n)
{
    FILE *file = fopen(name, "wb");

    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

static void check_line(enum vp_status st, const struct vp_err *err)
{
    if (st != VP_OK)
        VP_BUG_ON(!strstr(err->text, "; ") || strchr(err->text, '\n'));
}

static void read_pairs(const char *name)
{
    static const struct vp_dims dims[] = { { 8, 8, 8, 0 }, { 2, 40, 40, 0 } };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_PAIRS,
                                     .path = name,
                                     .source_lang = "de",
                                     .target_lang = "en",
                                     .dims = dims,
                                     .n_dims = 2 };
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_data_open(&config, &data, &err);

    check_line(st, &err);
    if (st == VP_OK) {
        VP_BUG_ON(vp_batch_create(data, &batch) != VP_OK);
        for (int64_t m = 0; m < vp_data_info(data)->n_batches; m++)
            VP_BUG_ON(vp_data_fill(data, (uint64_t)m, batch, &err) != VP_OK);
    }
    vp_batch_free(batch);
    vp_data_close(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct vp_err err = { .text = "" };
    int64_t n_ids = 0;
    enum vp_status st;

    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof(path[i]), "/dev/shm/vpipe-fuzz-%d.%s",
                 getpid(), i ? "jsonl" : "tsv");
        write_file(path[i], bytes, n);
        read_pairs(path[i]);
    }
    st = vp_dict_read(path[0], &n_ids, &err);
    check_line(st, &err);
    VP_BUG_ON(st == VP_OK && n_ids < VP_DICT_FIRST);
    return 0;
}
