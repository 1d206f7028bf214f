/* The fast CPU kernels against their plain-C twins: every operator, odd sizes,
 * every instruction set the machine has; and the same bits for any number of
 * threads. */
#define _POSIX_C_SOURCE 200809L
#include "backend/cpu/dropout.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "base/pool.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/cpu_pools.h"
#include "lib/one_op.h"
#include "lib/op_cases.h"
#include "lib/op_modes.h"

/* What is above computes floats with the last of these. */
enum { N_ISAS = VP_ISA_AVX512 + 1 };
static const char *const isa_names[N_ISAS] = { "plain", "AVX2", "AVX-512" };

/* ---- One operator, fast and slow ---------------------------------------- */

/* The largest |a - b| over the largest |b|, or over 1 where b is smaller:
 * inputs are of size 1, and where the true result is 0 (the gradient of a
 * softmax over one key) only its noise could be compared. */
static double distance(const struct written *a, const struct written *b)
{
    const float *x = a->data, *y = b->data;
    double diff = 0, size = 1;

    for (int64_t i = 0; i < b->n; i++) {
        double one = fabs((double)x[i] - (double)y[i]);

        if (!isfinite(x[i]) || !isfinite(y[i]))
            return INFINITY;
        if (b->apart)
            diff = fmax(diff, one / fmax(1.0, fabs((double)y[i])));
        else
            size = fmax(size, fabs((double)y[i]));
        diff = b->apart ? diff : fmax(diff, one);
    }
    return diff / size;
}

/* Tolerances by operator. 0: the operator is a plain float sequence, or adds
 * in the order of the rows, and its bits are defined. Others differ from the
 * twin, which sums in double, by the rounding of float sums of up to n terms,
 * about sqrt(n) * 6e-8, and of exp and erf, 2e-7. */
static double tolerance_of(const struct op_spec *spec)
{
    switch (spec->kind) {
    case VP_OP_LINEAR:
        return 2e-6; /* n <= 1100 */
    case VP_OP_LAYERNORM:
        return 2e-6; /* 1/std enlarges the rounding of x - mean */
    case VP_OP_ATTENTION:
    case VP_OP_CACHED_ATTENTION:
    case VP_OP_CACHED_CROSS_ATTENTION:
        return 2e-6; /* two sums and exp one after the other */
    case VP_OP_CROSS_ENTROPY:
        return 3e-7; /* sums of exp go to double every 1024 terms */
    default:
        return 0;
    }
}

/* How far a tensor may be from its twin; EXACT_BITS: not at all. */
#define EXACT_BITS (-1.0)

static void compare(const struct one_op *x, const struct one_op *y,
                    unsigned phases, double tolerance, const char *how)
{
    struct written a[MAX_WRITTEN], b[MAX_WRITTEN];
    const struct op_spec *s = &x->spec;
    int n = written_by(x, phases, a);

    assert_int_equal(written_by(y, phases, b), n);
    for (int i = 0; i < n; i++) {
        double far = distance(&a[i], &b[i]);

        if (far <= tolerance ||
            memcmp(a[i].data, b[i].data, (size_t)b[i].n * sizeof(float)) == 0)
            continue;
        fail_msg("%s, %s: %s is off by %g (batch %d q_len %d k_len %d cols %d "
                 "n_out %d heads %d act %d causal %d mask %d p %g)",
                 s->name, how, a[i].name, far, (int)s->batch, (int)s->q_len,
                 (int)s->k_len, (int)s->cols, (int)s->n_out, s->heads,
                 (int)s->act, s->causal, s->mask, (double)s->p);
    }
}

/* Backward is compared on equal terms: it reads what the twin's forward
 * saved, so the error of one does not enter the other. */
static void take_forward(struct one_op *fast, const struct one_op *twin)
{
    const struct vp_kargs *from = &twin->args;

    memcpy(fast->args.out, from->out, (size_t)fast->n_out * sizeof(float));
    for (int k = 0; k < VP_MAX_AUX; k++)
        if (from->aux[k])
            memcpy(fast->args.aux[k], from->aux[k],
                   (size_t)fast->n_aux[k] * sizeof(float));
}

