/* Connects a rank to its supervisor by a local socket or TCP, and does the
 * rank's part of the handshake. */
#include "job/dial.h"

#include "base/limit.h"
#include "job/address.h"
#include "job/handshake.h"
#include "job/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    TRY_MS = 5000, /* limit for one step of the connection or handshake */
    PAUSE_MS = 100 /* between two attempts */
};

/* State of one call of vp_dial(). */
struct dial {
    struct vp_address address;
    const struct vp_hello *hello;
    struct vp_limit limit; /* for all attempts together */
    const char *why;       /* reason for which the last attempt failed */
    bool is_hopeless;      /* another attempt would fail, too */
};

/* ---- Connecting --------------------------------------------------------- */

/* Waits for `events` up to TRY_MS and up to dial->limit. Returns false if
 * neither brought them. */
static bool wait_for(struct dial *dial, int fd, short events)
{
    struct pollfd polled = { .fd = fd, .events = events };
    struct vp_limit limit = vp_limit_ms(TRY_MS);

    do
        if (poll(&polled, 1, VP_HEARTBEAT_MS / 2) == 1)
            return true;
    while (!vp_limit_is_over(&limit) && !vp_limit_is_over(&dial->limit));
    return false;
}

/* Returns 0 or errno. */
static int connect_socket(struct dial *dial, int fd, const struct sockaddr *at,
                          socklen_t n_at)
{
    socklen_t n = sizeof(int);
    int error = 0;

    if (connect(fd, at, n_at) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (!wait_for(dial, fd, POLLOUT))
        return ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        return errno;
    return error;
}

static int connect_local(struct dial *dial, int fd)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    memcpy(at.sun_path, dial->address.path, sizeof(at.sun_path));
    return connect_socket(dial, fd, (struct sockaddr *)&at, sizeof(at));
}

static int connect_tcp(struct dial *dial, int fd, const char *host)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)dial->address.port),
    };

    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        return EINVAL;
    return connect_socket(dial, fd, (struct sockaddr *)&at, sizeof(at));
}

/* ---- Handshake ---------------------------------------------------------- */

/* Reads one line, byte by byte: the heartbeats that may follow the welcome must
 * stay in the socket. */
static bool read_line(struct dial *dial, int fd, struct vp_message *out)
{
    char text[VP_MESSAGE_BYTES];
    size_t n = 0;

    do {
        ssize_t got;

        dial->why = "it does not answer";
        if (n == sizeof(text) || !wait_for(dial, fd, POLLIN))
            return false;
        got = recv(fd, text + n, 1, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        dial->why = "it closed the connection";
        if (got <= 0)
            return false;
        n++;
    } while (n == 0 || text[n - 1] != '\n');
    text[n - 1] = '\0';
    dial->why = "it is not a supervisor";
    return vp_message_parse(text, out);
}

static bool send_hello(struct dial *dial, int fd, const char *challenge,
                       struct vp_message *hello)
{
    char text[VP_MESSAGE_BYTES];
    int n;

    dial->why = "the system gives no random numbers";
    *hello = (struct vp_message){ .kind = VP_MESSAGE_HELLO,
                                  .hello = *dial->hello };
    if (!vp_nonce_make(hello->nonce))
        return false;
    vp_prove_hello(dial->address.token, challenge, hello, hello->proof);
    n = vp_message_print(hello, text);
    dial->why = "it closed the connection";
    return send(fd, text, (size_t)n, MSG_NOSIGNAL) == n;
}

static bool shake_hands(struct dial *dial, int fd)
{
    struct vp_message challenge, hello, welcome;
    char want[VP_PROOF_BYTES];

    if (!read_line(dial, fd, &challenge))
        return false;
    dial->why = "it is not a supervisor";
    if (challenge.kind != VP_MESSAGE_CHALLENGE ||
        !send_hello(dial, fd, challenge.nonce, &hello) ||
        !read_line(dial, fd, &welcome))
        return false;
    vp_prove_welcome(dial->address.token, challenge.nonce, &hello, want);
    dial->why = "it has another token than this job";
    return welcome.kind == VP_MESSAGE_WELCOME &&
           vp_same_proof(welcome.proof, want);
}

/* ---- Attempts ----------------------------------------------------------- */

/* Returns the connection's descriptor, or -1. `host`: NULL: the local
 * socket. */
static int try_once(struct dial *dial, const char *host)
{
    int fd = socket(host ? AF_INET : AF_UNIX,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? errno
                : host ? connect_tcp(dial, fd, host)
                       : connect_local(dial, fd);

    if (error == 0) {
        dial->why = "it is a process of another user";
        if (vp_peer_is_allowed(fd) && shake_hands(dial, fd))
            return fd;
    } else {
        dial->why = strerror(error);
        dial->is_hopeless = !host && (error == ECONNREFUSED || error == ENOENT);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int try_all(struct dial *dial)
{
    int fd = -1;

    if (dial->address.path[0])
        return try_once(dial, NULL);
    for (int i = 0; i < dial->address.n_hosts && fd < 0; i++)
        fd = try_once(dial, dial->address.hosts[i]);
    return fd;
}

static enum vp_status give_up(const struct dial *dial, struct vp_err *err)
{
    const struct vp_address *address = &dial->address;

    if (address->path[0])
        return vp_err_set(err, VP_ERR_IO,
                          "the supervisor at %s cannot be reached (%s); see "
                          "whether vpipe or the first rank has ended",
                          address->path, dial->why);
    return vp_err_set(err, VP_ERR_IO,
                      "the supervisor at %s, port %d, cannot be reached (%s); "
                      "check the key 'network_interface'",
                      address->hosts[address->n_hosts - 1], address->port,
                      dial->why);
}

enum vp_status vp_dial(const char *address, const struct vp_hello *hello,
                       int64_t limit_ms, int *fd_out, struct vp_err *err)
{
    const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
    struct dial dial = {
        .hello = hello,
        .limit = vp_limit_ms(limit_ms),
    };

    if (!vp_address_parse(address, &dial.address))
        return vp_err_set(err, VP_ERR_INVALID,
                          "'%.48s' is not the address of a supervisor; leave "
                          "the environment variable VPIPE_SUPERVISOR to vpipe",
                          address);
    for (;;) {
        int fd = try_all(&dial);

        if (fd >= 0) {
            *fd_out = fd;
            return VP_OK;
        }
        if (dial.is_hopeless || vp_limit_is_over(&dial.limit))
            return give_up(&dial, err);
        nanosleep(&pause, NULL);
        if (vp_limit_is_over(&dial.limit))
            return give_up(&dial, err);
    }
}
