/* Entry points for tests: run single calls on device addresses and wait for
 * them. Members of a group exchange data through staging memory that is
 * allocated for the call. */
#include "backend/cuda/device.h"

static void fill_calls(struct vp_backend *backend, const struct vp_kargs *args,
                       const enum vp_phase *phases, int n,
                       struct vp_cuda_call *calls)
{
    const struct vp_mb *mb = args->mb;

    for (int i = 0; i < n; i++)
        calls[i] = (struct vp_cuda_call){ .args = args[i],
                                          .phase = phases[i],
                                          .out_is_temporary = true,
                                          .mb = backend->mb,
                                          .cuda = &backend->cuda,
                                          .stream = cudaStreamPerThread };
    vp_cuda_set_mb(
        backend->mb,
        (struct vp_cuda_mb){ mb->seed, mb->first_sample, mb->loss_grad },
        cudaStreamPerThread);
}

/* Runs one call and waits for it. */
VP_EXPORT enum vp_status vp_cuda_try(struct vp_backend *backend,
                                     const struct vp_kargs *args,
                                     enum vp_phase phase);

enum vp_status vp_cuda_try(struct vp_backend *backend,
                           const struct vp_kargs *args, enum vp_phase phase)
{
    enum { STAGING = 1 << 20 };
    struct vp_cuda *cuda = &backend->cuda;
    struct vp_cuda_call call;
    enum vp_status st = VP_OK;

    fill_calls(backend, args, &phase, 1, &call);
    if (args->members) {
        call.n_staging = STAGING;
        st = vp_cuda_check(
            cuda, cudaHostAlloc(&call.staging, STAGING, cudaHostAllocPortable),
            "trying");
    }
    if (st == VP_OK)
        st = vp_cuda_ops[args->op->kind].fn[phase](&call);
    if (st == VP_OK)
        st = vp_cuda_check(cuda, cudaStreamSynchronize(cudaStreamPerThread),
                           "trying");
    if (call.staging)
        cudaFreeHost(call.staging);
    return st;
}

/* Runs the first of `calls` that one launch can do together, and waits. Returns
 * their number, 0 if there is no such kernel, or -1 if the device failed.
 * Changes that the launch makes to later calls are copied back to `args`. */
VP_EXPORT int vp_cuda_try_fused(struct vp_backend *backend,
                                struct vp_kargs *args,
                                const enum vp_phase *phases, int n);

int vp_cuda_try_fused(struct vp_backend *backend, struct vp_kargs *args,
                      const enum vp_phase *phases, int n)
{
    enum { MAX_CALLS = 8 };
    struct vp_cuda_call calls[MAX_CALLS];
    enum vp_status st = VP_OK;
    int n_done;

    VP_BUG_ON(n > MAX_CALLS);
    fill_calls(backend, args, phases, n, calls);
    n_done = vp_cuda_run_fused(calls, n);
    if (n_done == 0)
        n_done = vp_cuda_run_linear(calls, n, &st);
    for (int i = 0; i < n; i++)
        args[i] = calls[i].args;
    return st == VP_OK &&
                   cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess
               ? n_done
               : -1;
}

/* Sets *found_out if an element of `data` is NaN or infinite. */
VP_EXPORT enum vp_status vp_cuda_try_nonfinite(struct vp_backend *backend,
                                               const void *data, int64_t n,
                                               enum vp_dtype dtype,
                                               bool *found_out);

enum vp_status vp_cuda_try_nonfinite(struct vp_backend *backend,
                                     const void *data, int64_t n,
                                     enum vp_dtype dtype, bool *found_out)
{
    int flag = 0;

    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaMemset(backend->flag, 0, sizeof(flag)), "trying"));
    vp_cuda_find_nonfinite(data, n, dtype, backend->flag, cudaStreamPerThread);
    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaStreamSynchronize(cudaStreamPerThread), "trying"));
    VP_TRY(vp_cuda_check(
        &backend->cuda,
        cudaMemcpy(&flag, backend->flag, sizeof(flag), cudaMemcpyDeviceToHost),
        "trying"));
    *found_out = flag != 0;
    return VP_OK;
}