static void check_mode(const struct op_spec *spec, const struct mode *mode)
{
    double tolerance = tolerance_of(spec);
    struct one_op twin, fast;
    char how[64];

    one_op_init(&twin, spec, &vp_cpu_ref_f32, sizeof(float), 3, NULL);
    prepare(&twin, mode);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++)
        one_op_run(&twin, (enum vp_phase)phase);
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        snprintf(how, sizeof(how), "%s, mode %d", isa_names[isa],
                 (int)(mode - modes));
        one_op_init(&fast, spec, &vp_cpu_fast, sizeof(float), 3, pools[1]);
        prepare(&fast, mode);
        one_op_run(&fast, VP_PHASE_F);
        compare(&fast, &twin, PHASE_BIT(VP_PHASE_F), tolerance, how);
        take_forward(&fast, &twin);
        one_op_run(&fast, VP_PHASE_B);
        one_op_run(&fast, VP_PHASE_W);
        compare(&fast, &twin, PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W),
                tolerance, how);
        one_op_release(&fast);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
    one_op_release(&twin);
}

static void check(const struct op_spec *spec)
{
    for (size_t i = 0; i < VP_COUNT_OF(modes); i++)
        check_mode(spec, &modes[i]);
}

/* ---- Against the twins -------------------------------------------------- */

static const int64_t sizes[] = { 1, 3, 17, 64, 100, 128, 130 };

static void test_small_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++)
        check(&op_cases[i]);
    for (size_t i = 0; i < VP_COUNT_OF(forward_cases); i++)
        check(&forward_cases[i]);
}

static void check_again(const struct op_spec *spec,
                        const struct vp_cpu_kernels *kernels)
{
    struct one_op t;

    one_op_init(&t, spec, kernels, sizeof(float), 3, pools[1]);
    one_op_run(&t, VP_PHASE_F);
    one_op_run(&t, VP_PHASE_B);
    if (t.args.recomputed_out)
        assert_memory_equal(t.args.recomputed_out, t.args.out,
                            (size_t)t.n_out * sizeof(float));
    one_op_release(&t);
}

/* What backward makes again has the bits that forward wrote. */
static void test_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++) {
        check_again(&op_cases[i], &vp_cpu_ref_f32);
        for (int isa = 0; isa < N_ISAS; isa++)
            if (vp_cpu_force_isa((enum vp_isa)isa))
                check_again(&op_cases[i], &vp_cpu_fast);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* Rows and columns of every size for the operators that take them. */
static void test_sizes(void **state)
{
    static const struct op_spec kinds[] = {
        { "layernorm", .kind = VP_OP_LAYERNORM },
        { "dropout", .kind = VP_OP_DROPOUT, .p = 0.1f },
        { "add", .kind = VP_OP_ADD },
        { "scale", .kind = VP_OP_SCALE, .scale = 0.3f },
        { "copy", .kind = VP_OP_COPY },
        { "gather", .kind = VP_OP_GATHER, .n_out = 37 },
        { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .smoothing = 0.1f },
        { "embed", .kind = VP_OP_EMBED, .n_out = 75, .scale = 1.7f,
          .positions = true, .types = true, .pad = true },
    };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
        for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
            for (size_t j = 0; j < VP_COUNT_OF(sizes); j++) {
                struct op_spec spec = kinds[k];

                spec.batch = sizes[i] % 2 == 0 ? 2 : 1;
                spec.q_len = sizes[i] / spec.batch;
                spec.cols = sizes[j];
                check(&spec);
            }
        }
    }
}

/* Evaluation: logits that are whole numbers, so that many are equal. */
static void start_ranks(struct one_op *t, const struct op_spec *spec,
                        const struct vp_cpu_kernels *kernels)
{
    one_op_init(t, spec, kernels, sizeof(float), 3, pools[1]);
    t->mb.train = false;
    for (int64_t i = 0; i < t->n_in[0]; i++)
        one_op_set(t, t->args.in[0], i,
                   floor(4.0 * one_op_get(t, t->args.in[0], i)));
    one_op_run(t, VP_PHASE_F);
}

