/* The fast CPU kernels give the same bits for any number of threads and for
 * both instruction sets, with the documented order of sums and dropout masks. */
#include "backend/cpu/dropout.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "base/pool.h"
#include "lib/cpu_pools.h"
#include "lib/kernel_compare.h"
#include "lib/one_op.h"
#include "lib/op_modes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Instruction sets above AVX-512 use its float kernels, so they are not tested
 * here. */
enum { N_ISAS = VP_ISA_AVX512 + 1 };

/* A tolerance for compare(): the bits must be equal. */
#define EXACT_BITS (-1.0)

/* ---- Equal bits --------------------------------------------------------- */

/* Every operator, large enough for several tasks. */
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

/* Sums over rows have a fixed order for any number of threads: the rows are
 * summed in chunks of 32 (up to 1024 rows), in groups of four with `fours`,
 * otherwise one by one from 0. The sums of the chunks are added in groups of
 * four. */
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

/* The forced instruction set does not change oneDNN's matrix products, so any
 * difference comes from our own kernels. */
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

/* Returns true if element `byte` of the group with counter (c0, c1, sample) is
 * kept. */
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

/* The slice of member 1 begins at a column that is no multiple of 16, and is
 * longer than the part of a mask that is generated at once. */
static void test_dropout_of_slices(void **state)
{
    static const struct op_spec spec = { "dropout",    .kind = VP_OP_DROPOUT,
                                         .batch = 1,   .q_len = 2,
                                         .cols = 4100, .p = 0.3f };
    const struct vp_members members = { .n = 2, .me = 1 };
    const struct vp_cpu_kernels *kernels[] = { &vp_cpu_fast, &vp_cpu_ref_f32 };
    struct one_op t[2];
    vp_val out;

    (void)state;
    for (int i = 0; i < 2; i++) {
        one_op_init(&t[i], &spec, kernels[i], sizeof(float), 3, pools[1]);
        out = t[i].plain.ops[0].out;
        t[i].plain.values[out].spread = VP_SPREAD_COLS;
        t[i].args.members = &members;
        assert_true(one_op_run(&t[i], VP_PHASE_F));
    }
    for (int64_t i = 0; i < 2 * 4100; i++) /* 0 and -0 are equal */
        assert_true(one_op_get(&t[0], t[0].args.out, i) ==
                    one_op_get(&t[1], t[1].args.out, i));
    for (int i = 0; i < 2; i++)
        one_op_release(&t[i]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_avx2_equals_avx512),
        cmocka_unit_test(test_keep_bits),
        cmocka_unit_test(test_dropout_key),
        cmocka_unit_test(test_dropout_of_slices),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
