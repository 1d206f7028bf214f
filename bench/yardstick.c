/* Runs the matrix products of a model alone and measures their rate. */
#include "yardstick.h"

#include "backend/cpu/fast.h"
#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/memory.h"
#include "graph/opdef.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHAPES = 64, WARM = 1, TIMES = 2 };

/* c [m, n] = a b, row-major; a transposed a is [k, m], a transposed b is [n,
 * k]. */
struct shape {
    int64_t m, n, k;
    bool trans_a, trans_b;
    int count;
};

struct yardstick {
    enum vp_dtype dtype;
    struct shape shapes[MAX_SHAPES];
    int n_shapes;
    int64_t n_a, n_b, n_c;    /* elements of the largest a, b and c */
    float *a, *b, *c;         /* with BF16, a and b hold BF16 numbers */
    struct vp_pool *pools[2]; /* with BF16: one thread, and two */
    void *scratch;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench: yardstick: %s\n", what);
    exit(1);
}

static void count(struct yardstick *y, struct shape shape)
{
    for (int i = 0; i < y->n_shapes; i++) {
        struct shape *s = &y->shapes[i];

        if (s->m == shape.m && s->n == shape.n && s->k == shape.k &&
            s->trans_a == shape.trans_a && s->trans_b == shape.trans_b) {
            s->count++;
            return;
        }
    }
    if (y->n_shapes == MAX_SHAPES)
        die("too many shapes");
    shape.count = 1;
    y->shapes[y->n_shapes++] = shape;
    y->n_a = y->n_a > shape.m * shape.k ? y->n_a : shape.m * shape.k;
    y->n_b = y->n_b > shape.k * shape.n ? y->n_b : shape.k * shape.n;
    y->n_c = y->n_c > shape.m * shape.n ? y->n_c : shape.m * shape.n;
}

/* Allocates an array of small whole numbers: no denormals, no infinities. */
static float *numbers(int64_t n)
{
    void *pages;
    float *x;

    if (vp_pages_alloc((size_t)n * sizeof(*x), &pages) != VP_OK)
        die("out of memory");
    x = pages;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 7919 % 31 - 15);
    return x;
}

static void setup_thread(void *ctx, int thread)
{
    (void)ctx;
    vp_cpu_thread_setup(thread);
}

/* Converts the numbers to BF16 in place, at the start of the array. */
static void shorten(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        vp_dtype_round(VP_DTYPE_BF16, (uint16_t *)x + i, &x[i], 1);
}

static struct vp_gemm product_of(const struct yardstick *y,
                                 const struct shape *s)
{
    return (struct vp_gemm){
        .dtype = VP_DTYPE_BF16,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = { y->a, s->trans_a ? s->m : s->k, s->trans_a },
        .b = { y->b, s->trans_b ? s->k : s->n, s->trans_b },
        .alpha = 1.0f,
        .c = y->c,
        .ldc = s->n,
        .scratch = y->scratch,
    };
}

static void prepare_bf16(struct yardstick *y)
{
    size_t most = 0;

    shorten(y->a, y->n_a);
    shorten(y->b, y->n_b);
    for (int i = 0; i < y->n_shapes; i++) {
        struct vp_gemm product = product_of(y, &y->shapes[i]);
        size_t n = vp_cpu_gemm_scratch(&product, 2);

        most = n > most ? n : most;
    }
    y->scratch = malloc(most);
    for (int t = 0; t < 2; t++)
        if (!y->scratch ||
            vp_pool_create(t + 1, setup_thread, NULL, &y->pools[t]) != VP_OK)
            die("out of memory");
}

struct yardstick *yardstick_open(const struct vp_graph *graph)
{
    struct yardstick *y = calloc(1, sizeof(*y));

    if (!y)
        die("out of memory");
    y->dtype = graph->dtype;
    for (int i = 0; i < graph->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];
        int64_t rows, in, out;

        if (op->kind != VP_OP_LINEAR)
            continue;
        rows = graph->values[op->in[0]].rows;
        in = graph->values[op->in[0]].cols;
        out = graph->values[op->out].cols;
        count(y, (struct shape){ rows, out, in, false, true, 0 });
        count(y, (struct shape){ rows, in, out, false, false, 0 });
        count(y, (struct shape){ out, in, rows, true, false, 0 });
    }
    y->a = numbers(y->n_a);
    y->b = numbers(y->n_b);
    y->c = numbers(y->n_c);
    if (y->dtype == VP_DTYPE_BF16)
        prepare_bf16(y);
    return y;
}

void yardstick_close(struct yardstick *y)
{
    vp_pages_free(y->a, (size_t)y->n_a * sizeof(float));
    vp_pages_free(y->b, (size_t)y->n_b * sizeof(float));
    vp_pages_free(y->c, (size_t)y->n_c * sizeof(float));
    for (int t = 0; t < 2; t++)
        if (y->pools[t])
            vp_pool_free(y->pools[t]);
    free(y->scratch);
    free(y);
}

static void multiply(const struct yardstick *y, const struct shape *s,
                     int n_threads)
{
    if (y->dtype == VP_DTYPE_BF16) {
        struct vp_gemm product = product_of(y, s);

        vp_cpu_gemm(y->pools[n_threads - 1], &product);
        return;
    }
    if (dnnl_sgemm(s->trans_a ? 'T' : 'N', s->trans_b ? 'T' : 'N', s->m, s->n,
                   s->k, 1.0f, y->a, s->trans_a ? s->m : s->k, y->b,
                   s->trans_b ? s->k : s->n, 0.0f, y->c, s->n) != dnnl_success)
        die("oneDNN refused a product");
}

double yardstick_rate(struct yardstick *y, int n_threads)
{
    double flops = 0.0, seconds = 0.0;

    omp_set_num_threads(n_threads);
    for (int i = 0; i < y->n_shapes; i++) {
        const struct shape *s = &y->shapes[i];
        double work = 2.0 * (double)s->m * (double)s->n * (double)s->k;
        int64_t start;

        for (int j = 0; j < WARM; j++)
            multiply(y, s, n_threads);
        start = vp_clock_ns();
        for (int j = 0; j < TIMES; j++)
            multiply(y, s, n_threads);
        seconds += s->count * vp_clock_seconds(start, vp_clock_ns()) / TIMES;
        flops += s->count * work;
    }
    omp_set_num_threads(1);
    return flops / seconds;
}
