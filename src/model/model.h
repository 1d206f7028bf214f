/* The model table: names, sizes, Hugging Face configurations, builders.
 * docs/extend/add-a-model.md lists the files that a new model touches. */
#ifndef VP_MODEL_MODEL_H
#define VP_MODEL_MODEL_H

#include "base/batch.h"
#include "graph/graph.h"

/* The training task of a model. It decides which data sources fit. */
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
    bool attention_bias;    /* translation only; others always have it */
    enum vp_dtype dtype;    /* type of weights and activations */
    int n_members;          /* ranks that share each operator; 0: 1 */
    bool sequence_parallel; /* members have slices of rows between their sums */
};

/* The operators of a model that is not in the table. */
struct vp_custom_model {
    struct vp_dims dims; /* its only bucket */
    /* Appends the operators to `graph`; the last one is the loss. Called for
     * each graph of the model; every call appends the same operators. */
    void (*build)(void *ctx, const struct vp_dims *dims,
                  struct vp_graph *graph);
    void *ctx;
};

struct vp_model {
    const char *name; /* model_type: bert, gpt2, cpm, translation */
    enum vp_task task;
    /* Sizes by published name ("base", "124M", ...); the first one is the
     * default. Embeddings are tied, as published. */
    const struct vp_model_size *sizes;
    int n_sizes;
    /* NULL for the models of the table. */
    const struct vp_custom_model *custom;
    /* Appends the operators for one bucket, up to graph->outputs. NULL for a
     * custom model. */
    void (*build)(const struct vp_model_config *config,
                  const struct vp_dims *dims, struct vp_graph *graph);
    /* Returns the number of blocks, such as 2 * layers + 1. */
    int64_t (*n_blocks)(const struct vp_model_config *config);
};

struct vp_model_size {
    const char *name;
    struct vp_model_config config;
};

/* The model_type of a custom model. */
#define VP_MODEL_CUSTOM "custom"

/* Makes a model of `custom`. Builds its graph once, to check it and to count
 * the blocks. *size_out is the model's only size. The model borrows `custom`
 * and `size_out`, which must outlive it. */
enum vp_status vp_model_custom_init(const struct vp_custom_model *custom,
                                    struct vp_model *model_out,
                                    struct vp_model_size *size_out,
                                    struct vp_err *err);

/* Returns the row of the table with this name; NULL if there is none. */
const struct vp_model *vp_model_find(const char *name);
/* Returns the names of all models for messages: "bert, gpt2, cpm,
 * translation". */
const char *vp_model_names(void);
/* Returns the size with this name, the default size if `name` is NULL; NULL if
 * there is no such size. */
const struct vp_model_size *vp_model_size_find(const struct vp_model *model,
                                               const char *name);

/* Refuses impossible sizes: heads that do not divide hidden, sequences longer
 * than positions, sizes of zero, tensors of more than 2^31 rows. The message is
 * "<key>: <cause>; <remedy>", and `err` names the configuration keys to change,
 * <key> first. */
enum vp_status vp_model_check(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims, struct vp_err *err);

/* Checks the sizes and builds the graph, which ends in the loss. Release it
 * with vp_graph_release(). */
enum vp_status vp_model_build(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims,
                              struct vp_graph *graph_out, struct vp_err *err);

/* As vp_model_build(), for other outputs: `outputs` is a set of enum vp_output.
 * With dims->n_labels above 0, logits and loss are computed only for the rows
 * that the batch lists in VP_ROLE_LABEL_ROWS (rows of the decoder, if the model
 * has one). */
enum vp_status vp_model_build_outputs(const struct vp_model *model,
                                      const struct vp_model_config *config,
                                      const struct vp_dims *dims,
                                      unsigned outputs,
                                      struct vp_graph *graph_out,
                                      struct vp_err *err);

/* As vp_model_build_outputs(), for a causal or translation model with a
 * key-value cache. The (target) tokens of a batch are new positions of texts
 * (VP_ROLE_POSITIONS, VP_ROLE_LINES). VP_ROLE_SOURCES names the lines of the
 * cache for the keys and values of the encoder's output; a batch without new
 * source texts has seq 1. Refuses masked language models. */
enum vp_status vp_model_build_cached(
    const struct vp_model *model, const struct vp_model_config *config,
    const struct vp_dims *dims, const struct vp_cache_size *cache,
    unsigned outputs, struct vp_graph *graph_out, struct vp_err *err);

/* Reads a Hugging Face config.json (model_type bert, gpt2, m2m_100) or a
 * bert_config.json, which has the keys of bert without model_type, and whose
 * vocabulary is rounded up to a multiple of 8. Checks the sizes. Sizes are
 * required keys; other keys have the published value as default. Regularisation
 * that vpipe does not have (layerdrop, activation and classifier dropout) is
 * not read. Refuses values with which the model would compute another function
 * than here. */
enum vp_status vp_model_read_json(const char *path,
                                  const struct vp_model **model_out,
                                  struct vp_model_config *config_out,
                                  struct vp_err *err);

/* Tokens with a meaning for generation; -1: none. */
struct vp_model_ids {
    int32_t begin, end;
    int32_t start; /* first token of a decoder's input */
};

/* Writes the text of a config.json for the Hugging Face class `class_name` with
 * tensors of type `dtype` ("float32"). vp_model_read_json() reads the same
 * values back. The caller frees the text. VP_ERR_NOMEM. */
enum vp_status vp_model_format_json(const struct vp_model *model,
                                    const struct vp_model_config *config,
                                    const struct vp_model_ids *ids,
                                    const char *class_name, const char *dtype,
                                    char **text_out);

/* ---- Weights ------------------------------------------------------------ */

/* Writes the published initial value of a parameter: its parts one after the other,
 * each as a whole also where the members of a group have slices of it, see
 * graph/slice.h. A pure function of seed, the parts' names and the element, so it does
 * not depend on partition. Tied parameters get the value of their owner. */
void vp_param_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
                   float *out);
/* Writes elements [begin, begin + n) of the same value to out[0 .. n-1]. Any
 * thread. */
void vp_param_init_range(const struct vp_graph *graph, vp_par par,
                         uint64_t seed, int64_t begin, int64_t n, float *out);

#endif
