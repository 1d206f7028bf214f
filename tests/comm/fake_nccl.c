/* A libnccl.so.2 between processes of one machine, for tests without a GPU.
 * Every call does its work at once, not on its stream; a message lies in a file
 * until it is received. The environment variable FAKE_NCCL selects a fault:
 *
 *   old      reports an early version
 *   refuse   lets no rank join
 *   break    reports that transfers failed
 *
 * fake_nccl_bytes() returns the number of bytes that this process has sent. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INTERNAL = 3, INVALID_USAGE = 5, REMOTE = 6 };
enum { MAX_RANKS = 16, MAX_RECEIVES = 256, FLOATS = 7, LIMIT = 30000 };

struct id {
    char name[128];
};

struct comm {
    struct id id;
    int n, me;
    long taken[MAX_RANKS]; /* bytes received from each rank */
};

struct receive {
    struct comm *comm;
    void *data;
    size_t n_bytes;
    int from;
};

static _Thread_local struct receive receives[MAX_RECEIVES];
static _Thread_local int n_receives, depth;

#define EXPORT __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int *version);
EXPORT const char *ncclGetErrorString(int result);
EXPORT const char *ncclGetLastError(struct comm *comm);
EXPORT int ncclGetUniqueId(struct id *id);
EXPORT int ncclCommInitRank(struct comm **out, int n, struct id id, int me);
EXPORT int ncclCommDestroy(struct comm *comm);
EXPORT int ncclCommAbort(struct comm *comm);
EXPORT int ncclCommGetAsyncError(struct comm *comm, int *result);
EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclSend(const void *data, size_t n, int type, int to,
                    struct comm *comm, void *stream);
EXPORT int ncclRecv(void *data, size_t n, int type, int from, struct comm *comm,
                    void *stream);
EXPORT int ncclAllGather(const void *data, void *all, size_t n, int type,
                         struct comm *comm, void *stream);
EXPORT int ncclAllReduce(const void *data, void *sum, size_t n, int type,
                         int op, struct comm *comm, void *stream);

EXPORT long fake_nccl_bytes(void);

static atomic_long n_bytes_sent;

long fake_nccl_bytes(void)
{
    return atomic_load(&n_bytes_sent);
}

static bool does(const char *what)
{
    const char *asked = getenv("FAKE_NCCL");

    return asked && strcmp(asked, what) == 0;
}

int ncclGetVersion(int *version)
{
    *version = does("old") ? 21005 : 22809;
    return OK;
}

const char *ncclGetErrorString(int result)
{
    return result == OK ? "no error" : "invalid usage";
}

const char *ncclGetLastError(struct comm *comm)
{
    (void)comm;
    return does("refuse") ? "Duplicate GPU detected" : "";
}

int ncclGetUniqueId(struct id *id)
{
    static atomic_int n;
    const char *folder = getenv("FAKE_NCCL_FOLDER");

    memset(id, 0, sizeof(*id));
    snprintf(id->name, sizeof(id->name), "%s/fake-%ld-%d",
             folder ? folder : "/tmp", (long)getpid(), atomic_fetch_add(&n, 1));
    return OK;
}

int ncclCommInitRank(struct comm **out, int n, struct id id, int me)
{
    struct comm *comm;

    if (does("refuse") || n > MAX_RANKS)
        return INVALID_USAGE;
    comm = calloc(1, sizeof(*comm));
    comm->id = id;
    comm->n = n;
    comm->me = me;
    *out = comm;
    return OK;
}

static void name_way(const struct comm *comm, int from, int to, char path[192])
{
    snprintf(path, 192, "%s-%d-%d", comm->id.name, from, to);
}

static int open_way(const struct comm *comm, int from, int to, int flags)
{
    char path[192];

    name_way(comm, from, to, path);
    return open(path, flags | O_CLOEXEC, 0600);
}

