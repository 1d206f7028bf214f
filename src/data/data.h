/* Data sets as pure functions: batch m of a run is determined by
 * (source, seed, m), so any rank can ask for any batch, resume needs no state,
 * and prefetching cannot change an order. Files are read by stage 0 only. */
#ifndef VP_DATA_DATA_H
#define VP_DATA_DATA_H

#include "base/batch.h"
#include "base/status.h"
#include "data/data_config.h"

struct vp_data;

enum vp_status vp_data_open(const struct vp_data_config *config,
                            struct vp_data **out, struct vp_err *err);
/* Batches by `maker`, which is copied, for the last of the dims of `config`, of
 * which nothing else is read. A batch has an array for each role that these dims
 * have room for. */
enum vp_status vp_data_open_made(const struct vp_data_config *config,
                                 const struct vp_data_maker *maker,
                                 struct vp_data **out, struct vp_err *err);
/* The data of another process, which told of it: nothing can be read. */
enum vp_status vp_data_stand_in(const struct vp_data_config *config,
                                const struct vp_data_info *info,
                                struct vp_data **out, struct vp_err *err);
void vp_data_close(struct vp_data *data);
const struct vp_data_info *vp_data_info(const struct vp_data *data);
/* Where samples are questions, scored at their last token (CHID): ids of the
 * answers to choose from. Returns their number, 0 for other data. */
int vp_data_choices(const struct vp_data *data, const int32_t **ids_out);
/* Line `i` about what was left out, changed or made up when the files were
 * read, for the start of a run; NULL past the last. A stand-in has none. */
const char *vp_data_notice(const struct vp_data *data, int i);

/* Allocates the arrays a batch of this data needs. */
enum vp_status vp_batch_create(const struct vp_data *data,
                               struct vp_batch **out);
void vp_batch_free(struct vp_batch *batch);

/* Fills batch number `m` (0-based, across epochs). Thread-safe. */
enum vp_status vp_data_fill(const struct vp_data *data, uint64_t m,
                            struct vp_batch *batch, struct vp_err *err);

/* Finds the right choice of each sample of batch `m`: dims.batch numbers of
 * choices, -1 for rows of padding. Only if there are choices. Thread-safe. */
enum vp_status vp_data_answers(const struct vp_data *data, uint64_t m,
                               int32_t *choices_out, struct vp_err *err);

/* A reader thread that keeps `depth` batches ready; depth 0 fills on demand,
 * with the same result. */
struct vp_prefetch;

/* Which batches a reader wants: of every `period` batches from `first` on,
 * the n_strides at 0, stride, 2 stride, ... A replica reads its part. */
struct vp_batch_order {
    uint64_t first, period, stride, n_strides;
};

static inline uint64_t vp_batch_number(const struct vp_batch_order *order,
                                       uint64_t k)
{
    return order->first + k / order->n_strides * order->period +
           k % order->n_strides * order->stride;
}

/* `order` NULL: all batches from 0. */
enum vp_status vp_prefetch_create(const struct vp_data *data,
                                  const struct vp_batch_order *order, int depth,
                                  struct vp_prefetch **out);
void vp_prefetch_free(struct vp_prefetch *prefetch);
/* The next batch in order, valid until the next call. An error of the reader
 * comes after the batches before it, and again from every later call. */
enum vp_status vp_prefetch_next(struct vp_prefetch *prefetch, int timeout_ms,
                                const struct vp_batch **out,
                                struct vp_err *err);

#endif
