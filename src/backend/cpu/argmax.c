/* argmax: the column of the largest element of each row. */
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

static void argmax_task(void *ctx, int row, int thread)
{
    const struct vp_kargs *args = ctx;
    const struct vp_value *x = vp_arg_value(args, args->op->in[0]);
    const char *from = (const char *)args->in[0] +
                       row * x->cols * vp_dtype_bytes(x->dtype);
    int32_t *out = args->out;

    (void)thread;
    out[row] = (int32_t)vp_simd(x->dtype)->argmax(from, x->cols);
}

void vp_cpu_argmax_f(const struct vp_kargs *args)
{
    int64_t rows = vp_arg_value(args, args->op->in[0])->rows;

    vp_pool_run(args->pool, (int)rows, argmax_task, (void *)args);
}
