/* The CPU kernels on BF16 agree with the float reference kernels on the same
 * numbers, for every operator, mode and kind of matrix product, with the same
 * bits for any number of threads. */
#include "backend/cpu/fast.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_bf16.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "base/pool.h"
#include "lib/cpu_pools.h"
#include "lib/one_op.h"
#include "lib/op_cases.h"
#include "lib/op_modes.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- An operator on BF16 tensors ---------------------------------------- */

enum { MOST_TENSORS = 24 };

struct narrow {
    /* The float tensor of the twin. Tensors that share memory in the twin share
     * it here, too. */
    const void *wide;
    void *data;
    int64_t n;
    enum vp_dtype dtype;
};

/* An operator on tensors in the types of its graph. `twin` is the same operator
 * on floats, which the reference kernels run. */
struct mirror {
    struct one_op *twin;
    struct narrow at[MOST_TENSORS];
    int n;
    struct vp_kargs args;
    void *scratch;
    size_t scratch_bytes;
};

static struct narrow *find(struct mirror *m, const void *wide)
{
    for (int i = 0; i < m->n; i++)
        if (m->at[i].wide == wide)
            return &m->at[i];
    return NULL;
}

/* Rounds the twin's floats to the type of `t` and copies them, so that both
 * sides have equal numbers. */
static void take(struct mirror *m, struct narrow *t)
{
    float *x = (float *)t->wide;

    if (t->dtype == VP_DTYPE_BF16) {
        vp_dtype_round(VP_DTYPE_BF16, t->data, x, t->n);
        vp_dtype_expand(VP_DTYPE_BF16, x, t->data, t->n);
    } else {
        memcpy(t->data, x, (size_t)t->n * sizeof(*x));
    }
    (void)m;
}

static void *add(struct mirror *m, const void *wide, int64_t n,
                 enum vp_dtype dtype)
{
    struct narrow *t = wide ? find(m, wide) : NULL;

    if (!wide || t)
        return t ? t->data : NULL;
    assert_true(m->n < MOST_TENSORS);
    t = &m->at[m->n++];
    *t = (struct narrow){ wide, malloc((size_t)(n * vp_dtype_bytes(dtype))), n,
                          dtype };
    assert_non_null(t->data);
    take(m, t);
    return t->data;
}

static void *add_value(struct mirror *m, const void *wide, vp_val value)
{
    const struct vp_value *v;

    if (value == VP_NONE)
        return NULL;
    v = &m->twin->graph.values[value];
    return add(m, wide, v->rows * v->cols, v->dtype);
}

static void mirror_init(struct mirror *m, struct one_op *twin,
                        const struct vp_cpu_kernels *kernels,
                        struct vp_pool *pool)
{
    struct vp_kargs *a = &m->args;
    const struct vp_op *op = twin->args.op;

    *m = (struct mirror){ .twin = twin, .args = twin->args };
    a->pool = pool;
    for (int k = 0; k < VP_MAX_IN; k++) {
        a->in[k] = add_value(m, a->in[k], op->in[k]);
        a->din[k] = add_value(m, a->din[k], op->in[k]);
    }
    for (int k = 0; k < VP_MAX_AUX; k++)
        a->aux[k] = add_value(m, a->aux[k], op->aux[k]);
    a->out = add_value(m, a->out, op->out);
    a->dout = add_value(m, a->dout, op->out);
    a->dz = add_value(m, a->dz, op->out);
    a->recomputed_out = add_value(m, a->recomputed_out, op->out);
    for (int k = 0; k < VP_MAX_PARAM; k++) {
        a->par[k] = add(m, a->par[k], twin->n_par[k], VP_DTYPE_BF16);
        a->dpar[k] = add(m, a->dpar[k], twin->n_par[k], VP_DTYPE_F32);
    }
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        size_t n = kernels->scratch_bytes(
            &twin->graph, op, (enum vp_phase)phase, vp_pool_threads(pool));

