/* Writes BERT samples as an HDF5 shard in the layout of hdf5.h, with gzip where
 * zlib is there. Chunks are packed by the caller, on any thread; one thread at a
 * time writes to a shard. Bytes do not depend on the time of day. */
#ifndef VP_DATA_BERT_SHARD_WRITE_H
#define VP_DATA_BERT_SHARD_WRITE_H

#include "data/bert/samples.h"

#include <stddef.h>

enum vp_bert_set {
    VP_BERT_IDS,
    VP_BERT_MASK,
    VP_BERT_TYPES,
    VP_BERT_POSITIONS,
    VP_BERT_LABELS,
    VP_BERT_NEXT,
    VP_BERT_SETS
};

/* A chunk of one data set as the file holds it; all zeros to begin with. */
struct vp_bert_chunk {
    unsigned char *raw, *bytes;
    size_t n_bytes, raw_capacity, capacity;
};

void vp_bert_chunk_release(struct vp_bert_chunk *chunk);

/* Rows of a chunk in a shard that has at least n_rows. */
int64_t vp_bert_chunk_rows(const struct vp_bert_options *options,
                           int64_t n_rows);
/* Packs `n` rows from `first` on; n is at most n_chunk, and what is missing
 * becomes zeros. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bert_chunk_pack(struct vp_bert_chunk *chunk,
                                  const struct vp_bert_options *options,
                                  enum vp_bert_set set,
                                  const struct vp_bert_rows *rows,
                                  int64_t first, int64_t n, int64_t n_chunk);

struct vp_bert_shard;

enum vp_status vp_bert_shard_create(const char *path,
                                    const struct vp_bert_options *options,
                                    int64_t n_chunk, struct vp_bert_shard **out,
                                    struct vp_err *err);
/* Writes chunk `number` of a data set, which then has n_rows rows. */
enum vp_status vp_bert_shard_write(struct vp_bert_shard *shard,
                                   enum vp_bert_set set, int64_t number,
                                   int64_t n_rows,
                                   const struct vp_bert_chunk *chunk,
                                   struct vp_err *err);
/* Completes the file on the disk and frees the shard, after an error too. */
enum vp_status vp_bert_shard_close(struct vp_bert_shard *shard,
                                   struct vp_err *err);

#endif
