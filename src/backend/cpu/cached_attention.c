/* cached_attention: causal self-attention of new positions over a cache of keys
 * and values, [n_lines, heads, 2, T, dim]. cached_cross_attention: attention to
 * a source in such a cache.
 *
 * A task is one head of one sample: it writes the keys and values of the new
 * positions, then computes query by query over all positions up to the query's
 * own. All sums are in the order of positions, so the bits depend neither on
 * the line that holds a position nor on other samples. With BF16 all
 * intermediate results are float. */
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <string.h>

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Scratch of a thread: the scores of a query, the sums of its output, then the
 * mask of softmax(), one bit per score, all set. */
size_t vp_cpu_cached_attention_scratch(const struct vp_graph *graph,
                                       const struct vp_op *op)
{
    size_t n = (size_t)round_up(op->attr.k_len, 16);
    size_t dim = (size_t)(graph->values[op->out].cols / op->attr.heads);

    return vp_align_up((n + dim) * sizeof(float) + n / 16 * sizeof(vp_bits16),
                       VP_TENSOR_ALIGN);
}

struct cached {
    const struct vp_kargs *args;
    const struct vp_attr *attr;
    const struct vp_simd *simd, *floats;
    int64_t H, T, dim;
    size_t n_scratch;
};

/* One head of one sample. */
struct head {
    const int32_t *lines; /* [T], per position; NULL: `line` for all of them */
    int64_t line;
    void *cache;      /* this head in line 0 */
    int64_t ld_line;  /* elements from one line to the next */
    float *scores;    /* [T] */
    float *sums;      /* [dim] */
    vp_bits16 *allow; /* [T / 16] */
};

/* Returns the keys from position `p` on in the line that holds it. The values
 * follow T * dim elements later. */
static void *keys_at(const struct cached *x, const struct head *head, int64_t p)
{
    int64_t line = head->lines ? head->lines[p] : head->line;

    VP_BUG_ON(p >= x->T || line < 0 || line >= x->attr->n_lines);
    return vp_elem(x->simd, head->cache, line * head->ld_line + p * x->dim);
}

/* Writes key and value of position `p` to the cache. The key begins at element
 * `at` of `from`, the value H elements later. */
static void write_row(const struct cached *x, const struct head *head,
                      const void *from, int64_t at, int64_t p)
{
    size_t n_bytes = (size_t)(x->dim * vp_dtype_bytes(x->simd->dtype));
    void *keys = keys_at(x, head, p);

    memcpy(keys, vp_elem_of(x->simd, from, at), n_bytes);
    memcpy(vp_elem(x->simd, keys, x->T * x->dim),
           vp_elem_of(x->simd, from, at + x->H), n_bytes);
}

/* Returns the end of the run of positions from `p` on that are in the same
 * line, at most `end`. */
static int64_t run_end(const struct head *head, int64_t p, int64_t end)
{
    int64_t i = p + 1;

    if (!head->lines)
        return end;
    while (i < end && head->lines[i] == head->lines[p])
        i++;
    return i;
}

/* out [dim] = softmax(scale q k^T) v over positions [0, n). */
static void attend(const struct cached *x, const struct head *head,
                   const void *q, int64_t n, void *out)
{
    float sum;

    for (int64_t p = 0, end; p < n; p = end) {
        end = run_end(head, p, n);
        x->simd->dots(head->scores + p, 1, q, x->dim, 1, keys_at(x, head, p),
                      x->dim, end - p, x->dim);
    }
    x->floats->softmax(head->scores, x->attr->scale, head->allow, NULL, n, n,
                       &sum);
    memset(head->sums, 0, (size_t)x->dim * sizeof(*head->sums));
    for (int64_t p = 0, end; p < n; p = end) {
        end = run_end(head, p, n);
        x->simd->add_weighted(
            head->sums, head->scores + p,
            vp_elem_of(x->simd, keys_at(x, head, p), x->T * x->dim), end - p,
            x->dim, x->dim);
    }
    x->simd->put_floats(out, head->sums, 1.0f / sum, false, x->dim);
}

