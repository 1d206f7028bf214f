#include "lib/one_op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers ------------------------------------------------------------ */

static uint32_t test_bits(uint64_t seed, uint32_t stream, int64_t i)
{
    return vp_rng(seed, VP_RNG_TEST, stream, (uint32_t)i, 0, 0).v[0];
}

double test_number(uint64_t seed, uint32_t stream, int64_t i)
{
    return (float)(3.0 * vp_rng_unit(test_bits(seed, stream, i)) - 1.5);
}

double one_op_get(const struct one_op *t, const void *tensor, int64_t i)
{
    if (t->real == sizeof(double))
        return ((const double *)tensor)[i];
    return ((const float *)tensor)[i];
}

void one_op_set(const struct one_op *t, const void *tensor, int64_t i,
                double value)
{
    if (t->real == sizeof(double))
        ((double *)tensor)[i] = value;
    else
        ((float *)tensor)[i] = (float)value;
}

void one_op_fill(const struct one_op *t, const void *tensor, int64_t n,
                 uint64_t seed, uint32_t stream)
{
    for (int64_t i = 0; i < n; i++)
        one_op_set(t, tensor, i, test_number(seed, stream, i));
}

/* ---- The graph ---------------------------------------------------------- */

vp_val test_matrix(struct vp_graph *graph, const char *name, int64_t rows,
                   int64_t cols)
{
    vp_val value = vp_graph_input(graph, VP_ROLE_TOKENS, name, rows);

    assert_true(value >= 0);
    graph->values[value].dtype = graph->dtype;
    graph->values[value].role = VP_ROLE_NONE;
    graph->values[value].cols = cols;
    graph->values[value].needs_grad = true;
    return value;
}

vp_val test_ints(struct vp_graph *graph, const char *name, int64_t rows)
{
    return vp_graph_input(graph, VP_ROLE_TOKENS, name, rows);
}

vp_par test_param(struct vp_graph *graph, const char *name, int64_t rows,
                  int64_t cols)
{
    return vp_graph_param(graph, name, rows, cols, VP_INIT_NORMAL, 0.02f);
}

static void test_build_embed(struct vp_graph *g, const struct op_spec *s)
{
    int64_t rows = s->batch * s->q_len;
    vp_val ids = test_ints(g, "ids", rows), types = VP_NONE;
    vp_par table = test_param(g, "table", s->n_out, s->cols);
    vp_par positions = VP_NONE, type_table = VP_NONE;

    if (s->positions)
        positions = vp_graph_param(
            g, "positions", s->q_len + 2, s->cols,
            s->constant ? VP_INIT_SINUSOID : VP_INIT_NORMAL, 0.02f);
    if (s->types) {
        types = test_ints(g, "types", rows);
        type_table = test_param(g, "type_table", N_TYPES, s->cols);
    }
    if (s->at)
        vp_embed_at(g, ids, test_ints(g, "at", rows), table, positions,
                    s->scale, s->pad ? PAD_ID : -1);
    else
        vp_embed(g, ids, types, table, positions, type_table, s->scale,
                 s->pad ? PAD_ID : -1);
}

static void test_build_cached_attention(struct vp_graph *g,
                                        const struct op_spec *s)
{
    int64_t rows = s->batch * s->q_len;
    vp_val qkv = test_matrix(g, "qkv", rows, 3 * s->cols);
    vp_val at = test_ints(g, "at", rows);
    vp_val lines = test_ints(g, "lines", s->batch * s->k_len);

    vp_cached_attention(g, qkv, at, lines, s->heads, s->n_lines);
}

/* A source has one row more than there are queries, but not more than the cache
 * holds. */
static void test_build_cached_cross_attention(struct vp_graph *g,
                                              const struct op_spec *s)
{
    int64_t n_kv = s->q_len < s->k_len ? s->q_len + 1 : s->k_len;
    vp_val q = test_matrix(g, "q", s->batch * s->q_len, s->cols);
    vp_val kv = test_matrix(g, "kv", s->batch * n_kv, 2 * s->cols);

    vp_cached_cross_attention(g, q, kv, test_ints(g, "sources", 3 * s->batch),
                              s->heads, s->n_lines, s->k_len);
}

static void test_build_attention(struct vp_graph *g, const struct op_spec *s)
{
    bool cross = s->k_len > 0;
    int64_t k_len = cross ? s->k_len : s->q_len;
    vp_val q, kv = VP_NONE, mask = VP_NONE;

    q = test_matrix(g, "q", s->batch * s->q_len, (cross ? 1 : 3) * s->cols);
    if (cross)
        kv = test_matrix(g, "kv", s->batch * k_len, 2 * s->cols);
    if (s->mask)
        mask = test_ints(g, "mask", s->batch * k_len);
    vp_attention(g, q, kv, mask, s->heads, s->causal, s->p);
}

