/* Sequential reading of plain, gzip and zstd files. */
#include "data/byte_stream.h"

#include "base/blocking.h"
#include "data/unreadable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef VP_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef VP_HAVE_ZSTD
#include <zstd.h>
#endif

enum { BUFFER_BYTES = 64 << 10 };

enum kind { KIND_PLAIN, KIND_GZIP, KIND_ZSTD };

struct vp_byte_stream {
    FILE *file;
    char *path;
    enum kind kind;
    bool in_frame;  /* inside a gzip member or zstd frame */
    int64_t offset; /* file offset of the end of the buffer */
    size_t at, n;   /* next byte and number of bytes in the buffer */
    unsigned char buffer[BUFFER_BYTES];
#ifdef VP_HAVE_ZLIB
    z_stream gzip;
#endif
#ifdef VP_HAVE_ZSTD
    ZSTD_DCtx *zstd;
#endif
};

int64_t vp_byte_stream_offset(const struct vp_byte_stream *stream)
{
    return stream->offset;
}

bool vp_byte_stream_is_compressed(const struct vp_byte_stream *stream)
{
    return stream->kind != KIND_PLAIN;
}

/* ---- The file ----------------------------------------------------------- */

static enum vp_status fill_buffer(struct vp_byte_stream *stream,
                                  struct vp_err *err)
{
    int call;

    if (stream->at < stream->n)
        return VP_OK;
    call = vp_blocking_begin(VP_BLOCKING_FILE, "reading", stream->path, -1);
    stream->n = fread(stream->buffer, 1, BUFFER_BYTES, stream->file);
    vp_blocking_end(call);
    stream->at = 0;
    stream->offset += (int64_t)stream->n;
    if (stream->n == 0 && ferror(stream->file))
        return vp_text_fail_errno(stream->path, err);
    return VP_OK;
}

static enum vp_status refuse(const struct vp_byte_stream *stream,
                             struct vp_err *err, const char *cause)
{
    return vp_err_set(
        err, VP_ERR_INVALID, "%s: offset %lld: %s; compress the text anew",
        stream->path,
        (long long)stream->offset - (long long)(stream->n - stream->at), cause);
}

/* ---- gzip --------------------------------------------------------------- */

#ifdef VP_HAVE_ZLIB
static enum vp_status begin_gzip(struct vp_byte_stream *stream,
                                 struct vp_err *err)
{
    /* 15: largest window; + 16: with a gzip header. */
    if (inflateInit2(&stream->gzip, 15 + 16) == Z_OK)
        return VP_OK;
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", stream->path);
}

static void end_gzip(struct vp_byte_stream *stream)
{
    inflateEnd(&stream->gzip);
}

static enum vp_status step_gzip(struct vp_byte_stream *stream,
                                unsigned char *out, size_t n, size_t *n_out,
                                struct vp_err *err)
{
    z_stream *gzip = &stream->gzip;
    int result;

    gzip->next_in = stream->buffer + stream->at;
    gzip->avail_in = (unsigned)(stream->n - stream->at);
    gzip->next_out = out;
    gzip->avail_out = n < (1u << 30) ? (unsigned)n : 1u << 30;
    stream->in_frame = true;
    result = inflate(gzip, Z_NO_FLUSH);
    stream->at = stream->n - gzip->avail_in;
    *n_out = (size_t)(gzip->next_out - out);
    if (result == Z_STREAM_END) { /* another gzip member may follow */
        stream->in_frame = false;
        inflateReset(gzip);
        return VP_OK;
    }
    if (result != Z_OK && result != Z_BUF_ERROR)
        return refuse(stream, err, "not valid gzip data");
    return VP_OK;
}
#else
static enum vp_status begin_gzip(struct vp_byte_stream *stream,
                                 struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "%s: is compressed by gzip, and this vpipe was built "
                      "without zlib; decompress it with 'gunzip -k FILE'",
                      stream->path);
}

static void end_gzip(struct vp_byte_stream *stream)
{
    (void)stream;
}

static enum vp_status step_gzip(struct vp_byte_stream *stream,
                                unsigned char *out, size_t n, size_t *n_out,
                                struct vp_err *err)
{
    (void)out;
    (void)n;
    (void)n_out;
    return begin_gzip(stream, err);
}
#endif

/* ---- zstd --------------------------------------------------------------- */

#ifdef VP_HAVE_ZSTD
static enum vp_status begin_zstd(struct vp_byte_stream *stream,
                                 struct vp_err *err)
{
    stream->zstd = ZSTD_createDCtx();
    if (!stream->zstd)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", stream->path);
    ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax,
                           VP_BYTE_STREAM_WINDOW_LOG);
    return VP_OK;
}

static void end_zstd(struct vp_byte_stream *stream)
{
    ZSTD_freeDCtx(stream->zstd);
}

