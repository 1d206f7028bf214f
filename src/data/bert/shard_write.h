/* Writes BERT samples as an HDF5 shard in the layout of hdf5.h, compressed with
 * gzip if vpipe was built with zlib. The caller packs chunks, on any thread;
 * only one thread at a time may write to a shard. The file holds no time
 * stamps, so its bytes are reproducible. */
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

/* A compressed chunk of one data set; must be all zeros before the first
 * use. */
struct vp_bert_chunk {
    unsigned char *raw, *bytes;
    size_t n_bytes, raw_capacity, capacity;
};

void vp_bert_chunk_release(struct vp_bert_chunk *chunk);

/* Returns the number of rows per chunk for a shard of at least `n_rows`. */
int64_t vp_bert_chunk_rows(const struct vp_bert_options *options,
                           int64_t n_rows);
/* Packs `n` rows from `first` on into a chunk of `n_chunk` rows, padded with
 * zeros. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bert_chunk_pack(struct vp_bert_chunk *chunk,
                                  const struct vp_bert_options *options,
                                  enum vp_bert_set set,
                                  const struct vp_bert_rows *rows,
                                  int64_t first, int64_t n, int64_t n_chunk);

struct vp_bert_shard;

/* Creates the file `path` with empty data sets; n_chunk: rows per chunk. */
enum vp_status vp_bert_shard_create(const char *path,
                                    const struct vp_bert_options *options,
                                    int64_t n_chunk, struct vp_bert_shard **out,
                                    struct vp_err *err);
/* Writes chunk `number` of a data set and sets its length to `n_rows`. */
enum vp_status vp_bert_shard_write(struct vp_bert_shard *shard,
                                   enum vp_bert_set set, int64_t number,
                                   int64_t n_rows,
                                   const struct vp_bert_chunk *chunk,
                                   struct vp_err *err);
/* Closes the file, syncs it to disk and frees the shard, also after an
 * error. */
enum vp_status vp_bert_shard_close(struct vp_bert_shard *shard,
                                   struct vp_err *err);

#endif