/* Builds an operator with the one float input `x`. */
static void test_build_x(struct vp_graph *g, const struct op_spec *s, vp_val x)
{
    vp_val labels, weights = VP_NONE;
    vp_par par[2];

    switch (s->kind) {
    case VP_OP_LINEAR:
        par[0] = test_param(g, "weight", s->n_out, s->cols);
        par[1] = s->bias ? test_param(g, "bias", 1, s->n_out) : VP_NONE;
        vp_linear(g, x, par[0], par[1], s->act);
        break;
    case VP_OP_LAYERNORM:
        par[0] = test_param(g, "gamma", 1, s->cols);
        par[1] = test_param(g, "beta", 1, s->cols);
        vp_layernorm(g, x, par[0], par[1], 1e-5f);
        break;
    case VP_OP_ARGMAX:
        vp_argmax(g, x);
        break;
    case VP_OP_DROPOUT:
        vp_dropout(g, x, s->p);
        break;
    case VP_OP_SCALE:
        vp_scale(g, x, s->scale);
        break;
    case VP_OP_GATHER:
        vp_gather(g, x, test_ints(g, "rows", s->n_out));
        break;
    case VP_OP_CROSS_ENTROPY:
        labels = test_ints(g, "labels", s->batch * s->q_len);
        if (s->weights)
            weights = test_ints(g, "weights", s->batch * s->q_len);
        vp_cross_entropy(g, x, labels, weights, s->smoothing);
        break;
    default:
        fail_msg("no builder for operator %d", (int)s->kind);
    }
}

static void test_build(struct vp_graph *g, const struct op_spec *s)
{
    int64_t rows = s->batch * s->q_len;

    vp_graph_init(g, s->batch);
    g->dtype = s->dtype;
    if (s->cache) {
        g->outputs = VP_OUTPUT_LOGITS;
        g->cache = (struct vp_cache_size){ .n_lines = 1, .n_positions = 1 };
    }
    vp_graph_block(g, "block");
    vp_graph_line(g);
    if (s->kind == VP_OP_EMBED) {
        test_build_embed(g, s);
    } else if (s->kind == VP_OP_ATTENTION) {
        test_build_attention(g, s);
    } else if (s->kind == VP_OP_CACHED_ATTENTION) {
        test_build_cached_attention(g, s);
    } else if (s->kind == VP_OP_CACHED_CROSS_ATTENTION) {
        test_build_cached_cross_attention(g, s);
    } else if (s->kind == VP_OP_ADD || s->kind == VP_OP_COPY) {
        vp_val a = test_matrix(g, "a", rows, s->cols);
        vp_val b = test_matrix(g, "b", rows, s->cols);

        vp_add(g, a, b);
        /* Only lowering makes copies, so no builder exists for them. */
        if (s->kind == VP_OP_COPY && g->status == VP_OK) {
            g->ops[g->n_ops - 1].kind = VP_OP_COPY;
            g->ops[g->n_ops - 1].in[1] = VP_NONE;
        }
    } else {
        test_build_x(g, s, test_matrix(g, "x", rows, s->cols));
    }
    if (g->status != VP_OK)
        fail_msg("%s: %s", s->name ? s->name : "spec", g->err.text);
    assert_int_equal(g->n_ops, 1);
}

/* ---- The tensors -------------------------------------------------------- */

void *one_op_alloc(struct one_op *t, size_t n_bytes)
{
    void *p = NULL;

    assert_true(t->n_owned < MAX_OWNED);
    assert_int_equal(posix_memalign(&p, VP_TENSOR_ALIGN, n_bytes ? n_bytes : 1),
                     0);
    memset(p, 0xFF, n_bytes);
    t->owned[t->n_owned++] = p;
    return p;
}

static int64_t one_op_count(const struct one_op *t, vp_val value)
{
    if (value == VP_NONE)
        return 0;
    return t->graph.values[value].rows * t->graph.values[value].cols;
}

/* Returns the position of row `i` of a cached attention. Samples begin at
 * different positions, and every third one ends in a row of padding. */
static int32_t one_op_position(const struct op_spec *s, int64_t i)
{
    int64_t sample = i / s->q_len, t = i % s->q_len;
    int64_t room = s->k_len - s->q_len + 1;

    if (sample % 3 == 2 && t == s->q_len - 1)
        return -1;
    return (int32_t)(sample * 5 % room + t);
}

