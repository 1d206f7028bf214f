/* Communicators. Making one waits for all members, in calls that have no time
 * limit of their own: a thread makes them, and it is waited for. */
#include "comm/nccl/nccl.h"

#include <stdlib.h>
#include <time.h>

enum {
    JOIN_MS = 120 * 1000, /* for all members to come */
    LEAVE_MS = 10 * 1000,
    NAP_NS = 500 * 1000,
    SPARE_BYTES = 256, /* for each member, when connections are tried */
};

struct vp_limit vp_nccl_limit(void)
{
    return vp_limit_ms(JOIN_MS);
}

enum vp_status vp_nccl_blame(const struct vp_nccl_world *nccl, const char *what,
                             int result, struct vp_err *err)
{
    const char *more = nccl->api->last_error(NULL);

    return vp_err_set(err, VP_ERR_IO, "NCCL, %s: %s%s%s", what,
                      nccl->api->error_text(result), more && *more ? ": " : "",
                      more ? more : "");
}

enum vp_status vp_nccl_make_id(const struct vp_nccl_world *nccl,
                               struct vp_nccl_id *id, struct vp_err *err)
{
    int rc = nccl->api->make_id(id);

    return rc == VP_NCCL_OK ? VP_OK : vp_nccl_blame(nccl, "an id", rc, err);
}

/* ---- Errands ------------------------------------------------------------ */

/* Given up, it belongs to its thread, which may never end, and so does all
 * that it points to. */
struct errand {
    struct vp_nccl_world *nccl;
    struct vp_nccl_clique *clique;
    struct vp_nccl_id id;
    enum vp_nccl_use use;
    bool aborts; /* a world that has ended */
    enum vp_status status;
    struct vp_err err;
    bool lost; /* given up */
    atomic_bool done;
};

typedef void *(*errand_fn)(void *errand);

static enum vp_status wait_for(struct errand *errand, errand_fn fn,
                               int limit_ms)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    struct vp_limit limit = vp_limit_ms(limit_ms);
    struct vp_world *world = errand->nccl->world;
    pthread_t thread;

    if (pthread_create(&thread, NULL, fn, errand))
        return vp_err_set(&errand->err, VP_ERR_NOMEM,
                          "NCCL: a thread cannot start");
    while (!atomic_load(&errand->done)) {
        bool stopped = !errand->aborts && atomic_load(&world->stop);

        if (stopped || vp_limit_is_over(&limit)) {
            pthread_detach(thread);
            errand->lost = true;
            return stopped ? VP_ERR_ABORTED : VP_ERR_TIMEOUT;
        }
        vp_world_poll(world);
        nanosleep(&nap, NULL);
    }
    pthread_join(thread, NULL);
    return errand->status;
}

/* On a copy of `what`, where only `lost` is set. */
static enum vp_status run(struct errand *what, errand_fn fn, int limit_ms,
                          struct vp_err *err)
{
    struct errand *errand = calloc(1, sizeof(*errand));
    enum vp_status st;

    if (!errand)
        return vp_err_set(err, VP_ERR_NOMEM, "NCCL: out of memory");
    *errand = *what;
    st = wait_for(errand, fn, limit_ms);
    what->lost = errand->lost;
    if (what->lost && st == VP_ERR_ABORTED)
        return vp_err_set(err, st, "NCCL: the job ended meanwhile");
    if (what->lost)
        return vp_err_set(err, st, "NCCL does not answer after %d s",
                          limit_ms / 1000);
    if (st != VP_OK)
        vp_err_set(err, st, "%s", errand->err.text);
    free(errand);
    return st;
}

/* ---- Joining ------------------------------------------------------------ */

static void *join(void *arg)
{
    struct errand *errand = arg;
    struct vp_nccl_world *nccl = errand->nccl;
    struct vp_nccl_clique *clique = errand->clique;
    int rc;

    vp_device_attach(nccl->device);
    rc = nccl->api->join(&clique->comm, clique->n, errand->id, clique->me);
    if (rc != VP_NCCL_OK)
        errand->status = vp_nccl_blame(nccl, "joining", rc, &errand->err);
    atomic_store(&errand->done, true);
    return NULL;
}

enum vp_status vp_nccl_clique_create(struct vp_nccl_world *nccl,
                                     const struct vp_nccl_id *id, int n, int me,
                                     struct vp_nccl_clique **out,
                                     struct vp_err *err)
{
    struct vp_device *device = nccl->device;
    struct vp_nccl_clique *clique = calloc(1, sizeof(*clique));
    struct errand errand = { .nccl = nccl, .clique = clique, .id = *id };
    enum vp_status st;

    if (!clique)
        return vp_err_set(err, VP_ERR_NOMEM, "NCCL: out of memory");
    clique->n = n;
    clique->me = me;
    st = run(&errand, join, JOIN_MS, err);
    if (st != VP_OK) {
        if (!errand.lost)
            free(clique);
        return st;
    }
    /* From here on it is freed with the world. */
    pthread_mutex_lock(&nccl->lock);
    clique->next = nccl->cliques;
    nccl->cliques = clique;
    pthread_mutex_unlock(&nccl->lock);
    if (vp_stream_create(device, &clique->stream) != VP_OK ||
        vp_event_create(device, &clique->done) != VP_OK)
        return vp_err_set(err, VP_ERR_IO, "NCCL, a stream: %s",
                          vp_device_last_error(device));
    clique->handle = vp_stream_handle(clique->stream);
    *out = clique;
    return VP_OK;
}

