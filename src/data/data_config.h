/* Configuration of a data set, and the facts that are known once it is open. */
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

/* What a batch asks of a model:
 *   masked LM  [CLS] A [SEP] B [SEP], A and B halves of a window, B of type 1;
 *              the same number of tokens scored in each sequence, 80 % of them
 *              hidden, 10 % replaced, 10 % kept, others in every epoch; of a
 *              held-out sequence always the same. Shards come masked and are
 *              shown as they are. Token files with sentences: see
 *              bert/packed.c
 *   causal LM  tokens: a window; labels: the same, one position on. CHID: a
 *              sequence of its own, labelled at its last position
 *   pairs      tokens: source [SEP]; decoder input: [CLS] target; labels:
 *              target [SEP]. Text: a line, and its words in reverse order and
 *              upper case. Synthetic: see language.h. Other sources have ids
 *              of their own in place of [CLS] and [SEP]. Pairs that fit no
 *              bucket are left out; a batch holds pairs of one bucket. */
enum vp_data_task { VP_DATA_MASKED_LM, VP_DATA_CAUSAL_LM, VP_DATA_PAIRS };
/* VP_DATA_FILES is what `path` holds, see data_detect.h. */
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
/* How files are written. VP_FORMAT_AUTO: found out by their content. */
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
/* Every tenth window, line or sample is held out for evaluation, unless there
 * are files for that; see split_name.h and hdf5.h. */
enum vp_data_split { VP_DATA_TRAIN, VP_DATA_EVAL };

struct vp_data_config {
    enum vp_data_source source;
    enum vp_data_task task;
    enum vp_data_split split;
    bool whole;       /* files that are not of one split: nothing is held out */
    const char *path; /* a file, or a folder of files */
    enum vp_data_format format;
    /* Word in the names of files for evaluation; NULL: see split_name.h. */
    const char *valid_split;
    /* Token files with an index: an id that is put behind every document. */
    bool has_document_end;
    int32_t document_end;
    /* Text: NUL bytes and invalid UTF-8 become U+FFFD; false: they are refused.
     * See utf8.h. */
    bool replace_invalid;
    const char *text_key; /* of texts in lines of JSON; NULL: "text" */
    /* Text: a file that has its bytes, see corpus/bytes.h, so that they are not
     * held in memory; NULL: none. */
    const char *text_bytes;
    /* Synthetic: ids in use; text: at least 260; shards and token files: every
     * id is below it; 0: any. */
    int64_t vocab;
    const char *vocab_place; /* where it was set, for messages; NULL: unknown */
    uint64_t seed;
    float mask_prob; /* masked LM: 0.15 */
    /* Masked LM of token files: ids of special tokens. */
    bool has_special;
    int32_t pad_token, cls_token, sep_token, mask_token;
    /* The same: samples whose second part is of another document, 0 to 1. */
    float random_next;
    /* Pairs: languages, as the names of files have them; NULL: see
     * languages.h. */
    const char *source_lang, *target_lang;
    int32_t pad; /* padding id of the model; fairseq: must be 1 */
    /* Pairs by length: samples of a batch are a multiple of it, or fewer; 0:
     * VP_BY_LENGTH_MULTIPLE. */
    int64_t batch_multiple;
    const struct vp_dims *dims; /* buckets, shortest first; borrowed. Masked
                                   LM: the last has room for every row */
    int n_dims;
    int64_t max_batches; /* of an epoch, at most; 0: all */
};

/* Batches that the caller of the library makes. */
struct vp_data_maker {
    void *ctx;
    int64_t n_batches; /* of an epoch */
    /* Fills the arrays of batch number `m` (0-based, across epochs), which hold
     * padding before: all that the largest bucket has. Calls may overlap. */
    enum vp_status (*fill)(void *ctx, uint64_t m, struct vp_batch *batch,
                           struct vp_err *err);
};

struct vp_data_info {
    int64_t n_samples;   /* per epoch */
    int64_t n_batches;   /* per epoch; the last (of each bucket) is padded */
    int64_t vocab;       /* smallest vocabulary that holds every id */
    double unigram_loss; /* nats per label of the best context-free predictor
                            of the training split: what a model must beat.
                            Large data: by the first samples */
    const char *what;    /* "text: 48 files, 612 kB" */
};

#endif
