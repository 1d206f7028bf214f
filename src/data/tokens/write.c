/* Writer of token files with or without a header. */
#include "data/tokens/write.h"

#include "data/corpus/work.h"
#include "data/tokens/bin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vp_token_writer {
    FILE *file;
    char *path;
    char *partial; /* temporary path until the file is complete */
    enum vp_item item;
    bool plain; /* no header */
    int64_t vocab, n_tokens;
};

static void free_writer(struct vp_token_writer *writer)
{
    if (writer->file)
        fclose(writer->file);
    free(writer->path);
    free(writer->partial);
    free(writer);
}

void vp_token_writer_abandon(struct vp_token_writer *writer)
{
    if (!writer)
        return;
    if (writer->partial)
        unlink(writer->partial);
    free_writer(writer);
}

static enum vp_status check_space(const char *path, int64_t n_bytes,
                                  struct vp_err *err)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%.*s",
             slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    return vp_work_check_space(folder, n_bytes, err);
}

/* Returns NULL if out of memory. */
static struct vp_token_writer *create(const char *path, int64_t vocab)
{
    struct vp_token_writer *writer = calloc(1, sizeof(*writer));
    size_t n = strlen(path) + sizeof(".partial");

    if (!writer)
        return NULL;
    writer->item = vocab > 65536 ? VP_ITEM_U32 : VP_ITEM_U16;
    writer->vocab = vocab;
    writer->path = strdup(path);
    writer->partial = malloc(n);
    if (!writer->path || !writer->partial) {
        free_writer(writer);
        return NULL;
    }
    snprintf(writer->partial, n, "%s.partial", path);
    return writer;
}

static enum vp_status open_writer(const char *path, int64_t vocab,
                                  int64_t n_expected, bool plain,
                                  struct vp_token_writer **out,
                                  struct vp_err *err)
{
    unsigned char header[VP_BIN_HEADER_BYTES] = { 0 };
    struct vp_token_writer *writer;
    int error;

    VP_TRY(check_space(path, n_expected * (vocab > 65536 ? 4 : 2), err));
    writer = create(path, vocab);
    if (!writer)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    writer->plain = plain;
    writer->file = fopen(writer->partial, "wb");
    /* vp_token_writer_close() fills in the header. */
    if (writer->file && (plain || fwrite(header, 1, sizeof(header),
                                         writer->file) == sizeof(header))) {
        *out = writer;
        return VP_OK;
    }
    error = errno;
    vp_token_writer_abandon(writer);
    return vp_err_write(err, path, error);
}

enum vp_status vp_token_writer_open(const char *path, int64_t vocab,
                                    int64_t n_expected,
                                    struct vp_token_writer **out,
                                    struct vp_err *err)
{
    return open_writer(path, vocab, n_expected, false, out, err);
}

enum vp_status vp_token_writer_open_plain(const char *path, int64_t vocab,
                                          int64_t n_expected,
                                          struct vp_token_writer **out,
                                          struct vp_err *err)
{
    if (vocab > 65536)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: files of nanoGPT hold ids up to 65535, but one "
                          "is %lld; choose another format",
                          path, (long long)vocab - 1);
    return open_writer(path, vocab, n_expected, true, out, err);
}

enum { CHUNK_TOKENS = 4096 };

/* Writes at most CHUNK_TOKENS ids. Returns false and sets errno on failure. */
static bool write_chunk(struct vp_token_writer *writer, const int32_t *ids,
                        int64_t n)
{
    size_t width = (size_t)vp_item_bytes(writer->item);
    unsigned char bytes[4 * CHUNK_TOKENS];

    for (int64_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)ids[i];

        VP_BUG_ON(ids[i] < 0 || ids[i] >= writer->vocab);
        /* Little endian: the low bytes come first. */
        memcpy(bytes + (size_t)i * width, &id, width);
    }
    return fwrite(bytes, width, (size_t)n, writer->file) == (size_t)n;
}

enum vp_status vp_token_writer_add(struct vp_token_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err)
{
    if (!writer->plain && n > VP_TOKEN_WRITE_MAX - writer->n_tokens)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: a token file has at most %lld tokens; write "
                          "several",
                          writer->path, (long long)VP_TOKEN_WRITE_MAX);
    writer->n_tokens += n;
    while (n > 0) {
        int64_t k = n < CHUNK_TOKENS ? n : CHUNK_TOKENS;

        if (!write_chunk(writer, ids, k))
            return vp_err_write(err, writer->path, errno);
        ids += k;
        n -= k;
    }
    return VP_OK;
}

enum vp_status vp_token_writer_close(struct vp_token_writer *writer,
                                     struct vp_err *err)
{
    unsigned char header[VP_BIN_HEADER_BYTES];
    enum vp_status st = VP_OK;
    bool ok;

    if (!writer->plain)
        vp_token_bin_header(writer->item, writer->n_tokens, header);
    ok = (writer->plain || (fseek(writer->file, 0, SEEK_SET) == 0 &&
                            fwrite(header, 1, sizeof(header), writer->file) ==
                                sizeof(header))) &&
         fflush(writer->file) == 0 && fsync(fileno(writer->file)) == 0 &&
         rename(writer->partial, writer->path) == 0;
    if (!ok) {
        st = vp_err_write(err, writer->path, errno);
        vp_token_writer_abandon(writer);
        return st;
    }
    free_writer(writer);
    return VP_OK;
}
