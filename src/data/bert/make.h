/* Makes HDF5 shards for BERT from text: NAME_training_000000.hdf5, ... and
 * NAME_test_000000.hdf5. The bytes do not depend on the number of threads.
 * Memory does not grow with the text: sentences are encoded to a file first.
 * The shards are renamed to their folder when all are complete; after an error
 * all written files are removed. */
#ifndef VP_DATA_BERT_MAKE_H
#define VP_DATA_BERT_MAKE_H

#include "data/bert/samples.h"
#include "data/bert/store.h"

struct vp_bert_progress {
    double done; /* share of the current part, 0 to 1 */
    bool writes; /* the part: true: writing shards; false: encoding text */
    int64_t n;   /* tokens encoded, or samples written */
};

struct vp_bert_config {
    /* Tokenizer, text and threads; `stem` and `progress` are not used. */
    struct vp_store_config text;
    struct vp_bert_options options; /* `ids` are not used */
    int64_t dupe_factor;            /* 1 to 2^16 */
    const char *folder, *name;
    int64_t shard_samples; /* samples per shard for training */
    int64_t n_shards;      /* > 0: number of shards for training, instead of
                              shard_samples; the samples are made twice, the
                              first time to count them */
    /* Optional, called regularly: returns false to stop. */
    bool (*progress)(void *ctx, const struct vp_bert_progress *progress);
    void *ctx;
};

struct vp_bert_result {
    struct vp_store_result text;
    int64_t n_samples, n_random, n_labels, n_tokens; /* for training */
    int64_t n_valid_samples;
    int n_train_shards, n_valid_shards;
};

/* Writes the shards. Returns VP_ERR_INTERRUPTED if `progress` returned
 * false. */
enum vp_status vp_bert_write(const struct vp_bert_config *config,
                             struct vp_bert_result *out, struct vp_err *err);

/* Reads the special ids and the size of a tokenizer; refuses one without [PAD],
 * [CLS], [SEP] or [MASK]. */
enum vp_status vp_bert_ids_of(const struct vp_tokenizer *tokenizer,
                              struct vp_bert_ids *out, struct vp_err *err);

#endif