int ncclCommDestroy(struct comm *comm)
{
    char path[192];

    for (int k = 0; k < comm->n; k++) {
        name_way(comm, k, comm->me, path);
        unlink(path);
    }
    free(comm);
    return OK;
}

int ncclCommAbort(struct comm *comm)
{
    return ncclCommDestroy(comm);
}

int ncclCommGetAsyncError(struct comm *comm, int *result)
{
    (void)comm;
    *result = does("break") ? REMOTE : OK;
    return OK;
}

static size_t bytes_of(size_t n, int type)
{
    return type == FLOATS ? n * sizeof(float) : n;
}

int ncclSend(const void *data, size_t n, int type, int to, struct comm *comm,
             void *stream)
{
    size_t n_bytes = bytes_of(n, type);
    int file = open_way(comm, comm->me, to, O_WRONLY | O_CREAT | O_APPEND);
    bool good = file >= 0 && write(file, data, n_bytes) == (ssize_t)n_bytes;

    (void)stream;
    atomic_fetch_add(&n_bytes_sent, (long)n_bytes);
    if (file >= 0)
        close(file);
    return good ? OK : INTERNAL;
}

static int take(const struct receive *r)
{
    const struct timespec nap = { .tv_nsec = 1000000 };
    long at = r->comm->taken[r->from];
    int result = INTERNAL;

    for (int i = 0; i < LIMIT && result != OK; i++) {
        int file = open_way(r->comm, r->from, r->comm->me, O_RDONLY);

        if (file >= 0 && lseek(file, 0, SEEK_END) >= at + (long)r->n_bytes &&
            pread(file, r->data, r->n_bytes, at) == (ssize_t)r->n_bytes)
            result = OK;
        if (file >= 0)
            close(file);
        if (result != OK)
            nanosleep(&nap, NULL);
    }
    r->comm->taken[r->from] += (long)r->n_bytes;
    return result;
}

int ncclGroupStart(void)
{
    depth++;
    return OK;
}

int ncclGroupEnd(void)
{
    int result = OK;

    if (--depth > 0)
        return OK;
    for (int i = 0; i < n_receives && result == OK; i++)
        result = take(&receives[i]);
    n_receives = 0;
    return result;
}

int ncclRecv(void *data, size_t n, int type, int from, struct comm *comm,
             void *stream)
{
    struct receive receive = { comm, data, bytes_of(n, type), from };

    (void)stream;
    if (depth == 0)
        return take(&receive);
    receives[n_receives++] = receive;
    return OK;
}

int ncclAllGather(const void *data, void *all, size_t n, int type,
                  struct comm *comm, void *stream)
{
    size_t n_bytes = bytes_of(n, type);
    int result = OK;

    memmove((char *)all + (size_t)comm->me * n_bytes, data, n_bytes);
    for (int k = 0; k < comm->n && result == OK; k++)
        if (k != comm->me)
            result = ncclSend(data, n, type, k, comm, stream);
    for (int k = 0; k < comm->n && result == OK; k++)
        if (k != comm->me)
            result = take(&(struct receive){
                comm, (char *)all + (size_t)k * n_bytes, n_bytes, k });
    return result;
}

int ncclAllReduce(const void *data, void *sum, size_t n, int type, int op,
                  struct comm *comm, void *stream)
{
    size_t n_bytes = bytes_of(n, type);
    float *theirs = malloc(n_bytes + 1);
    float *mine = sum;
    int result = OK;

    (void)op;
    memmove(sum, data, n_bytes);
    for (int k = 0; k < comm->n && result == OK; k++)
        if (k != comm->me)
            result = ncclSend(data, n, type, k, comm, stream);
    for (int k = 0; k < comm->n && result == OK; k++) {
        if (k == comm->me)
            continue;
        result = take(&(struct receive){ comm, theirs, n_bytes, k });
        for (size_t i = 0; i < n && result == OK; i++)
            mine[i] += theirs[i];
    }
    free(theirs);
    return result;
}
