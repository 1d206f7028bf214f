/* libvpipe refuses each wrong argument, model, key and batch with a status and
 * one line; every operator works in one model. */
#include "lib/apilib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Arguments ---------------------------------------------------------- */

static int build_nothing(void *ctx, struct vpipe_graph *g)
{
    (void)ctx;
    (void)g;
    return 0;
}

#define assert_null_refused(argument, call) \
    assert_refused(VPIPE_INVALID, "'" argument "' is NULL", call)

static void test_null_config(void **state)
{
    const struct vpipe_shape shape = { .batch = 1, .seq = 1 };
    struct vpipe_config *config = new_config("1");

    (void)state;
    assert_null_refused("config_out", vpipe_config_create(NULL, &last_error));
    assert_null_refused("config",
                        vpipe_config_set(NULL, "a", "b", &last_error));
    assert_null_refused("key",
                        vpipe_config_set(config, NULL, "b", &last_error));
    assert_null_refused("value",
                        vpipe_config_set(config, "stages", NULL, &last_error));
    assert_null_refused("path",
                        vpipe_config_set_file(config, NULL, &last_error));
    assert_null_refused("json",
                        vpipe_config_set_plan(config, NULL, &last_error));
    assert_null_refused("config",
                        vpipe_config_set_file(NULL, "x", &last_error));
    assert_null_refused("config",
                        vpipe_config_set_plan(NULL, "x", &last_error));
    assert_null_refused(
        "fill", vpipe_config_set_data(config, NULL, NULL, 1, 1, &last_error));
    assert_null_refused(
        "config",
        vpipe_config_set_data(NULL, fill_counting, NULL, 1, 1, &last_error));
    assert_null_refused(
        "shape",
        vpipe_config_set_model(config, NULL, build_nothing, NULL, &last_error));
    assert_null_refused("build", vpipe_config_set_model(config, &shape, NULL,
                                                        NULL, &last_error));
    assert_null_refused(
        "config",
        vpipe_config_set_model(NULL, &shape, build_nothing, NULL, &last_error));
    vpipe_config_set_log(NULL, NULL, NULL);
    vpipe_config_free(config);
    vpipe_config_free(NULL);
    /* The message is optional. */
    assert_int_equal(vpipe_config_create(NULL, NULL), VPIPE_INVALID);
}

static void test_null_trainer(void **state)
{
    struct vpipe_config *config = custom_config("1");
    struct vpipe_trainer *trainer = start(config, NULL, NULL);
    float weight;
    double loss;

    (void)state;
    assert_null_refused("config", vpipe_trainer_create(NULL, NULL, NULL,
                                                       &trainer, &last_error));
    assert_null_refused("trainer_out", vpipe_trainer_create(config, NULL, NULL,
                                                            NULL, &last_error));
    assert_null_refused("trainer",
                        vpipe_trainer_run(NULL, 1, NULL, NULL, &last_error));
    assert_null_refused(
        "losses_out", vpipe_trainer_run_losses(trainer, 1, NULL, &last_error));
    assert_null_refused("trainer",
                        vpipe_trainer_run_losses(NULL, 1, &loss, &last_error));
    assert_null_refused("loss_out",
                        vpipe_trainer_evaluate(trainer, 1, NULL, &last_error));
    assert_null_refused("trainer",
                        vpipe_trainer_evaluate(NULL, 1, &loss, &last_error));
    assert_null_refused("trainer", vpipe_trainer_save(NULL, "x", &last_error));
    assert_null_refused(
        "name", vpipe_trainer_weights(trainer, NULL, &weight, 1, &last_error));
    assert_null_refused("weights_out", vpipe_trainer_weights(trainer, "x", NULL,
                                                             1, &last_error));
    assert_null_refused(
        "trainer", vpipe_trainer_weights(NULL, "x", &weight, 1, &last_error));
    assert_null(vpipe_trainer_plan(NULL));
    assert_null(vpipe_trainer_config(NULL));
    assert_int_equal(vpipe_trainer_step(NULL), 0);
    vpipe_trainer_free(trainer);
    vpipe_trainer_free(NULL);
    vpipe_config_free(config);
}

