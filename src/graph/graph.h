/* A model as a list of operators on named values, grouped into blocks.
 * Pure bookkeeping: no numbers, no device. Everything else is derived from it.
 *
 * A value is a matrix [rows, cols], row-major; rows usually count tokens
 * (sample-major: row = sample * seq + position). A model builder creates
 * inputs and parameters and applies operators; the first mistake makes the
 * graph sticky-failed, so builders need no checks in between, and
 * vp_graph_finish() reports it. */
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

/* How a value lies on the members of a tensor-parallel group. */
enum vp_spread {
    VP_SPREAD_WHOLE,   /* every member has all of it, with the same bits */
    VP_SPREAD_COLS,    /* member t has slice t of the columns */
    VP_SPREAD_PARTIAL, /* the value is the sum over the members */
    /* Member t has slice t of the rows, of equal length; rows of the last slices
     * behind those of the whole are padding: any finite value, gradient zero. */
    VP_SPREAD_ROWS,
    /* Every member has all of it, and a part of its gradient. */
    VP_SPREAD_GATHERED,
};

struct vp_value {
    const char *name; /* for people */
    enum vp_dtype dtype;
    int64_t rows, cols;
    int64_t whole_rows; /* over all members, where these have slices of rows */
    enum vp_role role;  /* what a model input means; NONE inside */
    int producer;       /* operator, or VP_NONE for a model input */
    int n_readers;      /* inputs of operators that are this value */
    int last_reader;    /* operator, or VP_NONE */
    bool needs_grad;
    enum vp_spread spread;
    /* Stays from minibatch to minibatch, in CACHE; all programs of a stage have
     * it at the same place. */
    bool persists;
};

enum vp_init { VP_INIT_ZERO, VP_INIT_ONE, VP_INIT_NORMAL, VP_INIT_SINUSOID };

/* A tensor as Hugging Face names it: `rows` rows of the parameter from `row`.
 * Query, key and value weights are three parts of one parameter. */
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
    /* Each part is made of this many sections one after the other along the axis,
     * and a member has a slice of every section: query, key and value packed in
     * one tensor are three. */
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
    bool constant;          /* a table that is not trained (sinusoids) */
    vp_par tied_to;         /* shares its value with this earlier parameter */
    bool has_copies;        /* later parameters are tied to this one */
    /* An operator on slices of rows uses it: every member has all of the parameter,
     * and the gradient of its own rows. The sum over the members is the gradient. */
    bool partial_grad;
    int n_parts;
    struct vp_part part[VP_MAX_PART];
};

/* The loss of a minibatch is a row of these. A row of logits counts if it has a
 * label and a weight; the columns after the mean add up weights w. */
enum vp_loss_col {
    VP_LOSS_MEAN,   /* sum of w * loss / sum of w; 0 if no row counts */
    VP_LOSS_WEIGHT, /* of the rows that count: the number of predictions */
    VP_LOSS_TOP1,   /* evaluation: rows whose label has rank 0 ... */
    VP_LOSS_TOP5,   /* ... and below 5; 0 in training */
    VP_LOSS_COLS
};