static void test_ranks(void **state)
{
    struct op_spec spec = { "ranks", .kind = VP_OP_CROSS_ENTROPY, .batch = 1,
                            .q_len = 64, .weights = true };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        struct one_op fast, twin;

        spec.cols = sizes[i];
        start_ranks(&fast, &spec, &vp_cpu_fast);
        start_ranks(&twin, &spec, &vp_cpu_ref_f32);
        for (int k = 0; k < 64; k++)
            assert_true(one_op_get(&fast, fast.args.aux[0], 2 * k) ==
                        one_op_get(&twin, twin.args.aux[0], 2 * k));
        for (int k = VP_LOSS_WEIGHT; k < VP_LOSS_COLS; k++)
            assert_true(one_op_get(&fast, fast.args.out, k) ==
                        one_op_get(&twin, twin.args.out, k));
        one_op_release(&fast);
        one_op_release(&twin);
    }
}

static void test_linear_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        for (size_t j = 0; j < VP_COUNT_OF(sizes); j++) {
            for (size_t k = 0; k < VP_COUNT_OF(sizes); k++) {
                struct op_spec spec = {
                    "linear",           .kind = VP_OP_LINEAR,
                    .batch = 1,         .q_len = sizes[i],
                    .n_out = sizes[j],  .cols = sizes[k],
                    .bias = i % 2 == 0, .act = (enum vp_act)((i + j + k) % 4),
                };

                check_mode(&spec, &modes[(i + j + k) % VP_COUNT_OF(modes)]);
            }
        }
    }
}

static void test_attention_sizes(void **state)
{
    static const struct {
        int64_t q_len, k_len;
    } lengths[] = {
        { 1, 0 },   { 3, 0 },   { 17, 0 },   { 64, 0 },  { 100, 0 },
        { 130, 0 }, { 1, 130 }, { 130, 17 }, { 17, 64 }, { 64, 1 }
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(lengths); i++) {
        for (int bits = 0; bits < 8; bits++) {
            struct op_spec spec = {
                "attention",
                .kind = VP_OP_ATTENTION,
                .batch = 2,
                .cols = 24,
                .q_len = lengths[i].q_len,
                .k_len = lengths[i].k_len,
                .heads = 1 + (int)(i % 3),
                .causal = bits & 1 && lengths[i].k_len == 0,
                .mask = bits & 2,
                .p = bits & 4 ? 0.1f : 0.0f,
            };

            check_mode(&spec, &modes[0]);
            check_mode(&spec, &modes[1]);
            check_mode(&spec, &modes[2]);
        }
    }
}

/* Sizes that are cut: products in several tiles, sums over more rows than one
 * chunk, attention in several tiles with keys that are no multiple of 32,
 * vocabularies longer than one piece. */
