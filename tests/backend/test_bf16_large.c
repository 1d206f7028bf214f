/* BF16 products of more memory than the caches hold: c is written past them, b
 * is packed in several parts, and k has several chunks. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/isa.h"
#include "lib/cpu_pools.h"
#include "lib/one_op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 3 }; /* columns after each row of c, which must not change */

struct operands {
    int64_t m, n, k;
    float *a, *b, *want; /* [m, k], [n, k], [m, n] */
};

static void *allocate(int64_t n, size_t size)
{
    void *p;

    assert_int_equal(posix_memalign(&p, 64, (size_t)n * size + 64), 0);
    return p;
}

/* Small integers: sums are exact, so their order does not matter. */
static float *random_integers(int64_t n, uint32_t stream)
{
    float *x = allocate(n, sizeof(*x));

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(int)(7.0 * test_number(3, stream, i));
    return x;
}

static void operands_init(struct operands *o, int64_t m, int64_t n, int64_t k)
{
    *o = (struct operands){ m, n, k, .a = random_integers(m * k, 1),
                            .b = random_integers(n * k, 2) };
    o->want = allocate(m * n, sizeof(*o->want));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum[16] = { 0 }; /* lanes, for speed */

            for (int64_t l = 0; l < k; l++)
                sum[l % 16] += o->a[i * k + l] * o->b[j * k + l];
            for (int l = 1; l < 16; l++)
                sum[0] += sum[l];
            o->want[i * n + j] = sum[0];
        }
}

static void operands_release(struct operands *o)
{
    free(o->a);
    free(o->b);
    free(o->want);
}

/* Returns x [rows, cols] in BF16, transposed if `turn`. */
static uint16_t *narrow(const float *x, int64_t rows, int64_t cols, bool turn)
{
    uint16_t *y = allocate(rows * cols, sizeof(*y));

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            vp_dtype_round(VP_DTYPE_BF16,
                           y + (turn ? j * rows + i : i * cols + j),
                           &x[i * cols + j], 1);
    return y;
}

static float start_of(int64_t i)
{
    return (float)(i % 13);
}

static void check_c(const struct operands *o, const struct vp_gemm *g)
{
    for (int64_t i = 0; i < g->m * g->ldc; i++) {
        int64_t row = i / g->ldc, col = i % g->ldc;
        float want = start_of(i);

        if (col < g->n)
            want = o->want[row * g->n + col] + (g->beta != 0.0f ? want : 0.0f);
        if (g->c[i] != want)
            fail_msg("%s, %dx%dx%d, transposed %d %d, beta %g: element (%d, "
                     "%d) is %g, not %g",
                     vp_cpu_isa_name(vp_cpu_isa()), (int)g->m, (int)g->n,
                     (int)g->k, g->a.transposed, g->b.transposed,
                     (double)g->beta, (int)row, (int)col, (double)g->c[i],
                     (double)want);
    }
}

/* c begins `shift` floats after the start of a cache line. */
static void check(const struct operands *o, bool turn_a, bool turn_b, bool add,
                  int shift, int n_threads)
{
    uint16_t *a = narrow(o->a, o->m, o->k, turn_a);
    uint16_t *b = narrow(o->b, o->n, o->k, !turn_b);
    float *c = allocate(o->m * (o->n + GAP) + shift, sizeof(*c));
    struct vp_gemm g = {
        .dtype = VP_DTYPE_BF16,
        .m = o->m,
        .n = o->n,
        .k = o->k,
        .a = { a, turn_a ? o->m : o->k, turn_a },
        .b = { b, turn_b ? o->k : o->n, turn_b },
        .alpha = 1.0f,
        .beta = add ? 1.0f : 0.0f,
        .c = c + shift,
        .ldc = o->n + GAP,
    };

    g.scratch = allocate((int64_t)vp_cpu_gemm_scratch(&g, n_threads), 1);
    for (int64_t i = 0; i < g.m * g.ldc; i++)
        g.c[i] = start_of(i);
    vp_cpu_gemm(pools[n_threads], &g);
    check_c(o, &g);
    free(g.scratch);
    free(c);
    free(b);
    free(a);
}

static void check_all(const struct operands *o)
{
    for (int isa = VP_ISA_AVX2; isa < VP_ISA_COUNT; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        check(o, true, false, false, 0, 1); /* gradient of weights */
        check(o, true, false, true, 0, 2);
        check(o, false, true, false, 5, MAX_THREADS); /* forward */
        check(o, false, false, false, 0, 2);          /* backward */
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

static void test_large_c(void **state)
{
    struct operands o;

    (void)state;
    operands_init(&o, 1100, 1000, 70);
    check_all(&o);
    operands_release(&o);
}

/* Strips of b are packed for 256 columns at a time. */
static void test_long_sums(void **state)
{
    struct operands o;

    (void)state;
    operands_init(&o, 40, 520, 16420);
    check_all(&o);
    operands_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_c),
        cmocka_unit_test(test_long_sums),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
