/* Lowering, proved by symbolic execution.
 *
 * Every tensor is replaced by a hash of the expression that made it. An oracle
 * differentiates the whole graph literally; the interpreter runs the lowered
 * lists of one or more stages call by call over shadow memory, in cells of 256
 * bytes. If a buffer is overwritten too early, a value not recomputed, a copy
 * forgotten, or a sum taken in another order, some weight gradient gets
 * another hash. Random graphs, random cuts, every recompute ratio, split or
 * fused weight gradients, one or several minibatches in flight. */
#include "graph/opdef.h"
#include "graph/program.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_VALUES = 512, MAX_PARAMS = 256, CELL = VP_TENSOR_ALIGN };

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u);

    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

/* ---- Random graphs ------------------------------------------------------ */

static uint32_t rand_count;

static int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 0, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

enum { BATCH = 2, LEN = 3, ROWS = BATCH * LEN, HIDDEN = 8 };

static vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols)
{
    return vp_graph_param(g, "w", rows, cols, VP_INIT_NORMAL, 1.0f);
}

static vp_val random_op(struct vp_graph *g, vp_val x, vp_val old, vp_val mask)
{
    vp_val y;

    vp_graph_line(g);
    switch (rand_below(7)) {
    case 0:
        y = vp_linear(g, x, weight(g, 24, HIDDEN), weight(g, 1, 24),
                      VP_ACT_NONE);
        return vp_attention(g, y, VP_NONE, mask, 2, rand_below(2), 0.1f);
    case 1:
        y = vp_linear(g, x, weight(g, 16, HIDDEN), VP_NONE, VP_ACT_GELU_ERF);
        return vp_linear(g, y, weight(g, HIDDEN, 16), weight(g, 1, HIDDEN),
                         VP_ACT_NONE);
    case 2:
        return vp_layernorm(g, x, weight(g, 1, HIDDEN), weight(g, 1, HIDDEN),
                            1e-5f);
    case 3:
        return vp_dropout(g, x, 0.1f);
    case 4:
        y = vp_linear(g, old, weight(g, 2 * HIDDEN, HIDDEN), VP_NONE,
                      VP_ACT_NONE);
        return vp_attention(g, x, y, mask, 2, false, 0.0f);
    case 5:
        return vp_scale(g, x, 0.5f);
    default:
        return vp_add(g, x, old);
    }
}

