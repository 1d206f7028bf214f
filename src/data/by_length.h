/* Makes batches of pairs of similar length, like fairseq's batch_by_size.
 *
 * The pairs are shuffled, sorted by target length and then by source length;
 * both sorts are stable. Pairs are added to a batch while the bucket that its
 * longest sides need has rows for another (batch_size tokens divided by the
 * bucket's length, where fairseq divides by the length of the longest pair). A
 * full batch of c pairs keeps max(c - c % multiple, c % multiple) of them; the
 * others begin the next batch. The last batch holds the remaining pairs. Rows
 * are sorted by descending source length. An epoch takes the batches in a
 * shuffled order. */
#ifndef VP_DATA_BY_LENGTH_H
#define VP_DATA_BY_LENGTH_H

#include "data/internal.h"

/* Default of batch_multiple, as in the original vPipe; fairseq's is 8. */
enum { VP_BY_LENGTH_MULTIPLE = 16 };

/* Sets data->members and data->sampler, and groups[b].n_samples to the number
 * of pairs in batches of bucket b. Pairs that fit no bucket are left out; if no
 * pair fits, data->sampler stays NULL. */
enum vp_status vp_by_length_plan(struct vp_data *data,
                                 struct vp_sample_group *groups,
                                 struct vp_err *err);

#endif
