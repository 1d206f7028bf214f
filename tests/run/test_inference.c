/* Trained models read from folders give the logits of transformers for any
 * partition and batch size, and evaluations equal a plain computation from the
 * logits. */
#include "ckpt/safetensors.h"
#include "config/load.h"
#include "lib/modellib.h"
#include "lib/removelib.h"
#include "run/evaluate.h"
#include "run/inference.h"
#include "run/logits.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SETS = 12, MAX_SEQUENCES = 64 };

static char root[64];

static const char *path_of(const char *name)
{
    static char path[8][256];
    static int turn;

    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", root, name);
    return path[turn];
}

/* ---- Models and tensors ------------------------------------------------- */

static struct vp_evaluation evaluate(const char *path, bool whole,
                                     const char *const *sets)
{
    struct vp_evaluation found = { .n_batches = 0 };
    struct vp_err err = { .text = "" };
    struct vp_evaluate_config config = { .whole = whole, .notice = ignore };
    struct model model;

    open_model(path, sets, &model);
    config.config = &model.config;
    config.source = model.source;
    if (vp_evaluate(&config, &found, &err) != VP_OK)
        fail_msg("%s", err.text);
    close_model(&model);
    return found;
}

/* A safetensors file and the data of its tensors. */
struct tensors {
    struct vp_st_file *file;
    void *data[8];
};

static void read_tensors(const char *path, struct tensors *out)
{
    struct vp_err err = { .text = "" };
    const struct vp_st_header *header;

    if (vp_st_open(path, NULL, &out->file, &err) != VP_OK)
        fail_msg("%s", err.text);
    header = vp_st_header(out->file);
    assert_in_range(header->n_tensors, 1, 8);
    for (int i = 0; i < header->n_tensors; i++) {
        const struct vp_st_tensor *tensor = &header->tensors[i];

        out->data[i] = malloc((size_t)tensor->n_bytes + 1);
        assert_non_null(out->data[i]);
        if (vp_st_read(out->file, tensor, out->data[i], &err) != VP_OK)
            fail_msg("%s", err.text);
    }
}

static void free_tensors(struct tensors *tensors)
{
    for (int i = 0; i < vp_st_header(tensors->file)->n_tensors; i++)
        free(tensors->data[i]);
    vp_st_close(tensors->file);
}

/* Returns the data of tensor `name` and its dimensions; fails if there is
 * none. */
static const void *find_tensor(const struct tensors *tensors, const char *name,
                               int64_t dims[3])
{
    const struct vp_st_header *header = vp_st_header(tensors->file);

    memset(dims, 0, 3 * sizeof(*dims));
    for (int i = 0; i < header->n_tensors; i++)
        if (strcmp(header->tensors[i].name, name) == 0) {
            memcpy(dims, header->tensors[i].dims, 3 * sizeof(*dims));
            return tensors->data[i];
        }
    fail_msg("no tensor %s", name);
    return NULL;
}

static void write_logits(const char *path, const char *const *sets,
                         const struct vp_sequence *sequences, int64_t n,
                         const char *file, struct tensors *out)
{
    struct vp_logits_config config = { .sequences = sequences,
                                       .n_sequences = n,
                                       .notice = ignore };
    struct vp_logits_shape shape;
    struct vp_err err = { .text = "" };
    struct model model;

    open_model(path, sets, &model);
    config.config = &model.config;
    config.source = model.source;
    if (vp_logits_write(&config, file, &shape, &err) != VP_OK)
        fail_msg("%s", err.text);
    close_model(&model);
    read_tensors(file, out);
}

static void assert_same_logits(const struct tensors *a, const struct tensors *b)
{
    int64_t dims[3], others[3];
    const void *x = find_tensor(a, "logits", dims);
    const void *y = find_tensor(b, "logits", others);

    assert_memory_equal(dims, others, sizeof(dims));
    assert_memory_equal(x, y,
                        (size_t)(dims[0] * dims[1] * dims[2]) * sizeof(float));
}

static void assert_near(double have, double want, double limit)
{
    if (!(fabs(have - want) <= limit * fabs(want)))
        fail_msg("%.17g is not %.17g", have, want);
}

