/* A GPU as a device: memory, copies, streams and events. Implements the table
 * of device/driver.h. */
#include "backend/cuda/device.h"

#include "base/limit.h"
#include "base/numa.h"

#include <stdlib.h>
#include <time.h>

enum vp_status vp_cuda_check(struct vp_cuda *cuda, cudaError_t error,
                             const char *what)
{
    if (error == cudaSuccess)
        return VP_OK;
    return vp_err_set(
        &cuda->err,
        error == cudaErrorMemoryAllocation ? VP_ERR_NOMEM : VP_ERR_IO,
        "GPU %d: %s: %s", cuda->device, what, cudaGetErrorString(error));
}

static void cuda_attach(struct vp_device *device)
{
    cudaSetDevice(vp_cuda_backend_of(device)->cuda.device);
}

static const char *cuda_last_error(const struct vp_device *device)
{
    return ((const struct vp_backend *)device)->cuda.err.text;
}

/* ---- Memory ------------------------------------------------------------- */

static enum vp_status cuda_alloc(struct vp_device *device, size_t n_bytes,
                                 void **out)
{
    struct vp_cuda *cuda = &vp_cuda_backend_of(device)->cuda;
    size_t n_free = 0, n_all = 0;
    cudaError_t error;

    VP_TRY(vp_cuda_check(cuda, cudaSetDevice(cuda->device), "allocating"));
    error = cudaMalloc(out, n_bytes ? n_bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* clears the error */
        cudaMemGetInfo(&n_free, &n_all);
        return vp_err_set(&cuda->err, VP_ERR_NOMEM,
                          "GPU %d is full: %.1f MB wanted, %.1f of %.1f MB "
                          "free",
                          cuda->device, (double)n_bytes / 1e6,
                          (double)n_free / 1e6, (double)n_all / 1e6);
    }
    VP_TRY(vp_cuda_check(cuda, error, "allocating"));
    VP_TRY(vp_cuda_check(cuda, cudaMemset(*out, 0, n_bytes), "clearing"));
    /* cudaMemset() may return before it has ended, and the streams of stages do
     * not wait for the legacy stream. */
    return vp_cuda_check(cuda, cudaStreamSynchronize(cudaStreamLegacy),
                         "clearing");
}

static void cuda_free(struct vp_device *device, void *buffer, size_t n_bytes)
{
    (void)n_bytes;
    cudaSetDevice(vp_cuda_backend_of(device)->cuda.device);
    cudaFree(buffer);
}

/* Allocates on the NUMA node of the GPU: copies from another node share the
 * link between the processors. */
static enum vp_status cuda_host_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out)
{
    struct vp_cuda *cuda = &vp_cuda_backend_of(device)->cuda;
    struct vp_numa_policy before;
    cudaError_t error;

    vp_numa_prefer(cuda->numa_node, &before);
    error = cudaHostAlloc(out, n_bytes ? n_bytes : 1, cudaHostAllocPortable);
    vp_numa_restore(&before);
    return vp_cuda_check(cuda, error, "allocating host memory");
}

static void cuda_host_free(struct vp_device *device, void *buffer)
{
    (void)device;
    cudaFreeHost(buffer);
}

/* True if one end is on this device and the other in memory from
 * host_alloc(). */
static bool is_in_reach(const struct vp_cuda *cuda, const void *a,
                        const void *b)
{
    struct cudaPointerAttributes x, y;

    return cudaPointerGetAttributes(&x, a) == cudaSuccess &&
           cudaPointerGetAttributes(&y, b) == cudaSuccess &&
           ((x.type == cudaMemoryTypeDevice && x.device == cuda->device &&
             y.type == cudaMemoryTypeHost) ||
            (y.type == cudaMemoryTypeDevice && y.device == cuda->device &&
             x.type == cudaMemoryTypeHost));
}

/* The copy engine first waits for the kernels before and is then waited for by
 * those after: the device is idle for ten microseconds or more. A kernel copies
 * small blocks instead. */
