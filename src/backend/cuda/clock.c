/* When the device reached an event, by the host's clock. A moment that both
 * know is an event on a stream that has nothing else to do: it is reached as
 * soon as it is recorded, between two looks at the host's clock. */
#include "backend/cuda/device.h"

#include "base/clock.h"

#include <stdlib.h>

enum { TRIES = 8, LIMIT_NS = 2000000 };
/* Elapsed times are floats, of milliseconds: after two seconds they still tell
 * a quarter of a microsecond. */
static const int64_t period_ns = 2000000000;

/* That it is not is no error for others to find. */
static bool is_reached(cudaEvent_t event)
{
    if (cudaEventQuery(event) == cudaSuccess)
        return true;
    cudaGetLastError();
    return false;
}

/* Nanoseconds from recording the event to seeing it reached. */
static int64_t round_trip(const struct vp_cuda_clock *clock, cudaEvent_t event,
                          int64_t *middle_out)
{
    int64_t begin = vp_clock_ns(), end;

    if (cudaEventRecord(event, clock->stream) != cudaSuccess)
        return INT64_MAX;
    do {
        bool reached = is_reached(event);

        end = vp_clock_ns();
        *middle_out = begin + (end - begin) / 2;
        if (reached)
            return end - begin;
    } while (end - begin < LIMIT_NS);
    return INT64_MAX;
}

/* Of some tries the shortest round trip counts. Where even that fails, because
 * the device is not free for so much as an event, the moments before serve. */
static void take_moment(struct vp_cuda_clock *clock)
{
    cudaEvent_t *moment = &clock->moment[clock->n % VP_CUDA_MOMENTS];
    int64_t least = INT64_MAX;

    clock->tried_ns = vp_clock_ns();
    for (int i = 0; i < TRIES; i++) {
        int64_t middle = 0;
        int64_t ns = round_trip(clock, clock->spare, &middle);
        cudaEvent_t reached = clock->spare;

        if (ns >= least)
            continue;
        least = ns;
        clock->spare = *moment;
        *moment = reached;
        clock->host_ns[clock->n % VP_CUDA_MOMENTS] = middle;
    }
    if (least < INT64_MAX)
        clock->n++;
}

static enum vp_status start(struct vp_backend *backend)
{
    struct vp_cuda_clock *clock = &backend->clock;
    int least = 0, most = 0;

    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaDeviceGetStreamPriorityRange(&least, &most),
                         "setting a clock"));
    VP_TRY(vp_cuda_check(&backend->cuda,
                         cudaStreamCreateWithPriority(
                             &clock->stream, cudaStreamNonBlocking, most),
                         "setting a clock"));
    for (int i = 0; i < VP_CUDA_MOMENTS; i++)
        VP_TRY(vp_cuda_check(&backend->cuda, cudaEventCreate(&clock->moment[i]),
                             "setting a clock"));
    VP_TRY(vp_cuda_check(&backend->cuda, cudaEventCreate(&clock->spare),
                         "setting a clock"));
    take_moment(clock);
    return VP_OK;
}

void vp_cuda_clock_stop(struct vp_cuda_clock *clock)
{
    for (int i = 0; i < VP_CUDA_MOMENTS; i++)
        if (clock->moment[i])
            cudaEventDestroy(clock->moment[i]);
    if (clock->spare)
        cudaEventDestroy(clock->spare);
    if (clock->stream)
        cudaStreamDestroy(clock->stream);
}

enum vp_status vp_cuda_timed_event_create(struct vp_backend *backend,
                                          struct vp_event **out)
{
    struct vp_event *event;
    enum vp_status st;

    cudaSetDevice(backend->cuda.device);
    if (!backend->clock.spare)
        VP_TRY(start(backend));
    event = calloc(1, sizeof(*event));
    if (!event)
        return VP_ERR_NOMEM;
    st = vp_cuda_check(&backend->cuda, cudaEventCreate(&event->event),
                       "creating an event");
    if (st != VP_OK) {
        free(event);
        return st;
    }
    event->backend = backend;
    event->clock = &backend->clock;
    *out = event;
    return VP_OK;
}

void vp_cuda_clock_look(struct vp_event *event)
{
    struct vp_cuda_clock *clock = event->clock;

    if (vp_clock_ns() - clock->tried_ns > period_ns)
        take_moment(clock);
    event->moment = clock->n - 1;
}

bool vp_cuda_event_time(struct vp_event *event, int64_t *ns_out)
{
    const struct vp_cuda_clock *clock = event->clock;
    int64_t at = event->moment % VP_CUDA_MOMENTS;
    float ms = 0.0f;

    if (event->moment < 0 || clock->n - event->moment >= VP_CUDA_MOMENTS ||
        !is_reached(event->event) ||
        cudaEventElapsedTime(&ms, clock->moment[at], event->event) !=
            cudaSuccess)
        return false;
    *ns_out = clock->host_ns[at] + (int64_t)(1e6 * (double)ms);
    return true;
}