static void test_null_model(void **state)
{
    struct vpipe_model *model = NULL;
    struct vpipe_run *run = NULL;
    struct vpipe_score score;
    int32_t id = 1;
    size_t n;

    (void)state;
    assert_null_refused("path", vpipe_model_open(NULL, &model, &last_error));
    assert_null_refused("model_out", vpipe_model_open("x", NULL, &last_error));
    assert_null_refused("model", vpipe_model_set(NULL, "a", "b", &last_error));
    assert_null_refused("model",
                        vpipe_model_evaluate(NULL, &score, &last_error));
    assert_null_refused("model", vpipe_model_generate(NULL, &id, 1, NULL, 1,
                                                      &id, &n, &last_error));
    assert_null(vpipe_model_config(NULL, &last_error));
    assert_null_refused("from", vpipe_export(NULL, "x", &last_error));
    assert_null_refused("to", vpipe_export("x", NULL, &last_error));
    assert_null_refused("from", vpipe_import(NULL, "x", &last_error));
    assert_null_refused("to", vpipe_import("x", NULL, &last_error));
    assert_null_refused("folder", vpipe_run_open(NULL, &run, &last_error));
    assert_null_refused("run_out", vpipe_run_open("x", NULL, &last_error));
    assert_null(vpipe_run_metric(NULL, "loss", &n));
    assert_null(vpipe_run_config(NULL));
    assert_null(vpipe_run_plan(NULL));
    assert_refused(VPIPE_INVALID, "no such folder",
                   vpipe_model_open("/nowhere", &model, &last_error));
    vpipe_model_free(NULL);
    vpipe_run_free(NULL);
}

/* ---- Keys --------------------------------------------------------------- */

static void refuse_start(struct vpipe_config *config, enum vpipe_status status,
                         const char *text)
{
    struct vpipe_trainer *trainer = NULL;

    assert_int_equal(
        vpipe_trainer_create(config, NULL, NULL, &trainer, &last_error),
        status);
    assert_null(trainer);
    if (!strstr(last_error.message, text))
        fail_msg("'%s' is not in '%s'", text, last_error.message);
    vpipe_config_free(config);
}

static void test_keys(void **state)
{
    struct vpipe_config *config = custom_config("2");
    double losses[2];
    FILE *file;

    (void)state;
    assert_refused(VPIPE_INVALID, "'batch_size'",
                   vpipe_config_set(config, "batch_sise", "2", &last_error));
    set(config, "hidden", "16");
    refuse_start(config, VPIPE_INVALID, "no effect with model_type custom");
    config = custom_config("2");
    set(config, "learning_rate", "fast");
    refuse_start(config, VPIPE_INVALID, "learning_rate");
    config = custom_config("2");
    set(config, "distributed_backend", "mpi");
    refuse_start(config, VPIPE_UNSUPPORTED, "in this process");
    config = custom_config("2");
    set(config, "forward_only", "true");
    refuse_start(config, VPIPE_INVALID, "vpipe_model_evaluate");
    config = custom_config("7"); /* the model has 6 blocks */
    refuse_start(config, VPIPE_INVALID, "stages");
    refuse_start(new_config("1"), VPIPE_INVALID, "model_type");
    config = named_config("1");
    set(config, "vocab", "10"); /* ids go up to 39 */
    assert_ok(
        vpipe_config_set_data(config, fill_counting, NULL, 9, 0, &last_error));
    {
        struct vpipe_trainer *trainer = start(config, NULL, NULL);

        assert_refused(
            VPIPE_INVALID, "takes 0 to 9",
            vpipe_trainer_run_losses(trainer, 2, losses, &last_error));
        vpipe_trainer_free(trainer);
    }
    assert_ok(
        vpipe_config_set_file(config, below_root("none.yml"), &last_error));
    refuse_start(config, VPIPE_IO, "none.yml");

    file = fopen(below_root("keys.yml"), "w");
    assert_non_null(file);
    fputs("total_steps: 7\nstages: 1\n", file);
    fclose(file);
    config = custom_config("2"); /* keys that are set win over the file */
    assert_ok(
        vpipe_config_set_file(config, below_root("keys.yml"), &last_error));
    {
        struct vpipe_trainer *trainer = start(config, NULL, NULL);

        assert_non_null(strstr(vpipe_trainer_config(trainer), "stages: 2"));
        vpipe_trainer_free(trainer);
    }
    vpipe_config_free(config);
}

