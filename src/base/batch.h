/* A minibatch of tokens: its arrays and their sizes. Data sources fill batches,
 * models consume them. All arrays are int32. */
#ifndef VP_BASE_BATCH_H
#define VP_BASE_BATCH_H

#include <stdint.h>

enum vp_role {
    VP_ROLE_NONE = 0,
    VP_ROLE_TOKENS,        /* [batch * seq] token ids (encoder side) */
    VP_ROLE_TYPES,         /* [batch * seq] segment ids, 0 or 1 */
    VP_ROLE_MASK,          /* [batch * seq] 1 = real token, 0 = padding */
    VP_ROLE_LABEL_ROWS,    /* [n_labels] row to score: a row of the decoder, or
                              of `tokens` without a decoder; -1 = unused */
    VP_ROLE_LABELS,        /* ids to predict, -1 = ignored; [n_labels], or one
                              per row of the decoder without label rows */
    VP_ROLE_TARGET_TOKENS, /* [batch * tgt_seq] decoder input ids */
    VP_ROLE_POSITIONS,     /* position of each token in its text, -1 = padding;
                              [batch * seq], with a decoder [batch * tgt_seq];
                              only with a cache */
    VP_ROLE_LINES,         /* [batch * n_positions] cache line that holds each
                              position of a row's text */
    VP_ROLE_SOURCES,       /* [batch * 3] the source text of each row: its line
                              in the source cache, its number of tokens (0 =
                              padding), and the number of those tokens that are
                              in this batch */
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

/* Size of the key-value cache: `n_lines` lines, each with room for
 * `n_positions` positions of a text. All buckets share it. n_lines 0: there is
 * no cache, and a batch holds all positions of its samples. The model of a
 * translation has further lines for the keys and values of the source texts. */
struct vp_cache_size {
    int64_t n_lines, n_positions;
    int64_t n_sources, n_source_positions; /* 0: the model has no decoder */
};

/* Returns the number of elements of the array for `role`; 0 if the bucket has
 * no such array, and for roles that exist only with a cache. */
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
    int bucket;                    /* index of the vp_dims of its arrays */
    uint64_t first_sample;         /* samples in all batches before this one */
    int64_t n_samples;             /* real samples; further rows are padding */
    int64_t n_tokens;              /* real tokens, source and target */
    int32_t *array[VP_ROLE_COUNT]; /* room for the largest bucket; NULL if the
                                      task has no such role */
};

#endif