/* ---- Logits of transformers --------------------------------------------- */

/* Copies two rows of ids from a file of expected results. */
static void read_rows(const struct tensors *gold, const char *ids_name,
                      const char *lengths_name, int32_t room[2][128],
                      int64_t lengths[2])
{
    int64_t dims[3], n_dims[3];
    const int64_t *ids = find_tensor(gold, ids_name, dims);
    const int64_t *n = find_tensor(gold, lengths_name, n_dims);

    for (int k = 0; k < 2; k++) {
        lengths[k] = n[k];
        for (int64_t t = 0; t < n[k]; t++)
            room[k][t] = (int32_t)ids[k * dims[1] + t];
    }
}

static void check_against_gold(const struct tensors *have,
                               const struct tensors *gold, const char *name)
{
    int64_t dims[3], gold_dims[3];
    const float *x = find_tensor(have, "logits", dims);
    const float *y = find_tensor(gold, "logits", gold_dims);
    double worst = 0.0, largest = 0.0;

    assert_memory_equal(dims, gold_dims, sizeof(dims));
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; i++) {
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)y[i]));
    }
    assert_true(largest > 0.5);
    if (!(worst <= 1e-4 * largest))
        fail_msg("%s: logits are off by %g of %g", name, worst, largest);
}

/* Sequences of 128 and of a few tokens have the logits that transformers
 * computed, for any partition and batch size. */
static void logits_are_those_of_transformers(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "m2m" };
    static const char *const sets[][MAX_SETS] = {
        { "stages=1", "batch_size=2", NULL },
        { "stages=2", "batch_size=2", NULL },
        { "stages=5", "batch_size=2", NULL },
        { "stages=2", "batch_size=1", NULL },
    };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(names); m++) {
        int32_t ids[2][128], target[2][128];
        int64_t n_ids[2], n_target[2] = { 0, 0 };
        struct vp_sequence sequences[2];
        struct tensors gold, first = { .file = NULL }, have;
        char folder[600], file[700];

        snprintf(folder, sizeof(folder), "%s/%s", golden("logits"), names[m]);
        snprintf(file, sizeof(file), "%s/logits.safetensors", folder);
        read_tensors(file, &gold);
        read_rows(&gold, "ids", "lengths", ids, n_ids);
        if (strcmp(names[m], "m2m") == 0)
            read_rows(&gold, "target_ids", "target_lengths", target, n_target);
        for (int k = 0; k < 2; k++)
            sequences[k] = (struct vp_sequence){ ids[k], target[k], n_ids[k],
                                                 n_target[k] };
        for (size_t i = 0; i < VP_COUNT_OF(sets); i++) {
            const char *with[MAX_SETS] = { sets[i][0], sets[i][1] };

            if (n_target[0] > 0) /* batch_size counts tokens */
                with[1] = i == 3 ? "batch_size=128" : "batch_size=256";
            write_logits(folder, with, sequences, 2, path_of("logits"), &have);
            check_against_gold(&have, &gold, names[m]);
            if (i == 0) {
                first = have;
                continue;
            }
            if (i < 3)
                assert_same_logits(&first, &have);
            free_tensors(&have);
        }
        free_tensors(&first);
        free_tensors(&gold);
    }
}

/* ---- Evaluations -------------------------------------------------------- */

/* Sums over the labels, computed from logits. */
struct literal {
    double loss, n, top1;
};

/* Scores logits; the label of token t of window k is labels[k * stride + t]. */
static struct literal score(const struct tensors *tensors,
                            const int32_t *labels, int64_t stride)
{
    struct literal sum = { 0.0, 0.0, 0.0 };
    int64_t dims[3], n_dims[3];
    const float *logits = find_tensor(tensors, "logits", dims);
    const int64_t *lengths = find_tensor(tensors, "lengths", n_dims);

    for (int64_t k = 0; k < dims[0]; k++)
        for (int64_t t = 0; t < lengths[k]; t++) {
            const float *x = logits + (k * dims[1] + t) * dims[2];
            int32_t label = labels[k * stride + t];
            int64_t best = 0;
            double total = 0.0;

            for (int64_t v = 0; v < dims[2]; v++) {
                total += exp((double)x[v]);
                best = x[v] > x[best] ? v : best;
            }
            sum.loss += log(total) - (double)x[label];
            sum.top1 += best == label;
            sum.n++;
        }
    return sum;
}