static enum vp_status step_zstd(struct vp_byte_stream *stream,
                                unsigned char *out, size_t n, size_t *n_out,
                                struct vp_err *err)
{
    ZSTD_inBuffer from = { stream->buffer, stream->n, stream->at };
    ZSTD_outBuffer to = { out, n, 0 };
    size_t result = ZSTD_decompressStream(stream->zstd, &to, &from);
    char cause[160];

    stream->at = from.pos;
    *n_out = to.pos;
    stream->in_frame = result != 0;
    if (!ZSTD_isError(result))
        return VP_OK;
    snprintf(cause, sizeof(cause),
             "not valid zstd data, or a window above %d MiB (%s)",
             1 << (VP_BYTE_STREAM_WINDOW_LOG - 20), ZSTD_getErrorName(result));
    return refuse(stream, err, cause);
}
#else
static enum vp_status begin_zstd(struct vp_byte_stream *stream,
                                 struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "%s: is compressed by zstd, and this vpipe was built "
                      "without libzstd; decompress it with 'unzstd FILE'",
                      stream->path);
}

static void end_zstd(struct vp_byte_stream *stream)
{
    (void)stream;
}

static enum vp_status step_zstd(struct vp_byte_stream *stream,
                                unsigned char *out, size_t n, size_t *n_out,
                                struct vp_err *err)
{
    (void)out;
    (void)n;
    (void)n_out;
    return begin_zstd(stream, err);
}
#endif

/* ---- The whole ---------------------------------------------------------- */

static enum kind kind_of(const struct vp_byte_stream *stream)
{
    const unsigned char *head = stream->buffer;

    if (stream->n >= 2 && memcmp(head, "\x1F\x8B", 2) == 0)
        return KIND_GZIP;
    /* A frame, or a skippable frame. */
    if (stream->n >= 4 && (memcmp(head, "\x28\xB5\x2F\xFD", 4) == 0 ||
                           ((head[0] & 0xF0) == 0x50 &&
                            memcmp(head + 1, "\x2A\x4D\x18", 3) == 0)))
        return KIND_ZSTD;
    return KIND_PLAIN;
}

static enum vp_status begin_kind(struct vp_byte_stream *stream,
                                 struct vp_err *err)
{
    enum kind kind;

    VP_TRY(fill_buffer(stream, err));
    kind = kind_of(stream);
    if (kind == KIND_GZIP)
        VP_TRY(begin_gzip(stream, err));
    if (kind == KIND_ZSTD)
        VP_TRY(begin_zstd(stream, err));
    stream->kind = kind;
    return VP_OK;
}

/* Opens regular files only: opening a FIFO would block. */
static enum vp_status open_file(struct vp_byte_stream *stream,
                                struct vp_err *err)
{
    int call = vp_blocking_begin(VP_BLOCKING_FILE, "opening", stream->path, -1);
    int fd = open(stream->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error;
    struct stat info = { .st_mode = 0 };
    bool is_known = fd >= 0 && fstat(fd, &info) == 0;

    if (S_ISREG(info.st_mode))
        stream->file = fdopen(fd, "rb");
    error = errno;
    vp_blocking_end(call);
    if (stream->file)
        return begin_kind(stream, err);
    if (fd >= 0)
        close(fd);
    if (is_known && !S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not a regular file; set data_dir to files, "
                          "or to a folder of files",
                          stream->path);
    errno = error;
    return vp_text_fail_errno(stream->path, err);
}

enum vp_status vp_byte_stream_open(const char *path,
                                   struct vp_byte_stream **out,
                                   struct vp_err *err)
{
    struct vp_byte_stream *stream = calloc(1, sizeof(*stream));
    enum vp_status st;

    if (stream)
        stream->path = strdup(path);
    if (!stream || !stream->path) {
        free(stream);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    st = open_file(stream, err);
    if (st != VP_OK) {
        vp_byte_stream_close(stream);
        return st;
    }
    *out = stream;
    return VP_OK;
}

void vp_byte_stream_close(struct vp_byte_stream *stream)
{
    if (!stream)
        return;
    if (stream->kind == KIND_GZIP)
        end_gzip(stream);
    if (stream->kind == KIND_ZSTD)
        end_zstd(stream);
    if (stream->file)
        fclose(stream->file);
    free(stream->path);
    free(stream);
}

enum vp_status vp_byte_stream_read(struct vp_byte_stream *stream, void *out,
                                   size_t n, size_t *n_out, struct vp_err *err)
{
    *n_out = 0;
    while (*n_out == 0 && n > 0) {
        VP_TRY(fill_buffer(stream, err));
        if (stream->n == 0)
            return stream->in_frame
                       ? refuse(stream, err,
                                "the file ends inside compressed text")
                       : VP_OK;
        if (stream->kind == KIND_PLAIN) {
            size_t left = stream->n - stream->at;

            *n_out = n < left ? n : left;
            memcpy(out, stream->buffer + stream->at, *n_out);
            stream->at += *n_out;
        } else {
            VP_TRY(stream->kind == KIND_GZIP
                       ? step_gzip(stream, out, n, n_out, err)
                       : step_zstd(stream, out, n, n_out, err));
        }
    }
    return VP_OK;
}