        m->scratch_bytes = n > m->scratch_bytes ? n : m->scratch_bytes;
    }
    assert_int_equal(
        posix_memalign(&m->scratch, VP_TENSOR_ALIGN, m->scratch_bytes + 1), 0);
    memset(m->scratch, 0xFF, m->scratch_bytes + 1);
    a->scratch = m->scratch;
}

static void mirror_release(struct mirror *m)
{
    /* No kernel wrote behind its scratch memory. */
    assert_int_equal(((unsigned char *)m->scratch)[m->scratch_bytes], 0xFF);
    for (int i = 0; i < m->n; i++)
        free(m->at[i].data);
    free(m->scratch);
}

static void mirror_run(struct mirror *m, const struct vp_cpu_kernels *kernels,
                       unsigned phases)
{
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        vp_cpu_kernel_fn fn = kernels->fn[m->twin->spec.kind][phase];
        bool only_forward = m->twin->spec.cache && phase != VP_PHASE_F;

        if (fn && phases & PHASE_BIT(phase) && !only_forward)
            fn(&m->args);
    }
}

/* ---- Tolerances --------------------------------------------------------- */

/* Error of float sums, exp and erf; see test_kernels.c. */
#define FLOAT_TOLERANCE 4e-6

/* Number of roundings to BF16 between the inputs and the compared result. Each
 * may be off by half a unit of the last place, 2^-8 of the largest element. */
static const struct {
    int values; /* activations and their gradients */
    int sums;   /* tensors that stay float: statistics, weight gradients */
} roundings[VP_OP_KIND_COUNT] = {
    [VP_OP_EMBED] = { 1, 0 },
    /* Forward rounds z and act(z), and the slope of act may be 1.13. Backward
     * rounds dz and its product with the weights. Weight gradients read the
     * rounded dz. */
    [VP_OP_LINEAR] = { 3, 1 },
    [VP_OP_LAYERNORM] = { 1, 0 },
    /* Rounded are probabilities and their gradients before each product, the
     * output that backward reads, and the result. */
    [VP_OP_ATTENTION] = { 4, 0 },
    [VP_OP_CACHED_ATTENTION] = { 1, 0 }, /* probabilities stay float */
    [VP_OP_CACHED_CROSS_ATTENTION] = { 1, 0 },
    [VP_OP_DROPOUT] = { 1, 0 },
    [VP_OP_ADD] = { 1, 0 },
    [VP_OP_SCALE] = { 1, 0 },
    [VP_OP_GATHER] = { 1, 0 },
    [VP_OP_CROSS_ENTROPY] = { 1, 0 },
    [VP_OP_COPY] = { 0, 0 },
};

static double tolerance_of(const struct op_spec *spec, enum vp_dtype tensor,
                           bool add)
{
    int n = tensor == VP_DTYPE_BF16 ? roundings[spec->kind].values
                                    : roundings[spec->kind].sums;

    if (spec->kind == VP_OP_COPY && add && tensor == VP_DTYPE_BF16)
        n = 1; /* the sum is rounded */
    return n * 0x1p-8 + FLOAT_TOLERANCE;
}

static double narrow_get(const struct narrow *t, int64_t i)
{
    float x;

    if (t->dtype != VP_DTYPE_BF16)
        return ((const float *)t->data)[i];
    vp_dtype_expand(VP_DTYPE_BF16, &x, (const uint16_t *)t->data + i, 1);
    return x;
}

/* Returns the size that errors are relative to: the largest element, but at
 * least 1 for attention, whose inputs are of size 1. */
static double size_of(const struct one_op *t, const struct written *want)
{
    double size = t->spec.kind == VP_OP_ATTENTION ? 1 : 0;

    for (int64_t i = 0; i < want->n; i++)
        size = fmax(size, fabs(one_op_get(t, want->data, i)));
    return size;
}

