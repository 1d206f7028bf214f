/* Building a graph: values, parameters, blocks, lines, and the builders of
 * every operator. Shape rules live with the operator table in opdef.c. */
#include "graph/graph.h"

#include "graph/opdef.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fail_in(struct vp_graph *graph, const char *block, const char *what)
{
    if (graph->status == VP_OK)
        graph->status = vp_err_set(&graph->err, VP_ERR_INVALID,
                                   "model graph, %s: %s", block, what);
}

static void fail(struct vp_graph *graph, const char *what)
{
    fail_in(graph,
            graph->n_blocks > 0 ? graph->blocks[graph->n_blocks - 1].name
                                : "before the first block",
            what);
}

void vp_graph_refuse(struct vp_graph *graph, const char *why)
{
    fail(graph, why);
}

/* Makes room for one more element; NULL when memory is exhausted. */
static void *grow(struct vp_graph *graph, void *items, size_t item_bytes, int n,
                  int *cap)
{
    int wider = *cap ? *cap * 2 : 64;
    void *moved;

    if (n < *cap)
        return items;
    moved = vp_arena_alloc(&graph->arena, (size_t)wider * item_bytes);
    if (!moved) {
        fail(graph, "out of memory");
        return NULL;
    }
    if (n > 0)
        memcpy(moved, items, (size_t)n * item_bytes);
    *cap = wider;
    return moved;
}

void vp_graph_init(struct vp_graph *graph, int64_t batch)
{
    *graph = (struct vp_graph){ .batch = batch,
                                .n_members = 1,
                                .outputs = VP_OUTPUT_LOSS,
                                .loss = VP_NONE,
                                .logits = VP_NONE };
}

void vp_graph_release(struct vp_graph *graph)
{
    vp_arena_release(&graph->arena);
    *graph = (struct vp_graph){ .loss = VP_NONE, .logits = VP_NONE };
}

void vp_graph_block(struct vp_graph *graph, const char *name)
{
    struct vp_block *blocks = grow(graph, graph->blocks, sizeof(*blocks),
                                   graph->n_blocks, &graph->cap_blocks);

    if (!blocks)
        return;
    graph->blocks = blocks;
    blocks[graph->n_blocks++] = (struct vp_block){
        .name = vp_graph_name(graph, "%s", name),
        .first_op = graph->n_ops,
        .first_line = graph->n_lines,
    };
}

void vp_graph_line(struct vp_graph *graph)
{
    if (graph->n_blocks == 0) {
        fail(graph, "a line needs a block");
        return;
    }
    graph->blocks[graph->n_blocks - 1].n_lines++;
    graph->n_lines++;
}

const char *vp_graph_name(struct vp_graph *graph, const char *fmt, ...)
{
    char text[256];
    const char *name;
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    name = vp_arena_strdup(&graph->arena, text);
    if (!name) {
        fail(graph, "out of memory");
        return "";
    }
    return name;
}

static vp_val add_value(struct vp_graph *graph, const struct vp_value *value)
{
    struct vp_value *values = grow(graph, graph->values, sizeof(*values),
                                   graph->n_values, &graph->cap_values);
    int64_t n;

    if (!values)
        return VP_NONE;
    if (value->rows < 1 || value->cols < 1 ||
        !vp_mul_i64(value->rows, value->cols, &n) || n > INT64_MAX / 64)
        fail(graph, "a tensor has no elements or too many");
    graph->values = values;
    values[graph->n_values] = *value;
    values[graph->n_values].whole_rows = value->rows;
    values[graph->n_values].last_reader = VP_NONE;
    return graph->n_values++;
}

vp_val vp_graph_input(struct vp_graph *graph, enum vp_role role,
                      const char *name, int64_t rows)
{
    return add_value(graph, &(struct vp_value){ .name = name,
                                                .dtype = VP_DTYPE_I32,
                                                .rows = rows,
                                                .cols = 1,
                                                .role = role,
                                                .producer = VP_NONE });
}

static vp_par add_param(struct vp_graph *graph, const struct vp_param *param)
{
    struct vp_param *params = grow(graph, graph->params, sizeof(*params),
                                   graph->n_params, &graph->cap_params);

    if (!params)
        return VP_NONE;
    if (graph->n_blocks == 0)
        fail(graph, "a parameter needs a block");
    graph->params = params;
    params[graph->n_params] = *param;
    params[graph->n_params].block = graph->n_blocks - 1;
    return graph->n_params++;
}