static void test_cut_sizes(void **state)
{
    static const struct op_spec specs[] = {
        { "linear", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 1037,
          .cols = 100, .n_out = 203, .bias = true, .act = VP_ACT_GELU_ERF },
        { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 65, .cols = 300,
          .n_out = 421, .bias = true, .act = VP_ACT_GELU_TANH },
        { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 33, .cols = 64,
          .n_out = 1100, .bias = true, .act = VP_ACT_RELU },
        { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 270,
          .cols = 16, .heads = 2, .causal = true, .p = 0.1f },
        { "attention", .kind = VP_OP_ATTENTION, .batch = 2, .q_len = 90,
          .k_len = 1110, .cols = 8, .heads = 1, .mask = true, .p = 0.25f },
        { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .batch = 1, .q_len = 7,
          .cols = 5003, .smoothing = 0.1f },
        { "dropout", .kind = VP_OP_DROPOUT, .batch = 1, .q_len = 2,
          .cols = 4099, .p = 0.3f },
        { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 1, .q_len = 70,
          .cols = 1023 },
        { "embed", .kind = VP_OP_EMBED, .batch = 1, .q_len = 50, .cols = 300,
          .n_out = 150, .scale = 1.0f, .positions = true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(specs); i++) {
        check_mode(&specs[i], &modes[0]);
        check_mode(&specs[i], &modes[1]);
    }
}

/* Lowering copies integers too, for instance a mask. */
static void test_copy_ints(void **state)
{
    static const struct op_spec spec = { "copy", .kind = VP_OP_COPY, .batch = 3,
                                         .q_len = 11, .cols = 1 };
    struct one_op t;

    (void)state;
    one_op_init(&t, &spec, &vp_cpu_fast, sizeof(float), 3, pools[1]);
    t.plain.values[t.args.op->in[0]].dtype = VP_DTYPE_I32;
    for (int32_t i = 0; i < 33; i++)
        ((int32_t *)t.args.in[0])[i] = i * 77777 - 1000000;
    one_op_run(&t, VP_PHASE_F);
    assert_memory_equal(t.args.out, t.args.in[0], 33 * sizeof(int32_t));
    one_op_release(&t);
}

/* ---- The same bits ------------------------------------------------------ */

/* Every operator with work for several tasks. */
static const struct op_spec big_cases[] = {
    { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 320, .cols = 384,
      .n_out = 520, .bias = true, .act = VP_ACT_GELU_ERF },
    { "linear", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 1, .cols = 768,
      .n_out = 2304, .bias = true },
    { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 2, .q_len = 100,
      .cols = 500 },
    { "attention", .kind = VP_OP_ATTENTION, .batch = 3, .q_len = 130,
      .cols = 96, .heads = 3, .mask = true, .p = 0.1f },
    { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 200,
      .cols = 96, .heads = 3, .causal = true, .p = 0.1f },
    { "dropout", .kind = VP_OP_DROPOUT, .batch = 2, .q_len = 100, .cols = 500,
      .p = 0.1f },
    { "add", .kind = VP_OP_ADD, .batch = 2, .q_len = 100, .cols = 500 },
    { "scale", .kind = VP_OP_SCALE, .batch = 2, .q_len = 100, .cols = 500,
      .scale = 3.0f },
    { "copy", .kind = VP_OP_COPY, .batch = 2, .q_len = 100, .cols = 500 },
    { "gather", .kind = VP_OP_GATHER, .batch = 2, .q_len = 100, .cols = 500,
      .n_out = 300 },
    { "embed", .kind = VP_OP_EMBED, .batch = 2, .q_len = 150, .cols = 300,
      .n_out = 500, .scale = 1.3f, .positions = true, .types = true,
      .pad = true },
    { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .batch = 2, .q_len = 30,
      .cols = 3000, .smoothing = 0.1f },
    { "linear, few rows", .kind = VP_OP_LINEAR, .batch = 5, .q_len = 1,
      .cols = 384, .n_out = 1520, .bias = true, .act = VP_ACT_GELU_ERF,
      .cache = true },
    { "cached attention", .kind = VP_OP_CACHED_ATTENTION, .batch = 3,
      .q_len = 40, .k_len = 300, .n_lines = 4, .cols = 96, .heads = 3,
      .cache = true },
};

static void run_big(struct one_op *t, const struct op_spec *spec,
                    const struct mode *mode, struct vp_pool *pool)
{
    one_op_init(t, spec, &vp_cpu_fast, sizeof(float), 3, pool);
    prepare(t, mode);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++)
        one_op_run(t, (enum vp_phase)phase);
}

static void test_threads(void **state)
{
    struct one_op one, many;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(big_cases); i++) {
        for (size_t m = 0; m < 2; m++) {
            run_big(&one, &big_cases[i], &modes[m], pools[1]);
            for (int n = 2; n <= MAX_THREADS; n++) {
                run_big(&many, &big_cases[i], &modes[m], pools[n]);
                compare(&many, &one, ALL_PHASES, EXACT_BITS, "threads");
                one_op_release(&many);
            }
            one_op_release(&one);
        }
    }
}

/* The order of sums over rows: chunks of 32 rows up to 1024 rows, whatever the
 * bands; fours of rows where `fours` says so, else row by row from 0. The
 * chunks' sums are added in fours. */
static float sum_fours(const float *x, int64_t n, int64_t step)
{
    float sum = 0;

    for (int64_t i = 0; i < n; i += 4) {
        float a = x[i * step], b = 0;

        a = n - i > 1 ? a + x[(i + 1) * step] : a;
        b = n - i > 2 ? x[(i + 2) * step] : b;
        b = n - i > 3 ? b + x[(i + 3) * step] : b;
        sum = i > 0 ? sum + (a + b) : a + b;
    }
    return sum;
}

