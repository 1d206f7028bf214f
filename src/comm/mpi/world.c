/* The world of processes: joining, waiting, abort messages, and leaving. */
#include "comm/mpi/mpi.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    N_SPINS = 200,            /* tests of a wait without a pause: about 50 us */
    YIELD_NS = 1000 * 1000,   /* then it yields the core for this time */
    NAP_NS = 50 * 1000,       /* then it sleeps this long between tests */
    ALARM_EVERY = 32,         /* tests between two checks for abort messages */
    POLL_NS = 100 * 1000,     /* least time between two polls */
    LEAVE_MS = 20 * 1000,     /* limit of the barrier after a good run */
    ALARM_MS = 5 * 1000,      /* limit of the barrier after an abort */
    FLUSH_NS = 500 * 1000000, /* for mpirun to forward output: MPICH's drops
                                 unread output of a job that is aborted */
    FAILED = 1,               /* exit status of MPI_Abort() */
};

/* ---- Errors ------------------------------------------------------------- */

void vp_mpi_check(struct vp_mpi_world *world, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    struct vp_err err;
    int n = 0;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, text, &n);
    vp_err_set(&err, VP_ERR_IO, "rank %d: MPI, %s: %s", world->number, what,
               text);
    vp_mpi_unlock(world);
    vp_world_abort(&world->base, VP_ERR_IO, err.text);
    vp_mpi_lock(world);
}

/* ---- Abort messages ----------------------------------------------------- */

static void tell_abort(struct vp_world *base, enum vp_status status)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);

    vp_mpi_lock(world);
    world->abort_status = (int)status;
    for (int r = 0; r < base->n_ranks; r++)
        if (r != world->rank)
            MPI_Isend(&world->abort_status, 1, MPI_INT, r, 0, world->alarms,
                      &world->abort_sends[r]);
    vp_mpi_unlock(world);
}

/* Stops this world if another process has sent an abort message. The text stays
 * empty: the process that failed reports the error. Locked. */
static void check_alarms(struct vp_mpi_world *world)
{
    MPI_Status from;
    int there = 0, status = 0;

    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, world->alarms, &there, &from) !=
            MPI_SUCCESS ||
        !there ||
        MPI_Recv(&status, 1, MPI_INT, from.MPI_SOURCE, 0, world->alarms,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return;
    pthread_mutex_lock(&world->base.lock);
    if (world->base.status == VP_OK) {
        world->base.status = (enum vp_status)status;
        world->base.err.text[0] = '\0';
    }
    pthread_mutex_unlock(&world->base.lock);
    atomic_store(&world->base.stop, true);
}

/* ---- Waiting ------------------------------------------------------------ */

bool vp_mpi_done(struct vp_mpi_world *world, int n, MPI_Request *requests)
{
    int done = 0;

    vp_mpi_check(world, MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE),
                 "a transfer");
    return done;
}

void vp_mpi_drop(int n, MPI_Request *requests, bool receives)
{
    for (int i = 0; i < n; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        if (receives)
            MPI_Cancel(&requests[i]);
        MPI_Request_free(&requests[i]);
    }
}

/* Yields or sleeps in a long wait: there may be more ranks than cores. */
static void relax(int n_tests, int64_t waited_ns)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };

    if (n_tests < N_SPINS)
        return;
    if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

enum vp_status vp_mpi_wait(struct vp_mpi_world *world, vp_mpi_test_fn test,
                           void *ctx, struct vp_limit limit)
{
    int64_t start = vp_clock_ns(), now = start;

    for (int n = 0;; n++) {
        bool done, late = n % ALARM_EVERY == 0 || now - start > YIELD_NS;

        vp_mpi_lock(world);
        done = test(ctx);
        vp_mpi_unlock(world);
        if (done)
            return VP_OK;
        if (late)
            vp_world_poll(&world->base);
        if (atomic_load(&world->base.stop))
            return VP_ERR_ABORTED;
        if (n % ALARM_EVERY == 0 || n >= N_SPINS)
            now = vp_clock_ns();
        if (vp_limit_is_over_at(&limit, now))
            return VP_ERR_TIMEOUT;
        relax(n, now - start);
    }
}

static void poll_world(struct vp_world *base)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);
    int64_t now = vp_clock_ns();

    if (now - atomic_load_explicit(&world->polled_ns, memory_order_relaxed) <
        POLL_NS)
        return;
    if (pthread_mutex_trylock(&world->calls) != 0)
        return; /* another thread is in MPI and makes progress */
    atomic_store_explicit(&world->polled_ns, now, memory_order_relaxed);
    check_alarms(world);
    vp_mpi_unlock(world);
}