/* ---- Models ------------------------------------------------------------- */

/* Builds a valid model, except for mistake number `*ctx`. */
static int build_wrong(void *ctx, struct vpipe_graph *g)
{
    int mistake = *(const int *)ctx, table, x, w, labels;

    if (mistake == 0)
        return 7;
    if (mistake != 1)
        vpipe_block(g, mistake == 2 ? "" : "one");
    table = vpipe_param(g, mistake == 3 ? "a b" : "table", 8, 4, VPIPE_NORMAL,
                        mistake == 4 ? NAN : 0.02f);
    x = vpipe_embed(
        g, vpipe_input(g, mistake == 5 ? VPIPE_TARGET_IDS : VPIPE_IDS),
        mistake == 6 ? 99 : table, VPIPE_NONE, VPIPE_NONE, VPIPE_NONE);
    if (mistake == 7)
        vpipe_block(g, "empty");
    vpipe_block(g, "two");
    w = vpipe_param(g, mistake == 8 ? "table" : "weight", 8,
                    mistake == 9 ? 5 : 4, VPIPE_NORMAL, 0.02f);
    if (mistake == 10)
        w = table;
    x = vpipe_linear(g, mistake == 11 ? -3 : x, w, VPIPE_NONE,
                     mistake == 12 ? (enum vpipe_activation)9 : VPIPE_LINEAR);
    if (mistake == 13)
        return 0;
    if (mistake == 14)
        x = vpipe_dropout(g, x, 1.0f);
    if (mistake == 15)
        x = vpipe_scale(g, x, INFINITY);
    labels = vpipe_input(g, VPIPE_LABELS);
    vpipe_cross_entropy(g, x, labels, mistake == 16 ? 1.0f : 0.0f);
    if (mistake == 17)
        vpipe_param(g, "spare", 1, 1, VPIPE_ZERO, 0.0f);
    if (mistake == 18)
        vpipe_param(g, "spare", INT64_MAX, 2, VPIPE_ZERO, 0.0f);
    if (mistake == 19)
        vpipe_input(g, (enum vpipe_input)77);
    if (mistake == 20)
        vpipe_tied(g, 55);
    if (mistake == 21)
        vpipe_layernorm(g, x, w, w, 0.0f);
    return 0;
}

static void test_models(void **state)
{
    static const char *const texts[] = {
        "callback returned",
        "needs a block",
        "no name",
        "letters, digits",
        "not finite",
        "does not have",
        "does not exist",
        "no operator",
        "the same name",
        "weight does not fit",
        "vpipe_tied()",
        "does not exist",
        "no such activation",
        "must be the loss",
        "probability",
        "not finite",
        "smoothing",
        "exactly once",
        "no elements, or more",
        "does not have",
        "does not exist",
        "above 0",
    };
    const struct vpipe_shape shape = { .batch = 2, .seq = 3 };
    struct vpipe_shape wrong = shape;
    struct vpipe_config *config = new_config("1");
    int mistake;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        mistake = (int)i;
        assert_refused(i == 0 ? VPIPE_CALLBACK : VPIPE_INVALID, texts[i],
                       vpipe_config_set_model(config, &shape, build_wrong,
                                              &mistake, &last_error));
    }
    mistake = 1000;
    assert_ok(vpipe_config_set_model(config, &shape, build_wrong, &mistake,
                                     &last_error));
    assert_refused(VPIPE_INVALID, "no operator",
                   vpipe_config_set_model(config, &shape, build_nothing, NULL,
                                          &last_error));
    wrong.batch = 0;
    assert_refused(VPIPE_INVALID, "batch and seq",
                   vpipe_config_set_model(config, &wrong, build_wrong, &mistake,
                                          &last_error));
    wrong.batch = INT64_MAX / 2;
    assert_refused(VPIPE_INVALID, "2^30",
                   vpipe_config_set_model(config, &wrong, build_wrong, &mistake,
                                          &last_error));
    assert_refused(
        VPIPE_INVALID, "at least 1",
        vpipe_config_set_data(config, fill_counting, NULL, 0, 0, &last_error));
    refuse_start(config, VPIPE_INVALID, "vpipe_config_set_data()");
}