/* Blocks that end with a residual +, skip edges to any earlier block. */
static void random_graph(struct vp_graph *g, int n_blocks, bool tied)
{
    vp_val trunk[64];
    vp_val ids, mask, rows, labels, x;
    vp_par table;

    vp_graph_init(g, BATCH);
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    mask = vp_graph_input(g, VP_ROLE_MASK, "mask", ROWS);
    rows = vp_graph_input(g, VP_ROLE_LABEL_ROWS, "rows", 4);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", 4);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    table = weight(g, 32, HIDDEN);
    trunk[0] = vp_embed(g, ids, VP_NONE, table, weight(g, LEN, HIDDEN), VP_NONE,
                        1.0f, -1);
    for (int b = 1; b < n_blocks - 1; b++) {
        vp_graph_block(g, "middle");
        x = trunk[b - 1];
        for (int i = rand_below(4); i >= 0; i--)
            x = random_op(g, x, trunk[rand_below(b)], mask);
        vp_graph_line(g);
        trunk[b] = vp_add(g, x, trunk[b - 1]);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = vp_gather(g, trunk[n_blocks - 2], rows);
    vp_graph_line(g);
    x = vp_linear(g, x, tied ? vp_graph_tied(g, table) : weight(g, 32, HIDDEN),
                  VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
}

/* ---- The oracle --------------------------------------------------------- */

struct facts {
    uint64_t value[MAX_VALUES];
    uint64_t dpar[MAX_PARAMS];
};

static uint64_t input_hash(vp_val v)
{
    return mix(1, (uint64_t)v);
}

static uint64_t param_hash(const struct vp_graph *g, vp_par par)
{
    vp_par owner = g->params[par].tied_to;

    return mix(2, (uint64_t)(owner == VP_NONE ? par : owner));
}

/* What an operator's forward makes of its inputs; `which`: 0 out, 1.. aux. */
static uint64_t forward_hash(const struct vp_graph *g, const struct vp_op *op,
                             const uint64_t *in, int which)
{
    uint64_t h = mix(3, (uint64_t)(op->id * 4 + which));

    for (int i = 0; i < VP_MAX_IN; i++)
        h = mix(h, op->in[i] == VP_NONE ? 0 : in[i]);
    for (int i = 0; i < VP_MAX_PARAM; i++)
        h = mix(h, op->par[i] == VP_NONE ? 0 : param_hash(g, op->par[i]));
    return h;
}

/* Tensors that a backward kernel reads: zero where it does not. */
struct reads {
    uint64_t in[VP_MAX_IN], out, aux[VP_MAX_AUX];
};

static uint64_t backward_hash(const struct vp_op *op, int phase, int which,
                              const struct reads *r, uint64_t dout)
{
    uint64_t h = mix(4 + (uint64_t)phase, (uint64_t)(op->id * 4 + which));

    for (int i = 0; i < VP_MAX_IN; i++)
        h = mix(h, r->in[i]);
    for (int i = 0; i < VP_MAX_AUX; i++)
        h = mix(h, r->aux[i]);
    h = mix(h, r->out);
    return mix(h, dout);
}

static uint64_t add_hash(uint64_t old, uint64_t more)
{
    return mix(mix(9, old), more);
}

static const unsigned bit_in[] = { VP_NEED_IN0, VP_NEED_IN1, VP_NEED_IN2 };
static const unsigned bit_aux[] = { VP_NEED_AUX0, VP_NEED_AUX1 };

static struct reads oracle_reads(const struct vp_op *op, unsigned needs,
                                 const uint64_t *value)
{
    struct reads r = { { 0 }, 0, { 0 } };

    for (int i = 0; i < VP_MAX_IN; i++)
        if ((needs & bit_in[i]) && op->in[i] != VP_NONE)
            r.in[i] = value[op->in[i]];
    for (int i = 0; i < VP_MAX_AUX; i++)
        if ((needs & bit_aux[i]) && op->aux[i] != VP_NONE)
            r.aux[i] = value[op->aux[i]];
    if (needs & VP_NEED_OUT)
        r.out = value[op->out];
    return r;
}

static void oracle_forward(const struct vp_graph *g, struct facts *facts)
{
    for (vp_val v = 0; v < g->n_values; v++)
        facts->value[v] = input_hash(v);
    for (int i = 0; i < g->n_ops; i++) {
        const struct vp_op *op = &g->ops[i];
        uint64_t in[VP_MAX_IN] = { 0 };

        for (int j = 0; j < VP_MAX_IN; j++)
            if (op->in[j] != VP_NONE)
                in[j] = facts->value[op->in[j]];
        facts->value[op->out] = forward_hash(g, op, in, 0);
        for (int j = 0; j < VP_MAX_AUX; j++)
            if (op->aux[j] != VP_NONE)
                facts->value[op->aux[j]] = forward_hash(g, op, in, j + 1);
    }
}

static void oracle_give(uint64_t *grad, vp_val v, uint64_t more)
{
    grad[v] = grad[v] ? add_hash(grad[v], more) : more;
}

static void oracle(const struct vp_graph *g, struct facts *facts)
{
    uint64_t grad[MAX_VALUES] = { 0 };

    oracle_forward(g, facts);
    for (int i = g->n_ops - 1; i >= 0; i--) {
        const struct vp_op *op = &g->ops[i];
        const struct vp_op_def *def = &vp_op_defs[op->kind];
        uint64_t dout = grad[op->out];
        struct reads b = oracle_reads(op, def->needs_b, facts->value);
        struct reads w = oracle_reads(op, def->needs_w, facts->value);

        for (int j = 0; j < VP_MAX_IN; j++)
            if (op->in[j] != VP_NONE && (def->grad_in & bit_in[j]) &&
                g->values[op->in[j]].needs_grad)
                oracle_give(grad, op->in[j],
                            def->passes_grad
                                ? dout
                                : backward_hash(op, 1, j, &b, dout));
        if (vp_op_has_dz(op))
            dout = backward_hash(op, 1, 3, &b, dout);
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if (op->par[j] != VP_NONE)
                facts->dpar[op->par[j]] = backward_hash(op, 2, j, &w, dout);
    }
}

/* ---- Shadow memory ------------------------------------------------------ */

struct cell {
    uint64_t hash;
    int64_t index; /* of the cell within its tensor */
};

struct memory {
    struct cell *cells[VP_SPACE_COUNT];
    int64_t n[VP_SPACE_COUNT];
};

static void memory_reset(struct memory *m, enum vp_space space, int64_t bytes)
{
    free(m->cells[space]);
    m->n[space] = (bytes + CELL - 1) / CELL;
    m->cells[space] = calloc((size_t)m->n[space] + 1, sizeof(struct cell));
}

static int64_t n_cells(int64_t bytes)
{
    return (bytes + CELL - 1) / CELL;
}

static void put(struct memory *m, struct vp_ref ref, int64_t bytes,
                uint64_t hash)
{
    int64_t first = ref.offset / CELL;

    assert_int_equal(ref.offset % CELL, 0);
    for (int64_t i = 0; i < n_cells(bytes); i++) {
        assert_true(first + i < m->n[ref.space]);
        m->cells[ref.space][first + i] = (struct cell){ hash, i };
    }
}

/* The hash of the tensor at `ref`; 0 if its bytes are not one tensor. */
static uint64_t get(const struct memory *m, struct vp_ref ref, int64_t bytes)
{
    int64_t first = ref.offset / CELL;
    uint64_t hash;

    if (ref.space == VP_SPACE_NONE)
        return 0;
    assert_true(first + n_cells(bytes) <= m->n[ref.space]);
    hash = m->cells[ref.space][first].hash;
    for (int64_t i = 0; i < n_cells(bytes); i++)
        if (m->cells[ref.space][first + i].hash != hash ||
            m->cells[ref.space][first + i].index != i)
            return 0;
    return hash;
}

/* ---- The interpreter ---------------------------------------------------- */

static int64_t value_bytes(const struct vp_graph *g, vp_val v)
{
    return v == VP_NONE ? 0 : vp_value_bytes(g, v);
}

static struct reads run_reads(const struct vp_graph *g,
                              const struct vp_call *call, unsigned needs,
                              const struct memory *m)
{
    const struct vp_op *op = call->op;
    struct reads r = { { 0 }, 0, { 0 } };

    for (int i = 0; i < VP_MAX_IN; i++)
        if (needs & bit_in[i])
            r.in[i] = get(m, call->in[i], value_bytes(g, op->in[i]));
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (needs & bit_aux[i])
            r.aux[i] = get(m, call->aux[i], value_bytes(g, op->aux[i]));
    if (needs & VP_NEED_OUT)
        r.out = get(m, call->out, value_bytes(g, op->out));
    return r;
}

static void run_forward(const struct vp_graph *g, const struct vp_call *call,
                        struct memory *m, struct facts *facts)
{
    const struct vp_op *op = call->op;
    uint64_t in[VP_MAX_IN] = { 0 };

    for (int i = 0; i < VP_MAX_IN; i++)
        in[i] = get(m, call->in[i], value_bytes(g, op->in[i]));
    if (op->kind == VP_OP_COPY) {
        put(m, call->out, value_bytes(g, op->out), in[0]);
        return;
    }
    facts->value[op->out] = forward_hash(g, op, in, 0);
    put(m, call->out, value_bytes(g, op->out), facts->value[op->out]);
    for (int i = 0; i < VP_MAX_AUX; i++) {
        if (op->aux[i] == VP_NONE)
            continue;
        facts->value[op->aux[i]] = forward_hash(g, op, in, i + 1);
        put(m, call->aux[i], value_bytes(g, op->aux[i]),
            facts->value[op->aux[i]]);
    }
}

/* What F wrote to `out`, if B reads what F did and what it left. */
static uint64_t recomputed_hash(const struct vp_op *op, const struct reads *r,
                                const struct facts *facts)
{
    bool same = r->aux[0] == facts->value[op->aux[0]];

    if (vp_op_defs[op->kind].needs_b & VP_NEED_IN0)
        same = same && r->in[0] == facts->value[op->in[0]];
    return same ? facts->value[op->out] : 0;
}

static void run_b(const struct vp_graph *g, const struct vp_call *call,
                  struct memory *m, const struct facts *facts)
{
    const struct vp_op *op = call->op;
    struct reads r = run_reads(g, call, vp_op_defs[op->kind].needs_b, m);
    uint64_t dout = get(m, call->dout, value_bytes(g, op->out));

    if (call->recomputed_out.space != VP_SPACE_NONE)
        put(m, call->recomputed_out, value_bytes(g, op->out),
            recomputed_hash(op, &r, facts));
    if (call->dz.space != VP_SPACE_NONE)
        put(m, call->dz, value_bytes(g, op->out),
            backward_hash(op, 1, 3, &r, dout));
    for (int i = 0; i < VP_MAX_IN; i++) {
        int64_t bytes = value_bytes(g, op->in[i]);
        uint64_t more = op->kind == VP_OP_COPY
                            ? dout
                            : backward_hash(op, 1, i, &r, dout);

        if (call->din[i].space == VP_SPACE_NONE)
            continue;
        if (call->din_add[i])
            more = add_hash(get(m, call->din[i], bytes), more);
        put(m, call->din[i], bytes, more);
    }
}

static void run_w(const struct vp_graph *g, const struct vp_call *call,
                  struct memory *m, struct facts *facts)
{
    const struct vp_op *op = call->op;
    struct reads r = run_reads(g, call, vp_op_defs[op->kind].needs_w, m);
    bool has_dz = call->dz.space != VP_SPACE_NONE;
    uint64_t dout = get(m, has_dz ? call->dz : call->dout,
                        value_bytes(g, op->out));

    for (int i = 0; i < VP_MAX_PARAM; i++) {
        if (call->dpar[i].space == VP_SPACE_NONE)
            continue;
        assert_int_equal(facts->dpar[op->par[i]], 0);
        facts->dpar[op->par[i]] = backward_hash(op, 2, i, &r, dout);
        put(m, call->dpar[i],
            g->params[op->par[i]].rows * g->params[op->par[i]].cols * 4,
            facts->dpar[op->par[i]]);
    }
}

/* After its list, nobody finds a result that does not stay. */
static void spoil_results(const struct vp_program *p, enum vp_list list,
                          struct memory *m, const struct facts *facts)
{
    for (int i = 0; i < p->n_calls[list]; i++) {
        const struct vp_call *call = &p->calls[list][i];
        int64_t bytes = value_bytes(p->graph, call->op->out);

        if (call->phase == VP_PHASE_F && call->op->kind != VP_OP_COPY &&
            !call->out_stays &&
            get(m, call->out, bytes) == facts->value[call->op->out])
            put(m, call->out, bytes, mix(98, (uint64_t)i));
    }
}

static void run_list(const struct vp_program *p, enum vp_list list,
                     struct memory *m, struct facts *facts)
{
    memory_reset(m, VP_SPACE_WORK, p->n_bytes[VP_SPACE_WORK]);
    for (int i = 0; i < p->n_calls[list]; i++) {
        const struct vp_call *call = &p->calls[list][i];

        /* There, R's results of another minibatch may wait for B. */
        if (list == VP_LIST_F)
            assert_true(call->out.space != VP_SPACE_RECOMPUTED &&
                        call->aux[0].space != VP_SPACE_RECOMPUTED);
        /* Scratch is garbage to everyone else. */
        if (call->scratch.space != VP_SPACE_NONE)
            put(m, call->scratch, 300, mix(99, (uint64_t)i));
        if (call->phase == VP_PHASE_F)
            run_forward(p->graph, call, m, facts);
        else if (call->phase == VP_PHASE_B)
            run_b(p->graph, call, m, facts);
        else
            run_w(p->graph, call, m, facts);
    }
    spoil_results(p, list, m, facts);
}

static size_t some_scratch(const void *ctx, const struct vp_graph *graph,
                           const struct vp_op *op, enum vp_phase phase)
{
    (void)ctx;
    (void)graph;
    return (op->id + (int)phase) % 3 == 0 ? 300 : 0;
}

/* Copies the message of one stage into that of its neighbour. */
static void copy_space(const struct memory *from, enum vp_space from_space,
                       struct memory *to, enum vp_space to_space)
{
    memory_reset(to, to_space, from->n[from_space] * CELL);
    memcpy(to->cells[to_space], from->cells[from_space],
           (size_t)from->n[from_space] * sizeof(struct cell));
}

enum { MAX_STAGES = 8 };

struct pipeline {
    int n_stages;
    struct vp_program program[MAX_STAGES];
    struct memory memory[MAX_STAGES];
};

static void pipeline_lower(struct pipeline *p, const struct vp_graph *g,
                           const int *cuts, const struct vp_stage_spec *like)
{
    for (int s = 0; s < p->n_stages; s++) {
        struct vp_stage_spec spec = *like;
        struct vp_err err;

        spec.first_block = cuts[s];
        spec.n_blocks = cuts[s + 1] - cuts[s];
        spec.w_linger = rand_below(8);
        assert_int_equal(vp_program_lower(g, &spec, some_scratch, NULL,
                                          &p->program[s], &err),
                         VP_OK);
        for (int space = 1; space < VP_SPACE_COUNT; space++)
            memory_reset(&p->memory[s], (enum vp_space)space,
                         p->program[s].n_bytes[space]);
    }
}

static void pipeline_run(struct pipeline *p, struct facts *facts)
{
    const struct vp_program *first = &p->program[0];
    int last = p->n_stages - 1;

    for (int i = 0; i < first->in.n_entries; i++)
        put(&p->memory[0],
            (struct vp_ref){ VP_SPACE_IN, first->in.entries[i].offset },
            first->in.entries[i].n_bytes,
            input_hash(first->in.entries[i].value));
    for (int s = 0; s <= last; s++) {
        run_list(&p->program[s], VP_LIST_F, &p->memory[s], facts);
        if (s < last)
            copy_space(&p->memory[s], VP_SPACE_OUT, &p->memory[s + 1],
                       VP_SPACE_IN);
    }
    for (int s = last; s >= 0; s--) {
        run_list(&p->program[s], VP_LIST_R, &p->memory[s], facts);
        run_list(&p->program[s], VP_LIST_B, &p->memory[s], facts);
        if (s > 0)
            copy_space(&p->memory[s], VP_SPACE_DIN, &p->memory[s - 1],
                       VP_SPACE_DOUT);
        /* The working set of recomputation is free after B. */
        memory_reset(&p->memory[s], VP_SPACE_RECOMPUTED,
                     p->program[s].n_bytes[VP_SPACE_RECOMPUTED]);
    }
    for (int s = 0; s <= last; s++)
        run_list(&p->program[s], VP_LIST_W, &p->memory[s], facts);
}

static void pipeline_release(struct pipeline *p)
{
    for (int s = 0; s < p->n_stages; s++) {
        for (int space = 0; space < VP_SPACE_COUNT; space++)
            free(p->memory[s].cells[space]);
        vp_program_release(&p->program[s]);
    }
}

static void random_cuts(int *cuts, int n_stages, int n_blocks)
{
    cuts[0] = 0;
    for (int s = 1; s < n_stages; s++) {
        int least = cuts[s - 1] + 1;
        int most = n_blocks - (n_stages - s);

        cuts[s] = least + rand_below(most - least + 1);
    }
    cuts[n_stages] = n_blocks;
}

static void check_one(const struct vp_graph *g, const struct facts *want,
                      int n_stages, const struct vp_stage_spec *like)
{
    struct pipeline p = { .n_stages = n_stages };
    struct facts got = { { 0 }, { 0 } };
    const struct vp_program *last;
    int cuts[MAX_STAGES + 1];

    random_cuts(cuts, n_stages, g->n_blocks);
    pipeline_lower(&p, g, cuts, like);
    pipeline_run(&p, &got);
    last = &p.program[n_stages - 1];
    assert_true(get(&p.memory[n_stages - 1], last->loss, 4) ==
                want->value[g->loss]);
    for (vp_par par = 0; par < g->n_params; par++)
        assert_true(got.dpar[par] == want->dpar[par]);
    pipeline_release(&p);
}

static void every_cut_gives_the_same_gradients(void **state)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };

    (void)state;
    for (int trial = 0; trial < 400; trial++) {
        struct vp_graph g;
        struct vp_err err;
        struct facts want = { { 0 }, { 0 } };
        int n_blocks = 3 + rand_below(8);

        random_graph(&g, n_blocks, trial % 2);
        assert_int_equal(vp_graph_finish(&g, &err), VP_OK);
        assert_true(g.n_values < MAX_VALUES && g.n_params < MAX_PARAMS);
        oracle(&g, &want);
        for (int i = 0; i < 4 * (int)VP_COUNT_OF(ratios); i++)
            check_one(
                &g, &want,
                1 + rand_below(n_blocks < MAX_STAGES ? n_blocks : MAX_STAGES),
                &(struct vp_stage_spec){ .recompute_ratio = ratios[i / 4],
                                         .keep_all = rand_below(2),
                                         .split_w = i % 2,
                                         .one_slot = i / 2 % 2 });
        vp_graph_release(&g);
    }
}

