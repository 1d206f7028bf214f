/* Concatenates text files into one file of bytes. */
#include "data/corpus/bytes.h"

#include "data/byte_stream.h"
#include "data/corpus/documents.h"
#include "data/corpus/work.h"
#include "data/text_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Measuring ---------------------------------------------------------- */

/* Adds the bytes of a file to *n_bytes; stops when the limit is exceeded. */
static enum vp_status add_bytes(const char *path, int64_t *n_bytes,
                                struct vp_err *err)
{
    struct vp_byte_stream *stream;
    static const int64_t limit = VP_CORPUS_HELD_BYTES;
    enum vp_status st = VP_OK;
    char bytes[1 << 14];
    size_t n = 1;

    VP_TRY(vp_byte_stream_open(path, &stream, err));
    while (st == VP_OK && n > 0 && *n_bytes <= limit) {
        st = vp_byte_stream_read(stream, bytes, sizeof(bytes), &n, err);
        if (st == VP_OK)
            *n_bytes += (int64_t)n;
    }
    vp_byte_stream_close(stream);
    return st;
}

enum vp_status vp_corpus_is_large(const char *const *paths, int n_paths,
                                  bool *out, struct vp_err *err)
{
    int64_t n_bytes = 0;

    for (int i = 0; i < n_paths && n_bytes <= VP_CORPUS_HELD_BYTES; i++)
        VP_TRY(add_bytes(paths[i], &n_bytes, err));
    *out = n_bytes > VP_CORPUS_HELD_BYTES;
    return VP_OK;
}

/* ---- Writing ------------------------------------------------------------ */

struct work {
    const struct vp_corpus_config *config;
    const char *path;
    FILE *file;
    bool in_line; /* the last byte written is not a newline */
    int64_t n_bytes_before;
    struct vp_corpus_progress progress;
    struct vp_corpus_result result;
};

static enum vp_status put(struct work *work, const char *bytes, size_t n,
                          struct vp_err *err)
{
    if (n == 0)
        return VP_OK;
    work->in_line = bytes[n - 1] != '\n';
    work->result.n_tokens += (int64_t)n;
    return fwrite(bytes, 1, n, work->file) == n
               ? VP_OK
               : vp_err_write(err, work->path, errno);
}

/* Writes a newline between the texts of JSONL; add_file() writes the last
 * one. */
static enum vp_status put_block(struct work *work, bool jsonl,
                                const struct vp_document_block *block,
                                struct vp_err *err)
{
    for (int i = 0; i < block->n; i++) {
        if (jsonl && block->begins[i] && work->result.n_documents > 0)
            VP_TRY(put(work, "\n", 1, err));
        work->result.n_documents += block->begins[i];
        VP_TRY(put(work, block->spans[i].bytes, block->spans[i].n_bytes, err));
    }
    return VP_OK;
}

static enum vp_status report(struct work *work, int64_t offset,
                             struct vp_err *err)
{
    const struct vp_corpus_config *config = work->config;

    work->progress.n_bytes = work->n_bytes_before + offset;
    work->progress.n_documents = work->result.n_documents;
    work->progress.n_tokens = work->result.n_tokens;
    if (!config->progress || config->progress(config->ctx, &work->progress))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "stopped by a signal; nothing was written");
}

static enum vp_status add_file(struct work *work, const char *path,
                               struct vp_err *err)
{
    struct vp_document_options options = { .text_key = work->config->text_key,
                                           .replace = work->config->replace,
                                           .keep_empty = true };
    bool jsonl = vp_text_is_jsonl(path);
    const struct vp_document_block *block;
    struct vp_document_reader *reader;
    enum vp_status st;

    VP_TRY(vp_document_reader_open(path, NULL, &options, &reader, err));
    work->result.n_documents = 0;
    while ((st = vp_document_reader_next(reader, &block, err)) == VP_OK) {
        st = put_block(work, jsonl, block, err);
        if (st == VP_OK)
            st = report(work, vp_document_reader_offset(reader), err);
        if (st != VP_OK)
            break;
    }
    work->n_bytes_before += vp_document_reader_offset(reader);
    vp_document_reader_close(reader);
    if (st != VP_ERR_END)
        return st;
    if (jsonl ? work->result.n_documents > 0 : work->in_line)
        return put(work, "\n", 1, err);
    return VP_OK;
}

static enum vp_status add_all(struct work *work, struct vp_err *err)
{
    const struct vp_corpus_config *config = work->config;

    for (int i = 0; i < config->n_paths; i++)
        VP_TRY(add_file(work, config->paths[i], err));
    if (fflush(work->file) != 0 || fsync(fileno(work->file)) != 0)
        return vp_err_write(err, work->path, errno);
    return VP_OK;
}

enum vp_status vp_corpus_write_bytes(const struct vp_corpus_config *config,
                                     const char *path,
                                     struct vp_corpus_result *out,
                                     struct vp_err *err)
{
    struct work work = { .config = config, .path = path };
    char folder[PATH_MAX];
    int64_t n_expected;
    enum vp_status st;

    VP_TRY(vp_corpus_measure(config->paths, config->n_paths,
                             &work.progress.n_bytes_all, &n_expected, err));
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path),
             path);
    VP_TRY(vp_work_check_space(folder, 4 * n_expected, err));
    work.file = fopen(path, "wb");
    if (!work.file)
        return vp_err_write(err, path, errno);
    st = add_all(&work, err);
    if (fclose(work.file) != 0 && st == VP_OK)
        st = vp_err_write(err, path, errno);
    if (st != VP_OK) {
        unlink(path);
        return st;
    }
    work.result.n_bytes = work.n_bytes_before;
    work.result.n_documents = config->n_paths;
    *out = work.result;
    return VP_OK;
}
