/* curve_gpu CASE FOLDER STEPS: trains a model in bf16 without dropout, on a GPU
 * or, if the model is small, on one core. Writes to FOLDER the files with which
 * another program can repeat the training: `weights`, the initial weights in
 * floats, `batches`, all batches in 32-bit integers, and `index.json`, with
 * names, offsets and losses. */
#include "backend/plugin.h"
#include "lab.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 1, MAX_STEPS = 1000 };
static const float rate = 5e-4f;

static const struct {
    const char *name;
    bool gpu;
    struct lab_size size;
} cases[] = {
    { "bert",
      true,
      { "bert", 2048, 512, 6, 8, 128, 32, 128, 0.0, true, VP_DTYPE_BF16 } },
    { "gpt2",
      true,
      { "gpt2", 2048, 512, 6, 8, 256, 16, 0, 0.0, true, VP_DTYPE_BF16 } },
    { "bert-small",
      false,
      { "bert", 1024, 128, 4, 4, 64, 16, 64, 0.0, true, VP_DTYPE_BF16 } },
    { "gpt2-small",
      false,
      { "gpt2", 512, 128, 4, 4, 64, 16, 0, 0.0, true, VP_DTYPE_BF16 } },
    { "gpt2-wide",
      false,
      { "gpt2", 1024, 256, 2, 4, 100, 8, 0, 0.0, true, VP_DTYPE_BF16 } },
};

static FILE *open_file(const char *folder, const char *name)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file) {
        fprintf(stderr, "curve_gpu: cannot write %s\n", path);
        exit(1);
    }
    return file;
}

static void write_weights(const struct vp_graph *graph, const char *folder,
                          FILE *index)
{
    FILE *file = open_file(folder, "weights");
    const char *comma = "";

    fputs("\"weights\": [", index);
    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];
        size_t n = (size_t)(param->rows * param->cols);
        float *data = malloc(n * sizeof(*data));

        if (param->tied_to != VP_NONE || !data) {
            free(data);
            continue;
        }
        vp_param_init(graph, par, SEED, data);
        fwrite(data, sizeof(*data), n, file);
        for (int i = 0; i < param->n_parts; i++) {
            fprintf(index,
                    "%s\n {\"name\": \"%s\", \"rows\": %lld, \"cols\": %lld, "
                    "\"transposed\": %d, \"decay\": %d}",
                    comma, param->part[i].name, (long long)param->part[i].rows,
                    (long long)param->cols, param->stored_transposed,
                    param->decay);
            comma = ",";
        }
        free(data);
    }
    fputs("],\n", index);
    fclose(file);
}

static void write_batches(const struct vp_data *data,
                          const struct vp_dims *dims, int n_steps,
                          const char *folder)
{
    static const enum vp_role roles[] = { VP_ROLE_TOKENS, VP_ROLE_TYPES,
                                          VP_ROLE_MASK, VP_ROLE_LABEL_ROWS,
                                          VP_ROLE_LABELS };
    FILE *file = open_file(folder, "batches");
    struct vp_batch *batch = NULL;
    struct vp_err err = { .text = "" };

    if (vp_batch_create(data, &batch) != VP_OK)
        lab_die("batches", &err);
    for (int m = 0; m < n_steps; m++) {
        if (vp_data_fill(data, (uint64_t)m, batch, &err) != VP_OK)
            lab_die("batches", &err);
        for (size_t i = 0; i < VP_COUNT_OF(roles); i++)
            if (batch->array[roles[i]])
                fwrite(batch->array[roles[i]], sizeof(int32_t),
                       (size_t)vp_dims_role(dims, roles[i]), file);
    }
    vp_batch_free(batch);
    fclose(file);
}

static void write_losses(struct lab *lab, int n_steps, FILE *index)
{
    struct vp_step_report report;
    struct vp_err err = { .text = "" };

    fputs("\"losses\": [", index);
    for (int i = 0; i < n_steps; i++) {
        if (vp_trainer_step(lab_trainer(lab), &report, &err) != VP_OK)
            lab_die("training", &err);
        fprintf(index, "%s%.9g", i ? ", " : "", report.loss);
    }
    fputs("]}\n", index);
}

static _Noreturn void usage(void)
{
    fputs("usage: curve_gpu CASE FOLDER STEPS\ncases:", stderr);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        fprintf(stderr, " %s", cases[i].name);
    fputc('\n', stderr);
    exit(2);
}

static size_t find_case(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        if (strcmp(cases[i].name, name) == 0)
            return i;
    usage();
}

int main(int argc, char **argv)
{
    int n_steps = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 0;
    struct lab_spec spec = {
        .schedule = "1f1b", .n_stages = 1, .n_mb = 1, .n_threads = 1, .lr = rate
    };
    const struct lab_size *s = &spec.size;
    struct vp_err err = { .text = "" };
    struct vp_dims dims;
    struct lab *lab;
    FILE *index;
    size_t which;

    if (n_steps < 1 || n_steps > MAX_STEPS)
        usage();
    which = find_case(argv[1]);
    spec.size = cases[which].size;
    if (cases[which].gpu &&
        vp_backend_load("cuda", &spec.backend, &err) != VP_OK)
        lab_die("backend", &err);
    lab = lab_open(&spec);
    dims = (struct vp_dims){ s->batch, s->seq, 0,
                             strcmp(s->model, "bert") == 0
                                 ? (int64_t)s->batch * s->seq
                                 : 0 };
    index = open_file(argv[2], "index.json");
    fprintf(index,
            "{\"model\": \"%s\", \"device\": \"%s\", \"vocab\": %d, "
            "\"hidden\": %d, \"layers\": %d, \"heads\": %d, \"seq\": %d, "
            "\"batch\": %d, \"steps\": %d, \"lr\": %g,\n",
            s->model, cases[which].gpu ? "cuda" : "cpu", s->vocab, s->hidden,
            s->layers, s->heads, s->seq, s->batch, n_steps, (double)rate);
    write_weights(lab_graph(lab), argv[2], index);
    write_batches(lab_data(lab), &dims, n_steps, argv[2]);
    write_losses(lab, n_steps, index);
    fclose(index);
    lab_close(lab);
    return 0;
}