/* ---- Leaving ------------------------------------------------------------ */

struct meeting {
    struct vp_mpi_world *world;
    MPI_Request request;
};

static bool all_came(void *ctx)
{
    struct meeting *meeting = ctx;

    return vp_mpi_done(meeting->world, 1, &meeting->request);
}

/* A barrier. Returns true if all processes came within `limit_ms`. */
static bool meet(struct vp_mpi_world *world, MPI_Comm comm, int limit_ms)
{
    struct meeting meeting = { world, MPI_REQUEST_NULL };
    bool failed;

    vp_mpi_lock(world);
    failed = MPI_Ibarrier(comm, &meeting.request) != MPI_SUCCESS;
    vp_mpi_unlock(world);
    return !failed && vp_mpi_wait(world, all_came, &meeting,
                                  vp_limit_ms(limit_ms)) == VP_OK;
}

/* A world that failed has transfers that will never complete, and perhaps
 * processes that do not poll: only MPI_Abort() ends it reliably. */
static void leave(struct vp_world *base)
{
    const struct timespec pause = { .tv_nsec = FLUSH_NS };
    struct vp_mpi_world *world = vp_mpi_world_of(base);

    if (base->status == VP_OK && meet(world, world->comm, LEAVE_MS))
        return;
    atomic_store(&base->stop, false); /* else the next wait would end at once */
    meet(world, world->alarms, ALARM_MS);
    fflush(NULL);
    nanosleep(&pause, NULL);
    MPI_Abort(MPI_COMM_WORLD, FAILED);
}

static void world_free(struct vp_world *base)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);

    MPI_Comm_free(&world->alarms);
    MPI_Comm_free(&world->comm);
    MPI_Finalize();
    pthread_mutex_destroy(&world->calls);
    pthread_mutex_destroy(&base->lock);
    free(world->abort_sends);
    free(world);
}

/* ---- Agreeing ----------------------------------------------------------- */

static enum vp_status agree(struct vp_world *base, enum vp_status status,
                            struct vp_limit limit, int *rank_out,
                            enum vp_status *agreed_out)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);
    struct meeting meeting = { world, MPI_REQUEST_NULL };

    world->mine = status == VP_OK ? base->n_ranks : world->rank;
    world->said = (int)status;
    vp_mpi_lock(world);
    vp_mpi_check(world,
                 MPI_Iallreduce(&world->mine, &world->first, 1, MPI_INT,
                                MPI_MIN, world->comm, &meeting.request),
                 "agreeing");
    vp_mpi_unlock(world);
    VP_TRY(vp_mpi_wait(world, all_came, &meeting, limit));
    *rank_out = world->first;
    *agreed_out = VP_OK;
    if (world->first == base->n_ranks)
        return VP_OK;
    vp_mpi_lock(world);
    vp_mpi_check(world,
                 MPI_Ibcast(&world->said, 1, MPI_INT, world->first, world->comm,
                            &meeting.request),
                 "agreeing");
    vp_mpi_unlock(world);
    VP_TRY(vp_mpi_wait(world, all_came, &meeting, limit));
    *agreed_out = (enum vp_status)world->said;
    return VP_OK;
}

static enum vp_status share(struct vp_world *base, void *bytes, size_t n,
                            struct vp_limit limit)
{
    struct vp_mpi_world *world = vp_mpi_world_of(base);
    struct meeting meeting = { world, MPI_REQUEST_NULL };

    VP_BUG_ON(n > sizeof(world->shared));
    memcpy(world->shared, bytes, n);
    vp_mpi_lock(world);
    vp_mpi_check(world,
                 MPI_Ibcast(world->shared, (int)n, MPI_BYTE, base->lead,
                            world->comm, &meeting.request),
                 "sharing");
    vp_mpi_unlock(world);
    VP_TRY(vp_mpi_wait(world, all_came, &meeting, limit));
    memcpy(bytes, world->shared, n);
    return VP_OK;
}

/* ---- Joining ------------------------------------------------------------ */

static bool is_mine(const struct vp_world *world, int rank)
{
    return ((const struct vp_mpi_world *)world)->rank == rank;
}

static bool is_apart(const struct vp_world *world, int a, int b)
{
    (void)world;
    return a != b;
}

static const struct vp_world_ops world_ops = {
    .name = "mpi",
    .leave = leave,
    .free = world_free,
    .is_mine = is_mine,
    .is_apart = is_apart,
    .poll = poll_world,
    .tell_abort = tell_abort,
    .agree = agree,
    .share = share,
    .channel_create = vp_mpi_channel_create,
    .group_create = vp_mpi_group_create,
};

