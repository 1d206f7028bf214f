/* A model as a list of operators on named values, grouped into blocks. It has
 * shapes only: no numbers, no device. Programs, memory plans and costs are
 * derived from it.
 *
 * A value is a matrix [rows, cols], row-major; a row is usually a token
 * (sample-major: row = sample * seq + position). A model builder creates inputs
 * and parameters and applies operators. The first mistake is recorded, no
 * operator is added after it, and vp_graph_finish() reports it: builders need
 * no checks in between. */
#ifndef VP_GRAPH_GRAPH_H
#define VP_GRAPH_GRAPH_H

#include "base/batch.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define VP_NONE (-1)
#define VP_MAX_IN 3
#define VP_MAX_PARAM 3
#define VP_MAX_AUX 2
#define VP_MAX_PART 3
#define VP_MAX_BLOCK_OPS 64 /* see recompute.h */

typedef int vp_val; /* index into graph->values, or VP_NONE */
typedef int vp_par; /* index into graph->params, or VP_NONE */

/* How a value is distributed over the members of a tensor-parallel group. */
enum vp_spread {
    VP_SPREAD_WHOLE,   /* every member has all of it, bit for bit the same */
    VP_SPREAD_COLS,    /* member t has slice t of the columns */
    VP_SPREAD_PARTIAL, /* each member has a term; the value is their sum */
    /* Member t has slice t of the rows. Slices have equal length: the last ones
     * may end in padding rows, which have any finite value and a zero
     * gradient. */
    VP_SPREAD_ROWS,
    /* Every member has all of it, but a partial gradient, as with PARTIAL. */
    VP_SPREAD_GATHERED,
};

struct vp_value {
    const char *name; /* for messages */
    enum vp_dtype dtype;
    int64_t rows, cols;
    int64_t whole_rows; /* over all members, where these have slices of rows */
    enum vp_role role;  /* meaning of a model input; NONE for other values */
    int producer;       /* operator, or VP_NONE for a model input */
    int n_readers;      /* number of operator inputs that are this value */
    int last_reader;    /* the last operator that reads it, or VP_NONE */
    bool needs_grad;
    enum vp_spread spread;
    /* Its contents survive from minibatch to minibatch, in space CACHE, at an
     * offset that is the same in all programs of a stage. */
    bool persists;
};

enum vp_init { VP_INIT_ZERO, VP_INIT_ONE, VP_INIT_NORMAL, VP_INIT_SINUSOID };

/* A tensor of the Hugging Face model: rows [row, row + rows) of a parameter.
 * Query, key and value weights, for instance, are three parts of one
 * parameter. */
struct vp_part {
    const char *name;
    int64_t row, rows;
};

/* How a parameter is cut among the members of a tensor-parallel group; see slice.h. */
enum vp_slice_axis {
    VP_SLICE_NONE, /* every member has all of it */
    VP_SLICE_ROWS, /* output features, or rows of a table */
    VP_SLICE_COLS, /* input features, or elements of a vector */
};

struct vp_cut {
    enum vp_slice_axis axis;
    /* Number of sections of each part along the axis. A member has a slice of
     * every section: query, key and value packed in one tensor are three. */
    int n_sections;
    int64_t whole; /* rows or columns of each part, over all members */
};

/* Rows and columns are those that one member has. */
struct vp_param {
    int block; /* the block that owns it; a gradient per block */
    int64_t rows, cols;
    struct vp_cut slice;
    enum vp_init init;
    float init_std;
    bool decay;             /* weight decay applies (not biases, layer norms) */
    bool stored_transposed; /* files hold [cols, rows] (GPT-2's Conv1D) */
    bool constant;          /* not trained (table of sinusoids) */
    vp_par tied_to;         /* the earlier parameter whose value it shares */
    bool has_copies;        /* later parameters are tied to this one */
    /* An operator on slices of rows uses it: every member has all of the
     * parameter, but only the term of its own rows in the gradient, which is the
     * sum over the members. */
    bool partial_grad;
    int n_parts;
    struct vp_part part[VP_MAX_PART];
};