/* ---- Memory and layout -------------------------------------------------- */

/* A pre-norm chain: embed, then n blocks of norm + linear + residual. */
static void typed_chain(struct vp_graph *g, int n, bool tied,
                        enum vp_dtype dtype)
{
    vp_val ids, labels, x, y;
    vp_par table;

    vp_graph_init(g, BATCH);
    g->dtype = dtype;
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    table = weight(g, 64, 64);
    x = vp_embed(g, ids, VP_NONE, table, VP_NONE, VP_NONE, 1.0f, -1);
    for (int i = 0; i < n; i++) {
        vp_graph_block(g, "layer");
        vp_graph_line(g);
        y = vp_layernorm(g, x, weight(g, 1, 64), weight(g, 1, 64), 1e-5f);
        vp_graph_line(g);
        y = vp_linear(g, y, weight(g, 64, 64), VP_NONE, VP_ACT_NONE);
        vp_graph_line(g);
        x = vp_add(g, y, x);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    y = vp_linear(g, x, tied ? vp_graph_tied(g, table) : weight(g, 64, 64),
                  VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, y, labels, VP_NONE, 0.0f);
}

static void chain_graph(struct vp_graph *g, int n, bool tied)
{
    typed_chain(g, n, tied, VP_DTYPE_F32);
}

static void lower_all(const struct vp_graph *g, double ratio,
                      struct vp_program *p)
{
    struct vp_stage_spec spec = { .n_blocks = g->n_blocks,
                                  .recompute_ratio = ratio };
    struct vp_err err;

