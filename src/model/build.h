/* What the model builders share; private to src/model. */
#ifndef VP_MODEL_BUILD_H
#define VP_MODEL_BUILD_H

#include "graph/graph.h"

struct vp_model_config;

/* A linear layer; its names are "<name>.weight" and "<name>.bias". */
struct vp_dense {
    int64_t in, out; /* `out` features for each name */
    float std;       /* of the initial weight; the bias starts at 0 */
    enum vp_act act;
    bool bias;
    bool stored_transposed;
    /* In a tensor-parallel group: cut by output features (ROWS of the weight), by
     * input features (COLS), which ends in a sum over the group, or not at all. */
    enum vp_slice_axis slice;
    int n_sections; /* of the output features of a name; 0: 1 */
};

/* Heads of attention that one member of a group has. */
int vp_build_heads(const struct vp_graph *graph, int64_t heads);
/* A table [rows, cols] of ids, cut by rows in a group. */
vp_par vp_build_table(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, float std);
/* A bias of the output layer, cut as its table. */
vp_par vp_build_output_bias(struct vp_graph *graph, const char *name,
                            int64_t cols);

/* Several names (query, key, value) are the parts of one packed layer:
 * x [rows, in] -> [rows, n_names * out]. */
vp_val vp_build_linear(struct vp_graph *graph, vp_val x,
                       const struct vp_dense *dense, const char *const *names,
                       int n_names);

/* "<name>.weight" and "<name>.bias" of `cols` elements. */
vp_val vp_build_layernorm(struct vp_graph *graph, vp_val x, const char *name,
                          int64_t cols, float eps);

/* Lines of the original that need no operator here: there is nothing to do, or
 * they are fused into an operator, which stands on the first of its lines. */
void vp_build_lines(struct vp_graph *graph, int n);

/* The end of a model, by graph->outputs. Labels of the rows that are scored;
 * VP_NONE: the graph has no loss. */
vp_val vp_build_labels(struct vp_graph *graph, const struct vp_dims *dims);
/* The rows of x whose logits are wanted: those that the batch names, or all. */
vp_val vp_build_rows(struct vp_graph *graph, vp_val x,
                     const struct vp_dims *dims);
/* What graph->outputs asks for behind the logits: the loss, or argmax. */
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
