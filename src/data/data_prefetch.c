/* Prefetching: a thread fills batches before they are used. The data set fixes
 * the order, so the thread changes when a batch is filled, not its content. */
#include "data/data.h"

#include "base/clock.h"
#include "base/limit.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* The reader wakes up at least this often to check its state. */
enum { READER_WAIT_MS = 1000 };

/* A ring of depth + 1 batches: `depth` prefetched ones and the one in use.
 *
 *   in use | ready, n_ready of them | free, the reader fills the first
 *   next-1   next ...
 */
struct place {
    struct vp_batch *batch;
};

struct vp_prefetch {
    const struct vp_data *data;
    int depth;
    int n_places;
    struct place *ring; /* [n_places] */
    pthread_t reader;
    bool has_reader;

    /* `lock` guards all fields below. Without it, only the reader accesses free
     * batches, and only the consumer the one in use. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct vp_batch_order order;
    uint64_t next_k; /* index in `order` of the consumer's next batch */
    int next;        /* its index in the ring */
    int n_ready;
    bool stop;
    enum vp_status failed; /* not VP_OK: the reader has ended with this error */
    struct vp_err err;
};

/* Waits for a free batch. Returns false if the reader must end. The caller
 * holds `lock`. */
static bool wait_for_room(struct vp_prefetch *p)
{
    while (!p->stop && p->n_ready == p->depth) {
        struct timespec at = vp_clock_after(READER_WAIT_MS);

        pthread_cond_timedwait(&p->changed, &p->lock, &at);
    }
    return !p->stop;
}

static void *reader_main(void *arg)
{
    struct vp_prefetch *p = arg;

    pthread_mutex_lock(&p->lock);
    while (p->failed == VP_OK && wait_for_room(p)) {
        struct vp_batch *batch =
            p->ring[(p->next + p->n_ready) % p->n_places].batch;
        uint64_t m = vp_batch_number(&p->order,
                                     p->next_k + (uint64_t)p->n_ready);
        struct vp_err err = { .text = "" };
        enum vp_status st;

        pthread_mutex_unlock(&p->lock);
        st = vp_data_fill(p->data, m, batch, &err);
        pthread_mutex_lock(&p->lock);
        if (st == VP_OK)
            p->n_ready++;
        p->failed = st;
        p->err = err;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static enum vp_status init_sync(struct vp_prefetch *p)
{
    if (vp_limit_cond_init(&p->changed) != 0)
        return VP_ERR_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    return VP_OK;
}

enum vp_status vp_prefetch_create(const struct vp_data *data,
                                  const struct vp_batch_order *order, int depth,
                                  struct vp_prefetch **out)
{
    enum vp_status st = VP_ERR_NOMEM;
    struct vp_prefetch *p;

    if (depth < 0 || depth == INT_MAX)
        return VP_ERR_INVALID;
    p = calloc(1, sizeof(*p));
    if (!p)
        return VP_ERR_NOMEM;
    p->data = data;
    p->depth = depth;
    p->order = order ? *order : (struct vp_batch_order){ 0, 1, 0, 1 };
    if (init_sync(p) != VP_OK) {
        free(p);
        return VP_ERR_NOMEM;
    }
    p->ring = calloc((size_t)depth + 1, sizeof(*p->ring));
    if (!p->ring)
        goto err_free_prefetch;
    p->n_places = depth + 1;
    for (int i = 0; i < p->n_places; i++) {
        if (vp_batch_create(data, &p->ring[i].batch) != VP_OK)
            goto err_free_prefetch;
    }
    if (depth > 0) {
        if (pthread_create(&p->reader, NULL, reader_main, p) != 0) {
            st = VP_ERR_UNSUPPORTED;
            goto err_free_prefetch;
        }
        p->has_reader = true;
    }
    *out = p;
    return VP_OK;

err_free_prefetch:
    vp_prefetch_free(p);
    return st;
}

void vp_prefetch_free(struct vp_prefetch *p)
{
    if (!p)
        return;
    if (p->has_reader) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->reader, NULL);
    }
    for (int i = 0; p->ring && i < p->n_places; i++)
        vp_batch_free(p->ring[i].batch);
    free(p->ring);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Waits until a batch is ready or the reader has failed. The caller holds
 * `lock`. */
static enum vp_status wait_for_batch(struct vp_prefetch *p, int timeout_ms,
                                     struct vp_err *err)
{
    struct vp_limit limit = vp_limit_ms(timeout_ms);

    while (p->n_ready == 0 && p->failed == VP_OK) {
        struct timespec at = vp_limit_next_look(&limit);

        if (vp_limit_is_over(&limit))
            return vp_err_set(
                err, VP_ERR_TIMEOUT,
                "batch %llu: not read within %d ms; check the "
                "disk that holds data_dir",
                (unsigned long long)vp_batch_number(&p->order, p->next_k),
                timeout_ms);
        pthread_cond_timedwait(&p->changed, &p->lock, &at);
    }
    if (p->n_ready > 0)
        return VP_OK;
    if (err)
        *err = p->err;
    return p->failed;
}

static enum vp_status next_ahead(struct vp_prefetch *p, int timeout_ms,
                                 const struct vp_batch **out,
                                 struct vp_err *err)
{
    enum vp_status st;

    pthread_mutex_lock(&p->lock);
    st = wait_for_batch(p, timeout_ms, err);
    if (st == VP_OK) {
        *out = p->ring[p->next].batch;
        p->next = (p->next + 1) % p->n_places;
        p->next_k++;
        p->n_ready--;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

enum vp_status vp_prefetch_next(struct vp_prefetch *p, int timeout_ms,
                                const struct vp_batch **out, struct vp_err *err)
{
    if (p->depth > 0)
        return next_ahead(p, timeout_ms, out, err);
    VP_TRY(vp_data_fill(p->data, vp_batch_number(&p->order, p->next_k),
                        p->ring[0].batch, err));
    p->next_k++;
    *out = p->ring[0].batch;
    return VP_OK;
}
