#include "lib/apilib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The last error ------------------------------------------------------ */

struct vpipe_error last_error;

/* ---- A GPT-2 built from operators ---------------------------------------- */

static int named(struct vpipe_graph *g, const char *prefix, const char *name,
                 int64_t rows, int64_t cols, enum vpipe_init init, float std)
{
    char full[128];

    snprintf(full, sizeof(full), "%s.%s", prefix, name);
    return vpipe_param(g, full, rows, cols, init, std);
}

int normed(struct vpipe_graph *g, int x, const char *prefix)
{
    int gamma = named(g, prefix, "weight", 1, HIDDEN, VPIPE_ONE, 0.0f);

    return vpipe_layernorm(
        g, x, gamma, named(g, prefix, "bias", 1, HIDDEN, VPIPE_ZERO, 0.0f),
        1e-5f);
}

static int dense(struct vpipe_graph *g, int x, const char *prefix, int64_t in,
                 int64_t out, float std, enum vpipe_activation act)
{
    int weight = named(g, prefix, "weight", out, in, VPIPE_NORMAL, std);

    return vpipe_linear(
        g, x, weight, named(g, prefix, "bias", 1, out, VPIPE_ZERO, 0.0f), act);
}

int build_gpt2(void *ctx, struct vpipe_graph *g)
{
    char name[64];
    int words, x, y;

    (void)ctx;
    vpipe_block(g, "embedding");
    words = vpipe_param(g, "transformer.wte.weight", VOCAB, HIDDEN,
                        VPIPE_NORMAL, 0.02f);
    x = vpipe_embed(g, vpipe_input(g, VPIPE_IDS), words,
                    vpipe_param(g, "transformer.wpe.weight", SEQ, HIDDEN,
                                VPIPE_NORMAL, 0.02f),
                    VPIPE_NONE, VPIPE_NONE);
    for (int i = 0; i < LAYERS; i++) {
#define NAME(part) \
    (snprintf(name, sizeof(name), "transformer.h.%d.%s", i, part), name)
        vpipe_block(g, "attention");
        y = normed(g, x, NAME("ln_1"));
        y = dense(g, y, NAME("attn.c_attn"), HIDDEN, 3 * HIDDEN, 0.02f,
                  VPIPE_LINEAR);
        y = vpipe_attention(g, y, VPIPE_NONE, VPIPE_NONE, HEADS, 1, 0.0f);
        y = dense(g, y, NAME("attn.c_proj"), HIDDEN, HIDDEN, 0.01f,
                  VPIPE_LINEAR);
        x = vpipe_add(g, y, x);
        vpipe_block(g, "mlp");
        y = normed(g, x, NAME("ln_2"));
        y = dense(g, y, NAME("mlp.c_fc"), HIDDEN, 4 * HIDDEN, 0.02f,
                  VPIPE_GELU_TANH);
        y = dense(g, y, NAME("mlp.c_proj"), 4 * HIDDEN, HIDDEN, 0.01f,
                  VPIPE_LINEAR);
        x = vpipe_add(g, y, x);
#undef NAME
    }
    vpipe_block(g, "head");
    x = normed(g, x, "transformer.ln_f");
    x = vpipe_linear(g, x, vpipe_tied(g, words), VPIPE_NONE, VPIPE_LINEAR);
    vpipe_cross_entropy(g, x, vpipe_input(g, VPIPE_LABELS), 0.0f);
    return 0;
}

/* ---- Data ---------------------------------------------------------------- */

int fill_counting(void *ctx, struct vpipe_batch *batch)
{
    (void)ctx;
    for (int64_t i = 0; i < batch->shape.batch; i++)
        for (int64_t t = 0; t < batch->shape.seq; t++) {
            int64_t first = 7 * batch->number + i + 3 * (int)batch->split;
            int64_t step = 1 + i % 2, at = i * batch->shape.seq + t;

            batch->ids[at] = (int32_t)((first + t * step) % VOCAB);
            batch->labels[at] = (int32_t)((first + (t + 1) * step) % VOCAB);
        }
    return 0;
}

/* ---- Configurations ------------------------------------------------------ */

void set(struct vpipe_config *config, const char *key, const char *value)
{
    assert_ok(vpipe_config_set(config, key, value, &last_error));
}

struct vpipe_config *new_config(const char *stages)
{
    struct vpipe_config *config = NULL;

    assert_ok(vpipe_config_create(&config, &last_error));
    if (stages)
        set(config, "stages", stages);
    set(config, "accumulation_steps", "2");
    set(config, "threads_per_stage", "1");
    set(config, "learning_rate", "0.01");
    set(config, "total_steps", "24");
    return config;
}

struct vpipe_config *custom_config(const char *stages)
{
    const struct vpipe_shape shape = { .batch = BATCH, .seq = SEQ };
    struct vpipe_config *config = new_config(stages);

    assert_ok(
        vpipe_config_set_model(config, &shape, build_gpt2, NULL, &last_error));
    assert_ok(vpipe_config_set_data(config, fill_counting, NULL, 100, 3,
                                    &last_error));
    return config;
}

struct vpipe_config *named_config(const char *stages)
{
    static const char *const keys[][2] = {
        { "model_type", "gpt2" }, { "vocab", "40" },     { "hidden", "16" },
        { "layers", "2" },        { "heads", "2" },      { "positions", "8" },
        { "seq_length", "8" },    { "batch_size", "4" }, { "dropout", "0" },
    };
    struct vpipe_config *config = new_config(stages);

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        set(config, keys[i][0], keys[i][1]);
    return config;
}

struct vpipe_trainer *start(const struct vpipe_config *config,
                            const char *output, const char *resume)
{
    struct vpipe_trainer *trainer = NULL;

    assert_ok(
        vpipe_trainer_create(config, output, resume, &trainer, &last_error));
    return trainer;
}

void losses_of(struct vpipe_config *config, int n, double *out)
{
    struct vpipe_trainer *trainer = start(config, NULL, NULL);

    vpipe_config_free(config);
    assert_ok(vpipe_trainer_run_losses(trainer, n, out, &last_error));
    vpipe_trainer_free(trainer);
}

void assert_same_losses(const double *a, const double *b, int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(*a)) != 0)
            fail_msg("loss %d: %.17g and %.17g", i, a[i], b[i]);
}

/* ---- Folders ------------------------------------------------------------- */

char root[64];

int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-api-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

int remove_root(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return (system)(command);
}

const char *below_root(const char *name)
{
    static char path[4][128];
    static int i;

    i = (i + 1) % 4;
    snprintf(path[i], sizeof(path[i]), "%s/%s", root, name);
    return path[i];
}
