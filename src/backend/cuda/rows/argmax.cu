/* argmax: the column of the largest element of each row, the first of equal
 * ones; -1 if an element of the row is not finite. */
#include "backend/cuda/rows/rows.cuh"

enum { THREADS = 512 };

/* An element and its column. Of equal elements the lower column is better. */
struct best {
    float x;
    int col;
};

static __device__ inline struct best better(struct best a, struct best b)
{
    return b.x > a.x || (b.x == a.x && b.col < a.col) ? b : a;
}

/* One block per row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    argmax_kernel(int32_t *out, const T *x, int cols)
{
    __shared__ struct best shared[THREADS / 32];
    struct best mine = { -INFINITY, INT_MAX };
    int finite = 1;

    x += (int64_t)blockIdx.x * cols;
    for (int col = threadIdx.x; col < cols; col += THREADS) {
        struct best one = { vp_float(x[col]), col };

        finite &= isfinite(one.x) != 0;
        mine = better(mine, one);
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        struct best other = { __shfl_xor_sync(0xFFFFFFFFu, mine.x, lane),
                              __shfl_xor_sync(0xFFFFFFFFu, mine.col, lane) };

        mine = better(mine, other);
    }
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = mine;
    finite = __syncthreads_and(finite);
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < THREADS / 32; i++)
        mine = better(mine, shared[i]);
    out[blockIdx.x] = finite ? mine.col : -1;
}

enum vp_status vp_cuda_argmax_f(const struct vp_cuda_call *call)
{
    const struct vp_value *in = vp_call_value(call, call->args.op->in[0]);

    VP_WITH_TYPE(in->dtype, (argmax_kernel<T>
                             <<<(unsigned)in->rows, THREADS, 0, call->stream>>>(
                                 (int32_t *)call->args.out,
                                 (const T *)call->args.in[0], (int)in->cols)));
    return VP_OK;
}