/* Columns of the loss value, which has one row per minibatch. A row of logits
 * counts if it has a label and a nonzero weight w; the columns after the mean
 * are sums of w. */
enum vp_loss_col {
    VP_LOSS_MEAN,   /* sum of w * loss / sum of w; 0 if no row counts */
    VP_LOSS_WEIGHT, /* all rows that count: the number of predictions */
    VP_LOSS_TOP1,   /* evaluation: rows whose label has rank 0; training: 0 */
    VP_LOSS_TOP5,   /* evaluation: rows whose label has a rank below 5 */
    VP_LOSS_COLS
};

/* Outputs of a forward pass that the host reads: a set of bits. */
enum vp_output {
    VP_OUTPUT_LOSS = 1, /* a row of the columns above */
    VP_OUTPUT_LOGITS = 2,
    /* With VP_OUTPUT_LOGITS and without VP_OUTPUT_LOSS: the output has, instead
     * of each row of logits, the id of its largest element, an int32. */
    VP_OUTPUT_ARGMAX = 4,
};

enum vp_op_kind {
    VP_OP_EMBED,
    VP_OP_LINEAR,
    VP_OP_LAYERNORM,
    VP_OP_ATTENTION,
    VP_OP_CACHED_ATTENTION,
    VP_OP_CACHED_CROSS_ATTENTION,
    VP_OP_DROPOUT,
    VP_OP_ADD,
    VP_OP_SCALE,
    VP_OP_GATHER,
    VP_OP_CROSS_ENTROPY,
    VP_OP_ARGMAX,
    VP_OP_COPY, /* inserted by lowering; out = in */
    VP_OP_GROUP_SUM,
    VP_OP_GROUP_COPY, /* inserted by lowering */
    VP_OP_REDUCE_SCATTER,
    VP_OP_ALL_GATHER,
    VP_OP_KIND_COUNT
};

enum vp_act { VP_ACT_NONE, VP_ACT_RELU, VP_ACT_GELU_ERF, VP_ACT_GELU_TANH };