vp_par vp_graph_param(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, enum vp_init init, float std)
{
    struct vp_param param = { .rows = rows,
                              .cols = cols,
                              .init = init,
                              .init_std = std,
                              .decay = rows > 1,
                              .constant = init == VP_INIT_SINUSOID,
                              .tied_to = VP_NONE,
                              .n_parts = 1 };

    if (rows < 1 || cols < 1)
        fail(graph, "a parameter has no elements");
    param.part[0] = (struct vp_part){ .name = name, .row = 0, .rows = rows };
    return add_param(graph, &param);
}

void vp_graph_part(struct vp_graph *graph, vp_par par, const char *name,
                   int64_t rows)
{
    struct vp_param *param;

    if (par == VP_NONE)
        return;
    param = &graph->params[par];
    if (param->n_parts == VP_MAX_PART) {
        fail(graph, "a parameter has too many parts");
        return;
    }
    param->part[param->n_parts++] = (struct vp_part){ .name = name,
                                                      .row = param->rows,
                                                      .rows = rows };
    param->rows += rows;
}

void vp_graph_slice(struct vp_graph *graph, vp_par par, enum vp_slice_axis axis,
                    int n_sections, bool pad)
{
    struct vp_param *param = par == VP_NONE ? NULL : &graph->params[par];
    int64_t n = (int64_t)graph->n_members * n_sections, whole, mine;

    if (!param || graph->n_members == 1)
        return;
    whole = axis == VP_SLICE_ROWS ? param->part[0].rows : param->cols;
    if (whole % n != 0 && !(pad && n_sections == 1)) {
        fail(graph, "a parameter cannot be cut into equal slices");
        return;
    }
    mine = (whole + n - 1) / n * n_sections;
    param->slice = (struct vp_cut){ axis, n_sections, whole };
    if (axis == VP_SLICE_COLS) {
        param->cols = mine;
        return;
    }
    param->rows = mine * param->n_parts;
    for (int i = 0; i < param->n_parts; i++) {
        if (param->part[i].rows != whole)
            fail(graph, "parts of a parameter differ in size");
        param->part[i].row = mine * i;
        param->part[i].rows = mine;
    }
}

vp_par vp_graph_tied(struct vp_graph *graph, vp_par owner)
{
    struct vp_param param;

    if (owner == VP_NONE)
        return VP_NONE;
    param = graph->params[owner];
    if (param.tied_to == VP_NONE)
        param.tied_to = owner;
    param.has_copies = false;
    graph->params[param.tied_to].has_copies = true;
    return add_param(graph, &param);
}

/* ---- Operators ---------------------------------------------------------- */

static void set_needs_grad(struct vp_graph *graph, const struct vp_op *op)
{
    bool needs = false;

    for (int i = 0; i < VP_MAX_IN; i++)
        if (op->in[i] != VP_NONE)
            needs |= graph->values[op->in[i]].needs_grad;
    for (int i = 0; i < VP_MAX_PARAM; i++)
        if (op->par[i] != VP_NONE)
            needs |= !graph->params[op->par[i]].constant;
    graph->values[op->out].needs_grad = needs;
}

static void note_readers(struct vp_graph *graph, const struct vp_op *op)
{
    for (int i = 0; i < VP_MAX_IN; i++) {
        if (op->in[i] == VP_NONE)
            continue;
        graph->values[op->in[i]].n_readers++;
        graph->values[op->in[i]].last_reader = op->id;
    }
}

/* Operators that only groups of several members have. */
static bool is_of_group(enum vp_op_kind kind)
{
    return kind == VP_OP_GROUP_SUM || kind == VP_OP_REDUCE_SCATTER ||
           kind == VP_OP_ALL_GATHER;
}

static void note_partial_grads(struct vp_graph *graph, const struct vp_op *op)
{
    for (int i = 0; i < VP_MAX_PARAM; i++)
        if (op->par[i] != VP_NONE &&
            graph->values[op->out].spread == VP_SPREAD_ROWS)
            graph->params[op->par[i]].partial_grad = true;
}