/* ---- Data --------------------------------------------------------------- */

/* Fills valid minibatches, except for mistake `ctx` in number 5 and in held-out
 * ones. */
static int fill_wrong(void *ctx, struct vpipe_batch *batch)
{
    const char *what = ctx;
    int code = fill_counting(NULL, batch);

    if (batch->number != 5 && batch->split == VPIPE_TRAIN)
        return code;
    if (strcmp(what, "code") == 0)
        return -3;
    if (strcmp(what, "id") == 0)
        batch->ids[7] = VOCAB;
    if (strcmp(what, "negative") == 0)
        batch->ids[0] = -1;
    if (strcmp(what, "label") == 0)
        batch->labels[31] = -2;
    return 0;
}

static void test_data(void **state)
{
    static const struct {
        const char *what, *text;
        enum vpipe_status status;
    } cases[] = {
        { "code", "minibatch 5: the data callback returned -3",
          VPIPE_CALLBACK },
        { "id", "minibatch 5: ids[7] is 40, but the model takes 0 to 39",
          VPIPE_INVALID },
        { "negative", "ids[0] is -1", VPIPE_INVALID },
        { "label", "labels[31] is -2, but the model takes -1 to 39",
          VPIPE_INVALID },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpipe_config *config = custom_config("2");
        struct vpipe_trainer *trainer;
        double losses[12], loss;

        assert_ok(vpipe_config_set_data(config, fill_wrong,
                                        (void *)(uintptr_t)cases[i].what, 20, 1,
                                        &last_error));
        trainer = start(config, NULL, NULL);
        assert_refused(
            cases[i].status, cases[i].text,
            vpipe_trainer_run_losses(trainer, 12, losses, &last_error));
        assert_int_not_equal(
            vpipe_trainer_evaluate(trainer, 0, &loss, &last_error), VPIPE_OK);
        vpipe_trainer_free(trainer);
        vpipe_config_free(config);
    }
}

/* ---- Every operator ----------------------------------------------------- */

enum { TARGET = 6, ROWS = 5 };

static int attend(struct vpipe_graph *g, int x, int from, int mask,
                  const char *name, int causal)
{
    char key[64], query[64];
    int q, kv = VPIPE_NONE;

    snprintf(query, sizeof(query), "%s.q", name);
    snprintf(key, sizeof(key), "%s.kv", name);
    q = vpipe_linear(g, x,
                     vpipe_param(g, query, from < 0 ? 3 * HIDDEN : HIDDEN,
                                 HIDDEN, VPIPE_NORMAL, 0.1f),
                     VPIPE_NONE, VPIPE_LINEAR);
    if (from >= 0)
        kv = vpipe_linear(
            g, from,
            vpipe_param(g, key, 2 * HIDDEN, HIDDEN, VPIPE_NORMAL, 0.1f),
            VPIPE_NONE, VPIPE_RELU);
    return vpipe_add(g, vpipe_attention(g, q, kv, mask, HEADS, causal, 0.125f),
                     x);
}

/* Builds an encoder with segments and padding, and a decoder with a loss on
 * some rows. */
