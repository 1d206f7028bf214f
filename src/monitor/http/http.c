/* libvpipe_http.so: libmicrohttpd, driven by one thread. The limits below bound
 * the cost of any client: connections, memory of each, time of a request,
 * requests per second. */
#include "monitor/http/http.h"

#include "base/clock.h"
#include "base/limit.h"

#include <microhttpd.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 64,
    MAX_STREAMS = 8,
    CONNECTION_BYTES = 16 * 1024, /* request line and headers */
    IDLE_SECONDS = 10,            /* longest time without a byte */
    REQUEST_SECONDS = 20, /* longest life of a connection without stream */
    TICK_MS = 250,
    MAX_PER_TICK = 100, /* requests */
    STOP_MS = 2000,
    PRIORITY = 10, /* niceness, so that training comes first */
};

/* A client of server-sent events. */
struct stream {
    struct vp_http_server *server;
    struct MHD_Connection *connection; /* NULL: free */
    bool suspended;
    struct vp_http_stream state;
    char *bytes; /* VP_HTTP_STREAM_BYTES */
    size_t n_bytes, n_sent;
};

struct connection {
    struct MHD_Connection *at; /* NULL: free */
    int64_t since_ns;
    bool streams, ended;
};

struct vp_http_server {
    struct vp_http_config config;
    struct MHD_Daemon *daemon;
    struct connection connections[MAX_CONNECTIONS];
    struct stream streams[MAX_STREAMS];
    int n_requests; /* in this tick */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit, done; /* guarded by lock */
};

/* ---- Streams ------------------------------------------------------------ */

/* libmicrohttpd calls it for more bytes. If there are none, the connection is
 * suspended until the next tick. */
static ssize_t read_stream(void *ctx, uint64_t at, char *out, size_t capacity)
{
    struct stream *stream = ctx;
    const struct vp_http_config *config = &stream->server->config;
    size_t n;

    (void)at;
    if (stream->n_sent == stream->n_bytes) {
        ptrdiff_t more = config->read_stream(
            config->ctx, &stream->state, stream->bytes, VP_HTTP_STREAM_BYTES);

        if (more < 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        stream->n_bytes = (size_t)more;
        stream->n_sent = 0;
    }
    n = stream->n_bytes - stream->n_sent;
    if (n == 0) {
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);
        return 0;
    }
    n = n < capacity ? n : capacity;
    memcpy(out, stream->bytes + stream->n_sent, n);
    stream->n_sent += n;
    return (ssize_t)n;
}

static void end_stream(void *ctx)
{
    struct stream *stream = ctx;

    stream->connection = NULL;
    stream->suspended = false;
}

static struct stream *find_free_stream(struct vp_http_server *server)
{
    for (int i = 0; i < MAX_STREAMS; i++)
        if (!server->streams[i].connection)
            return &server->streams[i];
    return NULL;
}

static void resume_streams(struct vp_http_server *server)
{
    for (int i = 0; i < MAX_STREAMS; i++) {
        struct stream *stream = &server->streams[i];

        if (stream->connection && stream->suspended) {
            stream->suspended = false;
            MHD_resume_connection(stream->connection);
        }
    }
}

/* ---- Requests ----------------------------------------------------------- */