/* Operators and their arguments. x: [rows, cols], B: batch, S: sequence length.
 * `in` means in0, and `par` the parameters in order.
 *
 * embed       in: ids [B*S]; in1: type ids [B*S] or NONE; in2: p [B*S] or NONE
 *             par: table [V, H]; positions [P, H] or NONE; types [T, H] or NONE
 *             out = scale * table[id] + positions[p] + types[t]
 *             p = position in the sequence; with `pad` >= 0 (sinusoids): the
 *             number of non-pad ids before it, and rows of pad ids are zero;
 *             with in2: p is given, and rows with p < 0 are zero
 * linear      in: x [rows, K]; par: weight [N, K], bias of N elements or NONE
 *             out = act(x weight^T + bias); aux0: x weight^T + bias if act
 * layernorm   in: x; par: gamma, beta [1, cols]; aux0: mean, 1/std [rows, 2]
 * attention   in: qkv [B*S, 3H], or q [B*Sq, H] and in1: kv [B*Sk, 2H];
 *             in2: key mask [B*Sk] or NONE; aux0: log-sum-exp [B*Sq, heads]
 *             softmax(scale q k^T, masked) with dropout p, times v
 *             a query with no key allowed has zeros in out and aux0
 * cached_attention  causal self-attention of new positions, with keys and values
 *             of the positions before them from a cache that it fills.
 *             in: qkv [B*S, 3H]; in1: the position p of each row in its text, or
 *             -1: padding, whose result is zero; in2: lines [B*T]: the cache
 *             line that holds position j of sample b is lines[b*T + j].
 *             aux0, which persists: the cache, [n_lines, heads, 2, T, dim]: keys,
 *             then values. Writes key and value of each row to position p of
 *             line lines[b*T + p], then attends to positions 0 .. p. Samples are
 *             computed in any order: the caller makes sure that within a
 *             minibatch no sample reads a position of a line that another sample
 *             writes. F only
 * cached_cross_attention  attention to a source whose keys and values are in a
 *             cache that it fills. in: q [B*Sq, H]; in1: kv [B*Sk, 2H]; in2:
 *             sources [3B]: for each sample the cache line, the number of its
 *             keys (0: the sample is padding, and its result zero), and the
 *             number of rows of kv, from the sample's first on, that are
 *             written to positions 0, 1, ... of the line before all queries
 *             attend to all its keys. aux0, which persists: the cache,
 *             [n_lines, heads, 2, T, dim]: keys, then values. Within a minibatch
 *             no sample may read a line that another sample writes. F only
 * dropout     in: x; p is rounded to 1/256 (note [dropout] in base/rng.h)
 * add         in: a, in1: b; a residual add: in0 is the branch, in1 the trunk
 * scale       out = scale * x
 * gather      in: x [rows, C]; in1: row numbers [n], -1 gives a zero row
 * cross_entropy in: logits [n, V]; in1: labels [n], -1 ignored; in2: weights
 *             (int32 0/1) [n] or NONE; aux0: per-row log-sum-exp and loss
 *             [n, 2]; out: [1, VP_LOSS_COLS], see enum vp_loss_col;
 *             loss = (1-e) nll + e/V sum(-log p), e = smoothing; rows that do
 *             not count have zeros in aux0 and a zero gradient. In evaluation
 *             aux0 has the label's rank in place of the log-sum-exp: the number
 *             of ids with a larger logit, or an equal one and a smaller id; NaN
 *             counts as larger
 * argmax      in: x [n, V]; out: int32 [n, 1], the first column with the largest
 *             element of each row; -1 if an element is not finite. F only
 * group_sum   in: x, a PARTIAL value; par: bias [1, cols] or NONE
 *             out = (sum of x over the members, in member order) + bias
 * group_copy  for an operator that reads a WHOLE value x and computes slices of
 *             its result: each member has a term of the gradient of x, and din is
 *             the sum of the terms over the members. B only
 * reduce_scatter  as group_sum, but out is this member's slice of the rows. F
 *             overwrites x, which must have no other reader. B gathers the
 *             slices of dout of all members
 * all_gather  in: x, a slice of rows; out: the slices of all members. In B, din
 *             is this member's slice of the sum of dout over the members, and
 *             dout is overwritten
 *
 * In a group of several members:
 * embed       a table cut by rows gives a PARTIAL value: a member's term is zero
 *             in rows whose id is not in its slice, and only the first member
 *             adds positions and types
 * linear      a weight cut by rows turns a WHOLE value into slices of columns; a
 *             weight cut by columns turns slices of columns into a PARTIAL value
 * attention   takes and returns slices of columns: a member has some of the heads
 * cross_entropy takes slices of columns: members exchange statistics of each row
 * gather      turns slices of rows into a PARTIAL value: a member's term is zero
 *             in rows that are not in its slice */
struct vp_attr {
    float scale;
    float eps;
    float p; /* dropout probability */
    float smoothing;
    enum vp_act act;
    bool causal;
    int32_t pad;          /* embed: the padding id, or -1 */
    int heads;            /* number of heads that one member has */
    int64_t batch;        /* samples; rows of in0 = batch * q_len */
    int64_t q_len, k_len; /* positions per sample (embed, dropout: q_len) */
    int64_t n_lines;      /* lines of the cache, of k_len positions each */
    int64_t n_ids;        /* cross_entropy: columns of logits of all members */
};

struct vp_op {
    enum vp_op_kind kind;
    int id;     /* index in the whole model */
    int stream; /* random stream: the same for any number of members */
    int line;   /* line in the program of the original vPipe; see recompute.h */
    int block;
    vp_val in[VP_MAX_IN];
    vp_par par[VP_MAX_PARAM];
    vp_val out;
    vp_val aux[VP_MAX_AUX]; /* written by forward for backward */
    struct vp_attr attr;
};

struct vp_block {
    const char *name;
    int first_op, n_ops;
    int first_line, n_lines;
};

