/* Makes HDF5 shards for BERT of text: NAME_training_000000.hdf5, ... and
 * NAME_test_000000.hdf5. The bytes do not depend on the number of threads.
 * Memory does not grow with the text: sentences are encoded to a file first. The
 * shards appear when all are complete; else nothing is left behind. */
#ifndef VP_DATA_BERT_MAKE_H
#define VP_DATA_BERT_MAKE_H

#include "data/bert/samples.h"
#include "data/bert/store.h"

struct vp_bert_progress {
    double done; /* 0 to 1, of this part */
    bool writes; /* shards are written; else text is encoded */
    int64_t n;   /* tokens encoded, or samples written */
};

struct vp_bert_config {
    /* The tokenizer, the text and the threads; `stem` and `progress` are not
     * used. */
    struct vp_store_config text;
    struct vp_bert_options options; /* `ids` are not used */
    int64_t dupe_factor;            /* 1 to 2^16 */
    const char *folder, *name;
    int64_t shard_samples; /* of a shard for training */
    int64_t n_shards;      /* > 0: their number instead; samples are made twice,
                              to count them first */
    /* Called now and then; false asks to stop. NULL: not called. */
    bool (*progress)(void *ctx, const struct vp_bert_progress *progress);
    void *ctx;
};

struct vp_bert_result {
    struct vp_store_result text;
    int64_t n_samples, n_random, n_labels, n_tokens; /* for training */
    int64_t n_valid_samples;
    int n_train_shards, n_valid_shards;
};

enum vp_status vp_bert_write(const struct vp_bert_config *config,
                             struct vp_bert_result *out, struct vp_err *err);

/* The special ids of a tokenizer; refused if one is missing. */
enum vp_status vp_bert_ids_of(const struct vp_tokenizer *tokenizer,
                              struct vp_bert_ids *out, struct vp_err *err);

#endif