    assert_int_equal(vp_program_lower(g, &spec, NULL, NULL, p, &err), VP_OK);
}

static int64_t work_of_chain(int n_layers, int w_linger)
{
    struct vp_stage_spec spec = { .w_linger = w_linger };
    struct vp_graph g;
    struct vp_program p;
    struct vp_err err;
    int64_t work;

    chain_graph(&g, n_layers, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    spec.n_blocks = g.n_blocks;
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err), VP_OK);
    work = p.n_bytes[VP_SPACE_WORK];
    vp_program_release(&p);
    vp_graph_release(&g);
    return work;
}

/* Work memory does not grow with depth: buffers are reused. Those that a W
 * reads are, too, but not before the calls after it that may overtake it. */
static void work_memory_is_reused(void **state)
{
    (void)state;
    for (int linger = 0; linger <= 6; linger += 3)
        assert_int_equal(work_of_chain(6, linger), work_of_chain(20, linger));
    assert_true(work_of_chain(6, 3) > work_of_chain(6, 0));
    assert_true(work_of_chain(20, 6) > work_of_chain(20, 3));
    assert_true(work_of_chain(20, 1000) > work_of_chain(19, 1000));
}

/* Pre-norm layers of two products with an activation between them. */
static void mlp_graph(struct vp_graph *g, int n)
{
    vp_val ids, labels, x, y;

    vp_graph_init(g, BATCH);
    ids = vp_graph_input(g, VP_ROLE_TOKENS, "tokens", ROWS);
    labels = vp_graph_input(g, VP_ROLE_LABELS, "labels", ROWS);
    vp_graph_block(g, "embed");
    vp_graph_line(g);
    x = vp_embed(g, ids, VP_NONE, weight(g, 64, 64), VP_NONE, VP_NONE, 1.0f,
                 -1);
    for (int i = 0; i < n; i++) {
        vp_graph_block(g, "layer");
        vp_graph_line(g);
        y = vp_layernorm(g, x, weight(g, 1, 64), weight(g, 1, 64), 1e-5f);
        y = vp_linear(g, y, weight(g, 256, 64), VP_NONE, VP_ACT_GELU_ERF);
        y = vp_linear(g, y, weight(g, 64, 256), VP_NONE, VP_ACT_NONE);
        x = vp_add(g, y, x);
    }
    vp_graph_block(g, "head");
    vp_graph_line(g);
    x = vp_linear(g, x, weight(g, 64, 64), VP_NONE, VP_ACT_NONE);
    vp_cross_entropy(g, x, labels, VP_NONE, 0.0f);
}

