/* Forward passes that end in logits, in the loss or in both agree with each
 * other, for any partition of the pipeline and any batch size. */
#include "lib/trainlib.h"

#include <string.h>

enum { N_BATCHES = 6, MAX_ROWS = 4096 };

/* Results of one evaluation. */
struct outcome {
    struct vp_score score;
    uint64_t logits; /* hash of all logits, in order */
    double loss;     /* computed from the logits by score_row() */
    double n_labels, top1;
    uint64_t n_taken;
    struct vp_stage_price price; /* price of the last stage */
    struct run *run;
    struct vp_batch *batch;
};

/* Returns -log p of the label by the plain formula. `top1` is set if the label
 * has the largest logit. */
static double score_row(const float *x, int64_t n, int32_t label, bool *top1)
{
    double sum = 0.0;
    int64_t best = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += exp((double)x[i]);
        best = x[i] > x[best] ? i : best;
    }
    *top1 = best == label;
    return log(sum) - (double)x[label];
}

/* Reads the labels of the minibatch from the data and scores each row of
 * logits. */
static enum vp_status take(void *ctx, const struct vp_logits *logits,
                           struct vp_err *err)
{
    struct outcome *out = ctx;
    const struct vp_dims *dims = &out->run->dims[logits->bucket];
    const float *x = logits->at;
    const int32_t *labels;

    assert_int_equal(logits->minibatch, out->n_taken++);
    assert_int_equal(logits->cols, out->run->sizes.vocab);
    assert_int_equal(logits->rows, vp_dims_role(dims, VP_ROLE_LABELS));
    assert_int_equal(logits->dtype, VP_DTYPE_F32);
    VP_TRY(
        vp_data_fill(out->run->eval_data, logits->minibatch, out->batch, err));
    assert_int_equal(out->batch->bucket, logits->bucket);
    labels = out->batch->array[VP_ROLE_LABELS];
    for (int64_t r = 0; r < logits->rows; r++) {
        bool top1;

        if (labels[r] < 0)
            continue;
        out->loss += score_row(x + r * logits->cols, logits->cols, labels[r],
                               &top1);
        out->n_labels++;
        out->top1 += top1;
    }
    out->logits = hash_floats(out->logits, x, logits->rows * logits->cols);
    return VP_OK;
}

static const struct setup base = {
    .model = "bert",
    .threads = 2,
    .accumulation = 1,
    .dropout = 0.1f,
    .tied = true,
    .seed = 3,
    .eval = true,
    .optim = VP_OPTIM_ADAMW,
    .schedule = "eval",
    .forward_only = true,
};

static void evaluate(const struct setup *setup, int64_t n_batches,
                     struct outcome *out)
{
    const struct vp_sink sink = { .ctx = out, .take = take };
    struct setup with = *setup;
    struct vp_err err = { .text = "" };
    struct run run;