/* Appends the operator; its shape rule has the last word. */
static vp_val apply(struct vp_graph *graph, const struct vp_op *proto)
{
    struct vp_op *ops;
    struct vp_op op = *proto;
    struct vp_block *block;

    if (graph->status != VP_OK)
        return VP_NONE;
    ops = grow(graph, graph->ops, sizeof(*ops), graph->n_ops, &graph->cap_ops);
    if (!ops)
        return VP_NONE;
    graph->ops = ops;
    if (graph->n_blocks == 0 ||
        graph->blocks[graph->n_blocks - 1].n_lines == 0) {
        fail(graph, "an operator needs a block and a line");
        return VP_NONE;
    }
    block = &graph->blocks[graph->n_blocks - 1];
    op.id = graph->n_ops;
    op.stream = graph->n_streams;
    graph->n_streams += !is_of_group(op.kind);
    op.line = graph->n_lines - 1;
    op.block = graph->n_blocks - 1;
    op.attr.batch = graph->batch;
    if (vp_op_defs[op.kind].shape(graph, &op) != VP_OK)
        return VP_NONE;
    set_needs_grad(graph, &op);
    note_partial_grads(graph, &op);
    note_readers(graph, &op);
    ops[graph->n_ops++] = op;
    block->n_ops++;
    return op.out;
}

/* Absent inputs are VP_NONE; an absent required one marks an earlier error. */
static struct vp_op proto(enum vp_op_kind kind, vp_val in0, vp_val in1,
                          vp_val in2)
{
    return (struct vp_op){ .kind = kind,
                           .in = { in0, in1, in2 },
                           .par = { VP_NONE, VP_NONE, VP_NONE },
                           .out = VP_NONE,
                           .aux = { VP_NONE, VP_NONE },
                           .attr = { .scale = 1.0f, .pad = -1 } };
}

vp_val vp_embed(struct vp_graph *graph, vp_val ids, vp_val types, vp_par table,
                vp_par positions, vp_par type_table, float scale, int32_t pad)
{
    struct vp_op op = proto(VP_OP_EMBED, ids, types, VP_NONE);

    op.par[0] = table;
    op.par[1] = positions;
    op.par[2] = type_table;
    op.attr.scale = scale;
    op.attr.pad = pad;
    return apply(graph, &op);
}

vp_val vp_embed_at(struct vp_graph *graph, vp_val ids, vp_val at, vp_par table,
                   vp_par positions, float scale, int32_t pad)
{
    struct vp_op op = proto(VP_OP_EMBED, ids, VP_NONE, at);

    op.par[0] = table;
    op.par[1] = positions;
    op.attr.scale = scale;
    op.attr.pad = pad;
    return apply(graph, &op);
}

vp_val vp_linear(struct vp_graph *graph, vp_val x, vp_par weight, vp_par bias,
                 enum vp_act act)
{
    struct vp_op op = proto(VP_OP_LINEAR, x, VP_NONE, VP_NONE);

    op.par[0] = weight;
    op.par[1] = bias;
    op.attr.act = act;
    return apply(graph, &op);
}

vp_val vp_layernorm(struct vp_graph *graph, vp_val x, vp_par gamma, vp_par beta,
                    float eps)
{
    struct vp_op op = proto(VP_OP_LAYERNORM, x, VP_NONE, VP_NONE);

    op.par[0] = gamma;
    op.par[1] = beta;
    op.attr.eps = eps;
    return apply(graph, &op);
}

vp_val vp_attention(struct vp_graph *graph, vp_val q, vp_val kv, vp_val mask,
                    int heads, bool causal, float p)
{
    struct vp_op op = proto(VP_OP_ATTENTION, q, kv, mask);

    op.attr.heads = heads;
    op.attr.causal = causal;
    op.attr.p = p;
    return apply(graph, &op);
}

vp_val vp_cached_attention(struct vp_graph *graph, vp_val qkv, vp_val at,
                           vp_val lines, int heads, int64_t n_lines)
{
    struct vp_op op = proto(VP_OP_CACHED_ATTENTION, qkv, at, lines);

    op.attr.heads = heads;
    op.attr.n_lines = n_lines;
    return apply(graph, &op);
}

