/* A minibatch of tokens: the vocabulary shared by data sources, which fill
 * batches, and models, which consume them. All arrays are int32. */
#ifndef VP_BASE_BATCH_H
#define VP_BASE_BATCH_H

#include <stdint.h>

enum vp_role {
    VP_ROLE_NONE = 0,
    VP_ROLE_TOKENS,     /* [batch * seq] token ids (encoder side) */
    VP_ROLE_TYPES,      /* [batch * seq] segment ids, 0 or 1 */
    VP_ROLE_MASK,       /* [batch * seq] 1 = real token, 0 = padding */
    VP_ROLE_LABEL_ROWS, /* [n_labels] row to score, of the decoder where there
                              is one, else of `tokens`; -1 unused */
    VP_ROLE_LABELS,     /* ids to predict, -1 = ignored; [n_labels], or one
                              per row of the decoder where there are no
                              label rows */
    VP_ROLE_TARGET_TOKENS, /* [batch * tgt_seq] decoder input ids */
    VP_ROLE_POSITIONS,     /* [batch * seq], of the decoder where there is one
                              [batch * tgt_seq]: position of each token in its
                              text, -1 = padding; only with a cache */
    VP_ROLE_LINES,         /* [batch * n_positions] cache line that holds each
                              position of a row's text */
    VP_ROLE_SOURCES,       /* [batch * 3] what a row translates: line of the
                              cache of sources, its number of tokens (0 =
                              padding), and how many of them the batch has */
    VP_ROLE_COUNT
};

/* The sizes of one length bucket; every program is built for one of them. */
struct vp_dims {
    int64_t batch;   /* samples */
    int64_t seq;     /* positions per sample (source side) */
    int64_t tgt_seq; /* target positions per sample; 0 without a decoder */
    int64_t
        n_labels; /* rows that are scored, if the batch names them; 0: all */
};

/* Keys and values of earlier positions of texts: `n_lines` lines, each with
 * `n_positions` positions of a text. One for all buckets. n_lines 0: there is
 * none, and all positions of a sample are in its batch. A decoder has also lines
 * for the keys and values of the sources that it translates. */
struct vp_cache_size {
    int64_t n_lines, n_positions;
    int64_t n_sources, n_source_positions; /* 0: the model has no decoder */
};

/* Elements of the array for `role` in a bucket; 0 if the bucket has none, and for
 * roles that come with a cache. */
static inline int64_t vp_dims_role(const struct vp_dims *dims,
                                   enum vp_role role)
{
    switch (role) {
    case VP_ROLE_TOKENS:
    case VP_ROLE_TYPES:
    case VP_ROLE_MASK:
        return dims->batch * dims->seq;
    case VP_ROLE_LABEL_ROWS:
        return dims->n_labels;
    case VP_ROLE_LABELS:
        if (dims->n_labels > 0)
            return dims->n_labels;
        return dims->batch * (dims->tgt_seq > 0 ? dims->tgt_seq : dims->seq);
    case VP_ROLE_TARGET_TOKENS:
        return dims->batch * dims->tgt_seq;
    default:
        return 0;
    }
}

struct vp_batch {
    int bucket;                    /* which dims it is shaped for */
    uint64_t first_sample;         /* running count of samples before it */
    int64_t n_samples;             /* real samples; further rows are padding */
    int64_t n_tokens;              /* real tokens, source and target */
    int32_t *array[VP_ROLE_COUNT]; /* room for the largest bucket; NULL if the
                                      task has no such role */
};

#endif
