/* Trains a model of its own on data of its own, in two stages: a small causal
 * Transformer learns to continue counting in steps. docs/embedding.md explains it.
 *
 *   cc embed.c $(pkg-config --cflags --libs vpipe) -o embed && ./embed */
#include <vpipe/vpipe.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 16, SEQ = 16, VOCAB = 32, HIDDEN = 32, HEADS = 4, LAYERS = 2 };

static int weights(struct vpipe_graph *g, const char *what, int layer,
                   int64_t rows, int64_t cols)
{
    char name[32];

    snprintf(name, sizeof(name), "layer%d.%s", layer, what);
    return vpipe_param(g, name, rows, cols, VPIPE_NORMAL, 0.05f);
}

static int build(void *ctx, struct vpipe_graph *g)
{
    int x, branch;

    (void)ctx;
    vpipe_block(g, "embedding");
    x = vpipe_embed(
        g, vpipe_input(g, VPIPE_IDS), weights(g, "tokens", 0, VOCAB, HIDDEN),
        weights(g, "positions", 0, SEQ, HIDDEN), VPIPE_NONE, VPIPE_NONE);
    for (int i = 1; i <= LAYERS; i++) {
        vpipe_block(g, "attention");
        branch = vpipe_linear(g, x, weights(g, "qkv", i, 3 * HIDDEN, HIDDEN),
                              VPIPE_NONE, VPIPE_LINEAR);
        branch = vpipe_attention(g, branch, VPIPE_NONE, VPIPE_NONE, HEADS, 1,
                                 0.0f);
        x = vpipe_add(g, branch, x);
        vpipe_block(g, "feed-forward");
        branch = vpipe_linear(g, x, weights(g, "in", i, 4 * HIDDEN, HIDDEN),
                              VPIPE_NONE, VPIPE_GELU);
        branch = vpipe_linear(g, branch,
                              weights(g, "out", i, HIDDEN, 4 * HIDDEN),
                              VPIPE_NONE, VPIPE_LINEAR);
        x = vpipe_add(g, branch, x);
    }
    vpipe_block(g, "loss");
    x = vpipe_linear(g, x, weights(g, "logits", 0, VOCAB, HIDDEN), VPIPE_NONE,
                     VPIPE_LINEAR);
    vpipe_cross_entropy(g, x, vpipe_input(g, VPIPE_LABELS), 0.0f);
    return 0;
}

/* Each sample counts in steps of 1, 2 or 3; the label is the next number. */
static int fill(void *ctx, struct vpipe_batch *batch)
{
    (void)ctx;
    for (int64_t i = 0; i < BATCH; i++) {
        int64_t number = batch->number * BATCH + i;

        for (int64_t t = 0; t < SEQ; t++) {
            batch->ids[i * SEQ + t] = (int)((number + t * (1 + number % 3)) %
                                            VOCAB);
            batch->labels[i * SEQ + t] =
                (int)((number + (t + 1) * (1 + number % 3)) % VOCAB);
        }
    }
    return 0;
}

static int show(void *ctx, const struct vpipe_step *step)
{
    (void)ctx;
    if (step->step % 20 == 0)
        printf("step %3d  loss %.4f\n", (int)step->step, step->loss);
    return 0;
}

int main(void)
{
    const struct vpipe_shape shape = { .batch = BATCH, .seq = SEQ };
    struct vpipe_trainer *trainer = NULL;
    struct vpipe_config *config = NULL;
    struct vpipe_error error = { VPIPE_OK, "" };
    double loss = 0.0;

    if (vpipe_config_create(&config, &error) ||
        vpipe_config_set_model(config, &shape, build, NULL, &error) ||
        vpipe_config_set_data(config, fill, NULL, 1000, 4, &error) ||
        vpipe_config_set(config, "stages", "2", &error) ||
        vpipe_config_set(config, "accumulation_steps", "4", &error) ||
        vpipe_config_set(config, "learning_rate", "0.01", &error) ||
        vpipe_config_set(config, "total_steps", "100", &error) ||
        vpipe_trainer_create(config, NULL, NULL, &trainer, &error) ||
        vpipe_trainer_run(trainer, 0, show, NULL, &error) ||
        vpipe_trainer_evaluate(trainer, 0, &loss, &error))
        fprintf(stderr, "embed: %s\n", error.message);
    else
        printf("held-out loss %.4f\n", loss);
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
    return error.status != VPIPE_OK;
}
