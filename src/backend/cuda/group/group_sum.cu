/* Kernels of group_sum and group_copy: out (+)= the sum of all members' parts,
 * added in member order as floats, + bias, rounded once. */
#include "backend/cuda/group/group_sum.h"

#include "backend/cuda/rows/rows.cuh"

enum { THREADS = 256 };

/* Parts of a value [rows, cols]: this member's own part where its program has
 * it, and the parts of the others as they were gathered, in member order. */
struct group_parts {
    const void *own;
    const void *all; /* [n, rows, cols]; not read at `me` */
    int n, me;
    const void *bias; /* [cols]; NULL: none */
    void *dst;
    bool add;
    int64_t count, cols;
};

template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    add_members_kernel(struct group_parts p)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    float sum[N], more[N];

    if (i >= p.count)
        return;
    for (int k = 0; k < p.n; k++) {
        const T *part = k == p.me ? (const T *)p.own
                                  : (const T *)p.all + k * p.count;

        vp_load<N>(more, part + i);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] = k == 0 ? more[j] : sum[j] + more[j];
    }
    if (p.bias) {
        vp_load<N>(more, (const T *)p.bias + i % p.cols);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += more[j];
    }
    vp_put<N>((T *)p.dst + i, p.add, sum);
}

template <typename T, int N>
static void launch_packs(const struct group_parts *p, cudaStream_t stream)
{
    unsigned blocks = (unsigned)vp_parts_of(p->count / N, THREADS);

    add_members_kernel<T, N><<<blocks, THREADS, 0, stream>>>(*p);
}

template <typename T>
static void launch_add(const struct group_parts *p, cudaStream_t stream)
{
    if (vp_fits_packs<T>(p->cols))
        launch_packs<T, vp_vec<T>::N>(p, stream);
    else
        launch_packs<T, 1>(p, stream);
}

static void add_members(const struct vp_cuda_call *call, const void *own,
                        const void *bias, void *dst, bool add)
{
    const struct vp_members *members = call->args.members;
    const struct vp_value *out = vp_call_value(call, call->args.op->out);
    struct group_parts p = {};

    p.own = own;
    p.all = call->args.scratch;
    p.n = members ? members->n : 1;
    p.me = members ? members->me : 0;
    p.bias = bias;
    p.dst = dst;
    p.add = add;
    p.count = out->rows * out->cols;
    p.cols = out->cols;
    VP_WITH_TYPE(out->dtype, launch_add<T>(&p, call->stream));
}

void vp_cuda_group_sum_end(const struct vp_cuda_call *call)
{
    add_members(call, call->args.in[0], call->args.par[0], call->args.out,
                false);
}

void vp_cuda_group_copy_end(const struct vp_cuda_call *call)
{
    if (call->args.din[0])
        add_members(call, call->args.dout, NULL, call->args.din[0],
                    call->args.din_add[0]);
}

/* Gradient of the bias, as in a linear layer. */
enum vp_status vp_cuda_group_sum_w(const struct vp_cuda_call *call)
{
    const struct vp_value *out = vp_call_value(call, call->args.op->out);

    if (call->args.dpar[0])
        vp_cuda_column_sums((float *)call->args.dpar[0], call->args.dout,
                            out->rows, out->cols, VP_ACT_NONE, out->dtype,
                            call->args.mb->accumulate, call->args.scratch,
                            call->stream);
    return VP_OK;
}