/* What the host reads of a forward: a set of bits. */
enum vp_output {
    VP_OUTPUT_LOSS = 1, /* a row of the columns above */
    VP_OUTPUT_LOGITS = 2,
    /* With VP_OUTPUT_LOGITS, and without a loss: in place of each row of logits
     * the id of its largest one, an int32. */
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

/* Operators and their arguments. x: [rows, cols], B: batch, S: sequence.
 *
 * embed       in: ids [B*S]; in1: type ids [B*S] or NONE; in2: p [B*S] or NONE
 *             par: table [V, H]; positions [P, H] or NONE; types [T, H] or NONE
 *             out = scale * table[id] + positions[p] + types[t]
 *             p = position in the sequence; with `pad` >= 0 (sinusoids): the
 *             number of non-pad ids before it, and pad rows are all zero;
 *             with in2: given, and rows with p < 0 are all zero
 * linear      in: x [rows, K]; par: weight [N, K], bias of N elements or NONE
 *             out = act(x weight^T + bias); aux0: x weight^T + bias if act
 * layernorm   in: x; par: gamma, beta [1, cols]; aux0: mean, 1/std [rows, 2]
 * attention   in: qkv [B*S, 3H], or q [B*Sq, H] and in1: kv [B*Sk, 2H];
 *             in2: key mask [B*Sk] or NONE; aux0: log-sum-exp [B*Sq, heads]
 *             softmax(scale q k^T, masked) with dropout p, times v
 *             a query with no key allowed gives zeros, aux0 too
 * cached_attention  causal self-attention of new positions, with keys and values
 *             of the positions before them from a cache that it fills.
 *             in: qkv [B*S, 3H]; in1: the position p of each row in its text, or
 *             -1: padding, whose result is zero; in2: lines [B*T]: the cache
 *             line that holds position j of sample b is lines[b*T + j].
 *             aux0, which persists: the cache, [n_lines, heads, 2, T, dim]: keys,
 *             then values. Writes key and value of each row to position p of
 *             line lines[b*T + p], then attends to positions 0 .. p. Rows of
 *             other samples neither write a line that a sample reads at a
 *             position, nor read what a sample writes in this minibatch: no
 *             sample waits for another. F only
 * cached_cross_attention  attention to a source whose keys and values are in a
 *             cache that it fills. in: q [B*Sq, H]; in1: kv [B*Sk, 2H]; in2:
 *             sources [3B]: for each sample the cache line, the number of its
 *             keys (0: the sample is padding, and its result zero), and the
 *             number of rows of kv, from the sample's first on, that are
 *             written to positions 0, 1, ... of the line before all queries
 *             attend to all its keys. aux0, which persists: the cache,
 *             [n_lines, heads, 2, T, dim]: keys, then values. No other sample
 *             of the minibatch reads a line that a sample writes. F only
 * dropout     in: x; byte-quantised p (note [dropout] in base/rng.h)
 * add         in: a, in1: b; the residual line: in0 is the branch, in1 the trunk
 * scale       out = scale * x
 * gather      in: x [rows, C]; in1: row numbers [n], -1 gives a zero row
 * cross_entropy in: logits [n, V]; in1: labels [n], -1 ignored; in2: weights
 *             (int32 0/1) [n] or NONE; aux0: per-row log-sum-exp and loss
 *             [n, 2]; out: [1, VP_LOSS_COLS], see there;
 *             loss = (1-e) nll + e/V sum(-log p), e = smoothing; rows that do
 *             not count have zeros in aux0 and a zero gradient. In evaluation
 *             aux0 has the label's rank in place of the log-sum-exp: the number
 *             of ids with a larger logit, or an equal one and a smaller id; a
 *             logit that is not a number comes first
 * argmax      in: x [n, V]; out: int32 [n, 1], the first column with the largest
 *             element of each row; -1 if an element is not finite. F only
 * group_sum   in: x, a PARTIAL value; par: bias [1, cols] or NONE
 *             out = (sum of x over the members, in their order) + bias
 * group_copy  the gradient of an operator that reads a WHOLE value and makes
 *             slices of its result: each member has a part of it, and din is the
 *             sum of these. Only in B
 * reduce_scatter  as group_sum, but a member gets its slice of the rows; F
 *             overwrites x, which nothing else reads. B: the slices of dout of all
 *             members are gathered
 * all_gather  in: x, a slice of rows; out: the slices of all members. B: a member
 *             gets its slice of the sum of dout over the members; overwrites dout
 *
 * In a group of several members:
 * embed       a table that is cut by rows gives a PARTIAL value: members other than
 *             the first leave positions and types out, and rows of ids that a
 *             member does not have are zero in it
 * linear      a weight cut by rows makes slices of columns of a WHOLE value, one cut
 *             by columns a PARTIAL value of slices
 * attention   takes and makes slices: members have different heads
 * cross_entropy takes slices: members tell each other four numbers of each row
 * gather      of slices of rows makes a PARTIAL value: rows that a member does not
 *             have are zero in it */
struct vp_attr {
    float scale;
    float eps;
    float p; /* dropout probability */
    float smoothing;
    enum vp_act act;
    bool causal;
    int32_t pad;          /* embed: the padding id, or -1 */
    int heads;            /* of a member */
    int64_t batch;        /* samples; rows of in0 = batch * q_len */
    int64_t q_len, k_len; /* positions per sample (embed, dropout: q_len) */
    int64_t n_lines;      /* of a cache; k_len: positions of a line */
    int64_t n_ids;        /* cross_entropy: logits of a row, over all members */
};

struct vp_op {
    enum vp_op_kind kind;
    int id;     /* the index in the whole model */
    int stream; /* of random numbers: the same for any number of members */
    int line;   /* the original's line number (VPIPE section 3) */
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
    /* Ranks that share each operator: see docs/tensor-parallel.md. The graph, with
     * the shapes of one member, is the same for all of them. */
    int n_members;
    /* Sums over the group are scattered: between them a member has a slice of the
     * rows. Nothing of it with one member. */
    bool sequence_parallel;
    /* Of weights and activations. The loss, statistics of rows (layer norm,
     * attention, loss) and gradients of weights are F32 in any case. */
    enum vp_dtype dtype;
    /* Set of enum vp_output. Without VP_OUTPUT_LOSS the graph ends in the logits
     * and is for a forward only. */
    unsigned outputs;
    /* Of a model that is run with a cache; builders read it. */
    struct vp_cache_size cache;
    vp_val loss;   /* [1, VP_LOSS_COLS], or VP_NONE */
    vp_val logits; /* what the loss is taken of, or the result of argmax */

