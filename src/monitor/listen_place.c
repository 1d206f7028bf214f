/* Addresses of the option --dashboard. */
#include "monitor/listen_place.h"

#include "base/value.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum vp_status vp_listen_place_parse(const char *text,
                                     struct vp_listen_place *out,
                                     struct vp_err *err)
{
    const char *colon = strrchr(text, ':'), *host = colon ? text : "127.0.0.1";
    size_t n = colon ? (size_t)(colon - text) : strlen(host);
    bool v6 = colon && n > 2 && text[0] == '[' && text[n - 1] == ']';
    int64_t port = -1;

    if (v6) {
        host = text + 1;
        n -= 2;
    }
    if (n == 0 || n >= sizeof(out->host) || (!v6 && strcspn(host, ":[]") < n) ||
        !vp_text_to_i64(colon ? colon + 1 : text, &port) || port < 0 ||
        port > 65535)
        return vp_err_set(err, VP_ERR_INVALID,
                          "--dashboard: '%.80s' is not [HOST:]PORT; write for "
                          "example '--dashboard 8080'",
                          text);
    snprintf(out->host, sizeof(out->host), "%.*s", (int)n, host);
    out->port = (int)port;
    return VP_OK;
}

static int listen_at(const struct addrinfo *address)
{
    const int on = 1;
    int fd = socket(address->ai_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void find_port(int fd, int *port)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t n = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &n) != 0)
        return;
    if (address.ss_family == AF_INET)
        *port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    else if (address.ss_family == AF_INET6)
        *port = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
}

enum vp_status vp_listen_place_open(struct vp_listen_place *place, int *fd_out,
                                    struct vp_err *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE };
    struct addrinfo *list = NULL;
    char port[16];
    int rc, error = 0, fd = -1;

    snprintf(port, sizeof(port), "%d", place->port);
    rc = getaddrinfo(place->host, port, &hints, &list);
    for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next) {
        fd = listen_at(at);
        error = errno;
    }
    if (list)
        freeaddrinfo(list);
    if (fd < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "--dashboard: cannot listen on %s port %s (%s); "
                          "choose another, or port 0 for a free one",
                          place->host, port,
                          rc != 0 ? gai_strerror(rc) : strerror(error));
    find_port(fd, &place->port);
    *fd_out = fd;
    return VP_OK;
}