/* Reads the tokens of a file, two bytes each. Returns their number. */
static int64_t read_tokens(const char *path, int32_t *out, int64_t room)
{
    FILE *file = fopen(path, "rb");
    unsigned char pair[2];
    int64_t n = 0;

    assert_non_null(file);
    while (fread(pair, 1, 2, file) == 2) {
        assert_true(n < room);
        out[n++] = pair[0] | pair[1] << 8;
    }
    fclose(file);
    return n;
}

/* A GPT-2 from a Hugging Face folder is evaluated on windows of 8 tokens. Loss
 * and right guesses follow from the logits of those windows. */
static void a_loss_follows_from_logits(void **state)
{
    static char data[600];
    const char *sets[] = { data, "seq_length=8", "batch_size=3",
                           "data_format=nanogpt", NULL };
    int32_t tokens[256];
    struct vp_sequence sequences[MAX_SEQUENCES];
    struct vp_evaluation found;
    struct tensors tensors;
    struct literal want;
    int64_t n, n_windows;

    (void)state;
    snprintf(data, sizeof(data), "data_dir=%s", golden("hf/finetune"));
    n = read_tokens(golden("hf/finetune/val.bin"), tokens, 256);
    n_windows = (n - 1) / 8;
    for (int64_t k = 0; k < n_windows; k++)
        sequences[k] = (struct vp_sequence){ tokens + 8 * k, NULL, 8, 0 };
    /* Fails if the callee reads behind the last sequence. */
    sequences[n_windows] = (struct vp_sequence){ NULL, NULL, 8, 0 };
    write_logits(golden("hf/gpt2"), sets + 1, sequences, n_windows,
                 path_of("windows"), &tensors);
    want = score(&tensors, tokens + 1, 8);
    free_tensors(&tensors);

    found = evaluate(golden("hf/gpt2"), true, sets);
    assert_int_equal(found.n_samples, n_windows);
    assert_true(found.score.n_labels == want.n);
    assert_true(found.score.top1 == want.top1);
    assert_near(found.score.loss, want.loss, 1e-6);
    assert_int_equal(found.n_questions, 0);
}

/* With `whole`, no part of a file is held out. */
static void a_whole_file_is_evaluated(void **state)
{
    static char data[600];
    const char *sets[] = { data, "seq_length=2", "data_format=nanogpt", NULL };
    int32_t tokens[256];
    int64_t n;

    (void)state;
    snprintf(data, sizeof(data), "data_dir=%s",
             golden("hf/finetune/train.bin"));
    n = read_tokens(golden("hf/finetune/train.bin"), tokens, 256);
    assert_int_equal(evaluate(golden("hf/gpt2"), true, sets).n_samples,
                     (n - 1) / 2);
    assert_int_equal(evaluate(golden("hf/gpt2"), false, sets).n_samples,
                     (n - 1) / 2 / 10);
}

/* ---- Evaluations of runs ------------------------------------------------ */

static double eval_loss;

static void hear_eval(void *ctx, int64_t step, int64_t n_batches, double loss)
{
    (void)ctx;
    (void)step;
    (void)n_batches;
    eval_loss = loss;
}

