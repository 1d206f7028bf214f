/* Trains a small Transformer, built from operators, on generated data in two
 * stages: it learns to continue sequences that count in steps of 1, 2 or 3.
 * docs/embedding.md explains it.
 *
 *   cc embed.c $(pkg-config --cflags --libs vpipe) -o embed && ./embed */
#include <vpipe/vpipe.h>

#include <stdio.h>

enum { BATCH = 16, SEQ = 16, VOCAB = 32, WIDTH = 32, HEADS = 4 };

static int weights(struct vpipe_graph *g, const char *name, int rows, int cols)
{
    return vpipe_param(g, name, rows, cols, VPIPE_NORMAL, 0.05f);
}

static int build(void *ctx, struct vpipe_graph *g)
{
    int x, y;

    (void)ctx;
    vpipe_block(g, "embedding");
    x = vpipe_embed(
        g, vpipe_input(g, VPIPE_IDS), weights(g, "ids", VOCAB, WIDTH),
        weights(g, "positions", SEQ, WIDTH), VPIPE_NONE, VPIPE_NONE);
    vpipe_block(g, "attention");
    y = vpipe_linear(g, x, weights(g, "qkv", 3 * WIDTH, WIDTH), VPIPE_NONE,
                     VPIPE_LINEAR);
    y = vpipe_attention(g, y, VPIPE_NONE, VPIPE_NONE, HEADS, 1, 0.0f);
    x = vpipe_add(g, y, x);
    vpipe_block(g, "feed-forward");
    y = vpipe_linear(g, x, weights(g, "in", 4 * WIDTH, WIDTH), VPIPE_NONE,
                     VPIPE_GELU);
    y = vpipe_linear(g, y, weights(g, "out", WIDTH, 4 * WIDTH), VPIPE_NONE,
                     VPIPE_LINEAR);
    x = vpipe_add(g, y, x);
    vpipe_block(g, "loss");
    x = vpipe_linear(g, x, weights(g, "logits", VOCAB, WIDTH), VPIPE_NONE,
                     VPIPE_LINEAR);
    vpipe_cross_entropy(g, x, vpipe_input(g, VPIPE_LABELS), 0.0f);
    return 0;
}

static int fill(void *ctx, struct vpipe_batch *batch)
{
    (void)ctx;
    for (int64_t i = 0; i < BATCH * SEQ; i++) {
        int64_t sample = batch->number * BATCH + i / SEQ, step = 1 + sample % 3;

        batch->ids[i] = (int32_t)((sample + i % SEQ * step) % VOCAB);
        batch->labels[i] = (int32_t)((batch->ids[i] + step) % VOCAB);
    }
    return 0;
}

static int show(void *ctx, const struct vpipe_step *step)
{
    (void)ctx;
    return step->step % 20 == 0 &&
           printf("step %3d  loss %.4f\n", (int)step->step, step->loss) < 0;
}

int main(void)
{
    const struct vpipe_shape shape = { .batch = BATCH, .seq = SEQ };
    struct vpipe_error error = { VPIPE_OK, "" };
    struct vpipe_config *config = NULL;
    struct vpipe_trainer *trainer = NULL;
    double loss = 0.0;

    if (vpipe_config_create(&config, &error) ||
        vpipe_config_set_model(config, &shape, build, NULL, &error) ||
        vpipe_config_set_data(config, fill, NULL, 1000, 4, &error) ||
        vpipe_config_set(config, "stages", "2", &error) ||
        vpipe_config_set(config, "accumulation_steps", "4", &error) ||
        vpipe_config_set(config, "learning_rate", "0.02", &error) ||
        vpipe_config_set(config, "total_steps", "100", &error) ||
        vpipe_trainer_create(config, NULL, NULL, &trainer, &error) ||
        vpipe_trainer_run(trainer, 0, show, NULL, &error) ||
        vpipe_trainer_evaluate(trainer, 0, &loss, &error))
        fprintf(stderr, "embed: %s\n", error.message);
    else
        printf("evaluation loss %.4f\n", loss);
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
    return error.status != VPIPE_OK;
}
