/* Layers and other helpers that all model builders use; private to
 * src/model. */
#ifndef VP_MODEL_BUILD_H
#define VP_MODEL_BUILD_H

#include "graph/graph.h"

struct vp_model_config;

/* A linear layer with parameters "<name>.weight" and "<name>.bias". */
struct vp_dense {
    int64_t in, out; /* features; `out` counts those of one name */
    float std;       /* standard deviation of the initial weight */
    enum vp_act act;
    bool bias;
    bool stored_transposed;
    /* In a tensor-parallel group: cut by output features (ROWS of the weight), by
     * input features (COLS), which ends in a sum over the group, or not at all. */
    enum vp_slice_axis slice;
    int n_sections; /* sections of a name's output features; 0: 1 */
};

/* Returns the number of attention heads that one member of a group computes. */
int vp_build_heads(const struct vp_graph *graph, int64_t heads);
/* Adds an embedding table [rows, cols], cut by rows in a group. */
vp_par vp_build_table(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, float std);
/* Adds the bias of the output layer, cut like the rows of its table. */
vp_par vp_build_output_bias(struct vp_graph *graph, const char *name,
                            int64_t cols);

/* Adds a linear layer. Several names (query, key, value) are the parts of one
 * packed layer: x [rows, in] -> [rows, n_names * out]. */
vp_val vp_build_linear(struct vp_graph *graph, vp_val x,
                       const struct vp_dense *dense, const char *const *names,
                       int n_names);

/* Adds a layer norm with "<name>.weight" and "<name>.bias" of `cols`
 * elements. */
vp_val vp_build_layernorm(struct vp_graph *graph, vp_val x, const char *name,
                          int64_t cols, float eps);

/* Counts `n` lines of vPipe's model program that need no operator here: they do
 * nothing, or they are fused into an operator on an earlier line. */
void vp_build_lines(struct vp_graph *graph, int n);

/* Adds the input with the labels of the rows that are scored. Returns VP_NONE
 * if graph->outputs has no loss. */
vp_val vp_build_labels(struct vp_graph *graph, const struct vp_dims *dims);
/* Returns the rows of x that need logits: those that the batch lists, or
 * all. */
vp_val vp_build_rows(struct vp_graph *graph, vp_val x,
                     const struct vp_dims *dims);
/* Adds the operator after the logits: the loss or argmax, as in
 * graph->outputs. */
void vp_build_end(struct vp_graph *graph, vp_val logits, vp_val labels,
                  float smoothing);

/* The builders and block counts behind the table in model.c. */
void vp_bert_build(const struct vp_model_config *config,
                   const struct vp_dims *dims, struct vp_graph *graph);
void vp_gpt2_build(const struct vp_model_config *config,
                   const struct vp_dims *dims, struct vp_graph *graph);
void vp_transformer_build(const struct vp_model_config *config,
                          const struct vp_dims *dims, struct vp_graph *graph);
int64_t vp_bert_blocks(const struct vp_model_config *config);
int64_t vp_gpt2_blocks(const struct vp_model_config *config);
int64_t vp_transformer_blocks(const struct vp_model_config *config);

#endif