    /* private */
    int cap_values, cap_params, cap_ops, cap_blocks;
    int n_streams;
    struct vp_arena arena;
    enum vp_status status;
    struct vp_err err;
};

/* With dtype F32, VP_OUTPUT_LOSS, one member and no cache; a caller that wants others
 * sets them before anything else. */
void vp_graph_init(struct vp_graph *graph, int64_t batch);
void vp_graph_release(struct vp_graph *graph);

/* ---- For model builders ------------------------------------------------ */

/* Starts the next block; operators that follow belong to it. */
void vp_graph_block(struct vp_graph *graph, const char *name);
/* Starts the next line of the original's program; a block starts one itself
 * with its first vp_graph_line(). Several operators may share a line. */
void vp_graph_line(struct vp_graph *graph);
/* A name that lives as long as the graph. */
const char *vp_graph_name(struct vp_graph *graph, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* Makes the graph failed, with `why`, unless it is already. */
void vp_graph_refuse(struct vp_graph *graph, const char *why);

vp_val vp_graph_input(struct vp_graph *graph, enum vp_role role,
                      const char *name, int64_t rows);

/* One-part parameter of the current block. NORMAL takes `std`. Of one row: a
 * vector (bias, layer norm), to which weight decay does not apply. */
vp_par vp_graph_param(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, enum vp_init init, float std);
/* Adds a part of `rows` rows to a parameter of the current block that was
 * created with vp_graph_param(); grows it. */
void vp_graph_part(struct vp_graph *graph, vp_par par, const char *name,
                   int64_t rows);
/* Cuts a parameter of the current block, made with its whole shape and all of its
 * parts, among the members of the group; nothing happens if there is one. Rows that
 * do not divide are filled up with rows of zeros if `pad`, else refused. */
void vp_graph_slice(struct vp_graph *graph, vp_par par, enum vp_slice_axis axis,
                    int n_sections, bool pad);
/* The current block's use of a parameter owned by an earlier block. */
vp_par vp_graph_tied(struct vp_graph *graph, vp_par owner);

vp_val vp_embed(struct vp_graph *graph, vp_val ids, vp_val types, vp_par table,
                vp_par positions, vp_par type_table, float scale, int32_t pad);
/* The position of each row is given: `at` [rows of ids]. For a forward only. */
vp_val vp_embed_at(struct vp_graph *graph, vp_val ids, vp_val at, vp_par table,
                   vp_par positions, float scale, int32_t pad);
vp_val vp_linear(struct vp_graph *graph, vp_val x, vp_par weight, vp_par bias,
                 enum vp_act act);
vp_val vp_layernorm(struct vp_graph *graph, vp_val x, vp_par gamma, vp_par beta,
                    float eps);
/* `kv` is NONE for self-attention over packed q, k, v. */
vp_val vp_attention(struct vp_graph *graph, vp_val q, vp_val kv, vp_val mask,
                    int heads, bool causal, float p);
/* `lines` has batch * T rows; the cache has n_lines lines of T positions. For a
 * forward only. */
vp_val vp_cached_attention(struct vp_graph *graph, vp_val qkv, vp_val at,
                           vp_val lines, int heads, int64_t n_lines);
/* A line of the cache has `n_positions` positions. */
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
/* Returns x itself if it is whole and there is no bias. With sequence_parallel: a
 * reduce_scatter. */
vp_val vp_group_sum(struct vp_graph *graph, vp_val x, vp_par bias);
/* Returns x itself unless the members have slices of its rows. */
vp_val vp_all_gather(struct vp_graph *graph, vp_val x);

/* Ends building: the last value must be the loss, or the logits if the graph has
 * no loss. Reports the first mistake. */
enum vp_status vp_graph_finish(struct vp_graph *graph, struct vp_err *err);

/* ---- Questions about a finished graph ---------------------------------- */

enum vp_phase { VP_PHASE_F, VP_PHASE_B, VP_PHASE_W, VP_PHASE_COUNT };

/* The shape of part `part` of a parameter over all members of a group. */
struct vp_shape {
    int64_t rows, cols;
};
struct vp_shape vp_param_whole(const struct vp_param *param, int part);
/* Elements of all parts over all members. */
int64_t vp_param_whole_count(const struct vp_param *param);
/* Parameters of the whole model, counted once (tied ones not again), constants not
 * at all. */
int64_t vp_graph_param_count(const struct vp_graph *graph);
/* The numbers that operators can read from the input with `role`: 0 or more, from
 * -1 on where that means "none", and below `limit`. False if the graph has no
 * such input, or any number will do. */
struct vp_input_range {
    int32_t first;
    int64_t limit;
};
bool vp_graph_input_range(const struct vp_graph *graph, enum vp_role role,
                          struct vp_input_range *out);
/* The only operator that reads a value, once; NULL: there is none such. */
const struct vp_op *vp_graph_reader(const struct vp_graph *graph, vp_val value);
/* Floating-point operations of one operator call; multiply-add counts 2.
 * Products and attention; elementwise work counts 0. */
double vp_op_flops(const struct vp_graph *graph, const struct vp_op *op,
                   enum vp_phase phase);
/* The same of one phase of blocks [first, first + n). */
double vp_graph_phase_flops(const struct vp_graph *graph, int first_block,
                            int n_blocks, enum vp_phase phase);
/* Forward plus backward of blocks [first, first + n). */
double vp_graph_flops(const struct vp_graph *graph, int first_block,
                      int n_blocks);
int64_t vp_value_bytes(const struct vp_graph *graph, vp_val value);
/* Returns true if the host reads `value`, see enum vp_output. */
bool vp_graph_is_output(const struct vp_graph *graph, vp_val value);

#endif