static void add_headers(struct MHD_Response *response,
                        const struct vp_http_reply *reply)
{
    MHD_add_response_header(response, "Content-Type", reply->type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "frame-ancestors 'none'");
    if (reply->status == 405)
        MHD_add_response_header(response, "Allow", "GET");
    if (reply->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (reply->location)
        MHD_add_response_header(response, "Location", reply->location);
    if (reply->cookie[0])
        MHD_add_response_header(response, "Set-Cookie", reply->cookie);
    if (reply->status >= 400) /* no keep-alive after an error */
        MHD_add_response_header(response, "Connection", "close");
}

static struct connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static struct MHD_Response *make_stream(struct vp_http_server *server,
                                        struct MHD_Connection *connection,
                                        const struct vp_http_reply *reply)
{
    struct stream *stream = find_free_stream(server);
    struct connection *own = connection_of(connection);
    struct MHD_Response *response;

    if (!stream || !own)
        return NULL;
    response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, 4096, read_stream, stream, end_stream);
    if (!response)
        return NULL;
    stream->connection = connection;
    stream->state = reply->begin;
    stream->n_bytes = stream->n_sent = 0;
    own->streams = true;
    return response;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const char *argument(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Called when the headers of a request are complete; its body is never read. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *body,
                                  size_t *n_body, void **marker)
{
    struct vp_http_server *server = ctx;
    const struct vp_http_request request = {
        .method = method,
        .path = path,
        .host = header(connection, "Host"),
        .cookie = header(connection, "Cookie"),
        .authorization = header(connection, "Authorization"),
        .last_event = header(connection, "Last-Event-ID"),
        .token = argument(connection, "token"),
        .from = argument(connection, "from"),
    };
    struct vp_http_reply reply = { .status = 503, .type = "text/plain" };
    struct MHD_Response *response = NULL;
    enum MHD_Result result;

    (void)version;
    (void)body;
    (void)n_body;
    (void)marker;
    server->n_requests++;
    server->config.respond(server->config.ctx, &request, &reply);
    if (reply.stream)
        response = make_stream(server, connection, &reply);
    if (!response) {
        static const char busy[] = "too many clients\n";

        if (reply.stream)
            reply = (struct vp_http_reply){ .status = 503,
                                            .type = "text/plain",
                                            .body = busy,
                                            .n_bytes = sizeof(busy) - 1 };
        response = MHD_create_response_from_buffer(
            reply.n_bytes, (void *)(uintptr_t)reply.body,
            MHD_RESPMEM_MUST_COPY);
    }
    if (!response)
        return MHD_NO;
    add_headers(response, &reply);
    result = MHD_queue_response(connection, (unsigned)reply.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- Connections -------------------------------------------------------- */

static void on_connection(void *ctx, struct MHD_Connection *connection,
                          void **own, enum MHD_ConnectionNotificationCode code)
{
    struct vp_http_server *server = ctx;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct connection *old = *own;

        if (old)
            old->at = NULL;
        return;
    }
    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        struct connection *entry = &server->connections[i];

        if (entry->at)
            continue;
        *entry = (struct connection){ .at = connection,
                                      .since_ns = vp_clock_ns() };
        *own = entry;
        return;
    }
}

/* Closes connections without stream that are older than REQUEST_SECONDS. */
static void end_slow(struct vp_http_server *server)
{
    int64_t limit = vp_clock_ns() - REQUEST_SECONDS * INT64_C(1000000000);

    for (int i = 0; i < MAX_CONNECTIONS; i++) {
        struct connection *entry = &server->connections[i];
        const union MHD_ConnectionInfo *info;

        if (!entry->at || entry->streams || entry->ended ||
            entry->since_ns > limit)
            continue;
        info = MHD_get_connection_info(entry->at,
                                       MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
        entry->ended = true;
    }
}

/* ---- The thread --------------------------------------------------------- */

static bool wants_to_quit(struct vp_http_server *server)
{
    bool quit;

    pthread_mutex_lock(&server->lock);
    quit = server->quit;
    pthread_mutex_unlock(&server->lock);
    return quit;
}

static void release(struct vp_http_server *server)
{
    resume_streams(server);
    MHD_stop_daemon(server->daemon);
    for (int i = 0; i < MAX_STREAMS; i++)
        free(server->streams[i].bytes);
}

static void sleep_until(int64_t at_ns)
{
    const struct timespec at = { .tv_sec = at_ns / 1000000000,
                                 .tv_nsec = at_ns % 1000000000 };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Serves requests for TICK_MS; after MAX_PER_TICK requests it sleeps for the
 * rest of that time. */
static void serve(struct vp_http_server *server)
{
    int64_t now = vp_clock_ns(), end = now + TICK_MS * INT64_C(1000000);

    server->n_requests = 0;
    while (now < end && server->n_requests < MAX_PER_TICK) {
        MHD_run_wait(server->daemon, (int32_t)((end - now) / 1000000) + 1);
        now = vp_clock_ns();
    }
    if (now < end)
        sleep_until(end);
}

static void *thread_main(void *arg)
{
    struct vp_http_server *server = arg;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "vpipe-http");
    setpriority(PRIO_PROCESS, 0, PRIORITY); /* on Linux: this thread only */
    while (!wants_to_quit(server)) {
        serve(server);
        resume_streams(server);
        end_slow(server);
    }
    release(server);
    pthread_mutex_lock(&server->lock);
    server->done = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

/* ---- Start and stop ----------------------------------------------------- */

int vp_plugin_http_version(void)
{
    return VP_HTTP_ABI;
}

static bool make_streams(struct vp_http_server *server)
{
    for (int i = 0; i < MAX_STREAMS; i++) {
        server->streams[i].server = server;
        server->streams[i].bytes = malloc(VP_HTTP_STREAM_BYTES);
        if (!server->streams[i].bytes)
            return false;
    }
    return true;
}

enum vp_status vp_plugin_http_start(const struct vp_http_config *config,
                                    struct vp_http_server **out,
                                    struct vp_err *err)
{
    struct vp_http_server *server = calloc(1, sizeof(*server));

    if (!server || vp_limit_cond_init(&server->changed) != 0) {
        close(config->listener);
        free(server);
        return vp_err_set(err, VP_ERR_NOMEM,
                          "--dashboard: out of memory; close other programs");
    }
    pthread_mutex_init(&server->lock, NULL);
    server->config = *config;
    if (make_streams(server))
        server->daemon = MHD_start_daemon(
            MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
            server, MHD_OPTION_LISTEN_SOCKET, config->listener,
            MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
            MHD_OPTION_END);
    if (server->daemon &&
        pthread_create(&server->thread, NULL, thread_main, server) == 0) {
        *out = server;
        return VP_OK;
    }
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    else
        close(config->listener);
    for (int i = 0; i < MAX_STREAMS; i++)
        free(server->streams[i].bytes);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server);
    return vp_err_set(
        err, VP_ERR_NOMEM,
        "--dashboard: libmicrohttpd cannot start; raise the limits "
        "of threads (ulimit -u) and open files (ulimit -n)");
}

bool vp_plugin_http_stop(struct vp_http_server *server)
{
    struct timespec at = vp_clock_after(STOP_MS);
    bool done;

    pthread_mutex_lock(&server->lock);
    server->quit = true;
    while (!server->done &&
           pthread_cond_timedwait(&server->changed, &server->lock, &at) == 0)
        ;
    done = server->done;
    pthread_mutex_unlock(&server->lock);
    if (!done) {
        pthread_detach(server->thread);
        return false;
    }
    pthread_join(server->thread, NULL);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server);
    return true;
}
