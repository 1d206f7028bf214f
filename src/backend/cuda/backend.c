/* The CUDA backend's table of functions: finding and opening GPUs, and the
 * optimizer. Lists of calls are run by exe.c; memory and streams are in
 * device.c. */
#include "backend/cuda/product/product.h"
#include "backend/cuda/profile/profile.h"
#include "backend/cuda/profile/traffic.h"
#include "base/numa.h"

#include <stddef.h>
#include <stdlib.h>

enum { MIN_CAPABILITY = 80 }; /* 8.0 is the first with bf16 products */

/* ---- Devices ------------------------------------------------------------ */

static void explain_driver(struct vp_err *why)
{
    int known = 0;

    cudaDriverGetVersion(&known);
    if (known == 0)
        vp_err_set(why, VP_ERR_UNSUPPORTED,
                   "there is no NVIDIA driver; install one");
    else
        vp_err_set(why, VP_ERR_UNSUPPORTED,
                   "the NVIDIA driver supports CUDA up to %d.%d, and %d.%d is "
                   "needed; update it",
                   known / 1000, known % 1000 / 10, CUDART_VERSION / 1000,
                   CUDART_VERSION % 1000 / 10);
}

static int cuda_n_devices(struct vp_err *why)
{
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    if (error == cudaSuccess && n > 0)
        return n;
    if (error == cudaErrorInsufficientDriver)
        explain_driver(why);
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        vp_err_set(why, VP_ERR_UNSUPPORTED,
                   "there is no NVIDIA GPU; look at nvidia-smi");
    else
        vp_err_set(why, VP_ERR_UNSUPPORTED, "%s; look at nvidia-smi",
                   cudaGetErrorString(error));
    return 0;
}

static enum vp_status check_device(int device, struct vp_err *err)
{
    struct vp_err why = { .text = "" };
    int n = cuda_n_devices(&why);

    if (n == 0)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device cuda: %s, or use device: cpu", why.text);
    if (device < 0 || device >= n)
        return vp_err_set(err, VP_ERR_INVALID,
                          "device cuda: there is no GPU %d; this machine has "
                          "GPUs 0 to %d",
                          device, n - 1);
    return VP_OK;
}

/* Returns 10 * major + minor, or 0 if the device cannot be queried. */
static int capability_of(int device)
{
    int major = 0, minor = 0;

    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                               device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                               device) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

int vp_cuda_capability(void)
{
    int device;

    return cudaGetDevice(&device) == cudaSuccess ? capability_of(device) : 0;
}

static enum vp_status check_capability(int device, struct vp_err *err)
{
    int capability = capability_of(device);

    if (capability == 0)
        return vp_err_set(err, VP_ERR_IO,
                          "GPU %d cannot be queried; look at nvidia-smi",
                          device);
    if (capability < MIN_CAPABILITY)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "GPU %d has compute capability %d.%d; %d.%d or more "
                          "is needed, or use device: cpu",
                          device, capability / 10, capability % 10,
                          MIN_CAPABILITY / 10, MIN_CAPABILITY % 10);
    return VP_OK;
}

/* Optimizer tensors of a stage, cached by address and number. A stage passes
 * all of its tensors or some of them, so lists that begin at the same tensor
 * may differ in length. */
struct vp_cuda_table {
    struct vp_cuda_table *next;
    const struct vp_optim_tensor *of;
    int n;
    struct vp_cuda_tensors *tensors;
};

static void free_tables(struct vp_backend *backend)
{
    for (struct vp_cuda_table *table = backend->tables; table;) {
        struct vp_cuda_table *next = table->next;

        vp_cuda_tensors_free(table->tensors);
        free(table);
        table = next;
    }
}

_Static_assert(offsetof(struct vp_backend, device) == 0, "see backend.h");

