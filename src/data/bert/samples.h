/* BERT samples of a sentence store, as Google's create_pretraining_data.py makes
 * them: sentences of a document fill a sample; in half of the samples the second
 * part comes from another document. Choices are made by counter, so samples of a
 * document do not depend on the order in which documents are asked for. */
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
    double short_share; /* samples of a random shorter length: 0.1 */
    double random_next; /* second parts from another document: 0.5 */
    uint64_t seed;
    int64_t valid_parts; /* documents for evaluation, of VP_CORPUS_PARTS */
};

/* One sample; the arrays are int32_t in one block. */
struct vp_bert_row {
    int32_t n_tokens, n_first, n_labels, is_random;
    int32_t *tokens, *positions, *labels;
};

/* Rows of several documents; all zeros is an empty list. */
struct vp_bert_rows {
    int32_t *values;
    int64_t n, capacity, stride; /* stride: set by the first row */
};

void vp_bert_rows_release(struct vp_bert_rows *rows);
void vp_bert_rows_get(const struct vp_bert_rows *rows,
                      const struct vp_bert_options *options, int64_t i,
                      struct vp_bert_row *out);

/* An open store; any number of threads may read it. */
struct vp_store;

enum vp_status vp_store_open(const char *idx_path, int64_t vocab,
                             struct vp_store **out, struct vp_err *err);
void vp_store_close(struct vp_store *store);
int64_t vp_store_documents(const struct vp_store *store);

/* True if the document is held out for evaluation. */
bool vp_bert_is_valid(const struct vp_bert_options *options, int64_t document);

/* What one thread needs; all zeros to begin with. */
struct vp_bert_maker {
    struct vp_document_text *own, *other;
};

void vp_bert_maker_release(struct vp_bert_maker *maker);

/* Appends the samples of a document in duplicate `dupe`, below 2^20. Second
 * parts from elsewhere are of the same split. */
enum vp_status vp_bert_make(struct vp_bert_maker *maker,
                            const struct vp_store *store,
                            const struct vp_bert_options *options,
                            int64_t document, int64_t dupe,
                            struct vp_bert_rows *rows, struct vp_err *err);

#endif
