#include "yardstick.h"

#include "base/clock.h"
#include "base/memory.h"
#include "graph/opdef.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHAPES = 64, WARM = 1, TIMES = 2 };

/* c [m, n] = a b; row-major, a [k, m] or b [n, k] where transposed. */
struct shape {
    int64_t m, n, k;
    bool trans_a, trans_b;
    int count;
};

struct yardstick {
    struct shape shapes[MAX_SHAPES];
    int n_shapes;
    int64_t n_a, n_b, n_c; /* elements of the largest */
    float *a, *b, *c;
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

/* Small whole numbers: no denormals, no infinities. */
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

struct yardstick *yardstick_open(const struct vp_graph *graph)
{
    struct yardstick *y = calloc(1, sizeof(*y));

    if (!y)
        die("out of memory");
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
    return y;
}

void yardstick_close(struct yardstick *y)
{
    vp_pages_free(y->a, (size_t)y->n_a * sizeof(float));
    vp_pages_free(y->b, (size_t)y->n_b * sizeof(float));
    vp_pages_free(y->c, (size_t)y->n_c * sizeof(float));
    free(y);
}

static void multiply(const struct yardstick *y, const struct shape *s)
{
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
            multiply(y, s);
        start = vp_clock_ns();
        for (int j = 0; j < TIMES; j++)
            multiply(y, s);
        seconds += s->count * vp_clock_seconds(start, vp_clock_ns()) / TIMES;
        flops += s->count * work;
    }
    omp_set_num_threads(1);
    return flops / seconds;
}