static void cuda_close(struct vp_backend *backend)
{
    if (!backend)
        return;
    free_tables(backend);
    vp_cuda_plans_free(&backend->cuda);
    vp_cuda_attentions_free(&backend->cuda);
    if (backend->cuda.lt)
        cublasLtDestroy(backend->cuda.lt);
    cudaFree(backend->mb);
    cudaFree(backend->flag);
    for (int i = 0; i < 2; i++)
        if (backend->cuda.fetched[i])
            cudaEventDestroy(backend->cuda.fetched[i]);
    vp_cuda_clock_stop(&backend->clock);
    free(backend);
}

static bool cuda_address(int device, char *text, size_t n_bytes)
{
    return cudaDeviceGetPCIBusId(text, (int)n_bytes, device) == cudaSuccess;
}

static enum vp_status prepare(struct vp_backend *backend)
{
    struct vp_cuda *cuda = &backend->cuda;
    char address[32];

    cuda->numa_node = cuda_address(cuda->device, address, sizeof(address))
                          ? vp_numa_node_of_pci("", address)
                          : -1;
    VP_TRY(vp_cuda_check(cuda, cudaSetDevice(cuda->device), "opening"));
    VP_TRY(vp_cuda_check(
        cuda, cudaMalloc((void **)&backend->mb, sizeof(*backend->mb)),
        "opening"));
    VP_TRY(vp_cuda_check(cuda, cudaMalloc((void **)&backend->flag, sizeof(int)),
                         "opening"));
    for (int i = 0; i < 2; i++)
        VP_TRY(vp_cuda_check(
            cuda,
            cudaEventCreateWithFlags(&cuda->fetched[i], cudaEventDisableTiming),
            "opening"));
    if (cublasLtCreate(&cuda->lt) != CUBLAS_STATUS_SUCCESS)
        return vp_err_set(&cuda->err, VP_ERR_IO,
                          "GPU %d: cuBLASLt cannot be initialized",
                          cuda->device);
    return VP_OK;
}

static enum vp_status cuda_open(const struct vp_backend_config *config,
                                struct vp_backend **out, struct vp_err *err)
{
    struct vp_backend *backend;
    enum vp_status st;

    if (!config->plan_only) {
        VP_TRY(check_device(config->device, err));
        VP_TRY(check_capability(config->device, err));
    }
    backend = calloc(1, sizeof(*backend));
    if (!backend)
        return vp_err_set(err, VP_ERR_NOMEM, "cuda backend: out of memory");
    backend->cuda.device = config->device;
    backend->cuda.tf32 = config->tf32;
    backend->plan_only = config->plan_only;
    backend->cuda.between = config->between;
    backend->cuda.between_ctx = config->between_ctx;
    st = config->plan_only ? VP_OK : prepare(backend);
    if (st != VP_OK) {
        vp_err_set(err, st, "%s%s", backend->cuda.err.text,
                   st == VP_ERR_NOMEM
                       ? "; nvidia-smi shows which processes use its memory"
                       : "");
        cuda_close(backend);
        return st;
    }
    *out = backend;
    return VP_OK;
}

/* Applies the rules of cuda_facts.h. `ctx` is a struct vp_backend_config: with
 * plan_only, for the capability it names, if any; else for the GPU that it
 * opens. */
static size_t cuda_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase)
{
    struct vp_backend_config config = *(const struct vp_backend_config *)ctx;

    if (!config.plan_only)
        cudaSetDevice(config.device);
    if (!config.plan_only || config.capability == 0)
        config.capability = vp_cuda_capability();
    return vp_cuda_scratch_bytes(&config, graph, op, phase);
}

/* ---- Optimizer ---------------------------------------------------------- */

static enum vp_status cuda_add(struct vp_backend *backend,
                               struct vp_stream *stream, float *dst,
                               const float *src, int64_t n)
{
    vp_cuda_add_floats(dst, src, n, vp_cuda_stream_of(stream)->stream);
    return vp_cuda_check(&backend->cuda, cudaPeekAtLastError(), "adding");
}

static enum vp_status cuda_shorten(struct vp_backend *backend,
                                   struct vp_stream *stream, float *data,
                                   int64_t n)
{
    vp_cuda_shorten_floats(data, n, vp_cuda_stream_of(stream)->stream);
    return vp_cuda_check(&backend->cuda, cudaPeekAtLastError(), "rounding");
}

