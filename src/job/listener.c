/* Accepts connections for the supervisor and does the handshake with each peer
 * before it counts as a rank. */
#include "job/listener.h"

#include "base/clock.h"
#include "job/address.h"
#include "job/handshake.h"
#include "job/peer.h"
#include "job/scratch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SPARE = 256, /* places for unknown connections, besides one per rank */
    AT_ONCE = 64 /* events and new connections that one call handles */
};
#define LIMIT_NS INT64_C(5000000000) /* for a handshake */

enum stage {
    CHALLENGED, /* the peer's hello has not come */
    PROVED,     /* the welcome was sent; the peer may have given up meanwhile */
    READY,      /* the peer has sent a message after the welcome */
};

struct pending {
    int fd; /* -1: the place is free */
    enum stage stage;
    int64_t since_ns; /* time at which it was accepted */
    char nonce[VP_NONCE_BYTES];
    struct vp_hello hello; /* valid from PROVED on */
    char text[VP_MESSAGE_BYTES];
    size_t n_text;
};

struct vp_listener {
    struct vp_listener_config config;
    struct vp_address address;
    char address_text[512];
    struct vp_scratch folder; /* holds the local socket */
    int fd;
    int epoll; /* for `fd` and all pending connections */
    struct pending *pending;
    int n_pending;
};

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status open_local(struct vp_listener *listener,
                                 struct vp_err *err)
{
    struct vp_address *address = &listener->address;
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    VP_TRY(vp_scratch_make(VP_SCRATCH_SOCKET, &listener->folder, err));
    snprintf(address->path, sizeof(address->path), "%s/socket",
             listener->folder.path);
    memcpy(at.sun_path, address->path, sizeof(at.sun_path));
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0);
    if (listener->fd < 0 ||
        bind(listener->fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener->fd, SOMAXCONN) != 0)
        return vp_err_set(err, VP_ERR_IO, "cannot listen at %s: %s",
                          address->path, strerror(errno));
    return VP_OK;
}

/* Listens at the only address of listener->address, or at all addresses of this
 * machine if it has several. */
static enum vp_status open_tcp(struct vp_listener *listener, struct vp_err *err)
{
    struct vp_address *address = &listener->address;
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t n = sizeof(at);

    if (address->n_hosts == 1)
        inet_pton(AF_INET, address->hosts[0], &at.sin_addr);
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0);
    if (listener->fd < 0 ||
        bind(listener->fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener->fd, SOMAXCONN) != 0 ||
        getsockname(listener->fd, (struct sockaddr *)&at, &n) != 0)
        return vp_err_set(err, VP_ERR_IO, "cannot listen at %s: %s",
                          address->hosts[0], strerror(errno));
    address->port = ntohs(at.sin_port);
    return VP_OK;
}

/* Adds `fd` to epoll. Events carry `index`: a place in pending, or -1 for the
 * listening socket. */
static bool watch(const struct vp_listener *listener, int fd, int index)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = index };

    return epoll_ctl(listener->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static enum vp_status set_up(struct vp_listener *listener, struct vp_err *err)
{
    const struct vp_listener_config *config = &listener->config;

    listener->n_pending = config->n_ranks + SPARE;
    listener->pending = calloc((size_t)listener->n_pending,
                               sizeof(*listener->pending));
    if (!listener->pending)
        return vp_err_set(err, VP_ERR_NOMEM, "supervisor: out of memory");
    for (int i = 0; i < listener->n_pending; i++)
        listener->pending[i].fd = -1;
    VP_TRY(vp_address_find(config->interface, config->local, &listener->address,
                           err));
    VP_TRY(vp_address_make_token(&listener->address, err));
    VP_TRY(config->local && !config->contained ? open_local(listener, err)
                                               : open_tcp(listener, err));
    listener->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (listener->epoll < 0 || !watch(listener, listener->fd, -1))
        return vp_err_set(err, VP_ERR_IO, "cannot wait for ranks: %s",
                          strerror(errno));
    vp_address_print(&listener->address, listener->address_text,
                     sizeof(listener->address_text));
    return VP_OK;
}

enum vp_status vp_listener_open(const struct vp_listener_config *config,
                                struct vp_listener **out, struct vp_err *err)
{
    struct vp_listener *listener = malloc(sizeof(*listener));
    enum vp_status st;

    if (!listener)
        return vp_err_set(err, VP_ERR_NOMEM, "supervisor: out of memory");
    *listener = (struct vp_listener){ .config = *config,
                                      .fd = -1,
                                      .epoll = -1 };
    st = set_up(listener, err);
    if (st != VP_OK) {
        vp_listener_close(listener);
        return st;
    }
    *out = listener;
    return VP_OK;
}

void vp_listener_close(struct vp_listener *listener)
{
    if (!listener)
        return;
    vp_scratch_remove(&listener->folder);
    vp_listener_forget(listener);
}

void vp_listener_forget(struct vp_listener *listener)
{
    if (!listener)
        return;
    for (int i = 0; listener->pending && i < listener->n_pending; i++)
        if (listener->pending[i].fd >= 0)
            close(listener->pending[i].fd);
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->epoll >= 0)
        close(listener->epoll);
    vp_scratch_forget(&listener->folder);
    free(listener->pending);
    free(listener);
}

const char *vp_listener_address(const struct vp_listener *listener)
{
    return listener->address_text;
}

int vp_listener_fd(const struct vp_listener *listener)
{
    return listener->epoll;
}

/* ---- Handshakes --------------------------------------------------------- */

static void drop(const struct vp_listener *listener, struct pending *it)
{
    epoll_ctl(listener->epoll, EPOLL_CTL_DEL, it->fd, NULL);
    close(it->fd);
    it->fd = -1;
}