/* Sets the pointers to the thread's part of the scratch. */
static void set_scratch(const struct cached *x, int thread, struct head *head)
{
    head->scores = (float *)((char *)x->args->scratch +
                             (size_t)thread * x->n_scratch);
    head->sums = head->scores + round_up(x->T, 16);
    head->allow = (vp_bits16 *)(head->sums + x->dim);
    memset(head->allow, 0xFF,
           (size_t)(round_up(x->T, 16) / 16) * sizeof(*head->allow));
}

/* cached_attention: rows of in0 have query, key and value. */
static void head_task(void *ctx, int task, int thread)
{
    const struct cached *x = ctx;
    int64_t sample = task / x->attr->heads, h = task % x->attr->heads;
    int64_t first = sample * x->attr->q_len, n = x->attr->q_len;
    int64_t qkv = first * 3 * x->H + h * x->dim,
            out = first * x->H + h * x->dim;
    const int32_t *at = (const int32_t *)x->args->in[1] + first;
    struct head head = {
        .lines = (const int32_t *)x->args->in[2] + sample * x->T,
        .cache = vp_elem(x->simd, x->args->aux[0], h * 2 * x->T * x->dim),
        .ld_line = 2 * x->T * x->H,
    };

    set_scratch(x, thread, &head);
    for (int64_t i = 0; i < n; i++)
        if (at[i] >= 0)
            write_row(x, &head, x->args->in[0], qkv + (3 * i + 1) * x->H,
                      at[i]);
    for (int64_t i = 0; i < n; i++) {
        void *to = vp_elem(x->simd, x->args->out, out + i * x->H);

        if (at[i] >= 0)
            attend(x, &head,
                   vp_elem_of(x->simd, x->args->in[0], qkv + 3 * i * x->H),
                   at[i] + 1, to);
        else
            memset(to, 0, (size_t)(x->dim * vp_dtype_bytes(x->simd->dtype)));
    }
}

/* cached_cross_attention: keys and values come from in1, and each query attends
 * to all keys of its source. */
static void source_task(void *ctx, int task, int thread)
{
    const struct cached *x = ctx;
    int64_t sample = task / x->attr->heads, h = task % x->attr->heads;
    int64_t first = sample * x->attr->q_len;
    int64_t n_kv = vp_arg_value(x->args, x->args->op->in[1])->rows /
                   x->attr->batch;
    const int32_t *source = (const int32_t *)x->args->in[2] + 3 * sample;
    struct head head = {
        .line = source[0],
        .cache = vp_elem(x->simd, x->args->aux[0], h * 2 * x->T * x->dim),
        .ld_line = 2 * x->T * x->H,
    };

    VP_BUG_ON(source[2] > n_kv || source[1] > x->T);
    set_scratch(x, thread, &head);
    for (int64_t p = 0; p < source[2]; p++)
        write_row(x, &head, x->args->in[1],
                  (sample * n_kv + p) * 2 * x->H + h * x->dim, p);
    for (int64_t i = 0; i < x->attr->q_len; i++) {
        int64_t at = (first + i) * x->H + h * x->dim;
        void *to = vp_elem(x->simd, x->args->out, at);

        if (source[1] > 0)
            attend(x, &head, vp_elem_of(x->simd, x->args->in[0], at), source[1],
                   to);
        else
            memset(to, 0, (size_t)(x->dim * vp_dtype_bytes(x->simd->dtype)));
    }
}

/* Computes both operators. */
void vp_cpu_cached_attention_f(const struct vp_kargs *args)
{
    bool cross = args->op->kind == VP_OP_CACHED_CROSS_ATTENTION;
    const struct vp_attr *attr = &args->op->attr;
    struct cached x = {
        .args = args,
        .attr = attr,
        .simd = vp_simd(args->graph->dtype),
        .floats = vp_simd(VP_DTYPE_F32),
        .H = vp_arg_value(args, args->op->out)->cols,
        .T = attr->k_len,
        .n_scratch = vp_cpu_cached_attention_scratch(args->graph, args->op),
    };

    x.dim = x.H / attr->heads;
    vp_pool_run(args->pool, (int)(attr->batch * attr->heads),
                cross ? source_task : head_task, &x);
}
