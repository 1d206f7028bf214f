/* Makes BERT samples from a sentence store, like Google's
 * create_pretraining_data.py: sentences of a document fill a sample; in half of
 * the samples the second part comes from another document. Random numbers are
 * by counter, so the samples of a document do not depend on the order in which
 * documents are processed. */
#ifndef VP_DATA_BERT_SAMPLES_H
#define VP_DATA_BERT_SAMPLES_H

#include "base/status.h"
#include "data/bert/mask.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_bert_options {
    struct vp_bert_ids ids;
    int64_t seq, max_pred;
    double mask_share;  /* 0.15 */
    double short_share; /* share of samples of a random shorter length: 0.1 */
    double random_next; /* share of second parts from another document: 0.5 */
    uint64_t seed;
    int64_t valid_parts; /* share for evaluation, in 1 / VP_CORPUS_PARTS */
};

/* One sample. The arrays belong to the vp_bert_rows that it was taken from. */
struct vp_bert_row {
    int32_t n_tokens, n_first, n_labels, is_random;
    int32_t *tokens, *positions, *labels;
};

/* Samples of several documents; all zeros is an empty list. */
struct vp_bert_rows {
    int32_t *values;
    int64_t n, capacity;
    int64_t stride; /* elements per row, set when the first row is added */
};

void vp_bert_rows_release(struct vp_bert_rows *rows);
/* Sets `out` to row `i`; its arrays are valid until a row is added. */
void vp_bert_rows_get(const struct vp_bert_rows *rows,
                      const struct vp_bert_options *options, int64_t i,
                      struct vp_bert_row *out);

/* An open sentence store; any number of threads may read it. */
struct vp_store;

/* Opens a store that vp_store_write() has written. Ids that are not below
 * `vocab` are refused when they are read. */
enum vp_status vp_store_open(const char *idx_path, int64_t vocab,
                             struct vp_store **out, struct vp_err *err);
void vp_store_close(struct vp_store *store);
int64_t vp_store_documents(const struct vp_store *store);

/* Returns true if the document is for evaluation. */
bool vp_bert_is_valid(const struct vp_bert_options *options, int64_t document);

/* Buffers of one thread; must be all zeros before the first use. */
struct vp_bert_maker {
    struct vp_document_text *own, *other;
};

void vp_bert_maker_release(struct vp_bert_maker *maker);

/* Appends the samples of `document` to `rows`. Each number `dupe`, below 2^20,
 * gives other random choices. Second parts from another document are of the
 * same split. */
enum vp_status vp_bert_make(struct vp_bert_maker *maker,
                            const struct vp_store *store,
                            const struct vp_bert_options *options,
                            int64_t document, int64_t dupe,
                            struct vp_bert_rows *rows, struct vp_err *err);

#endif
