/* Parts of the fast CPU kernels: activation functions and softmax are accurate,
 * matrix products are right however they are cut, and threads are set up. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "base/pool.h"
#include "lib/cpu_pools.h"
#include "lib/kernel_compare.h"
#include "lib/one_op.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Instruction sets above AVX-512 use its float kernels, so they are not tested
 * here. */
enum { N_ISAS = VP_ISA_AVX512 + 1 };

/* ---- Exponential, activations and softmax ------------------------------- */

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

/* Checks exp over its whole range of use, and both GELUs with their slopes. */
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

/* A NaN stays a NaN, and large inputs give finite results. */
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

/* A NaN among the scores must reach the sum, also if all scores are NaN. */
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

/* ---- Matrix products ---------------------------------------------------- */

enum { GAP = 5 }; /* unused columns behind each row, which must not change */

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

/* Returns element (i, j) by its definition; `old` is its previous value. */
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

/* The cut covers the matrix with tiles of equal size, except for the last ones,
 * and makes enough tiles for many threads where there is enough work. */
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

int omp_get_max_threads(void); /* only kernels include <omp.h> */

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

/* Every thread of a pool runs oneDNN single-threaded and treats denormals as
 * zero. */
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
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_thread_setup),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