/* Returns the cache line of position `i`. Lines change along a text, and no two
 * samples use the same line at one position. */
static int32_t one_op_line(const struct op_spec *s, int64_t i)
{
    return (int32_t)((i / s->k_len + i % s->k_len / 3) % s->n_lines);
}

/* Returns element `i` of the sources: for each sample its line, its number of
 * keys, and the number of rows that are written (none, some or all of the
 * keys). Every third sample is padding. */
static int32_t one_op_source(const struct op_spec *s, int64_t i)
{
    int64_t sample = i / 3,
            n_kv = s->q_len < s->k_len ? s->q_len + 1 : s->k_len;
    int64_t n_keys = sample % 3 == 2 ? 0 : s->k_len - sample % s->k_len;

    if (i % 3 == 0)
        return (int32_t)(sample % s->n_lines);
    if (i % 3 == 1)
        return (int32_t)n_keys;
    return (int32_t)(sample % 2 ? 0 : n_keys < n_kv ? n_keys : n_kv);
}

/* Returns element `i` of integer input `k`, such that every branch of the
 * kernels is taken. */
static int32_t one_op_int(const struct one_op *t, int k, uint32_t bits,
                          int64_t i)
{
    const struct op_spec *s = &t->spec;
    const struct vp_value *v = &t->graph.values[t->args.op->in[0]];

    switch (s->kind) {
    case VP_OP_CACHED_ATTENTION:
        return k == 1 ? one_op_position(s, i) : one_op_line(s, i);
    case VP_OP_CACHED_CROSS_ATTENTION:
        return one_op_source(s, i);
    case VP_OP_EMBED:
        if (k == 2) /* the position table has q_len + 2 rows */
            return (int32_t)vp_rng_below(bits, (uint32_t)s->q_len + 3) - 1;
        if (k == 0 && s->pad && bits % 3 == 0)
            return PAD_ID;
        return (int32_t)vp_rng_below(bits,
                                     k == 0 ? (uint32_t)s->n_out : N_TYPES);
    case VP_OP_ATTENTION: /* the last of several samples has no key */
        if (s->batch > 1 && i / t->args.op->attr.k_len == s->batch - 1)
            return 0;
        return bits % 4 != 0;
    case VP_OP_GATHER:
        return (int32_t)vp_rng_below(bits, (uint32_t)v->rows + 1) - 1;
    case VP_OP_CROSS_ENTROPY:
        if (k == 2)
            return bits % 3 != 0;
        return (int32_t)vp_rng_below(bits, (uint32_t)v->cols + 1) - 1;
    default:
        return 0;
    }
}

static void one_op_inputs(struct one_op *t, uint64_t seed)
{
    struct vp_kargs *a = &t->args;

    for (int k = 0; k < VP_MAX_IN; k++) {
        vp_val value = a->op->in[k];

        if (value == VP_NONE)
            continue;
        t->n_in[k] = one_op_count(t, value);
        if (t->graph.values[value].dtype != VP_DTYPE_I32) {
            a->in[k] = one_op_alloc(t, (size_t)t->n_in[k] * t->real);
            one_op_fill(t, a->in[k], t->n_in[k], seed, (uint32_t)k);
            a->din[k] = one_op_alloc(t, (size_t)t->n_in[k] * t->real);
        } else {
            int32_t *ints = one_op_alloc(t, (size_t)t->n_in[k] * sizeof(*ints));

            for (int64_t i = 0; i < t->n_in[k]; i++)
                ints[i] = one_op_int(t, k, test_bits(seed, (uint32_t)k, i), i);
            a->in[k] = ints;
        }
    }
}

static void one_op_params(struct one_op *t, uint64_t seed)
{
    struct vp_kargs *a = &t->args;

    for (int k = 0; k < VP_MAX_PARAM; k++) {
        const struct vp_param *par;

        if (a->op->par[k] == VP_NONE)
            continue;
        par = &t->graph.params[a->op->par[k]];
        t->n_par[k] = par->rows * par->cols;
        a->par[k] = one_op_alloc(t, (size_t)t->n_par[k] * t->real);
        one_op_fill(t, a->par[k], t->n_par[k], seed, 8 + (uint32_t)k);
        if (!par->constant)
            a->dpar[k] = one_op_alloc(t, (size_t)t->n_par[k] * t->real);
    }
}