static enum vp_status cuda_copy(struct vp_stream *base, void *dst,
                                const void *src, size_t n_bytes)
{
    enum { SMALL = 1 << 19 };
    struct vp_cuda_stream *stream = vp_cuda_stream_of(base);
    struct vp_cuda *cuda = &stream->backend->cuda;

    if (n_bytes <= SMALL && is_in_reach(cuda, dst, src)) {
        vp_cuda_carry(dst, src, n_bytes, stream->stream);
        return vp_cuda_check(cuda, cudaPeekAtLastError(), "copying");
    }
    return vp_cuda_check(
        cuda,
        cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDefault, stream->stream),
        "copying");
}

/* ---- Streams and events ------------------------------------------------- */

static void cuda_stream_free(struct vp_stream *base)
{
    struct vp_cuda_stream *stream = vp_cuda_stream_of(base);

    if (stream->stream)
        cudaStreamDestroy(stream->stream);
    vp_cuda_wgrad_stream_free(stream->wgrad);
    if (stream->update_stream)
        cudaStreamDestroy(stream->update_stream);
    if (stream->fork)
        cudaEventDestroy(stream->fork);
    if (stream->join)
        cudaEventDestroy(stream->join);
    for (int i = 0; i < VP_CUDA_UPDATES; i++)
        if (stream->updated[i])
            cudaEventDestroy(stream->updated[i]);
    cudaFree(stream->mb);
    free(stream);
}

static enum vp_status make_streams(struct vp_cuda_stream *stream)
{
    struct vp_cuda *cuda = &stream->backend->cuda;
    const char *what = "creating a stream";
    int least = 0, greatest = 0;

    VP_TRY(vp_cuda_check(
        cuda, cudaDeviceGetStreamPriorityRange(&least, &greatest), what));
    VP_TRY(vp_cuda_check(cuda,
                         cudaStreamCreateWithPriority(
                             &stream->stream, cudaStreamNonBlocking, greatest),
                         what));
    VP_TRY(vp_cuda_check(cuda,
                         cudaStreamCreateWithPriority(&stream->update_stream,
                                                      cudaStreamNonBlocking,
                                                      least),
                         what));
    VP_TRY(vp_cuda_wgrad_stream_create(stream->stream, &stream->wgrad));
    VP_TRY(vp_cuda_check(
        cuda, cudaEventCreateWithFlags(&stream->fork, cudaEventDisableTiming),
        what));
    VP_TRY(vp_cuda_check(
        cuda, cudaEventCreateWithFlags(&stream->join, cudaEventDisableTiming),
        what));
    for (int i = 0; i < VP_CUDA_UPDATES; i++)
        VP_TRY(vp_cuda_check(cuda,
                             cudaEventCreateWithFlags(&stream->updated[i],
                                                      cudaEventDisableTiming),
                             what));
    return vp_cuda_check(
        cuda, cudaMalloc((void **)&stream->mb, sizeof(*stream->mb)), what);
}

static enum vp_status cuda_stream_create(struct vp_device *device,
                                         struct vp_stream **out)
{
    struct vp_backend *backend = vp_cuda_backend_of(device);
    struct vp_cuda_stream *stream = calloc(1, sizeof(*stream));
    enum vp_status st;

    if (!stream)
        return VP_ERR_NOMEM;
    stream->backend = backend;
    *out = &stream->base;
    if (backend->plan_only)
        return VP_OK;
    cudaSetDevice(backend->cuda.device);
    st = make_streams(stream);
    if (st != VP_OK) {
        cuda_stream_free(&stream->base);
        *out = NULL;
    }
    return st;
}

/* A stream for copies runs no lists, so it needs nothing but the stream. */
static enum vp_status cuda_copy_stream_create(struct vp_device *device,
                                              struct vp_stream **out)
{
    struct vp_backend *backend = vp_cuda_backend_of(device);
    struct vp_cuda_stream *stream = calloc(1, sizeof(*stream));
    enum vp_status st = VP_OK;

    if (!stream)
        return VP_ERR_NOMEM;
    stream->backend = backend;
    *out = &stream->base;
    if (backend->plan_only)
        return VP_OK;
    cudaSetDevice(backend->cuda.device);
    st = vp_cuda_check(
        &backend->cuda,
        cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking),
        "creating a stream");
    if (st != VP_OK) {
        free(stream);
        *out = NULL;
    }
    return st;
}

