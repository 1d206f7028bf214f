/* Configuration of a data set, and the facts that are known after it is opened.
 * Plain data; functions are in data.h. */
#ifndef VP_DATA_DATA_CONFIG_H
#define VP_DATA_DATA_CONFIG_H

#include "base/batch.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Special ids of the byte vocabulary and of generated languages; text bytes
 * follow at VP_TOKEN_FIRST. */
enum {
    VP_TOKEN_PAD = 0,
    VP_TOKEN_CLS, /* also begins a decoder input */
    VP_TOKEN_SEP, /* also ends a sentence */
    VP_TOKEN_MASK,
    VP_TOKEN_FIRST,
};

/* The training task of a data set:
 *   masked LM  [CLS] A [SEP] B [SEP]; A and B are halves of a window, B has
 *              type 1. Each sequence has the same number of scored tokens: 80 %
 *              are masked, 10 % replaced, 10 % kept. The choice differs in
 *              every epoch; for a held-out sequence it is always the same. HDF5
 *              shards are stored with their masks and used as they are. Token
 *              files with sentences: see bert/packed.c
 *   causal LM  tokens: a window; labels: the same, shifted by one position.
 *              CHID: each sample is a sequence with one label, at its last
 *              position
 *   pairs      tokens: source [SEP]; decoder input: [CLS] target; labels:
 *              target [SEP]. Text: a line, and its words in reverse order and
 *              upper case. Synthetic: see language.h. Other sources may define
 *              other ids in place of [CLS] and [SEP]. Pairs that fit no bucket
 *              are left out; a batch holds pairs of one bucket. */
enum vp_data_task { VP_DATA_MASKED_LM, VP_DATA_CAUSAL_LM, VP_DATA_PAIRS };
/* VP_DATA_FILES: data_detect.h chooses the source by the files at `path`. */
enum vp_data_source {
    VP_DATA_TEXT,
    VP_DATA_SYNTHETIC,
    VP_DATA_HDF5,
    VP_DATA_TOKENS,
    VP_DATA_FAIRSEQ, /* pairs */
    VP_DATA_CHID,
    VP_DATA_PARALLEL,
    VP_DATA_PACKED, /* sentences, masked LM */
    VP_DATA_FILES,
};
/* File format. VP_FORMAT_AUTO: detected from names and first bytes. */
enum vp_data_format {
    VP_FORMAT_AUTO,
    VP_FORMAT_TEXT,
    VP_FORMAT_HDF5,
    VP_FORMAT_LLMC,
    VP_FORMAT_NANOGPT,
    VP_FORMAT_MEGATRON,
    VP_FORMAT_FAIRSEQ,
    VP_FORMAT_CHID,
    VP_FORMAT_PARALLEL,
};
/* Every tenth window, line or sample is held out for evaluation, unless the
 * data has separate files for evaluation; see split_name.h and hdf5.h. */
enum vp_data_split { VP_DATA_TRAIN, VP_DATA_EVAL };

struct vp_data_config {
    enum vp_data_source source;
    enum vp_data_task task;
    enum vp_data_split split;
    bool whole;       /* use all samples for `split`; nothing is held out */
    const char *path; /* a file, or a folder of files */
    enum vp_data_format format;
    /* Word in the names of files for evaluation; NULL: see split_name.h. */
    const char *valid_split;
    /* Token files with an index: id that is appended to every document. */
    bool has_document_end;
    int32_t document_end;
    /* Text: NUL bytes and invalid UTF-8 become U+FFFD; false: they are refused.
     * See utf8.h. */
    bool replace_invalid;
    const char *text_key; /* JSON key of the text in JSONL; NULL: "text" */
    /* Text: path of a file with all bytes of the text (corpus/bytes.h), which
     * is read instead of holding the text in memory; NULL: none. */
    const char *text_bytes;
    /* Vocabulary size; 0: not set. Synthetic: number of ids to use. Text: must
     * be 260 or more. Shards and token files: all ids must be below it. */
    int64_t vocab;
    const char *vocab_place; /* where it was set, for messages; NULL: unknown */
    uint64_t seed;
    float mask_prob; /* masked LM: 0.15 */
    /* Masked LM from token files: ids of special tokens. */
    bool has_special;
    int32_t pad_token, cls_token, sep_token, mask_token;
    /* Masked LM from token files: share of samples, 0 to 1, whose second part
     * is from another document. */
    float random_next;
    /* Pairs: languages as they appear in file names; NULL: see languages.h. */
    const char *source_lang, *target_lang;
    int32_t pad; /* padding id of the model; fairseq: must be 1 */
    /* Pairs by length: the number of samples in a batch is a multiple of
     * batch_multiple, or smaller than it; 0: VP_BY_LENGTH_MULTIPLE. */
    int64_t batch_multiple;
    /* [n_dims] buckets, shortest first; borrowed. Masked LM: n_labels of the
     * last bucket must suffice for every batch. */
    const struct vp_dims *dims;
    int n_dims;
    int64_t max_batches; /* upper limit of batches per epoch; 0: no limit */
};

/* Callback of a library user that makes batches. */
struct vp_data_maker {
    void *ctx;
    int64_t n_batches; /* per epoch */
    /* Fills the arrays of batch number `m` (0-based, across epochs). Each array
     * has the size of the largest bucket and holds padding before the call.
     * Several threads may call it at the same time. */
    enum vp_status (*fill)(void *ctx, uint64_t m, struct vp_batch *batch,
                           struct vp_err *err);
};

struct vp_data_info {
    int64_t n_samples;   /* per epoch */
    int64_t n_batches;   /* per epoch; the last (of each bucket) is padded */
    int64_t vocab;       /* smallest vocabulary that holds every id */
    double unigram_loss; /* nats per label of the best context-free predictor
                            of the training split, a baseline that a model must
                            beat; large data: computed from the first samples */
    const char *what;    /* description: "text: 48 files, 612 kB" */
};

#endif