/* Bytes that one layer more needs in a slot. */
static int64_t slot_of_layer(struct vp_stage_spec spec)
{
    int64_t slot[2];

    for (int i = 0; i < 2; i++) {
        struct vp_graph g;
        struct vp_program p;

        mlp_graph(&g, 2 + i);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.n_blocks = g.n_blocks;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, NULL),
                         VP_OK);
        slot[i] = p.n_bytes[VP_SPACE_SLOT];
        vp_program_release(&p);
        vp_graph_release(&g);
    }
    return slot[1] - slot[0];
}

/* A layer keeps its sum, the statistics of its rows and what goes into the
 * activation, but no result of layer norm or activation, unless it is told to:
 * W gets those from B. They are carried where W runs later. */
static void what_backward_can_make_is_not_kept(void **state)
{
    const int64_t row = 4 * ROWS, layer = row * (64 + 256) + VP_TENSOR_ALIGN;
    const int64_t results = row * (64 + 256);

    (void)state;
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ 0 }), layer);
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ .keep_all = true }),
                     layer + results);
    /* Later: also gradients of the norm, of z and of the second product. */
    assert_int_equal(slot_of_layer((struct vp_stage_spec){ .split_w = true }),
                     layer + results + row * (64 + 256 + 64));
}

/* With one minibatch in flight, temporaries of backward take the place of what
 * it has read: no work memory, and less in all. */
