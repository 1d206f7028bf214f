/* Answers requests of the dashboard. The HTTP server itself is the plugin of
 * http/http.h; its thread calls respond() and read_stream(). */
#include "monitor/dashboard.h"

#include "base/clock.h"
#include "base/machine.h"
#include "base/plugin.h"
#include "base/value.h"
#include "monitor/access.h"
#include "monitor/events.h"
#include "monitor/http/http.h"
#include "monitor/listen_place.h"
#include "monitor/page.h"
#include "monitor/prometheus.h"
#include "monitor/status_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "libvpipe_http.so"
#define SECOND INT64_C(1000000000)
#define FRESH_NS (10 * SECOND) /* a run is healthy if its state is newer */
#define PAGE_NS (2 * SECOND)   /* how long a page is cached */
#define QUIET_NS (15 * SECOND) /* longest silence before a keep-alive comment */
/* A stream without a valid start position begins this far before the end. */
#define TAIL_BYTES (256 * 1024)

/* Functions of the loaded plugin. */
struct plugin {
    __typeof__(&vp_plugin_http_version) version;
    __typeof__(&vp_plugin_http_start) start;
    __typeof__(&vp_plugin_http_stop) stop;
};

struct vp_dashboard {
    struct plugin plugin;
    struct vp_http_server *server; /* NULL: not started */
    struct vp_listen_place place;
    int listener; /* -1: none, or the server has it */
    vp_dashboard_page_fn page;
    char machine[256], short_name[256];
    const char *names[4]; /* host names of this server; ends with NULL */
    char token[VP_TOKEN_BYTES];
    char cookie_name[32];
    char folder[PATH_MAX], token_path[PATH_MAX];
    int metrics; /* metrics.jsonl; -1: not open */

    pthread_mutex_t lock;     /* guards the next four */
    struct vp_strbuf numbers; /* metrics for Prometheus */
    struct vp_strbuf status;  /* one line of JSON */
    int64_t number;           /* vp_live.number of the last state */
    int64_t shown_ns;         /* time of the last state; 0: none yet */

    /* Used by the server's thread only. */
    struct vp_strbuf answer;
    int64_t page_ns; /* when `answer` was filled with the page; 0: it is
                        something else */
};

/* ---- The plugin --------------------------------------------------------- */

static enum vp_status load(struct plugin *out, struct vp_err *err)
{
    void *handle = vp_plugin_open(FILE_NAME);

    if (!handle) {
        const char *why = dlerror();

        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "--dashboard: " FILE_NAME
                          " cannot be loaded (%s); install libmicrohttpd-dev "
                          "and build it with 'make all'",
                          why ? why : "no such file");
    }
    *(void **)&out->version = dlsym(handle, "vp_plugin_http_version");
    *(void **)&out->start = dlsym(handle, "vp_plugin_http_start");
    *(void **)&out->stop = dlsym(handle, "vp_plugin_http_stop");
    if (out->version && out->version() == VP_HTTP_ABI && out->start &&
        out->stop)
        return VP_OK;
    dlclose(handle);
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "--dashboard: " FILE_NAME
                      " belongs to another vpipe; install both from one build");
}

/* ---- Open --------------------------------------------------------------- */

enum vp_status vp_dashboard_check(const char *place, struct vp_err *err)
{
    struct plugin plugin;
    struct vp_listen_place parsed;

    VP_TRY(vp_listen_place_parse(place, &parsed, err));
    return load(&plugin, err);
}

static void name_server(struct vp_dashboard *dashboard)
{
    vp_machine_name(dashboard->machine, sizeof(dashboard->machine));
    snprintf(dashboard->short_name, sizeof(dashboard->short_name), "%.*s",
             (int)strcspn(dashboard->machine, "."), dashboard->machine);
    dashboard->names[0] = dashboard->place.host;
    dashboard->names[1] = dashboard->machine;
    dashboard->names[2] = dashboard->short_name;
    /* Browsers share cookies among the ports of a host. */
    snprintf(dashboard->cookie_name, sizeof(dashboard->cookie_name), "vpipe_%d",
             dashboard->place.port);
}