static int build_all(void *ctx, struct vpipe_graph *g)
{
    int x, y, words, mask;

    (void)ctx;
    vpipe_block(g, "encoder embedding");
    words = vpipe_param(g, "words", VOCAB, HIDDEN, VPIPE_NORMAL, 0.1f);
    x = vpipe_embed(g, vpipe_input(g, VPIPE_IDS), words,
                    vpipe_param(g, "places", SEQ, HIDDEN, VPIPE_SINUSOID, 0.0f),
                    vpipe_input(g, VPIPE_TYPES),
                    vpipe_param(g, "types", 2, HIDDEN, VPIPE_NORMAL, 0.1f));
    x = vpipe_dropout(g, vpipe_scale(g, x, 0.5f), 0.125f);
    vpipe_block(g, "encoder");
    mask = vpipe_input(g, VPIPE_MASK);
    assert_int_equal(mask, vpipe_input(g, VPIPE_MASK)); /* the same input */
    x = attend(g, x, VPIPE_NONE, mask, "encoder", 0);
    x = normed(g, x, "norm");
    vpipe_block(g, "decoder embedding");
    y = vpipe_embed(g, vpipe_input(g, VPIPE_TARGET_IDS), vpipe_tied(g, words),
                    VPIPE_NONE, VPIPE_NONE, VPIPE_NONE);
    vpipe_block(g, "decoder");
    y = attend(g, y, VPIPE_NONE, VPIPE_NONE, "decoder", 1);
    vpipe_block(g, "cross");
    y = attend(g, y, x, mask, "cross", 0);
    vpipe_block(g, "loss");
    y = vpipe_gather(g, y, vpipe_input(g, VPIPE_LABEL_ROWS));
    y = vpipe_linear(
        g, y, vpipe_param(g, "out", VOCAB, HIDDEN, VPIPE_NORMAL, 0.1f),
        vpipe_param(g, "bias", 1, VOCAB, VPIPE_ZERO, 0.0f), VPIPE_LINEAR);
    vpipe_cross_entropy(g, y, vpipe_input(g, VPIPE_LABELS), 0.1f);
    return 0;
}

/* The source is n, n + 1, ... and the target is the same backwards; the first
 * ROWS rows have labels. */
static int fill_all(void *ctx, struct vpipe_batch *batch)
{
    int64_t n = batch->shape.batch;

    (void)ctx;
    for (int64_t i = 0; i < n * SEQ; i++) {
        batch->ids[i] = (int32_t)((batch->number + i) % VOCAB);
        batch->types[i] = i % SEQ >= SEQ / 2;
        if (batch->mask[i] != 1)
            return 1;
        batch->mask[i] = i % SEQ < SEQ - 1;
    }
    for (int64_t i = 0; i < n * TARGET; i++)
        batch->target_ids[i] = (int32_t)((batch->number + 3 * i) % VOCAB);
    for (int64_t i = 0; i < batch->shape.n_labels; i++) {
        if (batch->label_rows[i] != -1 || batch->labels[i] != -1)
            return 2;
        if (i == ROWS)
            break; /* the last row stays -1 */
        batch->label_rows[i] = (int32_t)(4 * i);
        batch->labels[i] = batch->target_ids[4 * i];
    }
    return 0;
}

/* The shape that a named model asks a callback for, and a letter for each array
 * of the batch. */
struct asked {
    struct vpipe_shape shape;
    char arrays[8];
};

static int fill_asked(void *ctx, struct vpipe_batch *batch)
{
    struct asked *asked = ctx;
    int64_t n = batch->shape.batch;

    asked->shape = batch->shape;
    snprintf(asked->arrays, sizeof(asked->arrays), "%s%s%s%s%s%s",
             batch->ids ? "i" : "", batch->types ? "t" : "",
             batch->mask ? "m" : "", batch->target_ids ? "d" : "",
             batch->label_rows ? "r" : "", batch->labels ? "l" : "");
    for (int64_t i = 0; i < n * batch->shape.seq; i++)
        batch->ids[i] = (int32_t)((batch->number + i) % VOCAB);
    for (int64_t i = 0; batch->target_ids && i < n * SEQ; i++)
        batch->target_ids[i] = (int32_t)(i % VOCAB);
    for (int64_t i = 0; i < n; i++) {
        if (batch->label_rows)
            batch->label_rows[i] = (int32_t)(i * batch->shape.seq);
        batch->labels[i] = (int32_t)i;
    }
    return 0;
}

