/* Scatter-add of rows: a counting sort by index, then sums in parallel. */
#include "backend/cpu/scatter.h"

#include "backend/cpu/simd.h"

#include <string.h>

/* Size of the part of the table that one task sums. */
enum { PART_ROWS = 64, PART_COLS = 256 };

struct job {
    const struct vp_scatter *scatter;
    const struct vp_simd *to, *from; /* for the types of dst and src */
    int32_t *end;    /* [dst_rows]: where the rows of an index end in `order` */
    int32_t *order;  /* [n]: rows sorted by index, stable */
    int64_t n_parts; /* number of parts of PART_ROWS rows */
};

size_t vp_scatter_bytes(int64_t dst_rows, int64_t n)
{
    return (size_t)(dst_rows + n) * sizeof(int32_t);
}

/* Counting sort: end[k] is first the place where the rows of index k begin, and
 * is advanced to their end as they are put in place. */
static void sort_rows(const struct job *job)
{
    const struct vp_scatter *s = job->scatter;
    int32_t begin = 0;

    memset(job->end, 0, (size_t)s->dst_rows * sizeof(*job->end));
    for (int64_t i = 0; i < s->n; i++) {
        VP_BUG_ON(s->index[i] >= s->dst_rows);
        if (s->index[i] >= 0)
            job->end[s->index[i]]++;
    }
    for (int64_t k = 0; k < s->dst_rows; k++) {
        int32_t count = job->end[k];

        job->end[k] = begin;
        begin += count;
    }
    for (int64_t i = 0; i < s->n; i++)
        if (s->index[i] >= 0)
            job->order[job->end[s->index[i]]++] = (int32_t)i;
}

/* Sums columns [col, col + cols) of one table row, from the rows at [at, end)
 * in `order`. */
static void sum_row(const struct job *job, void *dst, int64_t col, int64_t cols,
                    int32_t at, int32_t end)
{
    const struct vp_scatter *s = job->scatter;
    float sum[PART_COLS];

    if (at == end) {
        if (!s->add) /* most rows of a table of tokens */
            memset(dst, 0, (size_t)(cols * vp_dtype_bytes(s->dtype)));
        return;
    }
    if (s->add && s->dtype == VP_DTYPE_F32)
        memcpy(sum, dst, (size_t)cols * sizeof(*sum));
    else if (s->add)
        vp_dtype_expand(s->dtype, sum, dst, cols);
    else
        memset(sum, 0, sizeof(sum));
    for (; at < end; at++)
        job->from->add_to_floats(
            sum, vp_elem_of(job->from, s->src, job->order[at] * s->cols + col),
            s->scale, cols);
    job->to->put_floats(dst, sum, 1.0f, false, cols);
}

static void part_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_scatter *s = job->scatter;
    int64_t row = task % job->n_parts * PART_ROWS;
    int64_t col = task / job->n_parts * PART_COLS;
    int64_t end = row + PART_ROWS < s->dst_rows ? row + PART_ROWS : s->dst_rows;
    int64_t cols = col + PART_COLS < s->cols ? PART_COLS : s->cols - col;
    int32_t at = row > 0 ? job->end[row - 1] : 0;

    (void)thread;
    for (; row < end; row++) {
        sum_row(job, vp_elem(job->to, s->dst, row * s->cols + col), col, cols,
                at, job->end[row]);
        at = job->end[row];
    }
}

void vp_cpu_scatter(struct vp_pool *pool, const struct vp_scatter *scatter)
{
    struct job job = { .scatter = scatter,
                       .to = vp_simd(scatter->dtype),
                       .from = vp_simd(scatter->src_dtype),
                       .end = scatter->scratch };
    int64_t n_cols = (scatter->cols + PART_COLS - 1) / PART_COLS;

    job.order = job.end + scatter->dst_rows;
    job.n_parts = (scatter->dst_rows + PART_ROWS - 1) / PART_ROWS;
    sort_rows(&job);
    vp_pool_run(pool, (int)(job.n_parts * n_cols), part_task, &job);
}