struct vp_graph {
    struct vp_value *values;
    int n_values;
    struct vp_param *params;
    int n_params;
    struct vp_op *ops;
    int n_ops;
    struct vp_block *blocks;
    int n_blocks;
    int n_lines;
    int64_t batch; /* samples per minibatch */
    /* Number of ranks that share each operator: see docs/tensor-parallel.md.
     * The graph has the shapes of one member and is the same for all of
     * them. */
    int n_members;
    /* Sums over the group are reduce-scatters: between them each member has a
     * slice of the rows. No effect with one member. */
    bool sequence_parallel;
    /* Type of weights and activations. The loss, statistics of rows (layer
     * norm, attention, loss) and gradients of weights are always F32. */
    enum vp_dtype dtype;
    /* Bits of enum vp_output. Without VP_OUTPUT_LOSS the graph ends in the
     * logits and is for inference only. */
    unsigned outputs;
    /* Size of the key-value cache, if the model runs with one; builders read
     * it. */
    struct vp_cache_size cache;
    vp_val loss;   /* [1, VP_LOSS_COLS], or VP_NONE */
    vp_val logits; /* input of the loss, or the last value: logits or argmax */

    /* private */
    int cap_values, cap_params, cap_ops, cap_blocks;
    int n_streams;
    struct vp_arena arena;
    enum vp_status status;
    struct vp_err err;
};

/* Starts an empty graph with dtype F32, VP_OUTPUT_LOSS, one member and no
 * cache. The caller sets other values of these fields before any other call. */
void vp_graph_init(struct vp_graph *graph, int64_t batch);
void vp_graph_release(struct vp_graph *graph);

/* ---- For model builders ------------------------------------------------ */

/* Starts the next block; operators that follow belong to it. */
void vp_graph_block(struct vp_graph *graph, const char *name);
/* Starts the next line of the original's program. Each block needs one before
 * its first operator; several operators may share a line. */
void vp_graph_line(struct vp_graph *graph);
/* Formats a name that lives as long as the graph. Returns "" when out of
 * memory. */