static void test_shapes(void **state)
{
    static const struct {
        const char *model, *batch_size;
        struct asked asked;
    } cases[] = {
        { "bert", "4", { { 4, 8, 0, 32 }, "itmrl" } },
        { "gpt2", "4", { { 4, 8, 0, 0 }, "il" } },
        { "cpm", "4", { { 4, 8, 0, 0 }, "il" } },
        { "translation", "32", { { 4, 8, 8, 0 }, "imdl" } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vpipe_config *config = named_config("2");
        struct asked asked = { .arrays = "" };
        double losses[4];

        set(config, "model_type", cases[i].model);
        set(config, "batch_size", cases[i].batch_size);
        assert_ok(vpipe_config_set_data(config, fill_asked, &asked, 20, 0,
                                        &last_error));
        losses_of(config, 4, losses);
        assert_string_equal(asked.arrays, cases[i].asked.arrays);
        assert_memory_equal(&asked.shape, &cases[i].asked.shape,
                            sizeof(asked.shape));
        assert_true(losses[3] < losses[0]);
    }
}

static void losses_of_all(const char *stages, double *losses)
{
    const struct vpipe_shape shape = { BATCH, SEQ, TARGET, ROWS + 1 };
    struct vpipe_config *config = new_config(stages);

    assert_ok(
        vpipe_config_set_model(config, &shape, build_all, NULL, &last_error));
    assert_ok(
        vpipe_config_set_data(config, fill_all, NULL, 50, 2, &last_error));
    losses_of(config, 20, losses);
}

static void test_operators(void **state)
{
    double one[20], three[20], fallen = 0.0;

    (void)state;
    losses_of_all("1", one);
    losses_of_all("3", three);
    assert_same_losses(one, three, 20);
    assert_true(fabs(one[0] - log(VOCAB)) < 0.1);
    for (int i = 0; i < 5; i++)
        fallen += one[i] - one[19 - i];
    assert_true(fallen > 0.25);
}

/* ---- Trained models ----------------------------------------------------- */

/* A checkpoint of a custom model does not contain its operators, so the opened
 * model cannot generate. */
static void test_custom_checkpoint(void **state)
{
    static const int32_t prompt[] = { 1 };
    struct vpipe_config *config = custom_config("1");
    struct vpipe_trainer *trainer = start(config, below_root("own"), NULL);
    struct vpipe_sampling sampling = VPIPE_SAMPLING;
    struct vpipe_model *model = NULL;
    int32_t ids[4];
    size_t n;

    (void)state;
    assert_ok(vpipe_trainer_run(trainer, 2, NULL, NULL, &last_error));
    assert_ok(vpipe_trainer_save(trainer, NULL, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
    assert_ok(vpipe_model_open(below_root("own"), &model, &last_error));
    assert_refused(
        VPIPE_INVALID, "custom",
        vpipe_model_generate(model, prompt, 1, NULL, 4, ids, &n, &last_error));
    assert_null(vpipe_model_config(model, &last_error));
    assert_int_equal(last_error.status, VPIPE_INVALID);
    assert_refused(VPIPE_INVALID, "'stages'",
                   vpipe_model_set(model, "stagess", "1", &last_error));
    assert_refused(
        VPIPE_INVALID, "ask for 1 to",
        vpipe_model_generate(model, prompt, 0, NULL, 4, ids, &n, &last_error));
    sampling.size = 3;
    assert_refused(VPIPE_INVALID, "VPIPE_SAMPLING",
                   vpipe_model_generate(model, prompt, 1, &sampling, 4, ids, &n,
                                        &last_error));
    vpipe_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_config),
        cmocka_unit_test(test_null_trainer),
        cmocka_unit_test(test_null_model),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_custom_checkpoint),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