vp_val vp_cached_cross_attention(struct vp_graph *graph, vp_val q, vp_val kv,
                                 vp_val sources, int heads, int64_t n_lines,
                                 int64_t n_positions)
{
    struct vp_op op = proto(VP_OP_CACHED_CROSS_ATTENTION, q, kv, sources);

    op.attr.heads = heads;
    op.attr.n_lines = n_lines;
    op.attr.k_len = n_positions;
    return apply(graph, &op);
}

vp_val vp_dropout(struct vp_graph *graph, vp_val x, float p)
{
    struct vp_op op = proto(VP_OP_DROPOUT, x, VP_NONE, VP_NONE);

    if (p == 0.0f)
        return x;
    op.attr.p = p;
    return apply(graph, &op);
}

vp_val vp_add(struct vp_graph *graph, vp_val branch, vp_val trunk)
{
    struct vp_op op = proto(VP_OP_ADD, branch, trunk, VP_NONE);

    return apply(graph, &op);
}

vp_val vp_scale(struct vp_graph *graph, vp_val x, float scale)
{
    struct vp_op op = proto(VP_OP_SCALE, x, VP_NONE, VP_NONE);

    op.attr.scale = scale;
    return apply(graph, &op);
}

vp_val vp_gather(struct vp_graph *graph, vp_val x, vp_val rows)
{
    struct vp_op op = proto(VP_OP_GATHER, x, rows, VP_NONE);

    return apply(graph, &op);
}

vp_val vp_cross_entropy(struct vp_graph *graph, vp_val logits, vp_val labels,
                        vp_val weights, float smoothing)
{
    struct vp_op op = proto(VP_OP_CROSS_ENTROPY, logits, labels, weights);

    op.attr.smoothing = smoothing;
    return apply(graph, &op);
}

vp_val vp_argmax(struct vp_graph *graph, vp_val x)
{
    struct vp_op op = proto(VP_OP_ARGMAX, x, VP_NONE, VP_NONE);

    return apply(graph, &op);
}

vp_val vp_group_sum(struct vp_graph *graph, vp_val x, vp_par bias)
{
    struct vp_op op = proto(graph->sequence_parallel ? VP_OP_REDUCE_SCATTER
                                                     : VP_OP_GROUP_SUM,
                            x, VP_NONE, VP_NONE);

    if (x == VP_NONE ||
        (graph->values[x].spread == VP_SPREAD_WHOLE && bias == VP_NONE))
        return x;
    op.par[0] = bias;
    return apply(graph, &op);
}

vp_val vp_all_gather(struct vp_graph *graph, vp_val x)
{
    struct vp_op op = proto(VP_OP_ALL_GATHER, x, VP_NONE, VP_NONE);

    if (x == VP_NONE || graph->values[x].spread != VP_SPREAD_ROWS)
        return x;
    return apply(graph, &op);
}

/* ---- Finishing ---------------------------------------------------------- */

/* A parameter has one gradient, written by one operator; a second use needs
 * vp_graph_tied(). */
static void check_param_uses(struct vp_graph *graph)
{
    int *uses = vp_arena_alloc(&graph->arena,
                               (size_t)graph->n_params * sizeof(*uses));

    if (!uses) {
        fail(graph, "out of memory");
        return;
    }
    for (int i = 0; i < graph->n_ops; i++)
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if (graph->ops[i].par[j] != VP_NONE)
                uses[graph->ops[i].par[j]]++;
    for (int i = 0; i < graph->n_params; i++) {
        const struct vp_param *param = &graph->params[i];

        if (uses[i] != 1)
            fail(graph, "a parameter must be used exactly once");
        if (param->partial_grad &&
            (param->tied_to != VP_NONE || param->has_copies))
            fail(graph, "a tied parameter is used on slices of rows");
    }
}

/* A reduce_scatter overwrites its input. */
static void check_parts(struct vp_graph *graph)
{
    for (int i = 0; i < graph->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (op->kind == VP_OP_REDUCE_SCATTER &&
            graph->values[op->in[0]].n_readers > 1)
            fail(graph, "a part of a sum has several readers");
    }
}

