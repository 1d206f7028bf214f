#include "data/corpus/shards.h"

#include "data/names.h"
#include "data/tokens/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SHARDS = 1000000 }; /* six digits */

struct vp_shard_writer {
    char *folder, *name, *work;
    int64_t vocab, shard_tokens, n_expected;
    int lock;            /* the folder of the work; -1: not yet */
    bool created_folder; /* by this writer */
    struct split {
        struct vp_token_writer *writer; /* of the shard that is not full */
        int64_t n_tokens;               /* in it */
        int n_shards;                   /* with it */
    } split[VP_SHARD_SPLITS];
};

static const char *const split_words[] = { "train", "val" };

/* Writes "FOLDER/NAME_train_000012.bin". */
static enum vp_status shard_path(const struct vp_shard_writer *writer,
                                 const char *folder, int split, int number,
                                 char out[PATH_MAX], struct vp_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s_%s_%06d.bin", folder, writer->name,
                 split_words[split], number) < PATH_MAX)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s/%s: the path is too long; give a shorter one", folder,
                      writer->name);
}

/* ---- The folder of the work --------------------------------------------- */

static void empty_folder(const char *path)
{
    struct vp_names names = { 0 };
    char file[PATH_MAX];

    if (vp_names_read(path, &names, NULL) == VP_OK)
        for (size_t i = 0; i < names.n; i++)
            if (snprintf(file, sizeof(file), "%s/%s", path, names.name[i]) <
                (int)sizeof(file))
                unlink(file);
    vp_names_release(&names);
}

/* A lock ends with its process, so it tells work from what is left of it. */
static enum vp_status lock_work(struct vp_shard_writer *writer,
                                struct vp_err *err)
{
    if (mkdir(writer->work, 0777) != 0 && errno != EEXIST)
        return vp_err_write(err, writer->work, errno);
    writer->lock = open(writer->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (writer->lock < 0)
        return vp_err_write(err, writer->work, errno);
    if (flock(writer->lock, LOCK_EX | LOCK_NB) != 0) {
        close(writer->lock);
        writer->lock = -1; /* the other process removes the folder */
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: another process writes '%s' here; wait for it, "
                          "or choose another name",
                          writer->folder, writer->name);
    }
    empty_folder(writer->work);
    return VP_OK;
}

/* Shards of an earlier run would be read with the new ones. */
static enum vp_status refuse_present(const struct vp_shard_writer *writer,
                                     struct vp_err *err)
{
    struct vp_names names = { 0 };
    size_t n = strlen(writer->name);
    enum vp_status st = vp_names_read(writer->folder, &names, err);

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        if (strncmp(names.name[i], writer->name, n) == 0 &&
            (strncmp(names.name[i] + n, "_train_", 7) == 0 ||
             strncmp(names.name[i] + n, "_val_", 5) == 0))
            st = vp_err_set(err, VP_ERR_INVALID,
                            "%s/%s: is there already; remove the shards of "
                            "this name, or choose another name or folder",
                            writer->folder, names.name[i]);
    vp_names_release(&names);
    return st;
}

static enum vp_status prepare(struct vp_shard_writer *writer,
                              struct vp_err *err)
{
    if (mkdir(writer->folder, 0777) == 0)
        writer->created_folder = true;
    else if (errno != EEXIST)
        return vp_err_write(err, writer->folder, errno);
    VP_TRY(refuse_present(writer, err));
    return lock_work(writer, err);
}

static void free_writer(struct vp_shard_writer *writer)
{
    if (writer->lock >= 0)
        close(writer->lock);
    free(writer->folder);
    free(writer->name);
    free(writer->work);
    free(writer);
}

void vp_shard_writer_abandon(struct vp_shard_writer *writer)
{
    if (!writer)
        return;
    for (int s = 0; s < VP_SHARD_SPLITS; s++)
        vp_token_writer_abandon(writer->split[s].writer);
    if (writer->lock >= 0) {
        empty_folder(writer->work);
        rmdir(writer->work);
    }
    if (writer->created_folder)
        rmdir(writer->folder);
    free_writer(writer);
}

enum vp_status vp_shard_writer_open(const struct vp_shard_options *options,
                                    struct vp_shard_writer **out,
                                    struct vp_err *err)
{
    size_t n = strlen(options->folder) + strlen(options->name) +
               sizeof("/..partial");
    struct vp_shard_writer *writer = calloc(1, sizeof(*writer));
    enum vp_status st;

    if (!writer)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    writer->lock = -1;
    writer->vocab = options->vocab;
    writer->shard_tokens = options->shard_tokens;
    writer->n_expected = options->n_expected;
    writer->folder = strdup(options->folder);
    writer->name = strdup(options->name);
    writer->work = malloc(n);
    if (writer->folder && writer->name && writer->work) {
        snprintf(writer->work, n, "%s/.%s.partial", writer->folder,
                 writer->name);
        st = prepare(writer, err);
    } else {
        st = vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    }
    if (st == VP_OK)
        *out = writer;
    else
        vp_shard_writer_abandon(writer);
    return st;
}

/* ---- Writing ------------------------------------------------------------ */

static enum vp_status begin_shard(struct vp_shard_writer *writer, int split,
                                  struct vp_err *err)
{
    struct split *to = &writer->split[split];
    char path[PATH_MAX];

    if (to->n_shards == MAX_SHARDS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: more than %d shards; make them larger",
                          writer->folder, MAX_SHARDS);
    VP_TRY(shard_path(writer, writer->work, split, to->n_shards, path, err));
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

/* The first shard for training comes last: without it the set is seen to be
 * incomplete. Takes all back after an error. */
static enum vp_status publish(const struct vp_shard_writer *writer,
                              struct vp_err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    enum vp_status st = VP_OK;

    for (int s = VP_SHARD_SPLITS - 1; s >= 0; s--)
        for (int i = writer->split[s].n_shards - 1; st == VP_OK && i >= 0;
             i--) {
            st = shard_path(writer, writer->work, s, i, from, err);
            if (st == VP_OK)
                st = shard_path(writer, writer->folder, s, i, to, err);
            if (st == VP_OK && rename(from, to) != 0)
                st = vp_err_write(err, to, errno);
        }
    for (int s = 0; st != VP_OK && s < VP_SHARD_SPLITS; s++)
        for (int i = 0; i < writer->split[s].n_shards; i++)
            if (shard_path(writer, writer->folder, s, i, to, NULL) == VP_OK)
                unlink(to);
    return st;
}

enum vp_status vp_shard_writer_close(struct vp_shard_writer *writer,
                                     int n_shards_out[VP_SHARD_SPLITS],
                                     struct vp_err *err)
{
    enum vp_status st = VP_OK;

    for (int s = 0; s < VP_SHARD_SPLITS; s++) {
        if (st == VP_OK)
            st = end_shard(&writer->split[s], err);
        n_shards_out[s] = writer->split[s].n_shards;
    }
    if (st == VP_OK)
        st = publish(writer, err);
    if (st != VP_OK) {
        vp_shard_writer_abandon(writer);
        return st;
    }
    rmdir(writer->work);
    free_writer(writer);
    return VP_OK;
}
