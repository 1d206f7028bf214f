#include "lib/list_interpreter.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u);

    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

/* ---- Random graphs ------------------------------------------------------ */

static uint32_t rand_count;

int rand_below(int n)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 0, rand_count++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

uint64_t rand_bits(void)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, 1, rand_count++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols)
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

void random_graph(struct vp_graph *g, int n_blocks, bool tied)
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

/* ---- The oracle: hashes of the whole graph ------------------------------ */

static uint64_t input_hash(vp_val v)
{
    return mix(1, (uint64_t)v);
}

static uint64_t param_hash(const struct vp_graph *g, vp_par par)
{
    vp_par owner = g->params[par].tied_to;

    return mix(2, (uint64_t)(owner == VP_NONE ? par : owner));
}

/* Returns the hash of a forward result from those of its inputs. `which`: 0 for
 * out, 1 and more for aux. */
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

/* Hashes of the tensors that a backward kernel reads; 0 for those it does
 * not. */
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

const unsigned bit_in[] = { VP_NEED_IN0, VP_NEED_IN1, VP_NEED_IN2 };

const unsigned bit_aux[] = { VP_NEED_AUX0, VP_NEED_AUX1 };

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

void oracle(const struct vp_graph *g, struct facts *facts)
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
            if (op->par[j] != VP_NONE && !g->params[op->par[j]].constant)
                facts->dpar[op->par[j]] = backward_hash(op, 2, j, &w, dout);
    }
}

/* ---- Shadow memory ------------------------------------------------------ */

struct cell {
    uint64_t hash;
    int64_t index; /* index of the cell within its tensor */
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

/* Returns the hash of the tensor at `ref`, 0 if its cells belong to several. */
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

/* Returns the hash of F's `out` if B reads the same values as F, otherwise
 * 0. */
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

bool is_written_again(const struct vp_program *p, enum vp_list list, int i)
{
    const struct vp_call *call = &p->calls[list][i];

    for (int j = i + 1; j < p->n_calls[list]; j++) {
        const struct vp_ref *again = &p->calls[list][j].recomputed_out;

        if (again->space == call->out.space &&
            again->offset == call->out.offset)
            return true;
    }
    return false;
}

/* Overwrites results that need not stay after their list, so that a later read
 * of them is noticed. */
static void spoil_results(const struct vp_program *p, enum vp_list list,
                          struct memory *m, const struct facts *facts)
{
    for (int i = 0; i < p->n_calls[list]; i++) {
        const struct vp_call *call = &p->calls[list][i];
        int64_t bytes = value_bytes(p->graph, call->op->out);

        if (call->phase == VP_PHASE_F && call->op->kind != VP_OP_COPY &&
            !call->out_stays && !is_written_again(p, list, i) &&
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

        /* Results of R for another minibatch may be in that space until B. */
        if (list == VP_LIST_F)
            assert_true(call->out.space != VP_SPACE_RECOMPUTED &&
                        call->aux[0].space != VP_SPACE_RECOMPUTED);
        /* Other calls must not depend on scratch: it gets a hash of its own. */
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

size_t some_scratch(const void *ctx, const struct vp_graph *graph,
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

struct pipeline {
    int n_stages;
    struct vp_program program[MAX_STAGES];
    struct memory memory[MAX_STAGES];
};

static void pipeline_lower(struct pipeline *p, const struct vp_graph *g,
                           const int *cuts, const struct vp_stage_spec *like,
                           const struct recompute *recompute)
{
    for (int s = 0; s < p->n_stages; s++) {
        struct vp_stage_spec spec = *like;
        uint64_t sets[MAX_SETS];
        struct vp_err err;

        spec.first_block = cuts[s];
        spec.n_blocks = cuts[s + 1] - cuts[s];
        spec.w_linger = rand_below(8);
        if (recompute->sets)
            spec.recompute = recompute->sets + cuts[s];
        else
            set_tail(g, recompute->ratio, &spec, sets);
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
        /* The recomputed values are free after B. */
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

void check_one(const struct vp_graph *g, const struct facts *want, int n_stages,
               const struct vp_stage_spec *like,
               const struct recompute *recompute)
{
    struct pipeline p = { .n_stages = n_stages };
    struct facts got = { { 0 }, { 0 } };
    const struct vp_program *last;
    int cuts[MAX_STAGES + 1];

    random_cuts(cuts, n_stages, g->n_blocks);
    pipeline_lower(&p, g, cuts, like, recompute);
    pipeline_run(&p, &got);
    last = &p.program[n_stages - 1];
    assert_true(get(&p.memory[n_stages - 1], last->loss, 4) ==
                want->value[g->loss]);
    for (vp_par par = 0; par < g->n_params; par++)
        assert_true(got.dpar[par] == want->dpar[par]);
    pipeline_release(&p);
}
