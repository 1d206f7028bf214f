/* Properties of a GPU and its measured rates of copies and matrix products. */
#include "backend/cuda/product/product.h"

#include <stdio.h>

enum {
    COPY_BYTES = 1 << 30,
    SIDE = 8192, /* rows of the square matrices: enough for the full rate */
    REPEATS = 10
};

/* Buffers and events of a measurement. */
struct rig {
    struct vp_cuda cuda;
    void *from, *to; /* COPY_BYTES each: `from` holds two matrices */
    void *workspace;
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

static enum vp_status copy_once(struct rig *rig)
{
    return vp_cuda_check(&rig->cuda,
                         cudaMemcpyAsync(rig->to, rig->from, COPY_BYTES,
                                         cudaMemcpyDeviceToDevice, rig->stream),
                         "copying");
}

static enum vp_status multiply(struct rig *rig, enum vp_dtype dtype)
{
    size_t n_bytes = (size_t)SIDE * SIDE * (size_t)vp_dtype_bytes(dtype);

    return vp_cuda_multiply(
        &rig->cuda,
        &(struct vp_product){ .m = SIDE,
                              .n = SIDE,
                              .k = SIDE,
                              .a_t = true,
                              .type = dtype,
                              .type_out = dtype },
        &(struct vp_operands){
            .a = rig->from, .b = (char *)rig->from + n_bytes, .d = rig->to },
        rig->workspace, rig->stream);
}

static enum vp_status multiply_bf16(struct rig *rig)
{
    return multiply(rig, VP_DTYPE_BF16);
}

static enum vp_status multiply_f32(struct rig *rig)
{
    return multiply(rig, VP_DTYPE_F32);
}

/* Mean seconds of one call over REPEATS calls, after one to warm up. */
static enum vp_status time_calls(struct rig *rig,
                                 enum vp_status (*fn)(struct rig *rig),
                                 double *seconds_out)
{
    float ms = 0.0f;

    VP_TRY(fn(rig));
    cudaEventRecord(rig->begin, rig->stream);
    for (int i = 0; i < REPEATS; i++)
        VP_TRY(fn(rig));
    cudaEventRecord(rig->end, rig->stream);
    VP_TRY(
        vp_cuda_check(&rig->cuda, cudaEventSynchronize(rig->end), "measuring"));
    VP_TRY(vp_cuda_check(&rig->cuda,
                         cudaEventElapsedTime(&ms, rig->begin, rig->end),
                         "measuring"));
    *seconds_out = (double)ms / 1e3 / REPEATS;
    return VP_OK;
}

static enum vp_status set_up(struct rig *rig)
{
    struct vp_cuda *cuda = &rig->cuda;

    VP_TRY(vp_cuda_check(cuda, cudaSetDevice(cuda->device), "opening"));
    VP_TRY(vp_cuda_check(cuda, cudaMalloc(&rig->from, COPY_BYTES),
                         "allocating memory"));
    VP_TRY(vp_cuda_check(cuda, cudaMalloc(&rig->to, COPY_BYTES),
                         "allocating memory"));
    VP_TRY(vp_cuda_check(cuda, cudaMalloc(&rig->workspace, VP_CUDA_WORKSPACE),
                         "allocating memory"));
    VP_TRY(vp_cuda_check(cuda, cudaStreamCreate(&rig->stream),
                         "creating a stream"));
    VP_TRY(
        vp_cuda_check(cuda, cudaEventCreate(&rig->begin), "creating an event"));
    VP_TRY(
        vp_cuda_check(cuda, cudaEventCreate(&rig->end), "creating an event"));
    if (cublasLtCreate(&cuda->lt) != CUBLAS_STATUS_SUCCESS)
        return vp_err_set(&cuda->err, VP_ERR_IO,
                          "GPU %d: cuBLASLt cannot be initialized",
                          cuda->device);
    /* With zeros the GPU draws less power and runs faster than in training. */
    vp_cuda_fill_noise(rig->from, COPY_BYTES / 2, VP_DTYPE_BF16, rig->stream);
    return VP_OK;
}

static void tear_down(struct rig *rig)
{
    vp_cuda_plans_free(&rig->cuda);
    if (rig->cuda.lt)
        cublasLtDestroy(rig->cuda.lt);
    if (rig->begin)
        cudaEventDestroy(rig->begin);
    if (rig->end)
        cudaEventDestroy(rig->end);
    if (rig->stream)
        cudaStreamDestroy(rig->stream);
    cudaFree(rig->from);
    cudaFree(rig->to);
    cudaFree(rig->workspace);
}

static enum vp_status measure(struct rig *rig, struct vp_device_info *info)
{
    double flops = 2.0 * SIDE * SIDE * SIDE, seconds;

    VP_TRY(set_up(rig));
    VP_TRY(time_calls(rig, copy_once, &seconds));
    info->copy_rate = 2.0 * COPY_BYTES / seconds;
    VP_TRY(time_calls(rig, multiply_bf16, &seconds));
    info->bf16_rate = flops / seconds;
    VP_TRY(time_calls(rig, multiply_f32, &seconds));
    info->fp32_rate = flops / seconds;
    return VP_OK;
}

enum vp_status vp_cuda_info(int device, bool rates, struct vp_device_info *out,
                            struct vp_err *err)
{
    struct rig rig = { .cuda = { .device = device } };
    struct cudaDeviceProp properties;
    size_t n_free = 0, n_all = 0;
    cudaError_t error;
    enum vp_status st;

    *out = (struct vp_device_info){ .bytes = 0 };
    error = cudaSetDevice(device);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&n_free, &n_all);
    if (error != cudaSuccess)
        return vp_err_set(err, VP_ERR_IO,
                          "GPU %d cannot be queried: %s; look at nvidia-smi",
                          device, cudaGetErrorString(error));
    snprintf(out->name, sizeof(out->name), "%.60s", properties.name);
    out->capability = 10 * properties.major + properties.minor;
    out->n_processors = properties.multiProcessorCount;
    out->bytes = n_all;
    out->free_bytes = n_free;
    if (!rates)
        return VP_OK;
    st = measure(&rig, out);
    tear_down(&rig);
    if (st != VP_OK)
        vp_err_set(err, st, "%s", rig.cuda.err.text);
    return st;
}