static void compare(struct mirror *m, const struct mode *mode, unsigned phases,
                    const char *how)
{
    const struct op_spec *s = &m->twin->spec;
    struct written w[MAX_WRITTEN];
    int n = written_by(m->twin, phases, w);

    for (int k = 0; k < n; k++) {
        const struct narrow *t = find(m, w[k].data);
        double allowed = tolerance_of(s, t->dtype, mode->add) *
                         size_of(m->twin, &w[k]);

        for (int64_t i = 0; i < w[k].n; i++) {
            double want = one_op_get(m->twin, w[k].data, i);

            if (fabs(narrow_get(t, i) - want) <= allowed)
                continue;
            fail_msg("%s, %s, mode %d: element %d of %s is %g, not %g; allowed "
                     "are %g (batch %d q_len %d k_len %d cols %d n_out %d)",
                     s->name, how, (int)(mode - modes), (int)i, w[k].name,
                     narrow_get(t, i), want, allowed, (int)s->batch,
                     (int)s->q_len, (int)s->k_len, (int)s->cols, (int)s->n_out);
        }
    }
}

static void twin_init(struct one_op *twin, const struct op_spec *spec,
                      const struct mode *mode)
{
    struct op_spec typed = *spec;

    typed.dtype = VP_DTYPE_BF16;
    one_op_init(twin, &typed, &vp_cpu_ref_f32, sizeof(float), 3, NULL);
    prepare(twin, mode);
}

/* Compares forward, then backward. Backward reads the rounded results of the
 * twin's forward on both sides. */
static void check_kernels(const struct op_spec *spec, const struct mode *mode,
                          const struct vp_cpu_kernels *kernels, const char *how)
{
    struct written w[MAX_WRITTEN];
    unsigned back = PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W);
    struct one_op twin;
    struct mirror m;
    int n;

    twin_init(&twin, spec, mode);
    mirror_init(&m, &twin, kernels, pools[1]);
    one_op_run(&twin, VP_PHASE_F);
    mirror_run(&m, kernels, PHASE_BIT(VP_PHASE_F));
    compare(&m, mode, PHASE_BIT(VP_PHASE_F), how);
    n = written_by(&twin, PHASE_BIT(VP_PHASE_F), w);
    for (int i = 0; i < n; i++)
        take(&m, find(&m, w[i].data));
    one_op_run(&twin, VP_PHASE_B);
    one_op_run(&twin, VP_PHASE_W);
    mirror_run(&m, kernels, back);
    compare(&m, mode, back, how);
    mirror_release(&m);
    one_op_release(&twin);
}

static void check_mode(const struct op_spec *spec, const struct mode *mode)
{
    for (int isa = 0; isa < VP_ISA_COUNT; isa++)
        if (vp_cpu_force_isa((enum vp_isa)isa))
            check_kernels(spec, mode, &vp_cpu_fast,
                          vp_cpu_isa_name((enum vp_isa)isa));
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* ---- Comparison with the reference kernels ------------------------------ */

static void test_small_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++) {
        for (size_t j = 0; j < VP_COUNT_OF(modes); j++) {
            check_mode(&op_cases[i], &modes[j]);
            check_kernels(&op_cases[i], &modes[j], &vp_cpu_ref_bf16, "twin");
        }
    }
}

static void test_forward_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(forward_cases); i++) {
        check_mode(&forward_cases[i], &modes[0]);
        check_kernels(&forward_cases[i], &modes[0], &vp_cpu_ref_bf16, "twin");
    }
}

/* Sizes that are cut into several strips, tiles, chunks and pieces, with edges
 * of odd sizes. */