static size_t one_op_scratch(const struct one_op *t)
{
    int n_threads = t->args.pool ? vp_pool_threads(t->args.pool) : 1;
    size_t most = 0;

    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        size_t n = t->kernels->scratch_bytes
                       ? t->kernels->scratch_bytes(&t->plain, t->args.op,
                                                   (enum vp_phase)phase,
                                                   n_threads)
                       : 0;

        if (n > most)
            most = n;
    }
    return most;
}

void one_op_init(struct one_op *t, const struct op_spec *spec,
                 const struct vp_cpu_kernels *kernels, size_t real,
                 uint64_t seed, struct vp_pool *pool)
{
    struct op_spec plain = *spec;
    struct vp_kargs *a = &t->args;

    memset(t, 0, sizeof(*t));
    t->spec = *spec;
    t->kernels = kernels;
    t->real = real;
    t->mb = (struct vp_mb){
        .seed = 77, .first_sample = 1000, .loss_grad = 0.75f, .train = true
    };
    test_build(&t->graph, spec);
    plain.dtype = VP_DTYPE_F32;
    test_build(&t->plain, &plain);
    a->graph = &t->graph;
    a->op = &t->graph.ops[0];
    a->mb = &t->mb;
    a->pool = pool;

    one_op_inputs(t, seed);
    one_op_params(t, seed);
    for (int k = 0; k < VP_MAX_AUX; k++) {
        t->n_aux[k] = one_op_count(t, a->op->aux[k]);
        if (t->n_aux[k] > 0)
            a->aux[k] = one_op_alloc(t, (size_t)t->n_aux[k] * real);
        if (t->n_aux[k] > 0 && t->graph.values[a->op->aux[k]].persists)
            one_op_fill(t, a->aux[k], t->n_aux[k], seed, 24);
    }
    t->n_out = one_op_count(t, a->op->out);
    a->out = one_op_alloc(t, (size_t)t->n_out * real);
    a->dout = one_op_alloc(t, (size_t)t->n_out * real);
    one_op_fill(t, a->dout, t->n_out, seed, 16);
    if (spec->kind == VP_OP_CROSS_ENTROPY) /* its kernel reads loss_grad */
        one_op_set(t, a->dout, 0, t->mb.loss_grad);
    if (vp_op_has_dz(a->op))
        a->dz = one_op_alloc(t, (size_t)t->n_out * real);
    if (vp_op_can_recompute_out(a->op))
        a->recomputed_out = one_op_alloc(t, (size_t)t->n_out * real);
    a->scratch = one_op_alloc(t, one_op_scratch(t));
}

void one_op_release(struct one_op *t)
{
    for (int i = 0; i < t->n_owned; i++)
        free(t->owned[i]);
    vp_graph_release(&t->graph);
    vp_graph_release(&t->plain);
    memset(t, 0, sizeof(*t));
}

vp_cpu_kernel_fn one_op_kernel(const struct one_op *t, enum vp_phase phase)
{
    return t->spec.cache && phase != VP_PHASE_F
               ? NULL
               : t->kernels->fn[t->spec.kind][phase];
}

bool one_op_run(struct one_op *t, enum vp_phase phase)
{
    vp_cpu_kernel_fn fn = one_op_kernel(t, phase);
    struct vp_kargs args = t->args;

    args.graph = &t->plain;
    if (fn)
        fn(&args);
    return fn != NULL;
}

double test_base_number(int64_t i)
{
    return test_number(1, 32, i);
}

static void one_op_fill_base(const struct one_op *t, void *tensor, int64_t n)
{
    for (int64_t i = 0; tensor && i < n; i++)
        one_op_set(t, tensor, i, test_base_number(i));
}

void one_op_train(struct one_op *t, bool add)
{
    t->mb.accumulate = add;
    for (int k = 0; k < VP_MAX_IN; k++) {
        t->args.din_add[k] = add;
        if (add)
            one_op_fill_base(t, t->args.din[k], t->n_in[k]);
    }
    for (int k = 0; add && k < VP_MAX_PARAM; k++)
        one_op_fill_base(t, t->args.dpar[k], t->n_par[k]);
    one_op_run(t, VP_PHASE_F);
    one_op_run(t, VP_PHASE_B);
    one_op_run(t, VP_PHASE_W);
}

double test_distance(const struct one_op *ta, const void *a,
                     const struct one_op *tb, const void *b, int64_t n)
{
    double diff = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        double x = one_op_get(ta, a, i), y = one_op_get(tb, b, i);

        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        diff = fmax(diff, fabs(x - y));
        size = fmax(size, fabs(y));
    }
    return diff == 0 ? 0 : diff / fmax(size, 1e-30);
}