const char *vp_graph_name(struct vp_graph *graph, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* Records the mistake `why`, unless there is an earlier one. */
void vp_graph_refuse(struct vp_graph *graph, const char *why);

/* An int32 input of the model, [rows, 1]. Borrows `name`. */
vp_val vp_graph_input(struct vp_graph *graph, enum vp_role role,
                      const char *name, int64_t rows);

/* Adds a parameter with one part to the current block. `std` is for
 * VP_INIT_NORMAL. A parameter of one row is a vector (bias, layer norm) without
 * weight decay. */
vp_par vp_graph_param(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, enum vp_init init, float std);
/* Adds a part of `rows` rows at the end of a parameter that vp_graph_param()
 * added to the current block. */
void vp_graph_part(struct vp_graph *graph, vp_par par, const char *name,
                   int64_t rows);
/* Cuts a parameter of the current block, which has its whole shape and all of
 * its parts, among the members of the group; does nothing with one member. A
 * length that does not divide evenly is refused, unless `pad` and one section:
 * then the last slices end in zeros. */
void vp_graph_slice(struct vp_graph *graph, vp_par par, enum vp_slice_axis axis,
                    int n_sections, bool pad);
/* Adds a parameter to the current block that shares the value of `owner`, a
 * parameter of an earlier block. */
vp_par vp_graph_tied(struct vp_graph *graph, vp_par owner);

vp_val vp_embed(struct vp_graph *graph, vp_val ids, vp_val types, vp_par table,
                vp_par positions, vp_par type_table, float scale, int32_t pad);
/* As vp_embed() without types, but with the position of each row given in `at`.
 * For inference only. */
vp_val vp_embed_at(struct vp_graph *graph, vp_val ids, vp_val at, vp_par table,
                   vp_par positions, float scale, int32_t pad);
vp_val vp_linear(struct vp_graph *graph, vp_val x, vp_par weight, vp_par bias,
                 enum vp_act act);
vp_val vp_layernorm(struct vp_graph *graph, vp_val x, vp_par gamma, vp_par beta,
                    float eps);
/* `kv` is NONE for self-attention over packed q, k, v. */
vp_val vp_attention(struct vp_graph *graph, vp_val q, vp_val kv, vp_val mask,
                    int heads, bool causal, float p);
/* `lines` has batch * T rows; the cache has n_lines lines of T positions. For
 * inference only. */
vp_val vp_cached_attention(struct vp_graph *graph, vp_val qkv, vp_val at,
                           vp_val lines, int heads, int64_t n_lines);
/* The cache has n_lines lines of `n_positions` positions. For inference
 * only. */
vp_val vp_cached_cross_attention(struct vp_graph *graph, vp_val q, vp_val kv,
                                 vp_val sources, int heads, int64_t n_lines,
                                 int64_t n_positions);
/* Returns x itself when p is 0. */
vp_val vp_dropout(struct vp_graph *graph, vp_val x, float p);
vp_val vp_add(struct vp_graph *graph, vp_val branch, vp_val trunk);
vp_val vp_scale(struct vp_graph *graph, vp_val x, float scale);
vp_val vp_gather(struct vp_graph *graph, vp_val x, vp_val rows);
vp_val vp_cross_entropy(struct vp_graph *graph, vp_val logits, vp_val labels,
                        vp_val weights, float smoothing);
vp_val vp_argmax(struct vp_graph *graph, vp_val x);
/* Returns x itself if it is whole and there is no bias. With sequence_parallel
 * the operator is a reduce_scatter. */
vp_val vp_group_sum(struct vp_graph *graph, vp_val x, vp_par bias);
/* Returns x itself unless the members have slices of its rows. */
vp_val vp_all_gather(struct vp_graph *graph, vp_val x);

/* Ends building and reports the first mistake. The last operator must compute
 * the loss, or the logits (or their argmax) if the graph has no loss. */
enum vp_status vp_graph_finish(struct vp_graph *graph, struct vp_err *err);

/* ---- Queries on a finished graph --------------------------------------- */

enum vp_phase { VP_PHASE_F, VP_PHASE_B, VP_PHASE_W, VP_PHASE_COUNT };

/* Returns the shape of part `part` of a parameter over all members of a
 * group. */
struct vp_shape {
    int64_t rows, cols;
};
struct vp_shape vp_param_whole(const struct vp_param *param, int part);
/* Returns the number of elements of all parts over all members. */
int64_t vp_param_whole_count(const struct vp_param *param);
/* Returns the number of trained parameters of the whole model; tied ones count
 * once. */
int64_t vp_graph_param_count(const struct vp_graph *graph);
/* Finds the numbers that all operators accept in the model input with `role`:
 * from `first` (0, or -1 if that means "none") to `limit` - 1. Returns false if
 * the graph has no such input or accepts any number. */
struct vp_input_range {
    int32_t first;
    int64_t limit;
};
bool vp_graph_input_range(const struct vp_graph *graph, enum vp_role role,
                          struct vp_input_range *out);
/* Returns the operator that reads `value` if there is exactly one such input,
 * or NULL. */
const struct vp_op *vp_graph_reader(const struct vp_graph *graph, vp_val value);
/* Returns the floating-point operations of one operator call; a multiply-add
 * counts 2. Only matrix products and attention count. */
double vp_op_flops(const struct vp_graph *graph, const struct vp_op *op,
                   enum vp_phase phase);
/* Returns the operations of one phase of n_blocks blocks from first_block
 * on. */
double vp_graph_phase_flops(const struct vp_graph *graph, int first_block,
                            int n_blocks, enum vp_phase phase);
/* Returns those of forward and backward, W included. */
double vp_graph_flops(const struct vp_graph *graph, int first_block,
                      int n_blocks);
int64_t vp_value_bytes(const struct vp_graph *graph, vp_val value);
/* Returns true if the host reads `value`, see enum vp_output. */
bool vp_graph_is_output(const struct vp_graph *graph, vp_val value);

#endif
