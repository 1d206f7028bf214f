/* Copies the output of ranks from a pipe to a file descriptor and keeps the
 * first write error. */
#include "job/relay.h"

#include "base/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 20, STOPPED_MS = 2000, CHUNK_BYTES = 16384 };

struct vp_relay {
    int in, out; /* the pipe's ends for reading and writing */
    int to;
    pthread_t thread;
    atomic_bool quit; /* the thread ends when the pipe is empty */
    atomic_bool done; /* the thread has ended */
    atomic_bool hold;
    atomic_int error; /* errno of the first write that failed; 0: none */
    char held[VP_RELAY_HELD]; /* used only by the thread, until it is done */
    size_t n_held;
};

/* Returns 0 or errno. */
static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno == EAGAIN) {
            struct pollfd polled = { .fd = fd, .events = POLLOUT };

            poll(&polled, 1, POLL_MS);
        } else if (written < 0 && errno != EINTR) {
            return errno;
        } else if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
    return 0;
}

static void copy_out(struct vp_relay *relay, const char *bytes, size_t n)
{
    if (n > 0 && atomic_load(&relay->error) == 0)
        atomic_store(&relay->error, write_all(relay->to, bytes, n));
}

static void keep_back(struct vp_relay *relay, const char *bytes, size_t n)
{
    size_t left = sizeof(relay->held) - 1 - relay->n_held;

    n = n < left ? n : left;
    memcpy(relay->held + relay->n_held, bytes, n);
    relay->n_held += n;
}

/* Writes a chunk, or keeps it back while `hold` is set. After
 * vp_relay_release(), writes first the bytes that were kept back. */
static void take(struct vp_relay *relay, const char *bytes, size_t n)
{
    if (atomic_load(&relay->hold)) {
        keep_back(relay, bytes, n);
        return;
    }
    copy_out(relay, relay->held, relay->n_held);
    relay->n_held = 0;
    copy_out(relay, bytes, n);
}

/* The thread. Reads the pipe also after a write error: its writers must not
 * block. */
static void *copy(void *arg)
{
    struct vp_relay *relay = arg;
    struct pollfd polled = { .fd = relay->in, .events = POLLIN };
    char chunk[CHUNK_BYTES];
    ssize_t n = 1;

    while (n > 0) {
        bool quit = atomic_load(&relay->quit);
        int ready = poll(&polled, 1, quit ? 0 : POLL_MS);

        if (ready < 0 || (ready == 0 && !quit)) { /* a signal; nothing came */
            take(relay, chunk, 0);
            continue;
        }
        n = ready > 0 ? read(relay->in, chunk, sizeof(chunk)) : 0;
        if (n < 0 && errno == EINTR)
            n = 1;
        else
            take(relay, chunk, n > 0 ? (size_t)n : 0);
    }
    atomic_store(&relay->done, true);
    return NULL;
}

enum vp_status vp_relay_start(int to, bool hold, struct vp_relay **out,
                              struct vp_err *err)
{
    struct vp_relay *relay = calloc(1, sizeof(*relay));
    int ends[2];

    if (!relay || pipe2(ends, O_CLOEXEC) != 0) {
        free(relay);
        return vp_err_set(err, VP_ERR_NOMEM,
                          "a pipe for the output of the ranks cannot be made "
                          "(%s)",
                          strerror(errno));
    }
    relay->in = ends[0];
    relay->out = ends[1];
    relay->to = to;
    atomic_init(&relay->hold, hold);
    if (pthread_create(&relay->thread, NULL, copy, relay) != 0) {
        close(ends[0]);
        close(ends[1]);
        free(relay);
        return vp_err_set(err, VP_ERR_NOMEM, "starting a thread failed");
    }
    *out = relay;
    return VP_OK;
}

void vp_relay_release(struct vp_relay *relay)
{
    atomic_store(&relay->hold, false);
}

int vp_relay_input(const struct vp_relay *relay)
{
    return relay->out;
}

/* Returns false if the thread is still blocked in write() STOPPED_MS after the
 * user's second signal to stop. */
static bool wait_until_done(const struct vp_relay *relay,
                            const volatile sig_atomic_t *stop)
{
    const struct timespec pause = { .tv_nsec = 2000000 };
    struct vp_limit limit = VP_LIMIT_NEVER;

    while (!atomic_load(&relay->done)) {
        if (stop && *stop > 1 && limit.length_ns == INT64_MAX)
            limit = vp_limit_ms(STOPPED_MS);
        if (vp_limit_is_over(&limit))
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

enum vp_status vp_relay_finish(struct vp_relay *relay,
                               const volatile sig_atomic_t *stop,
                               char held_out[VP_RELAY_HELD], struct vp_err *err)
{
    int error;

    if (held_out)
        held_out[0] = '\0';
    if (!relay)
        return VP_OK;
    atomic_store(&relay->quit, true);
    if (!wait_until_done(relay, stop))
        /* Leaked on purpose: the thread is blocked in write(). */
        return vp_err_set(err, VP_ERR_IO,
                          "vpipe: the output was not read to its end; send it "
                          "to a file");
    pthread_join(relay->thread, NULL);
    error = atomic_load(&relay->error);
    if (held_out) {
        memcpy(held_out, relay->held, relay->n_held);
        held_out[relay->n_held] = '\0';
    }
    close(relay->in);
    close(relay->out);
    free(relay);
    if (error == 0)
        return VP_OK;
    if (error == EPIPE)
        return VP_ERR_END;
    return vp_err_set(err, VP_ERR_IO, "vpipe: cannot write the output: %s; %s",
                      strerror(error), vp_write_remedy(error));
}