static void CUDART_CB sleep_on_host(void *us)
{
    const struct timespec pause = { .tv_nsec = (long)(intptr_t)us * 1000L };

    nanosleep(&pause, NULL);
}

static enum vp_status cuda_stall(struct vp_stream *base, int us)
{
    struct vp_cuda_stream *stream = vp_cuda_stream_of(base);

    return vp_cuda_check(
        &stream->backend->cuda,
        cudaLaunchHostFunc(stream->stream, sleep_on_host, (void *)(intptr_t)us),
        "stalling a stream");
}

static void *cuda_stream_handle(struct vp_stream *stream)
{
    return vp_cuda_stream_of(stream)->stream;
}

static enum vp_status cuda_event_create(struct vp_device *device,
                                        struct vp_event **out)
{
    struct vp_backend *backend = vp_cuda_backend_of(device);
    struct vp_cuda_event *event = calloc(1, sizeof(*event));
    enum vp_status st;

    if (!event)
        return VP_ERR_NOMEM;
    event->backend = backend;
    cudaSetDevice(backend->cuda.device);
    st = vp_cuda_check(
        &backend->cuda,
        cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming),
        "creating an event");
    if (st != VP_OK) {
        free(event);
        return st;
    }
    *out = &event->base;
    return VP_OK;
}

static void cuda_event_free(struct vp_event *base)
{
    struct vp_cuda_event *event = vp_cuda_event_of(base);

    cudaEventDestroy(event->event);
    free(event);
}

static enum vp_status cuda_event_record(struct vp_event *base,
                                        struct vp_stream *to)
{
    struct vp_cuda_event *event = vp_cuda_event_of(base);
    struct vp_cuda_stream *stream = vp_cuda_stream_of(to);

    if (event->clock)
        vp_cuda_clock_look(event->clock);
    return vp_cuda_check(&stream->backend->cuda,
                         cudaEventRecord(event->event, stream->stream),
                         "recording an event");
}

static enum vp_status cuda_stream_wait(struct vp_stream *base,
                                       struct vp_event *event)
{
    struct vp_cuda_stream *stream = vp_cuda_stream_of(base);

    return vp_cuda_check(
        &stream->backend->cuda,
        cudaStreamWaitEvent(stream->stream, vp_cuda_event_of(event)->event, 0),
        "waiting for an event");
}

/* CUDA's own wait has no time limit. Polls continuously at first, then every 50
 * us. */
enum vp_status vp_cuda_wait(const struct vp_cuda *cuda, cudaEvent_t event,
                            int timeout_ms)
{
    enum { SPINS = 2000 };
    const struct timespec pause = { .tv_nsec = 50000 };
    struct vp_limit limit = vp_limit_ms(timeout_ms);

    for (int i = 0;; i++) {
        cudaError_t error = cudaEventQuery(event);

        if (error == cudaSuccess)
            return VP_OK;
        if (error != cudaErrorNotReady)
            return VP_ERR_IO;
        if (vp_limit_is_over(&limit))
            return VP_ERR_TIMEOUT;
        if (cuda->between && !cuda->between(cuda->between_ctx))
            return VP_ERR_ABORTED;
        if (i > SPINS)
            nanosleep(&pause, NULL);
    }
}

static enum vp_status cuda_event_sync(struct vp_event *base, int timeout_ms)
{
    const struct vp_cuda_event *event = vp_cuda_event_of(base);

    return vp_cuda_wait(&event->backend->cuda, event->event, timeout_ms);
}

const struct vp_device_ops vp_cuda_device = {
    .host_memory = VP_CUDA_HOST_MEMORY,
    .attach = cuda_attach,
    .last_error = cuda_last_error,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .stream_create = cuda_stream_create,
    .copy_stream_create = cuda_copy_stream_create,
    .stall = cuda_stall,
    .stream_free = cuda_stream_free,
    .stream_handle = cuda_stream_handle,
    .copy = cuda_copy,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_sync = cuda_event_sync,
    .timed_event_create = vp_cuda_timed_event_create,
    .event_time = vp_cuda_event_time,
};
