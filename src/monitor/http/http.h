/* A small web server that may be missing: the plugin libvpipe_http.so.
 * The plugin has the sockets and all limits on what clients may cost; what is
 * answered is decided here, by two functions. It has one thread, of low priority,
 * that calls both. */
#ifndef VP_MONITOR_HTTP_HTTP_H
#define VP_MONITOR_HTTP_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VP_HTTP_ABI 1

/* What a client asks for; NULL where it did not say. */
struct vp_http_request {
    const char *method, *path;
    const char *host, *cookie, *authorization, *last_event; /* headers */
    const char *token, *from;                               /* of the query */
};

/* How far a client has read a stream. */
struct vp_http_stream {
    int64_t at;      /* byte of metrics.jsonl */
    int64_t number;  /* of the last state that was sent */
    int64_t sent_ns; /* when the last bytes were */
};

struct vp_http_reply {
    int status;
    const char *type; /* a literal */
    /* Until the next call of the server; copied. Not of a stream. */
    const char *body;
    size_t n_bytes;
    const char *location; /* a literal, or NULL */
    char cookie[192];     /* "": none */
    bool stream;          /* server-sent events, from `begin` on */
    struct vp_http_stream begin;
};

struct vp_http_config {
    /* A socket that listens; the server closes it, also if it cannot start. */
    int listener;
    void *ctx;
    void (*respond)(void *ctx, const struct vp_http_request *request,
                    struct vp_http_reply *out);
    /* Writes events that follow `stream`; returns their bytes, 0 if there are
     * none now, -1 to end the stream. */
    ptrdiff_t (*read_stream)(void *ctx, struct vp_http_stream *stream,
                             char *out, size_t capacity);
};

/* Bytes that read_stream() may write at once. */
enum { VP_HTTP_STREAM_BYTES = 128 * 1024 };

struct vp_http_server;

/* What the plugin exports. The first says with which VP_HTTP_ABI it was built. */
#define VP_HTTP_EXPORT __attribute__((visibility("default")))
VP_HTTP_EXPORT int vp_plugin_http_version(void);
VP_HTTP_EXPORT enum vp_status vp_plugin_http_start(
    const struct vp_http_config *config, struct vp_http_server **out,
    struct vp_err *err);
/* Waits two seconds. Returns false if the thread hangs in a call on a file: it
 * is left behind, and still uses what `config` points to. */
VP_HTTP_EXPORT bool vp_plugin_http_stop(struct vp_http_server *server);

#endif