/* ---- Connecting --------------------------------------------------------- */

/* A byte each way that will be used: NCCL connects when it is first asked. */
static int try_ways(const struct vp_nccl_api *api,
                    const struct vp_nccl_clique *clique, char *spare,
                    enum vp_nccl_use use)
{
    int rc = api->group_start();

    for (int k = 0; k < clique->n && rc == VP_NCCL_OK; k++) {
        if (k == clique->me)
            continue;
        if (use == VP_NCCL_TRADE || clique->me == 0)
            rc = api->send(spare, 1, VP_NCCL_BYTES, k, clique->comm,
                           clique->handle);
        if (rc == VP_NCCL_OK && (use == VP_NCCL_TRADE || k == 0))
            rc = api->receive(spare + SPARE_BYTES * (k + 1), 1, VP_NCCL_BYTES,
                              k, clique->comm, clique->handle);
    }
    return rc == VP_NCCL_OK ? api->group_end() : rc;
}

static enum vp_status try_use(struct errand *errand)
{
    const struct vp_nccl_api *api = errand->nccl->api;
    struct vp_device *device = errand->nccl->device;
    const struct vp_nccl_clique *clique = errand->clique;
    size_t n_bytes = (size_t)(clique->n + 1) * SPARE_BYTES;
    enum vp_status st;
    void *spare;
    int rc;

    VP_TRY(vp_device_alloc(device, n_bytes, &spare));
    if (errand->use == VP_NCCL_REDUCE)
        rc = api->all_reduce(spare, spare, 1, VP_NCCL_FLOATS, VP_NCCL_SUM,
                             clique->comm, clique->handle);
    else if (errand->use == VP_NCCL_GATHER)
        rc = api->all_gather(spare, (char *)spare + SPARE_BYTES, SPARE_BYTES,
                             VP_NCCL_BYTES, clique->comm, clique->handle);
    else
        rc = try_ways(api, clique, spare, errand->use);
    st = rc == VP_NCCL_OK
             ? vp_event_record(clique->done, clique->stream)
             : vp_nccl_blame(errand->nccl, "connecting", rc, &errand->err);
    if (st == VP_OK)
        st = vp_event_sync(clique->done, JOIN_MS);
    vp_device_free(device, spare, n_bytes);
    return st;
}

static void *connect_main(void *arg)
{
    struct errand *errand = arg;
    struct vp_device *device = errand->nccl->device;

    vp_device_attach(device);
    errand->status = try_use(errand);
    if (errand->status != VP_OK && !errand->err.text[0])
        vp_err_set(&errand->err, errand->status, "NCCL, connecting: %s",
                   vp_device_last_error(device));
    atomic_store(&errand->done, true);
    return NULL;
}

enum vp_status vp_nccl_clique_connect(struct vp_nccl_world *nccl,
                                      struct vp_nccl_clique *clique,
                                      enum vp_nccl_use use, struct vp_err *err)
{
    struct errand errand = { .nccl = nccl, .clique = clique, .use = use };
    enum vp_status st = run(&errand, connect_main, JOIN_MS, err);

    clique->lost = errand.lost;
    return st;
}

/* ---- Leaving ------------------------------------------------------------ */

static void *leave(void *arg)
{
    struct errand *errand = arg;

    errand->nccl->api->destroy(errand->clique->comm);
    atomic_store(&errand->done, true);
    return NULL;
}

static void free_clique(struct vp_nccl_world *nccl,
                        struct vp_nccl_clique *clique)
{
    struct errand errand = { .nccl = nccl, .clique = clique };
    struct vp_err ignored;

    /* Leaked where a lost thread may still use it. */
    if (clique->lost || run(&errand, leave, LEAVE_MS, &ignored) != VP_OK)
        return;
    vp_event_free(clique->done);
    vp_stream_free(clique->stream);
    vp_device_free(nccl->device, clique->room, clique->n_room_bytes);
    free(clique);
}

void vp_nccl_cliques_free(struct vp_nccl_world *nccl)
{
    while (nccl->cliques) {
        struct vp_nccl_clique *clique = nccl->cliques;

        nccl->cliques = clique->next;
        free_clique(nccl, clique);
    }
}

static void *break_off(void *arg)
{
    struct errand *errand = arg;

    for (struct vp_nccl_clique *clique = errand->clique; clique;
         clique = clique->next)
        errand->nccl->api->break_off(clique->comm);
    atomic_store(&errand->done, true);
    return NULL;
}

void vp_nccl_cliques_abort(struct vp_nccl_world *nccl)
{
    struct errand errand = { .nccl = nccl,
                             .clique = nccl->cliques,
                             .aborts = true };
    struct vp_err ignored;

    nccl->cliques = NULL; /* the process ends: nothing is freed */
    run(&errand, break_off, LEAVE_MS, &ignored);
}

/* ---- Looking ------------------------------------------------------------ */

void vp_nccl_cliques_check(struct vp_nccl_world *nccl)
{
    for (struct vp_nccl_clique *clique = nccl->cliques; clique;
         clique = clique->next) {
        int found = VP_NCCL_OK;
        int rc = nccl->api->async_error(clique->comm, &found);

        vp_nccl_check(nccl, rc == VP_NCCL_OK ? found : rc, "a transfer");
    }
}
