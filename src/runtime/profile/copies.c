/* Times copies between a device and the host, and runs copies as a background
 * load. */
#include "runtime/profile/copies.h"

#include "base/clock.h"
#include "runtime/profile/median.h"
#include "runtime/profile/stopwatch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N_REPEATS = 7, OUT = 0, IN = 1, LOAD_TIMEOUT_MS = 10000 };

static const size_t n_copied = (size_t)32 << 20;

/* One direction of copies: a buffer at each end and a stream. */
struct lane {
    struct vp_device *device;
    struct vp_stream *stream;
    struct vp_stopwatch watch;
    void *device_buffer, *host_buffer;
};

static enum vp_status lane_init(struct lane *lane, struct vp_device *device)
{
    *lane = (struct lane){ .device = device };
    VP_TRY(vp_stream_create(device, &lane->stream));
    VP_TRY(vp_stopwatch_init(&lane->watch, device));
    VP_TRY(vp_device_alloc(device, n_copied, &lane->device_buffer));
    VP_TRY(vp_device_host_alloc(device, n_copied, &lane->host_buffer));
    memset(lane->host_buffer, 1, n_copied);
    return VP_OK;
}

static void lane_release(struct lane *lane)
{
    if (!lane->device)
        return;
    vp_device_host_free(lane->device, lane->host_buffer);
    vp_device_free(lane->device, lane->device_buffer, n_copied);
    vp_stopwatch_release(&lane->watch);
    vp_stream_free(lane->stream);
}

static enum vp_status lane_copy(struct lane *lane, int way)
{
    void *dst = way == OUT ? lane->host_buffer : lane->device_buffer;
    void *src = way == OUT ? lane->device_buffer : lane->host_buffer;

    VP_TRY(vp_stopwatch_start(&lane->watch, lane->stream));
    VP_TRY(vp_stream_copy(lane->stream, dst, src, n_copied));
    return vp_stopwatch_lap(&lane->watch, lane->stream);
}

static enum vp_status lane_rate(struct lane *lane, int timeout_ms, double *out)
{
    VP_TRY(vp_stopwatch_read(&lane->watch, timeout_ms));
    *out = (double)n_copied /
           (1e-9 * (double)(lane->watch.ns[1] - lane->watch.ns[0] + 1));
    return VP_OK;
}

/* ---- Rates -------------------------------------------------------------- */

static enum vp_status measure(struct lane lanes[2], int timeout_ms,
                              struct vp_copy_rates *out)
{
    double rates[4][N_REPEATS];

    for (int i = -1; i < N_REPEATS; i++) {
        int at = i < 0 ? 0 : i; /* the first round is warm-up */

        for (int way = OUT; way <= IN; way++) {
            VP_TRY(lane_copy(&lanes[way], way));
            VP_TRY(lane_rate(&lanes[way], timeout_ms, &rates[way][at]));
        }
        for (int way = OUT; way <= IN; way++)
            VP_TRY(lane_copy(&lanes[way], way));
        for (int way = OUT; way <= IN; way++)
            VP_TRY(lane_rate(&lanes[way], timeout_ms, &rates[2 + way][at]));
    }
    *out = (struct vp_copy_rates){
        .out = vp_median(rates[0], N_REPEATS),
        .in = vp_median(rates[1], N_REPEATS),
        .out_both = vp_median(rates[2], N_REPEATS),
        .in_both = vp_median(rates[3], N_REPEATS),
    };
    return VP_OK;
}

enum vp_status vp_copies_measure(struct vp_device *device, int timeout_ms,
                                 struct vp_copy_rates *rates_out)
{
    struct lane lanes[2] = { { NULL }, { NULL } };
    enum vp_status st;

    *rates_out = (struct vp_copy_rates){ 0.0, 0.0, 0.0, 0.0 };
    if (vp_device_has_host_memory(device))
        return VP_OK;
    st = lane_init(&lanes[OUT], device);
    if (st == VP_OK)
        st = lane_init(&lanes[IN], device);
    if (st == VP_OK)
        st = measure(lanes, timeout_ms, rates_out);
    lane_release(&lanes[OUT]);
    lane_release(&lanes[IN]);
    return st;
}

/* ---- Load --------------------------------------------------------------- */

struct vp_copy_load {
    struct lane lanes[2];
    pthread_t thread;
    atomic_bool stop;
    enum vp_status status;
};

static enum vp_status copy_both(struct vp_copy_load *load)
{
    double rate;

    for (int way = OUT; way <= IN; way++)
        VP_TRY(lane_copy(&load->lanes[way], way));
    for (int way = OUT; way <= IN; way++)
        VP_TRY(lane_rate(&load->lanes[way], LOAD_TIMEOUT_MS, &rate));
    return VP_OK;
}

static void *load_main(void *arg)
{
    struct vp_copy_load *load = arg;

    vp_device_attach(load->lanes[OUT].device);
    while (!atomic_load(&load->stop) && load->status == VP_OK)
        load->status = copy_both(load);
    return NULL;
}

enum vp_status vp_copy_load_start(struct vp_device *device,
                                  struct vp_copy_load **out)
{
    struct vp_copy_load *load = calloc(1, sizeof(*load));
    enum vp_status st;

    if (!load)
        return VP_ERR_NOMEM;
    st = lane_init(&load->lanes[OUT], device);
    if (st == VP_OK)
        st = lane_init(&load->lanes[IN], device);
    if (st == VP_OK &&
        pthread_create(&load->thread, NULL, load_main, load) != 0)
        st = VP_ERR_NOMEM;
    if (st == VP_OK) {
        *out = load;
        return VP_OK;
    }
    lane_release(&load->lanes[OUT]);
    lane_release(&load->lanes[IN]);
    free(load);
    return st;
}

enum vp_status vp_copy_load_stop(struct vp_copy_load *load)
{
    enum vp_status st;

    atomic_store(&load->stop, true);
    pthread_join(load->thread, NULL);
    st = load->status;
    lane_release(&load->lanes[OUT]);
    lane_release(&load->lanes[IN]);
    free(load);
    return st;
}

/* ---- Memory of the host ------------------------------------------------- */

double vp_copies_host_rate(void)
{
    char *from = malloc(n_copied), *to = malloc(n_copied);
    double rates[N_REPEATS] = { 0.0 }, rate = 0.0;

    if (from && to) {
        memset(from, 1, n_copied);
        memset(to, 2, n_copied);
        for (int i = 0; i < N_REPEATS; i++) {
            int64_t start = vp_clock_ns();

            memcpy(to, from, n_copied);
            /* The compiler must not drop the copy. */
            from[i] = to[n_copied - 1];
            rates[i] = (double)n_copied /
                       (1e-9 * (double)(vp_clock_ns() - start + 1));
        }
        rate = vp_median(rates, N_REPEATS);
    }
    free(from);
    free(to);
    return rate;
}
