/* Data sets as pure functions: batch m of a run is determined by
 * (source, seed, m), so any rank can read any batch, resume needs no state,
 * and prefetching cannot change the order. Only stage 0 reads files. */
#ifndef VP_DATA_DATA_H
#define VP_DATA_DATA_H

#include "base/batch.h"
#include "base/status.h"
#include "data/data_config.h"

struct vp_data;

/* Opens the files or the generator that `config` describes and reads samples as
 * far as needed for the sampler and for `unigram_loss`. Copies `config`, but
 * borrows config->dims. Free with vp_data_close(). */
enum vp_status vp_data_open(const struct vp_data_config *config,
                            struct vp_data **out, struct vp_err *err);
/* Opens data whose batches `maker` fills. Copies `maker`. Uses only the last of
 * config->dims; a batch has an array for each role with elements in these
 * dims. */
enum vp_status vp_data_open_made(const struct vp_data_config *config,
                                 const struct vp_data_maker *maker,
                                 struct vp_data **out, struct vp_err *err);
/* Opens data that another process reads: vp_data_fill() must not be called.
 * `info`, which is copied, comes from that process. */
enum vp_status vp_data_stand_in(const struct vp_data_config *config,
                                const struct vp_data_info *info,
                                struct vp_data **out, struct vp_err *err);
void vp_data_close(struct vp_data *data);
const struct vp_data_info *vp_data_info(const struct vp_data *data);
/* Data of questions that are scored at their last token (CHID): sets *ids_out
 * to the ids of the possible answers, owned by `data`. Returns their number, 0
 * for other data. */
int vp_data_choices(const struct vp_data *data, const int32_t **ids_out);
/* Returns line `i` of the notices for the start of a run: data that was left
 * out, changed or generated when the files were read. NULL past the last. A
 * stand-in has none. The string is owned by `data`. */
const char *vp_data_notice(const struct vp_data *data, int i);

/* Allocates a batch with the arrays that `data` fills. */
enum vp_status vp_batch_create(const struct vp_data *data,
                               struct vp_batch **out);
void vp_batch_free(struct vp_batch *batch);

/* Fills batch number `m` (0-based, across epochs). Thread-safe. */
enum vp_status vp_data_fill(const struct vp_data *data, uint64_t m,
                            struct vp_batch *batch, struct vp_err *err);

/* Writes the index of the right choice of each sample of batch `m`: dims.batch
 * numbers, -1 for rows of padding. Only for data with choices. Thread-safe. */
enum vp_status vp_data_answers(const struct vp_data *data, uint64_t m,
                               int32_t *choices_out, struct vp_err *err);

/* A reader thread that keeps up to `depth` batches ready. With depth 0 there is
 * no thread, and each batch is filled when it is taken, with the same
 * result. */
struct vp_prefetch;

/* The batches that a reader takes: of every `period` batches from `first` on,
 * the n_strides at 0, stride, 2 stride, ... Each replica reads its share. */
struct vp_batch_order {
    uint64_t first, period, stride, n_strides;
};

/* Returns the number, across epochs, of the k-th batch of `order`. */
static inline uint64_t vp_batch_number(const struct vp_batch_order *order,
                                       uint64_t k)
{
    return order->first + k / order->n_strides * order->period +
           k % order->n_strides * order->stride;
}

/* Borrows `data`. `order` NULL: all batches from 0. Returns VP_ERR_INVALID if
 * `depth` is negative, VP_ERR_UNSUPPORTED if no thread can be started. */
enum vp_status vp_prefetch_create(const struct vp_data *data,
                                  const struct vp_batch_order *order, int depth,
                                  struct vp_prefetch **out);
void vp_prefetch_free(struct vp_prefetch *prefetch);
/* Takes the next batch in order, valid until the next call. Waits up to
 * `timeout_ms`; depth 0 has no time limit. An error of the reader is returned
 * after the batches before it, and again by every later call. */
enum vp_status vp_prefetch_next(struct vp_prefetch *prefetch, int timeout_ms,
                                const struct vp_batch **out,
                                struct vp_err *err);

#endif