static void train(const char *output, const char *const *more)
{
    static const char text[] =
        "vocab: 300\nhidden: 16\nlayers: 2\nheads: 2\nffn: 32\npositions: 24\n"
        "dropout: 0.1\nseq_length: 16\nbatch_size: 4\noptimizer: adamw\n"
        "learning_rate: 0.01\ntotal_steps: 4\neval_every: 4\n"
        "eval_batches: 100000\nthreads_per_stage: 1\n";
    struct vp_run_options options = { .output = output };
    struct vp_run_events events = { .on_eval = hear_eval };
    struct vp_err err = { .text = "" };
    struct vp_config config;
    int n = 0;

    while (more[n])
        n++;
    eval_loss = NAN;
    if (vp_config_parse("test.yml", text, sizeof(text) - 1, more, n, &config,
                        &err) != VP_OK ||
        vp_run_train(&config, &options, &events, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_config_release(&config);
}

static const struct trained {
    const char *name;
    const char *sets[MAX_SETS];
    const char *cuts[3]; /* stages of the evaluations */
    const char *batches[2];
} runs[] = {
    { "bert",
      { "model_type=bert", "synthetic_data=true", "stages=3", "sync_mode=asp" },
      { "stages=1", "stages=2", "stages=5" },
      { "batch_size=1", "batch_size=7" } },
    { "gpt2",
      { "model_type=gpt2", "synthetic_data=true", "stages=2" },
      { "stages=1", "stages=3", "stages=6" },
      { "batch_size=1", "batch_size=32" } },
    { "translation",
      { "model_type=translation", "synthetic_data=true", "batch_size=64",
        "label_smoothing=0" },
      { "stages=1", "stages=2", "stages=4" },
      { "batch_size=16", "batch_size=200" } },
};

static void train_all(void)
{
    for (size_t i = 0; i < VP_COUNT_OF(runs); i++)
        if (access(path_of(runs[i].name), F_OK) != 0)
            train(path_of(runs[i].name), runs[i].sets);
}

/* The evaluation of a run folder gives the last evaluation loss of the run, bit
 * for bit, for every partition. */
static void a_run_is_evaluated_as_in_training(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(runs); i++) {
        train(path_of(runs[i].name), runs[i].sets);
        for (size_t c = 0; c < VP_COUNT_OF(runs[i].cuts); c++) {
            const char *sets[] = { runs[i].cuts[c], NULL };
            struct vp_evaluation found = evaluate(path_of(runs[i].name), false,
                                                  sets);

            if (vp_score_loss(&found.score) != eval_loss)
                fail_msg("%s, %s: %.17g is not %.17g", runs[i].name, sets[0],
                         vp_score_loss(&found.score), eval_loss);
        }
    }
}

static void batch_sizes_give_the_same_score(void **state)
{
    (void)state;
    train_all();
    for (size_t i = 0; i < VP_COUNT_OF(runs); i++) {
        struct vp_evaluation want = evaluate(path_of(runs[i].name), false,
                                             NULL);

        assert_true(want.score.n_labels > 100.0);
        for (size_t b = 0; b < VP_COUNT_OF(runs[i].batches); b++) {
            const char *sets[] = { runs[i].batches[b], NULL };
            struct vp_evaluation have = evaluate(path_of(runs[i].name), false,
                                                 sets);

            assert_true(have.n_batches != want.n_batches);
            assert_true(have.score.n_labels == want.score.n_labels);
            assert_true(have.score.top1 == want.score.top1);
            assert_near(have.score.loss, want.score.loss, 1e-6);
        }
    }
}

/* A model can be named by its run, its checkpoints or one checkpoint, also
 * outside its run; the weights are the same. */
static void one_model_has_many_names(void **state)
{
    static const int32_t ids[] = { 7, 8, 9, 10 };
    static const char *const sets[] = { "synthetic_data=true", NULL };
    const struct vp_sequence sequence = { ids, NULL, 4, 0 };
    const char *names[] = { "gpt2", "gpt2/checkpoints",
                            "gpt2/checkpoints/step-4", "elsewhere" };
    struct tensors want, have;

    (void)state;
    train_all();
    write_logits(path_of(names[0]), sets, &sequence, 1, path_of("want"), &want);
    for (size_t i = 1; i < VP_COUNT_OF(names); i++) {
        if (i == 3)
            assert_int_equal(rename(path_of(names[2]), path_of(names[3])), 0);
        write_logits(path_of(names[i]), sets, &sequence, 1, path_of("have"),
                     &have);
        assert_same_logits(&want, &have);
        free_tensors(&have);
    }
    assert_int_equal(rename(path_of(names[3]), path_of(names[2])), 0);
    free_tensors(&want);
}

/* ---- Questions with choices --------------------------------------------- */

/* The answer to a CHID question is the choice with the largest logit at the
 * last token. The expected number of right answers comes from a simple parser
 * of dev.json. */
static void questions_are_answered_by_choices(void **state)
{
    static char data[600];
    const char *with[] = { "model_type=cpm", data, "seq_length=12", NULL };
    const char *cuts[] = { "stages=1", "stages=3" };
    int32_t room[MAX_SEQUENCES][16], truth[MAX_SEQUENCES];
    struct vp_sequence sequences[MAX_SEQUENCES];
    const int32_t *labels[MAX_SEQUENCES];
    struct tensors tensors;
    int64_t dims[3];
    const float *logits;
    int n = 0, n_right = 0, depth = 0, n_ids = 0, c;
    int64_t number = -1;
    double loss = 0.0;
    FILE *file;

    (void)state;
    snprintf(data, sizeof(data), "data_dir=%s", golden("chid"));
    train(path_of("cpm"), with);
    /* [[20, ...], [{"sent": [..], "truth": 3}, ...]]: numbers at depth 4 are
     * ids, the number after them at depth 3 is the truth. */
    file = fopen(golden("chid/dev.json"), "r");
    assert_non_null(file);
    while ((c = fgetc(file)) != EOF) {
        if (c >= '0' && c <= '9') {
            number = (number < 0 ? 0 : 10 * number) + (c - '0');
            continue;
        }
        if (number >= 0 && depth == 4)
            room[n][n_ids++] = (int32_t)number;
        else if (number >= 0 && depth == 3) {
            truth[n] = (int32_t)number;
            sequences[n] = (struct vp_sequence){ room[n], NULL, n_ids - 1, 0 };
            labels[n] = room[n] + 1;
            n++;
            n_ids = 0;
        }
        number = -1;
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    }
    fclose(file);
    assert_int_equal(n, 7);
    write_logits(path_of("cpm"), NULL, sequences, n, path_of("chid"), &tensors);
    logits = find_tensor(&tensors, "logits", dims);
    for (int k = 0; k < n; k++) {
        int64_t last = sequences[k].n_ids - 1;
        const float *x = logits + (k * dims[1] + last) * dims[2];
        int best = 0;
        double total = 0.0;

        for (int choice = 1; choice < 10; choice++)
            best = x[20 + choice] > x[20 + best] ? choice : best;
        n_right += best == truth[k];
        for (int64_t v = 0; v < dims[2]; v++)
            total += exp((double)x[v]);
        loss += log(total) - (double)x[labels[k][last]];
    }
    free_tensors(&tensors);
    for (size_t i = 0; i < VP_COUNT_OF(cuts); i++) {
        const char *sets[] = { cuts[i], NULL };
        struct vp_evaluation found = evaluate(path_of("cpm"), false, sets);

        assert_int_equal(found.n_questions, n);
        assert_int_equal(found.n_right, n_right);
        assert_true(found.score.n_labels == n);
        assert_near(found.score.loss, loss, 1e-6);
        assert_near(found.score.loss, eval_loss * n, 1e-6);
    }
}

/* ---- Wrong folders and settings ----------------------------------------- */

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fclose(file);
}