static void one_slot_is_shared_by_all_lists(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct vp_stage_spec spec = { .recompute_ratio = i / 2 * 0.5,
                                      .split_w = i % 2 };
        struct vp_program p, q;
        struct vp_graph g;

        mlp_graph(&g, 6);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.n_blocks = g.n_blocks;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, NULL),
                         VP_OK);
        spec.one_slot = true;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &q, NULL),
                         VP_OK);
        assert_int_equal(q.n_bytes[VP_SPACE_WORK], 0);
        assert_int_equal(q.n_bytes[VP_SPACE_RECOMPUTED], 0);
        assert_true(q.n_bytes[VP_SPACE_SLOT] <
                    p.n_bytes[VP_SPACE_SLOT] + p.n_bytes[VP_SPACE_RECOMPUTED] +
                        p.n_bytes[VP_SPACE_WORK]);
        vp_program_release(&p);
        vp_program_release(&q);
        vp_graph_release(&g);
    }
}

/* Recomputing everything keeps nothing in the slot but the loss. */
static void full_recompute_keeps_only_the_loss(void **state)
{
    struct vp_graph g;
    struct vp_program p;

    (void)state;
    chain_graph(&g, 3, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    lower_all(&g, 1.0, &p);
    assert_int_equal(p.n_bytes[VP_SPACE_SLOT], VP_TENSOR_ALIGN);
    assert_true(p.n_bytes[VP_SPACE_RECOMPUTED] > 0);
    vp_program_release(&p);
    lower_all(&g, 0.0, &p);
    assert_int_equal(p.n_bytes[VP_SPACE_RECOMPUTED], 0);
    assert_int_equal(p.n_calls[VP_LIST_R], 0);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* The ratio counts lines from the end of the stage: 12 lines, 0.3 -> 3: the
 * head's line and the last layer's linear and add; add's result is not needed
 * again except by the head's weight gradient. */
static void ratio_counts_lines_from_the_end(void **state)
{
    struct vp_graph g;
    struct vp_program p;

    (void)state;
    chain_graph(&g, 3, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(g.n_lines, 11);
    lower_all(&g, 0.3, &p); /* int(0.3 * 11) = 3 lines */
    assert_int_equal(p.n_calls[VP_LIST_R], 4);
    assert_int_equal(p.calls[VP_LIST_R][0].op->kind, VP_OP_LINEAR);
    assert_int_equal(p.calls[VP_LIST_R][1].op->kind, VP_OP_ADD);
    assert_int_equal(p.calls[VP_LIST_R][2].op->kind, VP_OP_LINEAR);
    assert_int_equal(p.calls[VP_LIST_R][3].op->kind, VP_OP_CROSS_ENTROPY);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* Tied weights are stored once and have a gradient per block. */
static void tied_weights_share_storage(void **state)
{
    struct vp_graph g;
    struct vp_program p;
    const struct vp_layout_entry *owner, *user;

    (void)state;
    chain_graph(&g, 2, true);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    lower_all(&g, 0.0, &p);
    owner = &p.layout.entries[0];
    user = &p.layout.entries[p.layout.n_entries - 1];
    assert_int_equal(user->storage, 0);
    assert_int_equal(user->offset, owner->offset);
    assert_true(user->grad_offset >= p.layout.train_bytes);
    assert_int_equal(p.layout.grad_bytes, p.layout.train_bytes + 64 * 64 * 4);
    vp_program_release(&p);
    vp_graph_release(&g);
}

/* ---- Bundles ------------------------------------------------------------ */

static bool writes(const struct vp_program *p, const struct vp_call *call,
                   const struct vp_bundle *bundle)
{
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        int64_t at = call->dpar[i].offset;
        const struct vp_param *param;

        if (call->dpar[i].space != VP_SPACE_GRAD)
            continue;
        param = &p->graph->params[call->op->par[i]];
        if (at < bundle->end &&
            at + param->rows * param->cols * 4 > bundle->begin)
            return true;
    }
    return false;
}

/* The last call that writes a bundle, B before W, is where it is final. */
static void check_final(const struct vp_program *p,
                        const struct vp_bundle *bundle)
{
    enum vp_list list = VP_LIST_B;
    int n_calls = 0;

    for (int l = VP_LIST_B; l <= VP_LIST_W; l++)
        for (int i = 0; i < p->n_calls[l]; i++)
            if (writes(p, &p->calls[l][i], bundle)) {
                list = (enum vp_list)l;
                n_calls = i + 1;
            }
    assert_int_equal(bundle->list, list);
    assert_int_equal(bundle->n_calls, n_calls);
}

/* Where a gradient begins, or the space ends. */
static bool is_edge(const struct vp_program *p, int64_t at)
{
    for (int i = 0; i < p->layout.n_entries; i++)
        if (p->layout.entries[i].grad_offset == at)
            return true;
    return at == p->layout.grad_bytes;
}

/* The bundle and the next one could not have been one, and no gradient was
 * cut that fits. */
static void check_edge(const struct vp_program *p, int i, int64_t limit)
{
    const struct vp_bundle *b = &p->bundles[i];
    int64_t at = b->end, begin = at - 1, end = at + 1;

    while (begin > 0 && !is_edge(p, begin))
        begin--;
    while (end < p->layout.grad_bytes && !is_edge(p, end))
        end++;
    if (!is_edge(p, at))
        assert_true(end - begin > limit);
    else if (i + 1 < p->n_bundles && is_edge(p, p->bundles[i + 1].end))
        assert_true(p->bundles[i + 1].end - begin > limit);
}

static void check_bundles(const struct vp_program *p, int64_t limit)
{
    bool seen[2048] = { false };
    int64_t end = 0;

    assert_in_range(p->n_bundles, 1, VP_COUNT_OF(seen));
    for (int i = 0; i < p->n_bundles; i++) {
        const struct vp_bundle *b = &p->bundles[i];

        assert_int_equal(b->begin, end);
        assert_int_equal(b->begin % VP_TENSOR_ALIGN, 0);
        assert_true(b->end > b->begin || p->layout.grad_bytes == 0);
        assert_true(b->end - b->begin <= limit);
        end = b->end;
        check_final(p, b);
        check_edge(p, i, limit);
    }
    assert_int_equal(end, p->layout.grad_bytes);
    for (int i = 0; i < p->n_bundles; i++) {
        const struct vp_bundle *b = &p->bundles[p->bundle_order[i]];
        const struct vp_bundle *before = b;

        if (i > 0)
            before = &p->bundles[p->bundle_order[i - 1]];
        assert_false(seen[p->bundle_order[i]]);
        seen[p->bundle_order[i]] = true;
        assert_true(before->list < b->list ||
                    (before->list == b->list && before->n_calls <= b->n_calls));
    }
}

/* The cut follows from the layout: the same for every program of a stage. */
static void bundles_are_offered_when_final(void **state)
{
    static const double ratios[] = { 0.0, 0.3, 0.5, 1.0 };
    struct vp_err err;

    (void)state;
    for (int trial = 0; trial < 150; trial++) {
        int n_blocks = 3 + rand_below(6);
        struct vp_graph g;
        struct vp_stage_spec spec = {
            .bundle_bytes = 1 + rand_below(1 << rand_below(14))
        };
        int64_t limit = (int64_t)vp_align_up((size_t)spec.bundle_bytes,
                                             VP_TENSOR_ALIGN);
        struct vp_program p, first = { .graph = NULL };

        random_graph(&g, n_blocks, rand_below(2));
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.first_block = rand_below(n_blocks);
        spec.n_blocks = 1 + rand_below(n_blocks - spec.first_block);
        for (int i = 0; i < 8; i++) {
            spec.split_w = i % 2;
            spec.recompute_ratio = ratios[i / 2];
            assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                             VP_OK);
            check_bundles(&p, limit);
            if (i == 0) {
                first = p;
                continue;
            }
            assert_int_equal(p.n_bundles, first.n_bundles);
            for (int b = 0; b < p.n_bundles; b++)
                assert_int_equal(p.bundles[b].end, first.bundles[b].end);
            vp_program_release(&p);
        }
        vp_program_release(&first);
        spec.bundle_bytes = 0;
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                         VP_OK);
        assert_int_equal(p.n_bundles, 0);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
}

/* ---- Gradients that are used up ----------------------------------------- */

/* A gradient: its bytes, and when it is written; time is what W calls have
 * written of matrices. */
struct grad {
    int64_t begin, end;
    int64_t first, last; /* first < 0: at any time */
    bool stays;
};

static bool is_tied(const struct vp_graph *g, vp_par par)
{
    for (vp_par p = 0; p < g->n_params; p++)
        if (g->params[p].tied_to == par)
            return true;
    return g->params[par].tied_to != VP_NONE;
}

static int find_grad(const struct vp_program *p, vp_par par)
{
    for (int i = 0; i < p->layout.n_entries; i++)
        if (p->layout.entries[i].par == par)
            return i;
    fail_msg("parameter %d is not in its stage", par);
    return -1;
}

/* Its gradient number `j`, if that is of a matrix. */
static struct grad *written(const struct vp_program *p,
                            const struct vp_call *call, int j,
                            struct grad *grads)
{
    struct grad *grad;

    if (call->dpar[j].space == VP_SPACE_NONE)
        return NULL;
    grad = &grads[find_grad(p, call->op->par[j])];
    assert_int_equal(call->dpar[j].offset, grad->begin);
    return p->graph->params[call->op->par[j]].rows == 1 ? NULL : grad;
}

static void list_grads(const struct vp_program *p, struct grad *grads)
{
    const struct vp_graph *g = p->graph;
    int64_t now = 0, begin;

    for (int i = 0; i < p->layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &p->layout.entries[i];
        const struct vp_param *param = &g->params[entry->par];

        grads[i] = (struct grad){ entry->grad_offset,
                                  entry->grad_offset +
                                      param->rows * param->cols * 4,
                                  -1, -1, is_tied(g, entry->par) };
        assert_int_equal(grads[i].begin % VP_TENSOR_ALIGN, 0);
        assert_in_range(grads[i].end, 1, p->n_bytes[VP_SPACE_GRAD]);
    }
    for (int i = 0; i < p->n_calls[VP_LIST_B]; i++) {
        const struct vp_call *call = &p->calls[VP_LIST_B][i];
        struct grad *grad;

        begin = now;
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if ((grad = written(p, call, j, grads)))
                now += grad->end - grad->begin;
        for (int j = 0; j < VP_MAX_PARAM; j++)
            if ((grad = written(p, call, j, grads))) {
                grad->first = grad->first < 0 ? begin : grad->first;
                grad->last = now;
            }
    }
}

/* `a` is used up, and so much more written, before `b` takes its place. */
static bool gives_way(const struct grad *a, const struct grad *b,
                      int64_t linger)
{
    return a->first >= 0 && b->first >= 0 && !a->stays &&
           a->last + linger <= b->first;
}

/* Returns how many pairs have bytes in common. */
static int check_places(const struct vp_program *p)
{
    struct grad grads[MAX_PARAMS] = { { .first = -1 } };
    int64_t linger = p->spec.grad_linger;
    int n = 0;

    list_grads(p, grads);
    for (int i = 0; i < p->layout.n_entries; i++)
        for (int j = 0; j < i; j++) {
            const struct grad *a = &grads[i], *b = &grads[j];

            if (a->begin >= b->end || b->begin >= a->end)
                continue;
            assert_true(gives_way(a, b, linger) || gives_way(b, a, linger));
            n++;
        }
    return n;
}

static void used_up_gradients_give_way(void **state)
{
    int n_shared = 0;

    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        int n_blocks = 3 + rand_below(8);
        struct vp_stage_spec spec = {
            .grad_linger = 1 + rand_below(1 << rand_below(14)),
            .recompute_ratio = rand_below(2) ? 0.5 : 0.0,
            .one_slot = rand_below(2),
        };
        struct vp_program p;
        struct vp_graph g;
        struct vp_err err;

        random_graph(&g, n_blocks, trial % 2);
        assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
        spec.first_block = rand_below(n_blocks);
        spec.n_blocks = 1 + rand_below(n_blocks - spec.first_block);
        assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                         VP_OK);
        n_shared += check_places(&p);
        vp_program_release(&p);
        vp_graph_release(&g);
    }
    assert_true(n_shared > 400);
}