static void find_outputs(struct vp_graph *graph)
{
    const struct vp_op *last = &graph->ops[graph->n_ops - 1];

    if (!(graph->outputs & VP_OUTPUT_LOSS)) {
        if (graph->n_members > 1)
            fail(graph, "logits are cut among the members of a group");
        if (last->kind !=
            (graph->outputs & VP_OUTPUT_ARGMAX ? VP_OP_ARGMAX : VP_OP_LINEAR))
            fail(graph, "the last operator must make the logits");
        graph->logits = last->out;
        return;
    }
    if (last->kind != VP_OP_CROSS_ENTROPY)
        fail(graph, "the last operator must be the loss");
    graph->loss = last->out;
    graph->logits = last->in[0];
}

enum vp_status vp_graph_finish(struct vp_graph *graph, struct vp_err *err)
{
    for (int i = 0; i < graph->n_blocks; i++) {
        const struct vp_block *block = &graph->blocks[i];

        if (block->n_ops == 0)
            fail_in(graph, block->name, "a block has no operator");
        if (block->n_ops > VP_MAX_BLOCK_OPS)
            fail_in(graph, block->name,
                    "a block has more than 64 operators; cut it in two");
    }
    if (graph->n_ops == 0)
        fail(graph, "no operator");
    if (graph->status == VP_OK)
        check_param_uses(graph);
    if (graph->status == VP_OK)
        check_parts(graph);
    if (graph->status == VP_OK)
        find_outputs(graph);
    if (graph->status != VP_OK)
        return vp_err_set(err, graph->status, "%s", graph->err.text);
    return VP_OK;
}

/* ---- Questions ---------------------------------------------------------- */

struct vp_shape vp_param_whole(const struct vp_param *param, int part)
{
    const struct vp_cut *slice = &param->slice;

    return (struct vp_shape){
        slice->axis == VP_SLICE_ROWS ? slice->whole : param->part[part].rows,
        slice->axis == VP_SLICE_COLS ? slice->whole : param->cols
    };
}

int64_t vp_param_whole_count(const struct vp_param *param)
{
    int64_t n = 0;

    for (int i = 0; i < param->n_parts; i++) {
        struct vp_shape shape = vp_param_whole(param, i);

        n += shape.rows * shape.cols;
    }
    return n;
}

int64_t vp_graph_param_count(const struct vp_graph *graph)
{
    int64_t n = 0;

    for (int i = 0; i < graph->n_params; i++) {
        const struct vp_param *param = &graph->params[i];

        if (param->tied_to == VP_NONE && !param->constant)
            n += vp_param_whole_count(param);
    }
    return n;
}

double vp_op_flops(const struct vp_graph *graph, const struct vp_op *op,
                   enum vp_phase phase)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];

    return def->flops ? def->flops(graph, op, phase) : 0.0;
}

double vp_graph_phase_flops(const struct vp_graph *graph, int first_block,
                            int n_blocks, enum vp_phase phase)
{
    const struct vp_block *first = &graph->blocks[first_block];
    const struct vp_block *last = first + n_blocks - 1;
    double flops = 0.0;

    for (int i = first->first_op; i < last->first_op + last->n_ops; i++)
        flops += vp_op_flops(graph, &graph->ops[i], phase);
    return flops;
}

double vp_graph_flops(const struct vp_graph *graph, int first_block,
                      int n_blocks)
{
    const struct vp_block *first = &graph->blocks[first_block];
    const struct vp_block *last = first + n_blocks - 1;
    double flops = 0.0;

    for (int i = first->first_op; i < last->first_op + last->n_ops; i++)
        for (int phase = 0; phase < VP_PHASE_COUNT; phase++)
            flops += vp_op_flops(graph, &graph->ops[i], (enum vp_phase)phase);
    return flops;
}

int64_t vp_value_bytes(const struct vp_graph *graph, vp_val value)
{
    const struct vp_value *v = &graph->values[value];

    return v->rows * v->cols * vp_dtype_bytes(v->dtype);
}

bool vp_graph_is_output(const struct vp_graph *graph, vp_val value)
{
    return value == graph->loss ||
           (graph->outputs & VP_OUTPUT_LOGITS && value == graph->logits);
}

const struct vp_op *vp_graph_reader(const struct vp_graph *graph, vp_val value)
{
    const struct vp_value *v = &graph->values[value];

    return v->n_readers == 1 ? &graph->ops[v->last_reader] : NULL;
}
