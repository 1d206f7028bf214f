/* Opens a single token file of any format. */
#include "data/tokens/reader.h"

#include "data/data_detect.h"
#include "data/tokens/find.h"
#include "data/tokens/shard.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct vp_token_reader {
    struct vp_token_shard shard;
    struct vp_token_info info;
};

static bool is_indexed(enum vp_data_format format)
{
    return format == VP_FORMAT_MEGATRON || format == VP_FORMAT_FAIRSEQ;
}

/* Detects the format; refuses files without token ids. */
static enum vp_status find_format(const char *path, enum vp_data_format format,
                                  enum vp_data_format *out, struct vp_err *err)
{
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = path,
                                     .format = format };
    size_t n = strlen(path);
    struct stat info;

    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read: %s; check the path", path,
                          strerror(errno));
    if (!S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not a regular file; name a token file", path);
    if (is_indexed(format) && (n < 5 || (strcmp(path + n - 4, ".idx") != 0 &&
                                         strcmp(path + n - 4, ".bin") != 0)))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: names of files with an index end in .idx and "
                          ".bin; name one of them",
                          path);
    VP_TRY(vp_data_detect(&config, &config, err));
    if (config.source != VP_DATA_TOKENS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: holds %s, not token ids; name a token file",
                          path, vp_data_format_name(config.format));
    *out = config.format;
    return VP_OK;
}

static enum vp_status open_indexed(struct vp_token_reader *reader,
                                   const char *path, struct vp_err *err)
{
    struct vp_token_shard *shard = &reader->shard;
    char index[PATH_MAX];

    vp_token_files_beside(path, ".idx", index, sizeof(index));
    VP_TRY(vp_token_shard_open_indexed(shard, index, err));
    reader->info.format = shard->index.layout == VP_INDEX_MEGATRON
                              ? VP_FORMAT_MEGATRON
                              : VP_FORMAT_FAIRSEQ;
    reader->info.n_documents = shard->index.n_documents;
    return VP_OK;
}

static enum vp_status open_file(struct vp_token_reader *reader,
                                const char *path, struct vp_err *err)
{
    struct vp_token_shard *shard = &reader->shard;

    shard->set = vp_file_set_create();
    if (!shard->set)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    if (is_indexed(reader->info.format))
        VP_TRY(open_indexed(reader, path, err));
    else
        VP_TRY(vp_token_shard_open_plain(
            shard, path, reader->info.format == VP_FORMAT_NANOGPT, err));
    shard->vocab = VP_ITEM_MAX_VOCAB;
    reader->info.item = vp_item_name(shard->item);
    reader->info.n_tokens = shard->n_tokens;
    return VP_OK;
}

enum vp_status vp_token_reader_open(const char *path,
                                    enum vp_data_format format,
                                    struct vp_token_reader **out,
                                    struct vp_err *err)
{
    struct vp_token_reader *reader;
    enum vp_status st;

    VP_TRY(find_format(path, format, &format, err));
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    reader->info.format = format;
    reader->info.n_documents = -1;
    st = open_file(reader, path, err);
    if (st == VP_OK)
        *out = reader;
    else
        vp_token_reader_close(reader);
    return st;
}

void vp_token_reader_close(struct vp_token_reader *reader)
{
    if (!reader)
        return;
    vp_file_set_free(reader->shard.set);
    free(reader);
}

const struct vp_token_info *vp_token_reader_info(
    const struct vp_token_reader *reader)
{
    return &reader->info;
}

enum vp_status vp_token_reader_read(const struct vp_token_reader *reader,
                                    int64_t first, int64_t n, int32_t *ids_out,
                                    struct vp_err *err)
{
    return vp_token_shard_stored(&reader->shard, first, n, ids_out, err);
}

enum vp_status vp_token_reader_document(const struct vp_token_reader *reader,
                                        int64_t document, int64_t *begin_out,
                                        struct vp_err *err)
{
    const struct vp_token_shard *shard = &reader->shard;

    if (document == reader->info.n_documents) {
        *begin_out = shard->n_tokens;
        return VP_OK;
    }
    return vp_token_index_document(shard->set, &shard->index, document,
                                   begin_out, err);
}