static int64_t grads_of_chain(int n_layers, bool tied, int64_t linger)
{
    struct vp_stage_spec spec = { .grad_linger = linger };
    struct vp_program p;
    struct vp_graph g;
    struct vp_err err;
    int64_t n_bytes;

    chain_graph(&g, n_layers, tied);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    spec.n_blocks = g.n_blocks;
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err), VP_OK);
    n_bytes = p.n_bytes[VP_SPACE_GRAD];
    vp_program_release(&p);
    vp_graph_release(&g);
    return n_bytes;
}

/* Two matrices take turns, and one more for each that lingers; vectors and the
 * two uses of a tied matrix stay. */
static void a_few_gradients_are_enough(void **state)
{
    const int64_t matrix = 64 * 64 * 4, vectors = 2 * 256;

    (void)state;
    for (int n = 4; n < 20; n += 5) {
        assert_int_equal(grads_of_chain(n, false, 1), 2 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, false, 2 * matrix),
                         4 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, true, 1), 3 * matrix + n * vectors);
        assert_int_equal(grads_of_chain(n, false, 0),
                         (n + 2) * matrix + n * vectors);
    }
}

/* Weights and activations of two bytes; gradients of weights and statistics of
 * rows keep four, and a tensor begins at the same element everywhere. */
static void two_byte_types(void **state)
{
    struct vp_graph g, wide;
    struct vp_program p, q;

    (void)state;
    typed_chain(&g, 3, true, VP_DTYPE_BF16);
    chain_graph(&wide, 3, true);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(vp_graph_finish(&wide, NULL), VP_OK);
    lower_all(&g, 0.0, &p);
    lower_all(&wide, 0.0, &q);
    for (int i = 0; i < p.layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &p.layout.entries[i];

        assert_int_equal(entry->offset % VP_TENSOR_ALIGN, 0);
        assert_int_equal(entry->grad_offset % VP_TENSOR_ALIGN, 0);
        if (entry->storage == i)
            assert_int_equal(entry->grad_offset, 2 * entry->offset);
        assert_int_equal(2 * entry->n_bytes, q.layout.entries[i].n_bytes);
    }
    assert_int_equal(p.layout.train_bytes, 2 * p.layout.param_bytes);
    assert_true(p.layout.grad_bytes >= p.layout.train_bytes + 64 * 64 * 4);
    for (vp_val v = 0; v < g.n_values; v++) {
        const struct vp_value *value = &g.values[v];
        bool small = value->producer != VP_NONE && value->cols > 2 &&
                     v != g.loss;

        assert_int_equal(vp_value_bytes(&g, v),
                         value->rows * value->cols * (small ? 2 : 4));
    }
    assert_int_equal(2 * p.dout.n_bytes, q.dout.n_bytes);
    vp_program_release(&p);
    vp_program_release(&q);
    vp_graph_release(&g);
    vp_graph_release(&wide);
}

