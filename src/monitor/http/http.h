/* The interface to the web server, an optional plugin: libvpipe_http.so. The
 * plugin owns the sockets and enforces all limits on clients. Its one thread,
 * of low priority, calls two functions of the program, which decide the
 * answers. */
#ifndef VP_MONITOR_HTTP_HTTP_H
#define VP_MONITOR_HTTP_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VP_HTTP_ABI 1

/* A request; NULL for headers and arguments that it does not have. */
struct vp_http_request {
    const char *method, *path;
    const char *host, *cookie, *authorization, *last_event; /* headers */
    const char *token, *from; /* arguments of the query */
};

/* The position of a client in a stream. */
struct vp_http_stream {
    int64_t at;      /* next byte of metrics.jsonl */
    int64_t number;  /* number of the last state that was sent */
    int64_t sent_ns; /* time at which bytes were last sent */
};

struct vp_http_reply {
    int status;
    const char *type; /* a literal */
    /* Must stay valid until the next call of respond(). Unused if `stream`. */
    const char *body;
    size_t n_bytes;
    const char *location; /* a literal, or NULL */
    char cookie[192];     /* "": none */
    bool stream;          /* server-sent events, from `begin` on */
    struct vp_http_stream begin;
};

struct vp_http_config {
    /* A listening socket. The server takes ownership, even if it fails to
     * start. */
    int listener;
    void *ctx;
    void (*respond)(void *ctx, const struct vp_http_request *request,
                    struct vp_http_reply *out);
    /* Writes the next events of `stream` and advances it. Returns their size; 0
     * if there are none yet, -1 to end the stream. */
    ptrdiff_t (*read_stream)(void *ctx, struct vp_http_stream *stream,
                             char *out, size_t capacity);
};

/* Bytes that read_stream() may write at once. */
enum { VP_HTTP_STREAM_BYTES = 128 * 1024 };

struct vp_http_server;

/* Exports of the plugin. vp_plugin_http_version() returns the VP_HTTP_ABI that
 * it was built with. */
#define VP_HTTP_EXPORT __attribute__((visibility("default")))
VP_HTTP_EXPORT int vp_plugin_http_version(void);
VP_HTTP_EXPORT enum vp_status vp_plugin_http_start(
    const struct vp_http_config *config, struct vp_http_server **out,
    struct vp_err *err);
/* Stops the thread and frees the server. Waits up to two seconds. Returns false
 * if the thread hangs in a call on a file: the thread is then leaked and still
 * uses what `config` points to. */
VP_HTTP_EXPORT bool vp_plugin_http_stop(struct vp_http_server *server);

#endif
