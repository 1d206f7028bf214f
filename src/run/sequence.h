/* Token ids that a trained model is given, and batches of them. */
#ifndef VP_RUN_SEQUENCE_H
#define VP_RUN_SEQUENCE_H

#include "base/batch.h"
#include "base/status.h"
#include "model/model.h"

/* Token ids; of a translation model those of the source, and what its decoder is
 * given. */
struct vp_sequence {
    const int32_t *ids, *target;
    int64_t n_ids, n_target;
};

/* Reads "1,2,3", or "1,2,3:4,5" with a decoder's input; spaces do as well as commas.
 * `ids`, with room for `n_bytes`, holds them. VP_ERR_INVALID: a word is no id. */
enum vp_status vp_sequence_parse(const char *text, size_t n_bytes, int32_t *ids,
                                 struct vp_sequence *out, struct vp_err *err);

/* Checks one side of sequence `k`, counted from 0. VP_ERR_INVALID names the
 * sequence, from 1 on, if it is empty, longer than the model's positions or has
 * an id that the model does not have. */
enum vp_status vp_sequence_check(const struct vp_model_config *sizes, int64_t k,
                                 const int32_t *ids, int64_t n,
                                 struct vp_err *err);

/* Allocates the arrays of a batch, all zero, with room for `dims`. Release with
 * vp_sequence_batch_release(), also after an error. */
enum vp_status vp_sequence_batch_init(const struct vp_dims *dims,
                                      struct vp_batch *batch,
                                      struct vp_err *err);
/* Gives the array of a role that comes with a cache room for `n` elements. */
enum vp_status vp_sequence_batch_resize(struct vp_batch *batch,
                                        enum vp_role role, int64_t n,
                                        struct vp_err *err);
void vp_sequence_batch_release(struct vp_batch *batch);

/* Writes `sequence` to row `i` of a batch of `dims`: ids and their mask, and the
 * decoder's input if dims->tgt_seq is not 0; `pad` behind their ends. */
void vp_sequence_put(const struct vp_sequence *sequence,
                     const struct vp_dims *dims, int32_t pad, int64_t i,
                     struct vp_batch *batch);

#endif