static void what_is_no_model_is_named(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        { "nothing", "there is no such folder; name the folder of a run" },
        { "file", "is a file, not a model; name the folder of a run" },
        { "empty", "is no model: it holds neither checkpoints nor "
                   "manifest.json nor config.json" },
        { "unsaved", "is the folder of a run that saved no checkpoint" },
        { "config", "config.json" },
    };

    (void)state;
    touch(path_of("file"));
    assert_int_equal(mkdir(path_of("empty"), 0755), 0);
    assert_int_equal(mkdir(path_of("unsaved"), 0755), 0);
    touch(path_of("unsaved/config.yml"));
    assert_int_equal(mkdir(path_of("unsaved/checkpoints"), 0755), 0);
    assert_int_equal(mkdir(path_of("config"), 0755), 0);
    touch(path_of("config/config.json"));
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_source *source = NULL;
        struct vp_err err = { .text = "" };
        const char *path = path_of(cases[i].name);

        assert_int_not_equal(
            vp_model_source_open(path, NULL, NULL, &source, &err), VP_OK);
        assert_null(source);
        if (!strstr(err.text, path) || !strstr(err.text, cases[i].says) ||
            strchr(err.text, '\n'))
            fail_msg("%s: %s", cases[i].name, err.text);
    }
}

static void bad_sequences_are_refused(void **state)
{
    static const int32_t ids[20] = { 3, 47, 48, -1 };
    static const struct {
        const char *model;
        struct vp_sequence sequence;
        const char *says;
    } cases[] = {
        { "hf/gpt2",
          { ids, NULL, 0, 0 },
          "sequence 2 has 0 ids; the model "
          "takes 1 to 16" },
        { "hf/gpt2", { ids, NULL, 17, 0 }, "sequence 2 has 17 ids" },
        { "hf/gpt2",
          { ids, NULL, 3, 0 },
          "sequence 2: 48 is no id of the "
          "model; its ids are 0 to 47" },
        { "hf/gpt2", { ids + 3, NULL, 1, 0 }, "sequence 2: -1 is no id" },
        { "hf/gpt2", { ids, ids, 2, 2 }, "the model has no decoder" },
        { "hf/m2m", { ids, NULL, 2, 0 }, "has no decoder input" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        bool pairs = strcmp(cases[i].model, "hf/m2m") == 0;
        struct vp_sequence both[] = {
            { ids, pairs ? ids : NULL, 2, pairs ? 2 : 0 }, cases[i].sequence
        };
        struct vp_logits_config config = { .sequences = both,
                                           .n_sequences = 2,
                                           .notice = ignore };
        struct vp_logits_shape shape;
        struct vp_err err = { .text = "" };
        struct model model;

        open_model(golden(cases[i].model), NULL, &model);
        config.config = &model.config;
        config.source = model.source;
        assert_int_equal(
            vp_logits_write(&config, path_of("refused"), &shape, &err),
            VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        assert_int_not_equal(access(path_of("refused"), F_OK), 0);
        close_model(&model);
    }
}

static void ranks_are_threads_one_per_stage(void **state)
{
    static const struct {
        const char *sets[4], *says;
    } cases[] = {
        { { "stages=2", "replicas=[1,2]" }, "key 'replicas'" },
        { { "distributed_backend=mpi" }, "key 'distributed_backend'" },
    };
    const struct vp_dims dims = { 1, 4, 0, 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_inference_config config = { .outputs = VP_OUTPUT_LOGITS,
                                              .dims = &dims,
                                              .n_dims = 1,
                                              .notice = ignore };
        struct vp_inference *inference = NULL;
        struct vp_err err = { .text = "" };
        struct model model;

        open_model(golden("hf/gpt2"), cases[i].sets, &model);
        config.config = &model.config;
        config.source = model.source;
        assert_int_equal(vp_inference_open(&config, &inference, &err),
                         VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        close_model(&model);
    }
}

/* Rank 0 has the input, so it must have the first stage if ranks are
 * processes. */
static void the_first_stage_is_on_rank_0(void **state)
{
    const char *sets[] = { "stages=2", "distributed_backend=mpi", NULL };
    struct vp_err err = { .text = "" };
    int numbers[] = { 0, 1 };
    struct model model;

    (void)state;
    open_model(golden("hf/gpt2"), sets, &model);
    model.config.ranks = (struct vp_int_list){ numbers, 2 };
    assert_int_equal(vp_inference_check(&model.config, &err), VP_OK);
    numbers[0] = 1;
    numbers[1] = 0;
    assert_int_equal(vp_inference_check(&model.config, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "must be on rank 0"));
    model.config.ranks.n = 0;
    close_model(&model);
}

/* ---- Set-up ------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-inference-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(a_loss_follows_from_logits),
        cmocka_unit_test(a_whole_file_is_evaluated),
        cmocka_unit_test(a_run_is_evaluated_as_in_training),
        cmocka_unit_test(batch_sizes_give_the_same_score),
        cmocka_unit_test(one_model_has_many_names),
        cmocka_unit_test(questions_are_answered_by_choices),
        cmocka_unit_test(what_is_no_model_is_named),
        cmocka_unit_test(bad_sequences_are_refused),
        cmocka_unit_test(ranks_are_threads_one_per_stage),
        cmocka_unit_test(the_first_stage_is_on_rank_0),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
