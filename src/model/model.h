/* The model table: names, sizes, Hugging Face configurations, builders.
 * docs/extend/add-a-model.md lists the files that a new model touches. */
#ifndef VP_MODEL_MODEL_H
#define VP_MODEL_MODEL_H

#include "base/batch.h"
#include "graph/graph.h"

/* How a model is trained; decides which data it wants. */
enum vp_task {
    VP_TASK_MASKED_LM,
    VP_TASK_CAUSAL_LM,
    VP_TASK_TRANSLATION,
    VP_TASK_CUSTOM /* a model that is not in the table: struct vp_custom_model */
};

struct vp_model_config {
    int64_t vocab;
    int64_t hidden;
    int64_t layers;         /* encoder layers of a translation model */
    int64_t decoder_layers; /* translation only */
    int64_t heads;
    int64_t ffn;
    int64_t positions;       /* longest sequence */
    int64_t types;           /* BERT: segment ids */
    float dropout;           /* after embeddings, attention output, ffn */
    float attention_dropout; /* on attention weights */
    float eps;               /* layer norm */
    float label_smoothing;
    enum vp_act act;
    int32_t pad; /* padding token id */
    bool tie_embeddings;
    bool attention_bias; /* translation only; others always have it */
    enum vp_dtype dtype; /* of weights and activations */
    int n_members;       /* ranks that share each operator; 0: 1 */
};

/* The operators of a model that is not in the table. */
struct vp_custom_model {
    struct vp_dims dims; /* its one bucket */
    /* Appends the operators; ends in the loss. Called for each graph that is
     * made of the model, and does the same every time. */
    void (*build)(void *ctx, const struct vp_dims *dims,
                  struct vp_graph *graph);
    void *ctx;
};

struct vp_model {
    const char *name; /* model_type: bert, gpt2, cpm, translation */
    enum vp_task task;
    /* Sizes by published name ("base", "124M", ...); the first is the default
     * when no size is asked for. Embeddings are tied, as published. */
    const struct vp_model_size *sizes;
    int n_sizes;
    /* NULL for the models of the table. */
    const struct vp_custom_model *custom;
    /* Appends the operators for one bucket; ends in graph->outputs. NULL for a
     * custom model. */
    void (*build)(const struct vp_model_config *config,
                  const struct vp_dims *dims, struct vp_graph *graph);
    /* Blocks that build() makes: 2 layers + 1, ... */
    int64_t (*n_blocks)(const struct vp_model_config *config);
};

struct vp_model_size {
    const char *name;
    struct vp_model_config config;
};

/* What a custom model is called, as model_type. */
#define VP_MODEL_CUSTOM "custom"

/* Builds `custom` once to check it and to count its blocks, and makes a model of
 * it, with room for its only size. All three are borrowed by the model and
 * outlive it. */
enum vp_status vp_model_custom_init(const struct vp_custom_model *custom,
                                    struct vp_model *model_out,
                                    struct vp_model_size *size_out,
                                    struct vp_err *err);

/* NULL if unknown. */
const struct vp_model *vp_model_find(const char *name);
/* All of them, for messages: "bert, gpt2, cpm, translation". */
const char *vp_model_names(void);
/* The default for a NULL name; NULL if unknown. */
const struct vp_model_size *vp_model_size_find(const struct vp_model *model,
                                               const char *name);

/* Refuses impossible sizes: heads that do not divide hidden, sequences longer
 * than positions, zero anywhere, tensors over 2^31 rows. One line that starts
 * with the first of the error's fields, the configuration key to change:
 * "<key>: <cause>; <remedy>". */
enum vp_status vp_model_check(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims, struct vp_err *err);

/* Checks, builds, finishes: a graph that ends in the loss. Release with
 * vp_graph_release(). */
enum vp_status vp_model_build(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims,
                              struct vp_graph *graph_out, struct vp_err *err);

/* The same for other outputs: a set of enum vp_output. With dims->n_labels above
 * 0 the logits, and the loss, are of the rows that the batch names
 * (VP_ROLE_LABEL_ROWS; rows of the decoder where there is one). */
enum vp_status vp_model_build_outputs(const struct vp_model *model,
                                      const struct vp_model_config *config,
                                      const struct vp_dims *dims,
                                      unsigned outputs,
                                      struct vp_graph *graph_out,
                                      struct vp_err *err);

/* The same for a causal model or a decoder that is run with a cache: tokens (of
 * the target) of a batch are new positions of texts (VP_ROLE_POSITIONS,
 * VP_ROLE_LINES). The encoder's result is used by the keys and values that
 * VP_ROLE_SOURCES lets the cache keep; a batch without new sources has seq 1. */
enum vp_status vp_model_build_cached(
    const struct vp_model *model, const struct vp_model_config *config,
    const struct vp_dims *dims, const struct vp_cache_size *cache,
    unsigned outputs, struct vp_graph *graph_out, struct vp_err *err);

/* Reads a Hugging Face config.json (model_type bert, gpt2, m2m_100) or a
 * bert_config.json, which has the keys of the first one without model_type, and
 * whose vocabulary is rounded up to a multiple of 8; checks the sizes. What the file leaves out keeps the published value, sizes must be
 * there. Regularisers without a counterpart here (layerdrop, activation and
 * classifier dropout) are not read; what would change the function of the model
 * is refused. */
enum vp_status vp_model_read_json(const char *path,
                                  const struct vp_model **model_out,
                                  struct vp_model_config *config_out,
                                  struct vp_err *err);

/* Tokens with a meaning for generation; -1: none. */
struct vp_model_ids {
    int32_t begin, end;
    int32_t start; /* first token of a decoder's input */
};

/* Writes the config.json that vp_model_read_json() reads back to the same
 * values, for the class `class_name` of Hugging Face's with tensors of type
 * `dtype` ("float32"). Free the text. VP_ERR_NOMEM. */
enum vp_status vp_model_format_json(const struct vp_model *model,
                                    const struct vp_model_config *config,
                                    const struct vp_model_ids *ids,
                                    const char *class_name, const char *dtype,
                                    char **text_out);

/* ---- Weights ------------------------------------------------------------ */

/* Writes the published initial value of a parameter: its parts one after the other,
 * each as a whole also where the members of a group have slices of it, see
 * graph/shard.h. A pure function of seed, the parts' names and the element, so it does
 * not depend on partition. Tied parameters get the value of their owner. */
void vp_param_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
                   float *out);
/* Elements [begin, begin + n) of it, to out[0 .. n-1]. Any thread. */
void vp_param_init_range(const struct vp_graph *graph, vp_par par,
                         uint64_t seed, int64_t begin, int64_t n, float *out);

#endif
