/* The model table, published sizes, and building a checked graph. */
#include "model/model.h"

#include "model/build.h"

#include <string.h>

/* Fields that all sizes of a model family share. */
#define BERT(n_layers, width, n_heads)                                    \
    .vocab = 30528, .hidden = (width), .layers = (n_layers),              \
    .heads = (n_heads), .ffn = 4 * (width), .positions = 512, .types = 2, \
    .dropout = 0.1f, .attention_dropout = 0.1f, .eps = 1e-12f,            \
    .act = VP_ACT_GELU_ERF, .tie_embeddings = true

#define GPT2(vocabulary, n_layers, width, n_heads)                  \
    .vocab = (vocabulary), .hidden = (width), .layers = (n_layers), \
    .heads = (n_heads), .ffn = 4 * (width), .positions = 1024,      \
    .dropout = 0.1f, .attention_dropout = 0.1f, .eps = 1e-5f,       \
    .act = VP_ACT_GELU_TANH, .tie_embeddings = true

#define TRANSFORMER(n_layers, width, n_heads)                             \
    .vocab = 33712, .hidden = (width), .layers = (n_layers),              \
    .decoder_layers = (n_layers), .heads = (n_heads), .ffn = 4 * (width), \
    .positions = 1024, .dropout = 0.1f, .attention_dropout = 0.1f,        \
    .eps = 1e-5f, .label_smoothing = 0.1f, .act = VP_ACT_RELU,            \
    .tie_embeddings = true

/* BERT's vocabulary of 30522 is rounded up to a multiple of 64. */
static const struct vp_model_size bert_sizes[] = {
    { "large", { BERT(24, 1024, 16) } },
    { "base", { BERT(12, 768, 12) } },
    { "large-48", { BERT(48, 1024, 16) } },
};

static const struct vp_model_size gpt2_sizes[] = {
    { "124M", { GPT2(50257, 12, 768, 12) } },
    { "355M", { GPT2(50257, 24, 1024, 16) } },
    { "774M", { GPT2(50257, 36, 1280, 20) } },
    { "1.5B", { GPT2(50257, 48, 1600, 25) } },
};

static const struct vp_model_size cpm_sizes[] = {
    { "medium", { GPT2(30000, 24, 1024, 16) } },
    { "large", { GPT2(30000, 32, 2560, 32) } },
};

static const struct vp_model_size translation_sizes[] = {
    { "big", { TRANSFORMER(6, 1024, 16) } },
    { "base", { TRANSFORMER(6, 512, 8) } },
    { "big-12", { TRANSFORMER(12, 1024, 16) } },
};

#define SIZES(table) .sizes = (table), .n_sizes = (int)VP_COUNT_OF(table)

static const struct vp_model models[] = {
    { .name = "bert",
      .task = VP_TASK_MASKED_LM,
      SIZES(bert_sizes),
      .build = vp_bert_build,
      .n_blocks = vp_bert_blocks },
    { .name = "gpt2",
      .task = VP_TASK_CAUSAL_LM,
      SIZES(gpt2_sizes),
      .build = vp_gpt2_build,
      .n_blocks = vp_gpt2_blocks },
    { .name = "cpm",
      .task = VP_TASK_CAUSAL_LM,
      SIZES(cpm_sizes),
      .build = vp_gpt2_build,
      .n_blocks = vp_gpt2_blocks },
    { .name = "translation",
      .task = VP_TASK_TRANSLATION,
      SIZES(translation_sizes),
      .build = vp_transformer_build,
      .n_blocks = vp_transformer_blocks },
};

const struct vp_model *vp_model_find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *vp_model_names(void)
{
    return "bert, gpt2, cpm, translation";
}

const struct vp_model_size *vp_model_size_find(const struct vp_model *model,
                                               const char *name)
{
    if (!name)
        return &model->sizes[0];
    for (int i = 0; i < model->n_sizes; i++)
        if (strcmp(model->sizes[i].name, name) == 0)
            return &model->sizes[i];
    return NULL;
}

static enum vp_status build(const struct vp_model *model,
                            const struct vp_model_config *config,
                            const struct vp_dims *dims, unsigned outputs,
                            struct vp_cache_size cache,
                            struct vp_graph *graph_out, struct vp_err *err)
{
    const struct vp_custom_model *custom = model->custom;
    struct vp_graph graph;
    enum vp_status status;

    if (custom && outputs != VP_OUTPUT_LOSS)
        return vp_err_refuse(err, "model_type",
                             "model_type: a custom model gives its loss, not "
                             "logits; train and evaluate it");
    VP_TRY(vp_model_check(model, config, dims, err));
    vp_graph_init(&graph, dims->batch);
    graph.dtype = config->dtype;
    graph.n_members = config->n_members > 0 ? config->n_members : 1;
    graph.sequence_parallel = config->sequence_parallel && graph.n_members > 1;
    graph.outputs = outputs;
    graph.cache = cache;
    if (custom)
        custom->build(custom->ctx, dims, &graph);
    else
        model->build(config, dims, &graph);
    status = vp_graph_finish(&graph, err);
    if (status != VP_OK) {
        vp_graph_release(&graph);
        return status;
    }
    *graph_out = graph;
    return VP_OK;
}

enum vp_status vp_model_build(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims,
                              struct vp_graph *graph_out, struct vp_err *err)
{
    return vp_model_build_outputs(model, config, dims, VP_OUTPUT_LOSS,
                                  graph_out, err);
}

enum vp_status vp_model_build_outputs(const struct vp_model *model,
                                      const struct vp_model_config *config,
                                      const struct vp_dims *dims,
                                      unsigned outputs,
                                      struct vp_graph *graph_out,
                                      struct vp_err *err)
{
    return build(model, config, dims, outputs,
                 (struct vp_cache_size){ .n_lines = 0 }, graph_out, err);
}

enum vp_status vp_model_build_cached(
    const struct vp_model *model, const struct vp_model_config *config,
    const struct vp_dims *dims, const struct vp_cache_size *cache,
    unsigned outputs, struct vp_graph *graph_out, struct vp_err *err)
{
    if (model->task == VP_TASK_MASKED_LM)
        return vp_err_refuse(err, "model_type",
                             "model_type: %s cannot be run with a key-value "
                             "cache; use gpt2, cpm or translation",
                             model->name);
    return build(model, config, dims, outputs, *cache, graph_out, err);
}

/* ---- Custom models ------------------------------------------------------ */

/* vp_model_custom_init() stores the number of blocks as `layers`. */
static int64_t custom_blocks(const struct vp_model_config *config)
{
    return config->layers;
}

enum vp_status vp_model_custom_init(const struct vp_custom_model *custom,
                                    struct vp_model *model_out,
                                    struct vp_model_size *size_out,
                                    struct vp_err *err)
{
    const struct vp_model_size size = { .name = VP_MODEL_CUSTOM };
    const struct vp_model model = { .name = VP_MODEL_CUSTOM,
                                    .task = VP_TASK_CUSTOM,
                                    .sizes = size_out,
                                    .n_sizes = 1,
                                    .custom = custom,
                                    .n_blocks = custom_blocks };
    struct vp_graph graph;

    VP_BUG_ON(!custom);
    VP_TRY(vp_model_build(&model, &size.config, &custom->dims, &graph, err));
    *size_out = size;
    size_out->config.layers = graph.n_blocks;
    *model_out = model;
    vp_graph_release(&graph);
    return VP_OK;
}
