/* Asynchronous copies: on an asynchronous device a stream and events, on other
 * devices a thread that takes copies from a ring. */
#include "device/copier.h"

#include "base/limit.h"
#include "base/rng.h"
#include "device/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_JOBS = 256, LAST_WAIT_MS = 10000 };

/* One copy for the thread. */
struct job {
    void *dst;
    const void *src;
    size_t n_bytes;
};

struct vp_copier {
    struct vp_device *device;
    int most_us; /* longest delay of a copy; see vp_copier_disturb() */
    bool overwrite;
    uint64_t n_begun; /* copies */

    /* On an asynchronous device: */
    struct vp_stream *stream;
    struct vp_event *followed;
    void *filler; /* pinned host memory, all bytes 0xff */

    /* On other devices: */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below and n_begun */
    pthread_cond_t moved;
    bool has_thread, stop;
    struct job jobs[MAX_JOBS]; /* a ring */
    uint64_t n_made;           /* copies */
};

static int delay_us(const struct vp_copier *copier)
{
    uint64_t n = copier->stream ? copier->n_begun : copier->n_made;
    uint32_t bits =
        vp_rng(1, VP_RNG_TEST, 0, n, (uint64_t)(uintptr_t)copier, 0).v[0];

    return copier->most_us > 0
               ? (int)vp_rng_below(bits, (uint32_t)copier->most_us)
               : 0;
}

/* ---- The thread --------------------------------------------------------- */

static void sleep_us(int us)
{
    const struct timespec pause = { .tv_sec = us / 1000000,
                                    .tv_nsec = us % 1000000 * 1000L };

    if (us > 0)
        nanosleep(&pause, NULL);
}

static void make_copy(struct vp_copier *copier, const struct job *job)
{
    sleep_us(delay_us(copier));
    memcpy(job->dst, job->src, job->n_bytes);
    if (copier->overwrite)
        memset((void *)(uintptr_t)job->src, 0xff, job->n_bytes);
}

static void *thread_main(void *ctx)
{
    struct vp_copier *copier = ctx;

    pthread_mutex_lock(&copier->lock);
    for (;;) {
        struct job job;

        if (copier->n_made == copier->n_begun) {
            if (copier->stop)
                break;
            pthread_cond_wait(&copier->moved, &copier->lock);
            continue;
        }
        job = copier->jobs[copier->n_made % MAX_JOBS];
        pthread_mutex_unlock(&copier->lock);
        make_copy(copier, &job);
        pthread_mutex_lock(&copier->lock);
        copier->n_made++;
        pthread_cond_broadcast(&copier->moved);
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

/* Waits until a copy begins or ends, for half a heartbeat at most. The caller
 * holds the lock. */
static void wait_a_little(struct vp_copier *copier)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += VP_HEARTBEAT_MS * 1000000L / 2;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&copier->moved, &copier->lock, &until);
}

/* Hands a copy to the thread; waits while the ring is full. Returns the number
 * of the copy. */
static uint64_t enqueue(struct vp_copier *copier, struct job job)
{
    uint64_t number;

    pthread_mutex_lock(&copier->lock);
    while (copier->n_begun - copier->n_made == MAX_JOBS)
        wait_a_little(copier);
    copier->jobs[copier->n_begun % MAX_JOBS] = job;
    number = ++copier->n_begun;
    pthread_cond_broadcast(&copier->moved);
    pthread_mutex_unlock(&copier->lock);
    return number;
}

static enum vp_status wait_for_thread(const struct vp_copy *copy,
                                      int timeout_ms)
{
    struct vp_limit limit = vp_limit_ms(timeout_ms);
    struct vp_copier *copier = copy->by;
    enum vp_status st = VP_OK;

    pthread_mutex_lock(&copier->lock);
    while (st == VP_OK && copier->n_made < copy->number) {
        wait_a_little(copier);
        if (vp_limit_is_over(&limit))
            st = VP_ERR_TIMEOUT;
    }
    pthread_mutex_unlock(&copier->lock);
    return st;
}

/* ---- Streams ------------------------------------------------------------ */

static enum vp_status copy_pieces(struct vp_copier *copier, char *dst,
                                  const char *src, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes; at += VP_COPY_PIECE) {
        size_t n = n_bytes - at < VP_COPY_PIECE ? n_bytes - at : VP_COPY_PIECE;

        VP_TRY(vp_stream_copy(copier->stream, dst + at, src + at, n));
    }
    return VP_OK;
}