/* Writes the first line of MPI's version string, up to a comma. */
static void name_library(char text[MPI_MAX_LIBRARY_VERSION_STRING])
{
    int n = 0;

    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c; c++)
        *c = (char)(*c == '\t' ? ' ' : *c);
}

static enum vp_status start(const struct vp_processes *self, struct vp_err *err)
{
    int level = MPI_THREAD_SINGLE, n = 0, index = 0;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) !=
        MPI_SUCCESS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "MPI: MPI_Init_thread failed; check the MPI "
                          "installation, or start one process");
    name_library(library);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &index);
    if (level < MPI_THREAD_SERIALIZED)
        vp_err_set(err, VP_ERR_UNSUPPORTED,
                   "%s was built without threads; use one with "
                   "MPI_THREAD_SERIALIZED",
                   library);
    else if (n != self->n || index != self->index)
        vp_err_set(err, VP_ERR_UNSUPPORTED,
                   "started as process %d of %d, but the MPI of this build "
                   "(%s) sees process %d of %d; start with its own mpirun, or "
                   "build vpipe with the MPI of this one",
                   self->index, self->n, library, index, n);
    else
        return VP_OK;
    MPI_Finalize();
    return VP_ERR_UNSUPPORTED;
}

/* Refuses processes with different lists of ranks: they would wait for each
 * other. All compare a hash of their list; process 0 reports the error. */
static enum vp_status check_order(const struct vp_processes *self, int n_ranks,
                                  const int *processes, struct vp_err *err)
{
    int64_t mine[2] = { n_ranks, 0 }, most[2] = { 0, 1 };

    for (int r = 0; r < n_ranks; r++)
        mine[0] = (mine[0] * 1021 + processes[r]) % INT32_MAX;
    mine[1] = -mine[0];
    if (MPI_Allreduce(mine, most, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD) ==
            MPI_SUCCESS &&
        most[0] == -most[1])
        return VP_OK;
    vp_err_set(err, VP_ERR_INVALID,
               "the processes do not agree on which of them is which rank; "
               "start all with the same 'ranks' or 'config_file'");
    if (self->index > 0 && err)
        err->text[0] = '\0';
    MPI_Finalize();
    return VP_ERR_INVALID;
}

static enum vp_status split(struct vp_mpi_world *world)
{
    MPI_Comm here;
    int *last = NULL, found = 0, n_here = 1;

    if (MPI_Comm_split(MPI_COMM_WORLD, 0, world->rank, &world->comm) !=
            MPI_SUCCESS ||
        MPI_Comm_dup(world->comm, &world->alarms) != MPI_SUCCESS ||
        MPI_Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                            &here) != MPI_SUCCESS)
        return VP_ERR_IO;
    MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(world->alarms, MPI_ERRORS_RETURN);
    MPI_Comm_size(here, &n_here);
    MPI_Comm_free(&here);
    world->base.n_here = n_here;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &last, &found);
    world->last_tag = found ? *last : 32767;
    return VP_OK;
}

int vp_plugin_comm_version(void)
{
    return VP_COMM_ABI;
}

void vp_plugin_describe(char *text, size_t n_bytes)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];

    name_library(library);
    snprintf(text, n_bytes, "%s", library);
}

enum vp_status vp_plugin_join(const struct vp_processes *self, int n_ranks,
                              const int *processes, struct vp_world **out,
                              struct vp_err *err)
{
    struct vp_mpi_world *world = calloc(1, sizeof(*world));
    enum vp_status st;

    if (world)
        world->abort_sends = calloc((size_t)n_ranks, sizeof(MPI_Request));
    if (!world || !world->abort_sends) {
        free(world);
        return vp_err_set(err, VP_ERR_NOMEM, "MPI: out of memory");
    }
    world->base.ops = &world_ops;
    world->base.n_ranks = n_ranks;
    world->number = self->index;
    for (int r = 0; r < n_ranks; r++) {
        if (processes[r] == self->index)
            world->rank = r;
        if (processes[r] == 0)
            world->base.lead = r;
    }
    pthread_mutex_init(&world->base.lock, NULL);
    pthread_mutex_init(&world->calls, NULL);
    st = start(self, err);
    if (st == VP_OK)
        st = check_order(self, n_ranks, processes, err);
    if (st == VP_OK && split(world) != VP_OK)
        st = vp_err_set(err, VP_ERR_UNSUPPORTED,
                        "MPI: communicators cannot be created; check the MPI "
                        "installation, or start one process");
    if (st != VP_OK) {
        free(world->abort_sends);
        free(world);
        return st;
    }
    for (int r = 0; r < n_ranks; r++)
        world->abort_sends[r] = MPI_REQUEST_NULL;
    *out = &world->base;
    return VP_OK;
}
