/* Sequences of token ids as input of a trained model, and batches of them. */
#ifndef VP_RUN_SEQUENCE_H
#define VP_RUN_SEQUENCE_H

#include "base/batch.h"
#include "base/status.h"
#include "model/model.h"

/* `ids` is the input; for a translation model the source, and `target` is the
 * input of the decoder. */
struct vp_sequence {
    const int32_t *ids, *target;
    int64_t n_ids, n_target;
};

/* Parses "1,2,3", or "1,2,3:4,5" with the decoder's input; spaces may replace
 * commas. The ids are written to `ids`, which has room for `n_bytes` of them.
 * VP_ERR_INVALID: a word is not an id. */
enum vp_status vp_sequence_parse(const char *text, size_t n_bytes, int32_t *ids,
                                 struct vp_sequence *out, struct vp_err *err);

/* Checks the ids or the target of sequence `k`, counted from 0. VP_ERR_INVALID,
 * with the number counted from 1, if it is empty, longer than the model's
 * positions, or has an id outside of the vocabulary. */
enum vp_status vp_sequence_check(const struct vp_model_config *sizes, int64_t k,
                                 const int32_t *ids, int64_t n,
                                 struct vp_err *err);

/* Allocates the arrays of a batch with room for `dims`, all zero. To be
 * released with vp_sequence_batch_release(), also after an error. */
enum vp_status vp_sequence_batch_init(const struct vp_dims *dims,
                                      struct vp_batch *batch,
                                      struct vp_err *err);
/* Allocates the array of a role that is only used with a cache again, with room
 * for `n` elements. */
enum vp_status vp_sequence_batch_resize(struct vp_batch *batch,
                                        enum vp_role role, int64_t n,
                                        struct vp_err *err);
void vp_sequence_batch_release(struct vp_batch *batch);

/* Writes `sequence` to row `i` of a batch with `dims`: ids and their mask, and
 * the decoder's input if dims->tgt_seq is not 0; fills the rest with `pad`. */
void vp_sequence_put(const struct vp_sequence *sequence,
                     const struct vp_dims *dims, int32_t pad, int64_t i,
                     struct vp_batch *batch);

#endif