static enum vp_status fill_source(struct vp_copier *copier, char *src,
                                  size_t n_bytes)
{
    if (!copier->filler) {
        VP_TRY(vp_device_host_alloc(copier->device, VP_COPY_PIECE,
                                    &copier->filler));
        memset(copier->filler, 0xff, VP_COPY_PIECE);
    }
    for (size_t at = 0; at < n_bytes; at += VP_COPY_PIECE) {
        size_t n = n_bytes - at < VP_COPY_PIECE ? n_bytes - at : VP_COPY_PIECE;

        VP_TRY(vp_stream_copy(copier->stream, src + at, copier->filler, n));
    }
    return VP_OK;
}

static enum vp_status copy_in_stream(struct vp_copier *copier,
                                     struct vp_copy *copy, void *dst,
                                     const void *src, size_t n_bytes)
{
    const struct vp_device_ops *ops = copier->device->ops;

    if (copier->most_us > 0 && ops->stall)
        VP_TRY(ops->stall(copier->stream, delay_us(copier)));
    VP_TRY(copy_pieces(copier, dst, src, n_bytes));
    if (copier->overwrite)
        VP_TRY(fill_source(copier, (char *)(uintptr_t)src, n_bytes));
    return vp_event_record(copy->made, copier->stream);
}

/* ---- Public functions --------------------------------------------------- */

static enum vp_status create_stream(struct vp_copier *copier)
{
    const struct vp_device_ops *ops = copier->device->ops;
    enum vp_status st = ops->copy_stream_create
                            ? ops->copy_stream_create(copier->device,
                                                      &copier->stream)
                            : ops->stream_create(copier->device,
                                                 &copier->stream);

    if (st != VP_OK)
        return st;
    copier->stream->device = copier->device;
    return vp_event_create(copier->device, &copier->followed);
}

enum vp_status vp_copier_create(struct vp_device *device,
                                struct vp_copier **out)
{
    struct vp_copier *copier = calloc(1, sizeof(*copier));
    enum vp_status st = VP_OK;

    if (!copier)
        return VP_ERR_NOMEM;
    copier->device = device;
    pthread_mutex_init(&copier->lock, NULL);
    pthread_cond_init(&copier->moved, NULL);
    if (vp_device_is_async(device))
        st = create_stream(copier);
    else if (pthread_create(&copier->thread, NULL, thread_main, copier) == 0)
        copier->has_thread = true;
    else
        st = VP_ERR_UNSUPPORTED;
    if (st != VP_OK) {
        vp_copier_free(copier);
        return st;
    }
    *out = copier;
    return VP_OK;
}

void vp_copier_free(struct vp_copier *copier)
{
    if (!copier)
        return;
    if (copier->has_thread) {
        pthread_mutex_lock(&copier->lock);
        copier->stop = true;
        pthread_cond_broadcast(&copier->moved);
        pthread_mutex_unlock(&copier->lock);
        pthread_join(copier->thread, NULL);
    }
    pthread_mutex_destroy(&copier->lock);
    pthread_cond_destroy(&copier->moved);
    if (copier->stream && copier->followed &&
        vp_event_record(copier->followed, copier->stream) == VP_OK)
        vp_event_sync(copier->followed, LAST_WAIT_MS);
    vp_event_free(copier->followed);
    vp_stream_free(copier->stream);
    vp_device_host_free(copier->device, copier->filler);
    free(copier);
}

enum vp_status vp_copy_init(struct vp_device *device, struct vp_copy *copy)
{
    *copy = (struct vp_copy){ .by = NULL };
    return vp_device_is_async(device) ? vp_event_create(device, &copy->made)
                                      : VP_OK;
}

void vp_copy_release(struct vp_copy *copy)
{
    vp_event_free(copy->made);
    *copy = (struct vp_copy){ .by = NULL };
}

enum vp_status vp_copier_follow(struct vp_copier *copier,
                                struct vp_stream *stream)
{
    if (!copier->stream)
        return VP_OK; /* not asynchronous: the stream's work is done */
    VP_TRY(vp_event_record(copier->followed, stream));
    return vp_stream_wait(copier->stream, copier->followed);
}

enum vp_status vp_copier_begin(struct vp_copier *copier, struct vp_copy *copy,
                               void *dst, const void *src, size_t n_bytes)
{
    copy->by = copier;
    if (copier->stream) {
        copy->number = ++copier->n_begun;
        return copy_in_stream(copier, copy, dst, src, n_bytes);
    }
    copy->number = enqueue(copier, (struct job){ dst, src, n_bytes });
    return VP_OK;
}

enum vp_status vp_copy_wait(const struct vp_copy *copy,
                            struct vp_stream *stream, int timeout_ms)
{
    if (!copy->by)
        return VP_OK;
    if (copy->by->stream)
        return vp_stream_wait(stream, copy->made);
    return wait_for_thread(copy, timeout_ms);
}

void vp_copier_disturb(struct vp_copier *copier, int most_us, bool overwrite)
{
    copier->most_us = most_us;
    copier->overwrite = overwrite;
}
