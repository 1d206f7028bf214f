/* Times of events, converted from the device's clock to the host's clock.
 *
 * A reference point is an event with a known time on both clocks. It is
 * recorded on an otherwise empty stream, so the device reaches it at once,
 * between two readings of the host's clock. On a busy device these readings may
 * be far apart. Therefore the time of a new reference point is that of the
 * previous one plus the interval measured by the device, moved only as far as
 * needed to lie between the two readings. Taking the readings alone would show
 * as gaps in a timeline. */
#include "backend/cuda/device.h"

#include "base/clock.h"

#include <stdlib.h>

enum { TRIES = 8 };
/* Time limits for taking a reference point, during which the rank waits. A rank
 * is usually ahead of its device by more than limit_ns. The first one has a
 * longer limit: no rank is ahead before the first step, no times are known
 * without it, and a shared device may serve other processes for
 * milliseconds. */
static const int64_t limit_ns = 200000, first_limit_ns = 1000000000;
/* Interval between reference points. Clocks drift apart by some parts per
 * million, so in this time by a few microseconds. */
static const int64_t period_ns = 500000000;

/* Readings of the host's clock, between which the device reached an event. */
struct looks {
    int64_t before_ns, after_ns;
};

/* Clears CUDA's last error, because cudaErrorNotReady is not a failure. */
static bool is_reached(cudaEvent_t event)
{
    if (cudaEventQuery(event) == cudaSuccess)
        return true;
    cudaGetLastError();
    return false;
}

/* Records the spare event, unless it is still pending from an earlier call, and
 * polls until the device reaches it or the host's clock reaches `until_ns`.
 * Returns true if it was reached. */
static bool look(struct vp_cuda_clock *clock, int64_t until_ns,
                 struct looks *out)
{
    bool reached = false;

    if (!clock->is_late) {
        clock->asked_ns = vp_clock_ns();
        if (cudaEventRecord(clock->spare, clock->stream) != cudaSuccess)
            return false;
    }
    out->before_ns = clock->asked_ns;
    do {
        reached = is_reached(clock->spare);
        out->after_ns = vp_clock_ns();
    } while (!reached && out->after_ns < until_ns);
    clock->is_late = !reached;
    return reached;
}

/* Makes several tries and keeps the one whose readings are closest together.
 * Its event is swapped with the spare one. Returns false if no try
 * succeeded. */
static bool look_closely(struct vp_cuda_clock *clock, cudaEvent_t *event,
                         struct looks *out)
{
    int64_t limit = clock->tried_ns ? limit_ns : first_limit_ns;
    int64_t least = INT64_MAX, until_ns;
    struct looks looks;

    clock->tried_ns = vp_clock_ns();
    until_ns = clock->tried_ns + limit;
    for (int i = 0; i < TRIES && look(clock, until_ns, &looks); i++) {
        cudaEvent_t reached = clock->spare;

        if (looks.after_ns - looks.before_ns >= least)
            continue;
        least = looks.after_ns - looks.before_ns;
        *out = looks;
        clock->spare = *event;
        *event = reached;
    }
    return least < INT64_MAX;
}

/* Nanoseconds from reference point `i` to the event, by the device's clock. */
static bool since(const struct vp_cuda_clock *clock, int64_t i,
                  cudaEvent_t event, int64_t *ns_out)
{
    float ms = 0.0f;

    if (cudaEventElapsedTime(&ms, clock->moment[i % VP_CUDA_MOMENTS], event) !=
        cudaSuccess)
        return false;
    *ns_out = (int64_t)(1e6 * (double)ms);
    return true;
}

static int64_t within(int64_t ns, const struct looks *looks)
{
    return ns < looks->before_ns  ? looks->before_ns
           : ns > looks->after_ns ? looks->after_ns
                                  : ns;
}

/* Takes a new reference point. If the device is too busy for that, the existing
 * ones stay in use. */
static void take_moment(struct vp_cuda_clock *clock)
{
    int64_t at = clock->n % VP_CUDA_MOMENTS, ns = 0;
    cudaEvent_t *event = &clock->moment[at];
    struct looks looks;

    if (!look_closely(clock, event, &looks))
        return;
    if (clock->n > 0 && since(clock, clock->n - 1, *event, &ns))
        ns += clock->host_ns[(clock->n - 1) % VP_CUDA_MOMENTS];
    else
        ns = looks.before_ns + (looks.after_ns - looks.before_ns) / 2;
    clock->host_ns[at] = within(ns, &looks);
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

enum vp_status vp_cuda_timed_event_create(struct vp_device *device,
                                          struct vp_event **out)
{
    struct vp_backend *backend = vp_cuda_backend_of(device);
    struct vp_cuda_event *event;
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
    *out = &event->base;
    return VP_OK;
}

void vp_cuda_clock_look(struct vp_cuda_clock *clock)
{
    if (vp_clock_ns() - clock->tried_ns > period_ns)
        take_moment(clock);
}

/* Uses the last reference point before the event: newer ones may have been
 * taken after the event was recorded, or even after it was reached. */
bool vp_cuda_event_time(struct vp_event *base, int64_t *ns_out)
{
    const struct vp_cuda_event *event = vp_cuda_event_of(base);
    const struct vp_cuda_clock *clock = event->clock;
    int64_t oldest = clock->n > VP_CUDA_MOMENTS ? clock->n - VP_CUDA_MOMENTS
                                                : 0;
    int64_t ns = -1;

    if (!is_reached(event->event))
        return false;
    for (int64_t i = clock->n - 1; i >= oldest && ns < 0; i--) {
        if (!since(clock, i, event->event, &ns))
            return false;
        *ns_out = clock->host_ns[i % VP_CUDA_MOMENTS] + ns;
    }
    return clock->n > 0;
}
