/* A linear layer with few rows: out = act(x weight^T + bias). Its time is that
 * of reading the weights once.
 *
 * A warp computes one column of all rows: the lanes take turns over packs of
 * the summed index, then add up in one tree. The bits of a row do not depend on
 * the other rows. */
#include "backend/cuda/product/activation.cuh"
#include "backend/cuda/product/few_rows.h"
#include "backend/cuda/rows/rows.cuh"

enum { WARPS = 4, THREADS = 32 * WARPS };

template <typename T>
static __device__ inline float act_of(enum vp_act act, float z)
{
    switch (act) {
    case VP_ACT_RELU:
        return vp_act_at<T, VP_ACT_RELU>(z).value;
    case VP_ACT_GELU_ERF:
        return vp_act_at<T, VP_ACT_GELU_ERF>(z).value;
    case VP_ACT_GELU_TANH:
        return vp_act_at<T, VP_ACT_GELU_TANH>(z).value;
    default:
        return z;
    }
}

/* M: capacity for rows, at least layer.rows. */
template <typename T, int N, int M>
static __global__ void __launch_bounds__(THREADS)
    few_rows_kernel(struct vp_few_rows layer)
{
    int64_t col = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int64_t K = layer.depth;
    const T *x = (const T *)layer.x, *w = (const T *)layer.weight + col * K;
    float sum[M] = { 0.0f };

    if (col >= layer.cols)
        return;
#pragma unroll 4
    for (int64_t k = lane * N; k < K; k += 32 * N) {
        float y[N];

        vp_load<N>(y, w + k);
#pragma unroll
        for (int m = 0; m < M; m++) {
            float z[N];

            if (m >= layer.rows)
                break;
            vp_load<N>(z, x + m * K + k);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[m] = fmaf(z[i], y[i], sum[m]);
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
        float z = vp_warp_sum(sum[m]);
        int64_t at = m * layer.cols + col;

        if (lane != m || m >= layer.rows)
            continue;
        if (layer.bias)
            z += vp_float(((const T *)layer.bias)[col]);
        if (layer.z)
            ((T *)layer.z)[at] = vp_round<T>(z);
        ((T *)layer.out)[at] = vp_round<T>(act_of<T>(layer.act, z));
    }
}

template <typename T, int N>
static void launch(const struct vp_few_rows *layer, cudaStream_t stream)
{
    unsigned blocks = (unsigned)vp_parts_of(layer->cols, WARPS);

    if (layer->rows == 1)
        few_rows_kernel<T, N, 1><<<blocks, THREADS, 0, stream>>>(*layer);
    else if (layer->rows <= 4)
        few_rows_kernel<T, N, 4><<<blocks, THREADS, 0, stream>>>(*layer);
    else
        few_rows_kernel<T, N, VP_FEW_ROWS>
            <<<blocks, THREADS, 0, stream>>>(*layer);
}

template <typename T>
static void run(const struct vp_few_rows *layer, cudaStream_t stream)
{
    if (vp_fits_packs<T>(layer->depth))
        launch<T, vp_vec<T>::N>(layer, stream);
    else
        launch<T, 1>(layer, stream);
}

void vp_cuda_few_rows(const struct vp_few_rows *layer, cudaStream_t stream)
{
    VP_WITH_TYPE(layer->dtype, run<T>(layer, stream));
}