static bool make_token(char out[VP_TOKEN_BYTES])
{
    unsigned char bytes[VP_TOKEN_BYTES / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

enum vp_status vp_dashboard_open(const char *place, vp_dashboard_page_fn page,
                                 struct vp_dashboard **out, struct vp_err *err)
{
    struct vp_dashboard *dashboard = calloc(1, sizeof(*dashboard));
    enum vp_status st;

    if (!dashboard)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "--dashboard: out of memory; close other programs");
    dashboard->listener = dashboard->metrics = -1;
    dashboard->page = page ? page : vp_page_plain;
    pthread_mutex_init(&dashboard->lock, NULL);
    st = vp_listen_place_parse(place, &dashboard->place, err);
    if (st == VP_OK)
        st = load(&dashboard->plugin, err);
    if (st == VP_OK)
        st = vp_listen_place_open(&dashboard->place, &dashboard->listener, err);
    if (st == VP_OK && !make_token(dashboard->token))
        st = vp_err_set(err, VP_ERR_UNSUPPORTED,
                        "--dashboard: the system provides no random numbers; "
                        "run without --dashboard");
    if (st != VP_OK) {
        vp_dashboard_close(dashboard);
        return st;
    }
    name_server(dashboard);
    *out = dashboard;
    return VP_OK;
}

/* ---- Answers ------------------------------------------------------------ */

static void reply_text(struct vp_http_reply *reply, int status,
                       const char *text)
{
    reply->status = status;
    reply->type = "text/plain; charset=utf-8";
    reply->body = text;
    reply->n_bytes = strlen(text);
}

static bool is_authorized(const struct vp_dashboard *dashboard,
                          const struct vp_http_request *request)
{
    return vp_access_has_cookie(dashboard->token, dashboard->cookie_name,
                                request->cookie) ||
           vp_access_has_bearer(dashboard->token, request->authorization);
}

static void answer_health(struct vp_dashboard *dashboard,
                          struct vp_http_reply *reply)
{
    int64_t shown_ns;

    pthread_mutex_lock(&dashboard->lock);
    shown_ns = dashboard->shown_ns;
    pthread_mutex_unlock(&dashboard->lock);
    if (shown_ns != 0 && vp_clock_ns() - shown_ns < FRESH_NS)
        reply_text(reply, 200, "ok\n");
    else
        reply_text(reply, 503, "no new state of the run for ten seconds\n");
}

static void answer_metrics(struct vp_dashboard *dashboard,
                           struct vp_http_reply *reply)
{
    vp_strbuf_clear(&dashboard->answer);
    dashboard->page_ns = 0;
    pthread_mutex_lock(&dashboard->lock);
    vp_strbuf_add(&dashboard->answer, vp_strbuf_text(&dashboard->numbers),
                  dashboard->numbers.n_bytes);
    pthread_mutex_unlock(&dashboard->lock);
    reply->status = 200;
    reply->type = VP_PROMETHEUS_TYPE;
    reply->body = vp_strbuf_text(&dashboard->answer);
    reply->n_bytes = dashboard->answer.n_bytes;
}

/* Returns the start of the first line at or after byte `at`. */
static int64_t next_line(int fd, int64_t at)
{
    char bytes[4096];
    ssize_t n = at > 0 ? pread(fd, bytes, sizeof(bytes), (off_t)(at - 1)) : 0;
    const char *end = n > 0 ? memchr(bytes, '\n', (size_t)n) : NULL;

    return end ? at + (end - bytes) : at;
}

static int64_t metrics_bytes(const struct vp_dashboard *dashboard)
{
    struct stat info;

    return fstat(dashboard->metrics, &info) == 0 ? info.st_size : 0;
}

/* Starts a stream after the last event that the client received, or where its
 * page ends. */
static void answer_events(const struct vp_dashboard *dashboard,
                          const struct vp_http_request *request,
                          struct vp_http_reply *reply)
{
    int64_t end = metrics_bytes(dashboard), at;
    const char *from = request->last_event ? request->last_event
                                           : request->from;

    if (!from || !vp_text_to_i64(from, &at) || at < 0 || at > end)
        at = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
    reply->status = 200;
    reply->type = "text/event-stream";
    reply->stream = true;
    reply->begin = (struct vp_http_stream){
        .at = next_line(dashboard->metrics, at), .sent_ns = vp_clock_ns()
    };
}

/* Opens the event stream at the end of metrics.jsonl before the page was made.
 * Lines that were written while the page was made are already in its #data, and
 * are skipped by their step. */
static const char script[] =
    "\"use strict\";(() => {\n"
    "const data = document.getElementById(\"data\");\n"
    "const run = data ? JSON.parse(data.textContent).runs[0] : {};\n"
    "const end = (list) => list && list.step && list.step.length\n"
    "    ? list.step[list.step.length - 1] : 0;\n"
    "const last = { step: end(run.steps), eval: end(run.evals) };\n"
    "const source = new EventSource(\"/events?from=%lld\");\n"
    "source.onmessage = (e) => {\n"
    "    const line = JSON.parse(e.data), kind = line.event || \"step\";\n"
    "    if (line.step <= last[kind]) return;\n"
    "    if (kind in last) last[kind] = line.step;\n"
    "    vpipe.add(e.data);\n"
    "};\n"
    "source.addEventListener(\"status\", (e) => {\n"
    "    if (vpipe.show) vpipe.show(e.data);\n"
    "});\n"
    "})();\n";

/* Making the page reads files, so it is cached for PAGE_NS. */
static void answer_page(struct vp_dashboard *dashboard,
                        struct vp_http_reply *reply)
{
    char text[sizeof(script) + 32];
    struct vp_err err = { .text = "" };
    int64_t now = vp_clock_ns();

    if (dashboard->page_ns == 0 || now - dashboard->page_ns > PAGE_NS) {
        snprintf(text, sizeof(text), script,
                 (long long)metrics_bytes(dashboard));
        vp_strbuf_clear(&dashboard->answer);
        dashboard->page_ns = now;
        if (dashboard->page(dashboard->folder, text, &dashboard->answer,
                            &err) != VP_OK ||
            dashboard->answer.failed) {
            dashboard->page_ns = 0;
            reply_text(reply, 500, "the page cannot be made; see /metrics\n");
            return;
        }
    }
    reply->status = 200;
    reply->type = "text/html; charset=utf-8";
    reply->body = vp_strbuf_text(&dashboard->answer);
    reply->n_bytes = dashboard->answer.n_bytes;
}

static void answer_root(struct vp_dashboard *dashboard,
                        const struct vp_http_request *request,
                        struct vp_http_reply *reply)
{
    if (request->token && vp_access_is_token(dashboard->token, request->token,
                                             strlen(request->token))) {
        reply_text(reply, 303, "");
        reply->location = "/";
        snprintf(reply->cookie, sizeof(reply->cookie),
                 "%s=%s; Path=/; HttpOnly; SameSite=Strict",
                 dashboard->cookie_name, dashboard->token);
        return;
    }
    answer_page(dashboard, reply);
}

/* Host and method are checked first: a request for another server gets no
 * information about the run. */
static void respond(void *ctx, const struct vp_http_request *request,
                    struct vp_http_reply *out)
{
    struct vp_dashboard *dashboard = ctx;
    const char *path = request->path;
    bool root = strcmp(path, "/") == 0;

    if (!vp_access_is_host(request->host, dashboard->names))
        reply_text(out, 421,
                   "the Host header does not name this server; use its address "
                   "or host name\n");
    else if (strcmp(request->method, "GET") != 0)
        reply_text(out, 405, "GET only\n");
    else if (strcmp(path, "/healthz") == 0)
        answer_health(dashboard, out);
    else if (!is_authorized(dashboard, request) && !(root && request->token))
        reply_text(out, 401,
                   "open the address with the token in " VP_DASHBOARD_TOKEN_FILE
                   " of the run folder: /?token=...\n");
    else if (root && request->token &&
             !vp_access_is_token(dashboard->token, request->token,
                                 strlen(request->token)))
        reply_text(out, 401, "this is not the token of this run\n");
    else if (root)
        answer_root(dashboard, request, out);
    else if (strcmp(path, "/events") == 0)
        answer_events(dashboard, request, out);
    else if (strcmp(path, "/metrics") == 0)
        answer_metrics(dashboard, out);
    else
        reply_text(out, 404,
                   "not found; this server has /, /events, /metrics and "
                   "/healthz\n");
}

/* Writes new lines of metrics.jsonl; if there are none, a new state; after a
 * long silence, a comment that keeps the connection alive. */
static ptrdiff_t read_stream(void *ctx, struct vp_http_stream *stream,
                             char *out, size_t capacity)
{
    static const char head[] = "event: status\ndata: ", end[] = "\n\n",
                      quiet[] = ": no news\n\n";
    struct vp_dashboard *dashboard = ctx;
    int64_t now = vp_clock_ns();
    ptrdiff_t n = vp_events_of_lines(dashboard->metrics, &stream->at, out,
                                     capacity);
    size_t n_status;

    pthread_mutex_lock(&dashboard->lock);
    n_status = dashboard->status.n_bytes;
    if (n == 0 && stream->number != dashboard->number &&
        n_status + sizeof(head) + sizeof(end) < capacity) {
        n = snprintf(out, capacity, "%s%s%s", head,
                     vp_strbuf_text(&dashboard->status), end);
        stream->number = dashboard->number;
    }
    pthread_mutex_unlock(&dashboard->lock);
    if (n == 0 && now - stream->sent_ns > QUIET_NS)
        n = snprintf(out, capacity, "%s", quiet);
    if (n > 0)
        stream->sent_ns = now;
    return n;
}

/* ---- Start and close ---------------------------------------------------- */

/* Creates a new file: other users might be able to read an existing one. */
static enum vp_status write_token(struct vp_dashboard *dashboard,
                                  struct vp_err *err)
{
    char line[VP_TOKEN_BYTES + 1];
    int fd, n = snprintf(line, sizeof(line), "%s\n", dashboard->token);
    bool good;

    if (snprintf(dashboard->token_path, sizeof(dashboard->token_path),
                 "%s/" VP_DASHBOARD_TOKEN_FILE,
                 dashboard->folder) >= (int)sizeof(dashboard->token_path))
        return vp_err_write(err, dashboard->folder, ENAMETOOLONG);
    unlink(dashboard->token_path);
    fd = open(dashboard->token_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              0600);
    good = fd >= 0 && write(fd, line, (size_t)n) == n;
    if (!good)
        vp_err_write(err, dashboard->token_path, errno);
    if (fd >= 0)
        close(fd);
    return good ? VP_OK : VP_ERR_IO;
}

static enum vp_status open_metrics(struct vp_dashboard *dashboard,
                                   const char *folder, struct vp_err *err)
{
    char path[PATH_MAX];

    snprintf(dashboard->folder, sizeof(dashboard->folder), "%s", folder);
    if (snprintf(path, sizeof(path), "%s/metrics.jsonl", folder) >=
        (int)sizeof(path))
        return vp_err_write(err, folder, ENAMETOOLONG);
    dashboard->metrics = open(path, O_RDONLY | O_CLOEXEC);
    if (dashboard->metrics < 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read (%s); run without --dashboard",
                          path, strerror(errno));
    return VP_OK;
}

enum vp_status vp_dashboard_start(struct vp_dashboard *dashboard,
                                  const char *folder,
                                  char url_out[VP_DASHBOARD_URL],
                                  struct vp_err *err)
{
    const struct vp_listen_place *place = &dashboard->place;
    bool v6 = strchr(place->host, ':') != NULL;
    const struct vp_http_config config = {
        .listener = dashboard->listener,
        .ctx = dashboard,
        .respond = respond,
        .read_stream = read_stream,
    };

    VP_TRY(open_metrics(dashboard, folder, err));
    VP_TRY(write_token(dashboard, err));
    dashboard->listener = -1;
    VP_TRY(dashboard->plugin.start(&config, &dashboard->server, err));
    snprintf(url_out, VP_DASHBOARD_URL, "http://%s%.200s%s:%d/?token=%s",
             v6 ? "[" : "", place->host, v6 ? "]" : "", place->port,
             dashboard->token);
    return VP_OK;
}

void vp_dashboard_show(struct vp_dashboard *dashboard,
                       const struct vp_live *live)
{
    pthread_mutex_lock(&dashboard->lock);
    vp_strbuf_clear(&dashboard->numbers);
    vp_strbuf_clear(&dashboard->status);
    vp_prometheus_print(live, &dashboard->numbers);
    vp_status_print(live, &dashboard->status);
    for (size_t i = 0; i < dashboard->status.n_bytes; i++)
        if (dashboard->status.at[i] == '\n')
            dashboard->status.at[i] = ' ';
    dashboard->number = live->number;
    dashboard->shown_ns = vp_clock_ns();
    pthread_mutex_unlock(&dashboard->lock);
}

/* Leaked on purpose if the server's thread hangs in a call on a file: the
 * thread still uses the dashboard. */
void vp_dashboard_close(struct vp_dashboard *dashboard)
{
    if (!dashboard)
        return;
    if (dashboard->token_path[0])
        unlink(dashboard->token_path);
    if (dashboard->server && !dashboard->plugin.stop(dashboard->server))
        return;
    if (dashboard->listener >= 0)
        close(dashboard->listener);
    if (dashboard->metrics >= 0)
        close(dashboard->metrics);
    vp_strbuf_release(&dashboard->numbers);
    vp_strbuf_release(&dashboard->status);
    vp_strbuf_release(&dashboard->answer);
    pthread_mutex_destroy(&dashboard->lock);
    free(dashboard);
}