    *out = (struct outcome){ .logits = HASH_START, .run = &run };
    with.sink = &sink;
    if (run_create(&run, &with, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(vp_batch_create(run.eval_data, &out->batch), VP_OK);
    if (n_batches == 0)
        n_batches = vp_data_info(run.eval_data)->n_batches;
    if (vp_trainer_eval_part(run.trainer, 0, n_batches, &out->score, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    out->price = vp_trainer_prices(
        run.trainer)[vp_trainer_n_stages(run.trainer) - 1];
    vp_batch_free(out->batch);
    run_free(&run);
}

/* ---- Loss and logits ---------------------------------------------------- */

static struct setup without_smoothing(const char *model, unsigned outputs)
{
    struct setup setup = base;

    setup.model = model;
    setup.outputs = outputs;
    return setup;
}

static void assert_near(double have, double want, double limit)
{
    if (!(fabs(have - want) <= limit * fabs(want)))
        fail_msg("%.17g is not %.17g", have, want);
}

/* The loss and the number of right first guesses follow from the logits, and
 * neither output changes the other. */
static void logits_give_the_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        struct setup setup = without_smoothing(models[i], VP_OUTPUT_LOSS);
        struct outcome loss, logits, both;

        evaluate(&setup, N_BATCHES, &loss);
        assert_int_equal(loss.n_taken, 0);
        setup.outputs = VP_OUTPUT_LOGITS;
        evaluate(&setup, N_BATCHES, &logits);
        assert_int_equal(logits.n_taken, N_BATCHES);
        assert_true(logits.score.n_labels == 0.0);
        setup.outputs = VP_OUTPUT_LOSS | VP_OUTPUT_LOGITS;
        evaluate(&setup, N_BATCHES, &both);

        assert_true(both.logits == logits.logits);
        assert_memory_equal(&both.score, &loss.score, sizeof(loss.score));
        assert_true(loss.score.n_labels > 0.0);
        assert_true(logits.n_labels == loss.score.n_labels);
        assert_true(logits.top1 == loss.score.top1);
        if (strcmp(models[i], "translation") != 0) /* it smooths its labels */
            assert_near(loss.score.loss, logits.loss, 1e-6);
    }
}

/* ---- Partitions of the model -------------------------------------------- */

static const struct cut {
    const char *model;
    int n_stages, n_chunks;
    int partition[6];
} cuts[] = {
    { "bert", 2, 1, { 2, 3 } },
    { "bert", 3, 1, { 1, 1, 3 } },
    { "bert", 5, 1, { 1, 1, 1, 1, 1 } },
    { "bert", 2, 2, { 1, 1, 1, 2 } },
    { "gpt2", 2, 1, { 5, 1 } },
    { "gpt2", 3, 1, { 1, 4, 1 } },
    { "translation", 2, 1, { 4, 9 } },
    { "translation", 4, 1, { 2, 3, 4, 4 } },
};

static void bits_are_the_same_for_every_cut(void **state)
{
    const unsigned outputs = VP_OUTPUT_LOSS | VP_OUTPUT_LOGITS;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cuts); i++) {
        const struct cut *cut = &cuts[i];
        struct setup setup = without_smoothing(cut->model, outputs);
        struct outcome want, have;

        evaluate(&setup, N_BATCHES, &want);
        setup.n_stages = cut->n_stages;
        setup.n_chunks = cut->n_chunks;
        setup.partition = cut->partition;
        setup.threads = 1;
        evaluate(&setup, N_BATCHES, &have);
        assert_int_equal(have.n_taken, N_BATCHES);
        assert_true(have.logits == want.logits);
        assert_memory_equal(&have.score, &want.score, sizeof(want.score));
    }
}

/* A trainer with gradients and optimizer gives the same score, under any
 * schedule. */
static void training_evaluates_the_same(void **state)
{
    static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };
    static const int partition[] = { 2, 3 };
    struct outcome want, have;
    struct setup setup = base;

    (void)state;
    evaluate(&setup, N_BATCHES, &want);
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        setup.schedule = schedules[i];
        setup.forward_only = false;
        setup.accumulation = 4;
        setup.n_stages = 2;
        setup.partition = partition;
        evaluate(&setup, N_BATCHES, &have);
        assert_memory_equal(&have.score, &want.score, sizeof(want.score));
    }
}

/* The replicas of a stage take minibatches in turn, which changes neither logits
 * nor score. */
static void replicas_evaluate_the_same(void **state)
{
    static const int partition[] = { 2, 3 }, replicas[] = { 2, 1 };
    struct outcome want, have;
    struct setup setup = base;

    (void)state;
    setup.outputs = VP_OUTPUT_LOSS | VP_OUTPUT_LOGITS;
    evaluate(&setup, N_BATCHES, &want);
    setup.n_stages = 2;
    setup.partition = partition;
    setup.replicas = replicas;
    evaluate(&setup, N_BATCHES, &have);
    assert_true(have.logits == want.logits);
    assert_memory_equal(&have.score, &want.score, sizeof(want.score));
}

/* If the host cannot read memory of the device, outputs are copied. */
static void outputs_are_copied_from_a_device(void **state)
{
    static const int partition[] = { 2, 3 };
    struct vp_device_ops apart = *test_device()->device;
    struct vp_backend_ops device = *test_device();
    struct outcome want, have;
    struct setup setup = base;

    (void)state;
    setup.outputs = VP_OUTPUT_LOSS | VP_OUTPUT_LOGITS;
    setup.n_stages = 2;
    setup.partition = partition;
    evaluate(&setup, N_BATCHES, &want);
    apart.host_memory = false;
    device.device = &apart;
    setup.device = &device;
    evaluate(&setup, N_BATCHES, &have);
    assert_true(have.logits == want.logits);
    assert_memory_equal(&have.score, &want.score, sizeof(want.score));
    assert_true(have.price.staging > 0);
}

/* ---- Batch sizes -------------------------------------------------------- */