static float sum_column(const float *x, int64_t rows, int64_t cols, bool fours)
{
    float sums[32] = { 0 };
    int64_t n_chunks = (rows + 31) / 32;

    assert_true(n_chunks <= 32);
    for (int64_t k = 0; k < n_chunks; k++) {
        const float *chunk = x + 32 * k * cols;
        int64_t n = rows - 32 * k < 32 ? rows - 32 * k : 32;

        if (fours)
            sums[k] = sum_fours(chunk, n, cols);
        for (int64_t i = 0; !fours && i < n; i++)
            sums[k] += chunk[i * cols];
    }
    return sum_fours(sums, n_chunks, 1);
}

static void test_sums(void **state)
{
    static const int64_t rows[] = { 1, 5, 32, 33, 70, 159, 258 };
    static const int64_t cols[] = { 3, 120, 700, 1501, 5000 };
    struct op_spec spec = { .batch = 1, .bias = true };
    struct one_op t;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(rows); i++) {
        for (size_t j = 0; j < 2 * VP_COUNT_OF(cols); j++) {
            bool linear = j % 2;
            int64_t n = cols[j / 2];
            const float *sums;

            spec.kind = linear ? VP_OP_LINEAR : VP_OP_LAYERNORM;
            spec.q_len = rows[i];
            spec.cols = linear ? 1 : n;
            spec.n_out = n;
            run_big(&t, &spec, &modes[0], pools[1 + j % MAX_THREADS]);
            sums = t.args.dpar[1];
            for (int64_t k = 0; k < n; k++)
                assert_true(sums[k] ==
                            sum_column((const float *)t.args.dout + k, rows[i],
                                       n, linear));
            one_op_release(&t);
        }
    }
}

/* oneDNN's products do not change with the forced set, so whatever differs
 * is ours. */
