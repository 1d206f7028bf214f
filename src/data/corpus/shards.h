/* Writes token ids as shards of llm.c: NAME_train_000000.bin, ... and
 * NAME_val_000000.bin. They are written to FOLDER/.NAME.partial and appear in
 * FOLDER when all are complete; else nothing is left behind. */
#ifndef VP_DATA_CORPUS_SHARDS_H
#define VP_DATA_CORPUS_SHARDS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum vp_shard_split { VP_SHARD_TRAIN, VP_SHARD_VALID, VP_SHARD_SPLITS };

struct vp_shard_options {
    const char *folder, *name;
    int64_t vocab;
    int64_t shard_tokens; /* a shard for training is full then; at most
                             VP_TOKEN_WRITE_MAX */
    int64_t n_expected;   /* tokens in all, for which there must be disk
                             space */
};

struct vp_shard_writer;

/* Copies the options. Creates the folder if it is missing. Refused if it holds
 * shards of this name, or if another process writes some. A folder that a killed
 * process has left is emptied. */
enum vp_status vp_shard_writer_open(const struct vp_shard_options *options,
                                    struct vp_shard_writer **out,
                                    struct vp_err *err);
enum vp_status vp_shard_writer_add(struct vp_shard_writer *writer,
                                   enum vp_shard_split split,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err);
/* Moves the shards to their places and frees the writer, after an error too. */
enum vp_status vp_shard_writer_close(struct vp_shard_writer *writer,
                                     int n_shards_out[VP_SHARD_SPLITS],
                                     struct vp_err *err);
/* Removes what was written. NULL is legal. */
void vp_shard_writer_abandon(struct vp_shard_writer *writer);

#endif