static void bad_stages_are_refused(void **state)
{
    struct vp_graph g;
    struct vp_program p;
    struct vp_err err;
    struct vp_stage_spec spec = { .first_block = 2, .n_blocks = 9 };

    (void)state;
    chain_graph(&g, 2, false);
    assert_int_equal(vp_graph_finish(&g, NULL), VP_OK);
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "the model has blocks 0..3"));
    spec = (struct vp_stage_spec){ .n_blocks = 4, .recompute_ratio = 1.5 };
    assert_int_equal(vp_program_lower(&g, &spec, NULL, NULL, &p, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "outside 0..1"));
    vp_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_gradients),
        cmocka_unit_test(work_memory_is_reused),
        cmocka_unit_test(what_backward_can_make_is_not_kept),
        cmocka_unit_test(one_slot_is_shared_by_all_lists),
        cmocka_unit_test(full_recompute_keeps_only_the_loss),
        cmocka_unit_test(ratio_counts_lines_from_the_end),
        cmocka_unit_test(tied_weights_share_storage),
        cmocka_unit_test(bundles_are_offered_when_final),
        cmocka_unit_test(used_up_gradients_give_way),
        cmocka_unit_test(a_few_gradients_are_enough),
        cmocka_unit_test(two_byte_types),
        cmocka_unit_test(bad_stages_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