/* Returns false if the line cannot be sent at once: the buffer of a new
 * connection has space for it. */
static bool send_line(const struct pending *it, const struct vp_message *line)
{
    char text[VP_MESSAGE_BYTES];
    int n = vp_message_print(line, text);

    return send(it->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

static bool challenge(struct pending *it)
{
    struct vp_message line = { .kind = VP_MESSAGE_CHALLENGE };

    if (!vp_nonce_make(it->nonce))
        return false;
    memcpy(line.nonce, it->nonce, sizeof(line.nonce));
    return send_line(it, &line);
}

/* Checks the proof in the hello, which is all of it->text, and answers with the
 * welcome. Returns false if the connection has to be closed. */
static bool check_hello(const struct vp_listener *listener, struct pending *it)
{
    const char *token = listener->address.token;
    struct vp_message welcome = { .kind = VP_MESSAGE_WELCOME }, hello;
    char want[VP_PROOF_BYTES];

    it->text[it->n_text - 1] = '\0';
    if (!vp_message_parse(it->text, &hello) || hello.kind != VP_MESSAGE_HELLO)
        return false;
    vp_prove_hello(token, it->nonce, &hello, want);
    if (!vp_same_proof(hello.proof, want))
        return false;
    it->hello = hello.hello;
    it->stage = PROVED;
    vp_prove_welcome(token, it->nonce, &hello, welcome.proof);
    return send_line(it, &welcome);
}

/* Reads a part of the hello. Returns false if the connection has to be
 * closed. */
static bool read_hello(const struct vp_listener *listener, struct pending *it)
{
    ssize_t n = recv(it->fd, it->text + it->n_text,
                     sizeof(it->text) - it->n_text, 0);
    const char *end;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    it->n_text += (size_t)n;
    end = memchr(it->text, '\n', it->n_text);
    if (!end)
        return it->n_text < sizeof(it->text);
    return end == it->text + it->n_text - 1 && check_hello(listener, it);
}

/* Waits for the first message after the welcome, and leaves it in the socket. A
 * rank that had given up before the welcome came closes its connection instead
 * and connects again. Returns false if the connection has to be closed. */
static bool wait_for_more(const struct vp_listener *listener,
                          struct pending *it)
{
    ssize_t n = recv(it->fd, it->text, 1, MSG_PEEK);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    it->stage = READY;
    return epoll_ctl(listener->epoll, EPOLL_CTL_DEL, it->fd, NULL) == 0;
}

/* ---- Places ------------------------------------------------------------- */

/* Closes the oldest unknown connection. Returns false if there is none. */
static bool drop_oldest(struct vp_listener *listener)
{
    struct pending *oldest = NULL;

    for (int i = 0; i < listener->n_pending; i++) {
        struct pending *it = &listener->pending[i];

        if (it->fd >= 0 && it->stage == CHALLENGED &&
            (!oldest || it->since_ns < oldest->since_ns))
            oldest = it;
    }
    if (oldest)
        drop(listener, oldest);
    return oldest;
}

/* Returns a free place, if need be that of the oldest unknown connection.
 * Returns NULL if ranks have taken all places. */
static struct pending *find_place(struct vp_listener *listener)
{
    do
        for (int i = 0; i < listener->n_pending; i++)
            if (listener->pending[i].fd < 0)
                return &listener->pending[i];
    while (drop_oldest(listener));
    return NULL;
}

/* Accepts one connection. Returns true if there may be more. */
static bool accept_one(struct vp_listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct pending *it;

    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        return drop_oldest(listener);
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    it = vp_peer_is_allowed(fd) ? find_place(listener) : NULL;
    if (!it) {
        close(fd);
        return true;
    }
    *it = (struct pending){ .fd = fd, .since_ns = vp_clock_ns() };
    if (!challenge(it) || !watch(listener, fd, (int)(it - listener->pending)))
        drop(listener, it);
    return true;
}

/* Closes connections whose handshake has taken longer than LIMIT_NS. */
static void drop_late(struct vp_listener *listener)
{
    int64_t now = vp_clock_ns();

    for (int i = 0; i < listener->n_pending; i++) {
        struct pending *it = &listener->pending[i];

        if (it->fd >= 0 && it->stage == CHALLENGED &&
            now - it->since_ns > LIMIT_NS)
            drop(listener, it);
    }
}

/* Reads the data that has arrived before it closes connections to make room. */
void vp_listener_serve(struct vp_listener *listener)
{
    struct epoll_event events[AT_ONCE];
    int n = epoll_wait(listener->epoll, events, AT_ONCE, 0);

    for (int i = 0; i < n; i++) {
        int index = events[i].data.fd;
        struct pending *it = &listener->pending[index < 0 ? 0 : index];

        if (index >= 0 &&
            !(it->stage == CHALLENGED ? read_hello(listener, it)
                                      : wait_for_more(listener, it)))
            drop(listener, it);
    }
    drop_late(listener);
    for (int i = 0; i < AT_ONCE && accept_one(listener); i++)
        continue;
}

bool vp_listener_take(struct vp_listener *listener, int *fd_out,
                      struct vp_hello *hello_out)
{
    pid_t pid;

    for (int i = 0; i < listener->n_pending; i++) {
        struct pending *it = &listener->pending[i];

        if (it->fd < 0 || it->stage != READY)
            continue;
        pid = vp_peer_pid(it->fd, 0);
        if (pid > 0)
            it->hello.pid = (int)pid;
        *fd_out = it->fd;
        *hello_out = it->hello;
        it->fd = -1;
        return true;
    }
    return false;
}