static void test_avx2_equals_avx512(void **state)
{
    struct one_op a, b;

    (void)state;
    if (!vp_cpu_force_isa(VP_ISA_AVX512)) {
        print_message("skipped: this machine has no AVX-512\n");
        skip();
    }
    for (size_t i = 0; i < VP_COUNT_OF(big_cases); i++) {
        vp_cpu_force_isa(VP_ISA_AVX512);
        run_big(&a, &big_cases[i], &modes[0], pools[1]);
        vp_cpu_force_isa(VP_ISA_AVX2);
        run_big(&b, &big_cases[i], &modes[0], pools[1]);
        compare(&b, &a, ALL_PHASES, EXACT_BITS, "AVX2 for AVX-512");
        one_op_release(&a);
        one_op_release(&b);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* ---- Dropout bits, from note [dropout] ---------------------------------- */

/* Element `byte` of the group with counter (c0, c1, sample). */
static bool kept(const struct vp_dropout *d, uint64_t sample, uint32_t c0,
                 uint32_t c1, int byte)
{
    struct vp_rng4 x = { { c0, c1, (uint32_t)sample,
                           (uint32_t)(sample >> 32) } };

    return vp_rng_byte(vp_philox(x, d->k0, d->k1), byte) >= d->threshold;
}

static void check_keep_row(const struct vp_simd *simd,
                           const struct vp_dropout *d, uint64_t sample,
                           uint32_t t, uint32_t first, int64_t n)
{
    vp_bits16 keep[48];

    memset(keep, 0xA5, sizeof(keep));
    simd->keep_row(keep, d, sample, t, first, n);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 16; b++)
            assert_int_equal(keep[i] >> b & 1,
                             kept(d, sample, first + (uint32_t)i, t, b));
    assert_int_equal(keep[(n + 7) / 8 * 8], 0xA5A5);
}

static void check_keep_tile(const struct vp_simd *simd,
                            const struct vp_dropout *d, uint64_t sample,
                            int head, uint32_t q16, int64_t n_k32)
{
    enum { LD = 9 };
    vp_bits16 keep[16 * LD];

    memset(keep, 0xA5, sizeof(keep));
    simd->keep_tile(keep, LD, d, sample, head, q16, n_k32);
    for (uint32_t q = 0; q < 16; q++) {
        for (uint32_t k = 0; k < 32 * n_k32; k++) {
            uint32_t a = q / 8, g = q % 8;
            uint32_t j = k % 32 / 8, c = k % 8 / 2, b = k % 2;

            assert_int_equal(keep[q * LD + k / 16] >> k % 16 & 1,
                             kept(d, sample, q16 << 16 | k / 32,
                                  (uint32_t)head << 8 | g << 2 | c,
                                  (int)(8 * a + 2 * j + b)));
        }
        assert_int_equal(keep[q * LD + 2 * n_k32], 0xA5A5);
    }
}

static void test_keep_bits(void **state)
{
    static const uint32_t thresholds[] = { 1, 26, 128, 255 };

    (void)state;
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        for (size_t i = 0; i < VP_COUNT_OF(thresholds); i++) {
            struct vp_dropout d = { .k0 = 0x12345678u, .k1 = 0x02000007u };

            d.threshold = thresholds[i];
            for (int64_t n = 1; n <= 40; n += 13) {
                check_keep_row(vp_simd(VP_DTYPE_F32), &d, 3, 5, 0, n);
                check_keep_row(vp_simd(VP_DTYPE_F32), &d, 0x123456789ABCull,
                               4095, 256, n);
            }
            check_keep_tile(vp_simd(VP_DTYPE_F32), &d, 3, 0, 0, 1);
            check_keep_tile(vp_simd(VP_DTYPE_F32), &d, 0xFEDCBA9876543ull, 15,
                            300, 4);
        }
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* The key of a kernel's dropout is the one that vp_rng() uses. */
static void test_dropout_key(void **state)
{
    static const struct op_spec spec = { "dropout",  .kind = VP_OP_DROPOUT,
                                         .batch = 1, .q_len = 1,
                                         .cols = 16, .p = 0.5f };
    struct vp_dropout d = { 0 };
    struct one_op t;

    (void)state;
    one_op_init(&t, &spec, &vp_cpu_fast, sizeof(float), 3, pools[1]);
    t.mb.seed = 0xDEADBEEF12345678ull;
    t.graph.ops[0].stream = 4321;
    assert_true(vp_dropout_init(&t.args, &d));
    for (int i = 0; i < 16; i++) {
        struct vp_rng4 r = vp_rng(t.mb.seed, VP_RNG_DROPOUT, 4321, 7, 9, 11);

        assert_int_equal(kept(&d, 11, 7, 9, i), vp_rng_byte(r, i) >= 128);
    }
    t.mb.train = false;
    assert_false(vp_dropout_init(&t.args, &d));
    one_op_release(&t);
}

/* ---- Functions ---------------------------------------------------------- */

static double slow_act(enum vp_act act, double z)
{
    double c = sqrt(2 / acos(-1.0));

    if (act == VP_ACT_GELU_ERF)
        return 0.5 * z * erfc(-z * sqrt(0.5));
    return 0.5 * z * (1 + tanh(c * (z + 0.044715 * z * z * z)));
}

static double slow_slope(enum vp_act act, double z)
{
    double h = 1e-5;

    return (slow_act(act, z + h) - slow_act(act, z - h)) / (2 * h);
}

/* exp over all it is used for, and both GELUs with their slopes. */
static void check_functions(const struct vp_simd *simd)
{
    enum { N = 20001 };
    static float x[N], y[N], one[N];

    for (int i = 0; i < N; i++) {
        x[i] = -87.3f + (float)i * (88.0f / (N - 1));
        one[i] = 1.0f;
    }
    simd->exp_minus(y, x, 0.0f, 0.0f, 1.0f, false, N);
    for (int i = 0; i < N; i++)
        if (fabs((double)y[i] / exp((double)x[i]) - 1) > 1.5e-7)
            fail_msg("%s: exp(%g) = %g", simd->name, (double)x[i],
                     (double)y[i]);
    for (int i = 0; i < N; i++)
        x[i] = -12.0f + (float)i * (24.0f / (N - 1));
    for (int act = VP_ACT_GELU_ERF; act <= VP_ACT_GELU_TANH; act++) {
        simd->act(y, x, (enum vp_act)act, N);
        for (int i = 0; i < N; i++) {
            double far = fabs((double)y[i] - slow_act((enum vp_act)act, x[i]));

            if (far > 2e-7 * fmax(fabs((double)x[i]), 1e-30))
                fail_msg("%s: act %d of %g is off by %g", simd->name, act,
                         (double)x[i], far);
        }
        simd->act_grad(y, one, x, (enum vp_act)act, N);
        for (int i = 0; i < N; i++) {
            double far = fabs((double)y[i] -
                              slow_slope((enum vp_act)act, x[i]));

            if (far > 4e-7)
                fail_msg("%s: slope %d of %g is off by %g", simd->name, act,
                         (double)x[i], far);
        }
    }
}

/* Nothing turns a NaN into a number, and large inputs stay finite. */
static void check_extremes(const struct vp_simd *simd)
{
    static const float inputs[] = { NAN, 1e20f, -1e20f, -200.0f, 0.0f };
    static const float acts[] = { NAN, 1e20f, 0.0f, 0.0f, 0.0f };
    static const float exps[] = { NAN, 1.65e38f, 0.0f, 0.0f, 1.0f };
    float y[5];

    for (int act = VP_ACT_RELU; act <= VP_ACT_GELU_TANH; act++) {
        simd->act(y, inputs, (enum vp_act)act, 5);
        assert_true(isnan(y[0]));
        for (int i = 1; i < 5; i++)
            assert_true(fabsf(y[i] - acts[i]) <= 1e-30f * fabsf(inputs[i]));
    }
    simd->exp_minus(y, inputs, 0.0f, 0.0f, 1.0f, false, 5);
    assert_true(isnan(y[0]));
    for (int i = 1; i < 5; i++)
        assert_true(fabsf(y[i] - exps[i]) <= 0.01f * exps[i]);
}

/* A NaN among the scores must reach the sum, also if there is nothing else. */
static void check_softmax_nan(const struct vp_simd *simd)
{
    static const vp_bits16 allow[2] = { 0xFFFF, 0xFFFF };

    for (int i = 0; i <= 32; i++) {
        float row[32], sum;

        for (int j = 0; j < 32; j++)
            row[j] = i == j || i == 32 ? NAN : 0.0f;
        simd->softmax(row, 1.0f, allow, NULL, 32, 32, &sum);
        assert_true(isnan(sum));
    }
}

static void test_functions(void **state)
{
    (void)state;
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        check_functions(vp_simd(VP_DTYPE_F32));
        check_extremes(vp_simd(VP_DTYPE_F32));
        check_softmax_nan(vp_simd(VP_DTYPE_F32));
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* ---- Products ----------------------------------------------------------- */

enum { GAP = 5 }; /* columns behind each row that must stay as they are */

struct product {
    struct vp_gemm gemm;
    float *a, *b, *c;
};

static float *random_floats(int64_t n, uint32_t stream)
{
    float *x = malloc((size_t)n * sizeof(*x));

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)test_number(9, stream, i);
    return x;
}

static void product_init(struct product *p, int64_t m, int64_t n, int64_t k,
                         int bits)
{
    struct vp_gemm *g = &p->gemm;

    *g = (struct vp_gemm){ .m = m, .n = n, .k = k };
    g->alpha = bits & 4 ? 0.5f : 1.0f;
    g->beta = bits & 8 ? 1.0f : 0.0f;
    g->a.transposed = bits & 1;
    g->b.transposed = bits & 2;
    g->a.ld = (g->a.transposed ? m : k) + GAP;
    g->b.ld = (g->b.transposed ? k : n) + GAP;
    g->ldc = n + GAP;
    g->a.data = p->a = random_floats((g->a.transposed ? k : m) * g->a.ld, 1);
    g->b.data = p->b = random_floats((g->b.transposed ? n : k) * g->b.ld, 2);
    g->c = p->c = random_floats(m * g->ldc, 3);
    if (g->beta == 0.0f)
        memset(p->c, 0xFF, (size_t)(m * g->ldc) * sizeof(*p->c));
}

static void product_release(struct product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
}

static double at(const struct vp_factor *f, int64_t i, int64_t j)
{
    const float *x = f->data;

    return f->transposed ? x[j * f->ld + i] : x[i * f->ld + j];
}

/* Element (i, j) from its definition; `old` was there before. */
static double product_element(const struct vp_gemm *g, int64_t i, int64_t j,
                              double old)
{
    double sum = 0;

    for (int64_t l = 0; l < g->k; l++)
        sum += at(&g->a, i, l) * at(&g->b, l, j);
    return (double)g->alpha * sum + (g->beta == 0.0f ? 0.0 : old);
}

static void check_product(int64_t m, int64_t n, int64_t k, int bits)
{
    struct product p, before;
    const struct vp_gemm *g = &p.gemm;

    product_init(&p, m, n, k, bits);
    product_init(&before, m, n, k, bits);
    vp_cpu_gemm(pools[2], g);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double want = product_element(g, i, j, before.c[i * g->ldc + j]);

            if (!(fabs((double)p.c[i * g->ldc + j] - want) <=
                  2e-6 * sqrt((double)k)))
                fail_msg("%dx%dx%d, %d: element (%d, %d) is %g, not %g", (int)m,
                         (int)n, (int)k, bits, (int)i, (int)j,
                         (double)p.c[i * g->ldc + j], want);
        }
        assert_memory_equal(p.c + i * g->ldc + n, before.c + i * g->ldc + n,
                            GAP * sizeof(float));
    }
    product_release(&before);
    product_release(&p);
}