static const struct op_spec cut_cases[] = {
    { "linear", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 337, .cols = 100,
      .n_out = 203, .bias = true, .act = VP_ACT_GELU_ERF },
    { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 65, .cols = 600,
      .n_out = 421, .bias = true, .act = VP_ACT_GELU_TANH },
    { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 33, .cols = 64,
      .n_out = 1100, .bias = true, .act = VP_ACT_RELU },
    { "linear", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 32, .cols = 32,
      .n_out = 32 },
    { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 270,
      .cols = 16, .heads = 2, .causal = true, .p = 0.1f },
    { "attention", .kind = VP_OP_ATTENTION, .batch = 2, .q_len = 90,
      .k_len = 710, .cols = 8, .heads = 1, .mask = true, .p = 0.25f },
    { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 64,
      .cols = 128, .heads = 2 },
    { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .batch = 1, .q_len = 7,
      .cols = 5003, .smoothing = 0.1f },
    { "dropout", .kind = VP_OP_DROPOUT, .batch = 1, .q_len = 2, .cols = 4099,
      .p = 0.3f },
    { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 1, .q_len = 70,
      .cols = 1023 },
    { "embed", .kind = VP_OP_EMBED, .batch = 1, .q_len = 50, .cols = 300,
      .n_out = 150, .scale = 1.0f, .positions = true },
    { "gather", .kind = VP_OP_GATHER, .batch = 2, .q_len = 40, .cols = 300,
      .n_out = 77 },
    { "add", .kind = VP_OP_ADD, .batch = 2, .q_len = 100, .cols = 333 },
    { "scale", .kind = VP_OP_SCALE, .batch = 2, .q_len = 100, .cols = 333,
      .scale = 0.3f },
    { "copy", .kind = VP_OP_COPY, .batch = 2, .q_len = 100, .cols = 333 },
};

static void test_cut_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cut_cases); i++) {
        check_mode(&cut_cases[i], &modes[0]);
        check_mode(&cut_cases[i], &modes[1]);
    }
}

/* ---- Equal bits --------------------------------------------------------- */

/* Runs all phases with `isa` on one thread and with `other` on `n_threads`
 * threads, and compares the bits. */
static void check_same(const struct op_spec *spec, const struct mode *mode,
                       enum vp_isa isa, enum vp_isa other, int n_threads)
{
    struct one_op twin[2];
    struct mirror m[2];