/* A held-out set gives the same score in batches of any size. */
static void batch_sizes_give_the_same_score(void **state)
{
    static const char *const same_length[] = { "bert", "gpt2" };
    static const int64_t sizes[] = { 1, 3, 16 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(same_length); i++) {
        struct setup setup = without_smoothing(same_length[i], 0);
        struct outcome want, have;

        evaluate(&setup, 0, &want);
        for (size_t k = 0; k < VP_COUNT_OF(sizes); k++) {
            setup.batch = sizes[k];
            evaluate(&setup, 0, &have);
            assert_true(have.score.n_labels == want.score.n_labels);
            assert_true(have.score.top1 == want.score.top1);
            assert_near(have.score.loss, want.score.loss, 1e-6);
        }
    }
}

/* ---- Memory ------------------------------------------------------------- */

static void nothing_is_there_to_train(void **state)
{
    struct outcome train, infer;
    struct setup setup = base;

    (void)state;
    evaluate(&setup, 1, &infer);
    assert_int_equal(infer.price.memory.gradients, 0);
    assert_int_equal(infer.price.memory.moments, 0);
    assert_true(infer.price.memory.weights > 0);
    setup.forward_only = false;
    setup.schedule = "1f1b";
    evaluate(&setup, 1, &train);
    assert_int_equal(infer.price.memory.weights, train.price.memory.weights);
    assert_true(infer.price.memory.total < train.price.memory.total / 3);
}

/* The priced bytes are allocated, including those of logits. */
static void planned_bytes_are_allocated(void **state)
{
    struct setup setup = base;
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    setup.outputs = VP_OUTPUT_LOGITS;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(atomic_load(&n_device_bytes),
                     vp_trainer_prices(run.trainer)[0].memory.total);
    run_free(&run);
}

/* The cache of keys and values is priced and allocated, on both stages: 4 lines
 * of 20 positions, with keys and values of 32 floats in one attention layer per
 * stage. */
static void a_cache_is_planned(void **state)
{
    static const int partition[] = { 3, 3 };
    struct setup setup = base;
    struct vp_err err = { .text = "" };
    const struct vp_stage_price *prices;
    struct run run;

    (void)state;
    setup.model = "gpt2";
    setup.dropout = 0.0f;
    setup.outputs = VP_OUTPUT_LOGITS;
    setup.cache = (struct vp_cache_size){ .n_lines = 4, .n_positions = 20 };
    setup.n_stages = 2;
    setup.partition = partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    prices = vp_trainer_prices(run.trainer);
    assert_int_equal(prices[0].memory.cache, 4 * 20 * 2 * 32 * 4);
    assert_int_equal(prices[1].memory.cache, 4 * 20 * 2 * 32 * 4);
    assert_int_equal(atomic_load(&n_device_bytes),
                     prices[0].memory.total + prices[1].memory.total);
    run_free(&run);
    setup.model = "bert";
    assert_int_equal(vp_model_build_cached(
                         vp_model_find("bert"), &run.sizes, &run.dims[0],
                         &setup.cache, VP_OUTPUT_LOGITS, &run.graphs[0], &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "cannot be run with a key-value cache"));
}

/* ---- Selected rows, and errors ------------------------------------------ */

static const struct vp_batch *fed;

static enum vp_status feed_next(void *ctx, uint64_t minibatch,
                                const struct vp_batch **out, struct vp_err *err)
{
    (void)ctx;
    (void)minibatch;
    (void)err;
    *out = fed;
    return VP_OK;
}

struct rows {
    float at[MAX_ROWS];
    int64_t n;
};

static enum vp_status keep_rows(void *ctx, const struct vp_logits *logits,
                                struct vp_err *err)
{
    struct rows *rows = ctx;

    (void)err;
    rows->n = logits->rows * logits->cols;
    assert_true(rows->n <= MAX_ROWS);
    memcpy(rows->at, logits->at, (size_t)rows->n * sizeof(float));
    return VP_OK;
}

/* Runs `name` on a batch of 2 x 8 tokens and keeps the logits of the `chosen`
 * rows, or of all rows if `n_rows` is 0. */
static void run_rows(const char *name, int64_t n_rows, const int32_t *chosen,
                     struct rows *out)
{
    int32_t arrays[VP_ROLE_COUNT][16];
    const struct vp_model *model = vp_model_find(name);
    bool pairs = model->task == VP_TASK_TRANSLATION;
    const struct vp_dims dims = { 2, 8, pairs ? 8 : 0, n_rows };
    const struct vp_feed feed = { .next = feed_next };
    const struct vp_sink sink = { .ctx = out, .take = keep_rows };
    struct setup setup = base;
    struct vp_batch batch = { .n_samples = 2 };
    struct vp_model_config sizes;
    struct vp_train_config config;
    struct vp_trainer *trainer = NULL;
    struct vp_graph graph;
    struct vp_score score = { .loss = 0.0 };
    struct vp_err err = { .text = "" };