static void test_products(void **state)
{
    (void)state;
    for (int bits = 0; bits < 16; bits++) {
        check_product(1, 1, 1, bits);
        check_product(17, 130, 3, bits);
        check_product(130, 17, 64, bits);
        check_product(1, 200, 100, bits);
        check_product(290, 200, 130, bits);
    }
    check_product(600, 500, 64, 2);
}

/* The cut covers the matrix, in tiles that are equal but for the last ones,
 * and leaves enough of them for many threads where there is enough work. */
static void test_cut(void **state)
{
    static const struct {
        int64_t m, n, k;
        bool trans_b;
        int64_t least;
    } cases[] = {
        { 2048, 768, 768, true, 8 },    { 2048, 3072, 768, true, 16 },
        { 2048, 768, 3072, false, 16 }, { 768, 768, 2048, false, 16 },
        { 320, 30528, 768, true, 64 },  { 30528, 768, 320, false, 64 },
        { 512, 8192, 2048, true, 16 },  { 512, 384, 128, true, 2 },
        { 1, 1, 1, false, 1 },          { 64, 64, 64, false, 1 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_gemm g = { .m = cases[i].m,
                             .n = cases[i].n,
                             .k = cases[i].k,
                             .b.transposed = cases[i].trans_b };
        struct vp_gemm_cut cut = vp_gemm_cut(&g);

        assert_true(cut.rows * cut.cols >= cases[i].least);
        assert_true(cut.rows * cut.tile_m >= g.m);
        assert_true((cut.rows - 1) * cut.tile_m < g.m);
        assert_true(cut.cols * cut.tile_n >= g.n);
        assert_true((cut.cols - 1) * cut.tile_n < g.n);
        assert_true(cut.tile_m <= 512 && cut.tile_n <= 384);
    }
}

/* ---- Threads ------------------------------------------------------------ */

int omp_get_max_threads(void); /* <omp.h> stays with the kernels */

static void look_at_thread(void *ctx, int task, int thread)
{
    static const uint32_t tiny_bits = 1;
    volatile float smallest = FLT_MIN, quarter = smallest / 4.0f, tiny;
    float x = quarter;
    uint32_t bits;
    bool *good = ctx;

    (void)thread;
    memcpy(&bits, &x, sizeof(bits));
    memcpy(&x, &tiny_bits, sizeof(x));
    tiny = x;
    good[task] = omp_get_max_threads() == 1 && bits == 0 &&
                 tiny * 1e30f == 0.0f;
}

/* Every thread runs oneDNN alone and takes denormals for zero. */
static void test_thread_setup(void **state)
{
    enum { N = 1000 };
    bool good[N] = { false };

    (void)state;
    vp_pool_run(pools[MAX_THREADS], N, look_at_thread, good);
    for (int i = 0; i < N; i++)
        assert_true(good[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_cases),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_linear_sizes),
        cmocka_unit_test(test_attention_sizes),
        cmocka_unit_test(test_cut_sizes),
        cmocka_unit_test(test_copy_ints),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_avx2_equals_avx512),
        cmocka_unit_test(test_keep_bits),
        cmocka_unit_test(test_dropout_key),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_thread_setup),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