    for (int i = 0; i < 2; i++) {
        assert_true(vp_cpu_force_isa(i == 0 ? isa : other));
        twin_init(&twin[i], spec, mode);
        mirror_init(&m[i], &twin[i], &vp_cpu_fast, pools[i ? n_threads : 1]);
        mirror_run(&m[i], &vp_cpu_fast, ALL_PHASES);
    }
    assert_int_equal(m[0].n, m[1].n);
    for (int i = 0; i < m[0].n; i++)
        if (memcmp(m[0].at[i].data, m[1].at[i].data,
                   (size_t)(m[0].at[i].n * vp_dtype_bytes(m[0].at[i].dtype))) !=
            0)
            fail_msg("%s: tensor %d: %s on 1 and %s on %d threads differ",
                     spec->name, i, vp_cpu_isa_name(isa),
                     vp_cpu_isa_name(other), n_threads);
    for (int i = 0; i < 2; i++) {
        mirror_release(&m[i]);
        one_op_release(&twin[i]);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

static bool has_isa(int isa)
{
    return vp_cpu_force_isa((enum vp_isa)isa);
}

static void test_threads(void **state)
{
    static const struct op_spec big = {
        "linear",    .kind = VP_OP_LINEAR, .batch = 2,   .q_len = 320,
        .cols = 384, .n_out = 520,         .bias = true, .act = VP_ACT_GELU_ERF,
    };

    (void)state;
    for (int isa = VP_ISA_AVX2; isa < VP_ISA_COUNT; isa++) {
        for (int n = 2; has_isa(isa) && n <= MAX_THREADS; n++) {
            check_same(&big, &modes[1], (enum vp_isa)isa, (enum vp_isa)isa, n);
            for (size_t i = 0; i < VP_COUNT_OF(cut_cases); i++)
                check_same(&cut_cases[i], &modes[1], (enum vp_isa)isa,
                           (enum vp_isa)isa, n);
        }
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* Operators without matrix products give the same bits at every vector
 * width. */
static void test_avx2_equals_avx512(void **state)
{
    (void)state;
    if (!has_isa(VP_ISA_AVX512)) {
        print_message("skipped: this machine has no AVX-512\n");
        skip();
    }
    for (size_t i = 0; i < VP_COUNT_OF(cut_cases); i++)
        if (cut_cases[i].kind != VP_OP_LINEAR &&
            cut_cases[i].kind != VP_OP_ATTENTION)
            check_same(&cut_cases[i], &modes[0], VP_ISA_AVX2, VP_ISA_AVX512, 2);
}

/* Checks that backward recomputes the output with the bits of forward. */
static void check_again(const struct op_spec *spec)
{
    struct one_op twin;
    struct mirror m;

    twin_init(&twin, spec, &modes[0]);
    mirror_init(&m, &twin, &vp_cpu_fast, pools[1]);
    mirror_run(&m, &vp_cpu_fast, PHASE_BIT(VP_PHASE_F) | PHASE_BIT(VP_PHASE_B));
    if (m.args.recomputed_out)
        assert_memory_equal(m.args.recomputed_out, m.args.out,
                            (size_t)twin.n_out * sizeof(uint16_t));
    mirror_release(&m);
    one_op_release(&twin);
}

static void test_again(void **state)
{
    (void)state;
    for (int isa = 0; isa < VP_ISA_COUNT; isa++)
        for (size_t i = 0; has_isa(isa) && i < VP_COUNT_OF(op_cases); i++)
            check_again(&op_cases[i]);
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* ---- Rounding ----------------------------------------------------------- */

/* Checks floats next to the borders between two BF16 numbers, infinities and
 * NaNs. */
static void check_rounding(const struct vp_simd *simd)
{
    enum { N = 21 };
    static const uint32_t low[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    uint16_t got[N], want[N];
    float x[N], back[N];

    for (uint32_t high = 0; high < 0x10000; high += 37) {
        for (size_t i = 0; i < N; i++) {
            uint32_t bits = (high + (uint32_t)(i / 6)) << 16 | low[i % 6];

            memcpy(&x[i], &bits, sizeof(bits));
        }
        vp_dtype_round(VP_DTYPE_BF16, want, x, N);
        for (int i = 0; i < N; i++) /* kernels treat denormals as zero */
            if (fabsf(x[i]) < FLT_MIN)
                want[i] = got[i] = 0;
        simd->put_floats(got, x, 1.0f, false, N);
        for (int i = 0; i < N; i++)
            if (fabsf(x[i]) < FLT_MIN)
                got[i] = 0;
        assert_memory_equal(got, want, sizeof(want));
        memset(back, 0, sizeof(back));
        simd->add_to_floats(back, got, 1.0f, N);
        vp_dtype_expand(VP_DTYPE_BF16, x, got, N);
        for (int i = 0; i < N; i++)
            assert_true(back[i] == x[i] || (isnan(back[i]) && isnan(x[i])));
    }
}

static void test_rounding(void **state)
{
    (void)state;
    for (int isa = 0; isa < VP_ISA_COUNT; isa++)
        if (has_isa(isa))
            check_rounding(vp_simd(VP_DTYPE_BF16));
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* ---- Matrix products ---------------------------------------------------- */

enum { GAP = 5 }; /* unused columns behind each row, which must not change */

struct product {
    struct vp_gemm gemm;
    uint16_t *a, *b;
    float *c;
    void *scratch;
};

/* Whole numbers of few bits: their products and sums are exact, so that the
 * order of sums does not matter. The gaps hold NaN. */
static uint16_t *random_bf16(int64_t rows, int64_t cols, uint32_t stream)
{
    uint16_t *x = malloc((size_t)(rows * (cols + GAP)) * sizeof(*x));

    assert_non_null(x);
    for (int64_t i = 0; i < rows * (cols + GAP); i++) {
        float value = floorf((float)(8.0 * test_number(9, stream, i)));

        if (i % (cols + GAP) >= cols)
            value = NAN;
        vp_dtype_round(VP_DTYPE_BF16, &x[i], &value, 1);
    }
    return x;
}

static void product_init(struct product *p, int64_t m, int64_t n, int64_t k,
                         int bits)
{
    struct vp_gemm *g = &p->gemm;
    bool ta = bits & 1, tb = bits & 2;

    *g = (struct vp_gemm){ .dtype = VP_DTYPE_BF16, .m = m, .n = n, .k = k };
    g->alpha = 1.0f;
    g->beta = bits & 4 ? 1.0f : 0.0f;
    p->a = random_bf16(ta ? k : m, ta ? m : k, 1);
    p->b = random_bf16(tb ? n : k, tb ? k : n, 2);
    g->a = (struct vp_factor){ p->a, (ta ? m : k) + GAP, ta };
    g->b = (struct vp_factor){ p->b, (tb ? k : n) + GAP, tb };
    g->ldc = n + GAP;
    g->c = p->c = malloc((size_t)(m * g->ldc) * sizeof(*p->c));
    assert_non_null(p->c);
    for (int64_t i = 0; i < m * g->ldc; i++)
        p->c[i] = g->beta == 0.0f ? NAN : (float)(i % 11);
    assert_int_equal(
        posix_memalign(&p->scratch, 64, vp_cpu_gemm_scratch(g, 2) + 64), 0);
    memset(p->scratch, 0xFF, vp_cpu_gemm_scratch(g, 2));
    g->scratch = p->scratch;
}

static float element(const struct vp_factor *f, int64_t i, int64_t j)
{
    const uint16_t *x = f->data;
    float value;

    vp_dtype_expand(VP_DTYPE_BF16, &value,
                    f->transposed ? x + j * f->ld + i : x + i * f->ld + j, 1);
    return value;
}

static void check_product(int64_t m, int64_t n, int64_t k, int bits, bool here)
{
    struct product p;
    const struct vp_gemm *g = &p.gemm;

    product_init(&p, m, n, k, bits);
    if (here)
        vp_cpu_gemm_here(g);
    else
        vp_cpu_gemm(pools[2], g);
    for (int64_t i = 0; i < m * g->ldc; i++) {
        int64_t row = i / g->ldc, col = i % g->ldc;
        float want = g->beta == 0.0f ? NAN : (float)(i % 11);

        if (col < n) {
            want = g->beta == 0.0f ? 0.0f : want;
            for (int64_t l = 0; l < k; l++)
                want += element(&g->a, row, l) * element(&g->b, l, col);
        }
        if (p.c[i] != want && !(isnan(p.c[i]) && isnan(want)))
            fail_msg("%s, %dx%dx%d, %d: element (%d, %d) is %g, not %g",
                     vp_cpu_isa_name(vp_cpu_isa()), (int)m, (int)n, (int)k,
                     bits, (int)row, (int)col, (double)p.c[i], (double)want);
    }
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.scratch);
}

static void test_products(void **state)
{
    (void)state;
    for (int isa = VP_ISA_AVX2; isa < VP_ISA_COUNT; isa++) {
        for (int bits = 0; has_isa(isa) && bits < 8; bits++) {
            check_product(1, 1, 1, bits, false);
            check_product(17, 130, 3, bits, false);
            check_product(130, 17, 64, bits, true);
            check_product(33, 31, 33, bits, true);
            check_product(1, 200, 100, bits, false);
            check_product(290, 70, 530, bits, false);
        }
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* The cut covers the matrix and leaves enough tiles for many threads. */
static void test_cut(void **state)
{
    static const struct {
        int64_t m, n, k, least;
    } cases[] = {
        { 2048, 768, 768, 24 },  { 1024, 4096, 1024, 32 },
        { 768, 768, 2048, 32 },  { 320, 30528, 768, 64 },
        { 30528, 768, 320, 64 }, { 1, 1, 1, 1 },
        { 64, 64, 64, 1 },       { 300, 200, 20, 2 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_gemm g = { .m = cases[i].m,
                             .n = cases[i].n,
                             .k = cases[i].k };
        struct vp_gemm_cut cut = vp_gemm_bf16_cut(&g);

        assert_true(cut.rows * cut.cols >= cases[i].least);
        assert_true(cut.rows * cut.tile_m >= g.m);
        assert_true((cut.rows - 1) * cut.tile_m < g.m);
        assert_true(cut.cols * cut.tile_n >= g.n);
        assert_true((cut.cols - 1) * cut.tile_n < g.n);
        assert_true(cut.tile_m % VP_STRIP == 0 && cut.tile_n % VP_STRIP == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_small_cases),
        cmocka_unit_test(test_forward_cases),
        cmocka_unit_test(test_cut_sizes),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_avx2_equals_avx512),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
