/* Distributes token ids to numbered shard files. */
#include "data/corpus/shards.h"

#include "data/corpus/work.h"
#include "data/tokens/write.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 1000000 }; /* six digits */
enum { NAME_BYTES = 288 };

struct vp_shard_writer {
    struct vp_work work;
    int64_t vocab, shard_tokens, n_expected;
    struct split {
        struct vp_token_writer *writer; /* writes the current shard; or NULL */
        int64_t n_tokens;               /* in the current shard */
        int n_shards;                   /* with the current one */
    } split[VP_SHARD_SPLITS];
};

static const char *const split_words[] = { "train", "val" };

/* Writes "NAME_train_000012.bin". */
static void shard_name(const struct vp_shard_writer *writer, int split,
                       int number, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s_%s_%06d.bin", writer->work.name,
             split_words[split], number);
}

/* True for shards of an earlier run, which would be read with the new ones. */
static bool is_shard(const char *rest)
{
    return strncmp(rest, "_train_", 7) == 0 || strncmp(rest, "_val_", 5) == 0;
}

void vp_shard_writer_abandon(struct vp_shard_writer *writer)
{
    if (!writer)
        return;
    for (int s = 0; s < VP_SHARD_SPLITS; s++)
        vp_token_writer_abandon(writer->split[s].writer);
    vp_work_abandon(&writer->work);
    free(writer);
}

enum vp_status vp_shard_writer_open(const struct vp_shard_options *options,
                                    struct vp_shard_writer **out,
                                    struct vp_err *err)
{
    struct vp_shard_writer *writer = calloc(1, sizeof(*writer));
    enum vp_status st;

    if (!writer)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    writer->vocab = options->vocab;
    writer->shard_tokens = options->shard_tokens;
    writer->n_expected = options->n_expected;
    st = vp_work_open(options->folder, options->name, is_shard, &writer->work,
                      err);
    if (st == VP_OK)
        *out = writer;
    else
        free(writer);
    return st;
}

/* ---- Writing ------------------------------------------------------------ */

static enum vp_status begin_shard(struct vp_shard_writer *writer, int split,
                                  struct vp_err *err)
{
    struct split *to = &writer->split[split];
    char path[PATH_MAX], name[NAME_BYTES];

    if (to->n_shards == MAX_SHARDS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: more than %d shards; make them larger",
                          writer->work.folder, MAX_SHARDS);
    shard_name(writer, split, to->n_shards, name);
    VP_TRY(vp_work_path(&writer->work, name, path, err));
    VP_TRY(vp_token_writer_open(path, writer->vocab, writer->n_expected,
                                &to->writer, err));
    to->n_shards++;
    to->n_tokens = 0;
    return VP_OK;
}

static enum vp_status end_shard(struct split *to, struct vp_err *err)
{
    struct vp_token_writer *writer = to->writer;

    to->writer = NULL;
    return writer ? vp_token_writer_close(writer, err) : VP_OK;
}

enum vp_status vp_shard_writer_add(struct vp_shard_writer *writer,
                                   enum vp_shard_split split,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err)
{
    struct split *to = &writer->split[split];

    while (n > 0) {
        int64_t room;

        if (!to->writer)
            VP_TRY(begin_shard(writer, split, err));
        room = writer->shard_tokens - to->n_tokens;
        if (split == VP_SHARD_VALID || room > n)
            room = n;
        VP_TRY(vp_token_writer_add(to->writer, ids, room, err));
        to->n_tokens += room;
        writer->n_expected -= writer->n_expected > room ? room
                                                        : writer->n_expected;
        ids += room;
        n -= room;
        if (split == VP_SHARD_TRAIN && to->n_tokens == writer->shard_tokens)
            VP_TRY(end_shard(to, err));
    }
    return VP_OK;
}

/* ---- The end ------------------------------------------------------------ */

enum vp_status vp_shard_writer_close(struct vp_shard_writer *writer,
                                     int n_shards_out[VP_SHARD_SPLITS],
                                     struct vp_err *err)
{
    enum vp_status st = VP_OK;
    char last[NAME_BYTES];

    for (int s = 0; s < VP_SHARD_SPLITS; s++) {
        if (st == VP_OK)
            st = end_shard(&writer->split[s], err);
        n_shards_out[s] = writer->split[s].n_shards;
    }
    if (st != VP_OK) {
        vp_shard_writer_abandon(writer);
        return st;
    }
    shard_name(writer, VP_SHARD_TRAIN, 0, last);
    st = vp_work_publish(&writer->work,
                         n_shards_out[VP_SHARD_TRAIN] > 0 ? last : NULL, err);
    free(writer);
    return st;
}