enum vp_status vp_cuda_find_tensors(struct vp_backend *backend,
                                    const struct vp_optim_tensor *tensors,
                                    int n, struct vp_cuda_tensors **out)
{
    struct vp_cuda_table *table = backend->tables;
    enum vp_status st;

    while (table && (table->of != tensors || table->n != n))
        table = table->next;
    if (!table) {
        table = calloc(1, sizeof(*table));
        st = table ? vp_cuda_tensors_create(tensors, n, &table->tensors)
                   : VP_ERR_NOMEM;
        if (st != VP_OK) {
            free(table);
            return st;
        }
        table->of = tensors;
        table->n = n;
        table->next = backend->tables;
        backend->tables = table;
    }
    *out = table->tensors;
    return VP_OK;
}

static enum vp_status cuda_sum_squares(struct vp_backend *backend,
                                       struct vp_stream *stream,
                                       const struct vp_optim_tensor *tensors,
                                       int n_tensors, const float *grad,
                                       double *sums_out)
{
    struct vp_cuda_tensors *table;
    int label;

    VP_TRY(vp_cuda_find_tensors(backend, tensors, n_tensors, &table));
    label = vp_cuda_profile_push(backend->cuda.profile);
    vp_cuda_sum_squares(table, grad, sums_out,
                        vp_cuda_stream_of(stream)->stream);
    vp_cuda_profile_pop_other(backend->cuda.profile, label, "norm",
                              vp_cuda_squares_traffic(tensors, n_tensors));
    return vp_cuda_check(&backend->cuda, cudaPeekAtLastError(),
                         "squaring gradients");
}

static enum vp_status cuda_update(struct vp_backend *backend,
                                  struct vp_stream *stream,
                                  const struct vp_optim_step *step)
{
    struct vp_cuda_tensors *table;
    int label;

    /* GPUs support neither shards of the optimizer's state nor LAMB in groups. */
    VP_BUG_ON(step->first > 0 || step->squares_out || step->ratios);
    VP_TRY(
        vp_cuda_find_tensors(backend, step->tensors, step->n_tensors, &table));
    label = vp_cuda_profile_push(backend->cuda.profile);
    vp_cuda_update(table, step, vp_cuda_stream_of(stream)->stream);
    vp_cuda_profile_pop_other(backend->cuda.profile, label, "update",
                              vp_cuda_update_traffic(step));
    return vp_cuda_check(&backend->cuda, cudaPeekAtLastError(), "updating");
}

/* ---- Exports ------------------------------------------------------------ */

static const struct vp_backend_ops cuda_ops = {
    .name = "cuda",
    .device = &vp_cuda_device,
    .updates_early = VP_CUDA_UPDATES_EARLY,
    .w_linger = VP_CUDA_W_LINGER,
    .grad_linger = VP_CUDA_GRAD_LINGER,
    .n_devices = cuda_n_devices,
    .info = vp_cuda_info,
    .address = cuda_address,
    .open = cuda_open,
    .close = cuda_close,
    .scratch_bytes = cuda_scratch_bytes,
    .staging_bytes = vp_cuda_staging_bytes,
    .compile = vp_cuda_compile,
    .exe_free = vp_cuda_exe_free,
    .launch = vp_cuda_launch,
    .launch_part = vp_cuda_launch_part,
    .launch_checked = vp_cuda_launch_checked,
    .add = cuda_add,
    .shorten = cuda_shorten,
    .sum_squares = cuda_sum_squares,
    .update = cuda_update,
};

VP_EXPORT extern const int vp_plugin_abi;
const int vp_plugin_abi = VP_BACKEND_ABI;

VP_EXPORT const struct vp_backend_ops *vp_plugin_backend(void);

/* Called before any other CUDA function. Loads each kernel when it is first
 * launched, unless the user has set CUDA_MODULE_LOADING. */
const struct vp_backend_ops *vp_plugin_backend(void)
{
    setenv("CUDA_MODULE_LOADING", "LAZY", 0);
    return &cuda_ops;
}
