/* Writes token ids as shards of llm.c: NAME_train_000000.bin, ... and
 * NAME_val_000000.bin. They are written to FOLDER/.NAME.partial and renamed to
 * FOLDER when all are complete; after an error they are removed. */
#ifndef VP_DATA_CORPUS_SHARDS_H
#define VP_DATA_CORPUS_SHARDS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum vp_shard_split { VP_SHARD_TRAIN, VP_SHARD_VALID, VP_SHARD_SPLITS };

struct vp_shard_options {
    const char *folder, *name;
    int64_t vocab;
    int64_t shard_tokens; /* tokens of a full shard for training; at most
                             VP_TOKEN_WRITE_MAX */
    int64_t n_expected;   /* estimate of all tokens, to check disk space */
};

struct vp_shard_writer;

/* Copies the options. Creates the folder if it is missing. Fails if the folder
 * already holds shards of this name, or if another process writes them. Files
 * that a killed process has left are removed. */
enum vp_status vp_shard_writer_open(const struct vp_shard_options *options,
                                    struct vp_shard_writer **out,
                                    struct vp_err *err);
/* Appends `n` ids to the current shard of `split`; begins new shards as needed.
 * The split for evaluation has one shard. */
enum vp_status vp_shard_writer_add(struct vp_shard_writer *writer,
                                   enum vp_shard_split split,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Completes the shards, renames them to the folder and frees the writer, also
 * after an error. n_shards_out: number of shards per split. */
enum vp_status vp_shard_writer_close(struct vp_shard_writer *writer,
                                     int n_shards_out[VP_SHARD_SPLITS],
                                     struct vp_err *err);
/* Removes all written files and frees the writer, which may be NULL. */
void vp_shard_writer_abandon(struct vp_shard_writer *writer);

#endif