    setup.model = name;
    sizes = small_sizes(&setup);
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        batch.array[role] = arrays[role];
        for (int i = 0; i < 16; i++)
            arrays[role][i] = role == VP_ROLE_MASK    ? 1
                              : role == VP_ROLE_TYPES ? i % 2
                                                      : 5 + 7 * i % 64;
    }
    if (n_rows > 0)
        memcpy(arrays[VP_ROLE_LABEL_ROWS], chosen,
               (size_t)n_rows * sizeof(*chosen));
    fed = &batch;
    if (vp_model_build_outputs(model, &sizes, &dims, VP_OUTPUT_LOGITS, &graph,
                               &err) != VP_OK)
        fail_msg("%s", err.text);
    config = (struct vp_train_config){
        .graphs = &graph,
        .n_graphs = 1,
        .feed = &feed,
        .sink = &sink,
        .backend = test_device(),
        .backend_config = { .n_threads = 1 },
        .init = vp_param_init_range,
        .seed = 7,
        .plan = { .schedule = "eval",
                  .forward_only = true,
                  .accumulation_steps = 1 },
        .timeout_ms = 20000,
    };
    if (vp_trainer_create(&config, &trainer, &err) != VP_OK ||
        vp_trainer_eval_part(trainer, 0, 1, &score, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_trainer_free(trainer);
    vp_graph_release(&graph);
}

/* A chosen row has the same logits as in a run without a choice; -1 is a row
 * that is not used. */
static void chosen_rows_have_their_logits(void **state)
{
    static const int32_t chosen[] = { 15, 3, -1 };
    static struct rows all, some;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        run_rows(models[i], 0, NULL, &all);
        assert_int_equal(all.n, 16 * 96);
        run_rows(models[i], 3, chosen, &some);
        assert_int_equal(some.n, 3 * 96);
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 96; c++)
                if (fabsf(some.at[r * 96 + c] - all.at[chosen[r] * 96 + c]) >
                    1e-5f)
                    fail_msg("%s: row %d, id %d differs", models[i], r, c);
    }
}

/* A graph without a loss cannot be trained. */
static void logits_cannot_be_trained(void **state)
{
    struct setup setup = base;
    struct vp_err err = { .text = "" };
    struct run run;

    (void)state;
    setup.outputs = VP_OUTPUT_LOGITS;
    setup.forward_only = false;
    setup.schedule = "1f1b";
    assert_int_equal(run_create(&run, &setup, 0, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "ends in logits"));
    run_free(&run);
}

static enum vp_status refuse(void *ctx, const struct vp_logits *logits,
                             struct vp_err *err)
{
    (void)ctx;
    return vp_err_set(err, VP_ERR_IO, "no room for minibatch %d",
                      (int)logits->minibatch);
}

/* An error of the sink ends the evaluation with the sink's message. */
static void a_sink_may_fail(void **state)
{
    static const int partition[] = { 2, 3 };
    const struct vp_sink sink = { .take = refuse };
    struct setup setup = base;
    struct vp_err err = { .text = "" };
    struct vp_score score = { .loss = 0.0 };
    struct run run;

    (void)state;
    setup.outputs = VP_OUTPUT_LOGITS;
    setup.sink = &sink;
    setup.n_stages = 2;
    setup.partition = partition;
    if (run_create(&run, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(
        vp_trainer_eval_part(run.trainer, 0, N_BATCHES, &score, &err),
        VP_ERR_IO);
    assert_string_equal(err.text, "no room for minibatch 0");
    run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_give_the_loss),
        cmocka_unit_test(bits_are_the_same_for_every_cut),
        cmocka_unit_test(training_evaluates_the_same),
        cmocka_unit_test(replicas_evaluate_the_same),
        cmocka_unit_test(outputs_are_copied_from_a_device),
        cmocka_unit_test(batch_sizes_give_the_same_score),
        cmocka_unit_test(nothing_is_there_to_train),
        cmocka_unit_test(planned_bytes_are_allocated),
        cmocka_unit_test(a_cache_is_planned),
        cmocka_unit_test(chosen_rows_have_their_logits),
        cmocka_unit_test(logits_cannot_be_trained),
        cmocka_unit_test(a_sink_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
