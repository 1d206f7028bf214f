/* Batches of pairs of about one length, after fairseq's batch_by_size:
 *
 * The pairs are shuffled, sorted by target length and then by source length;
 * both sorts are stable. A batch grows pair by pair while the bucket that its
 * longest sides need has rows for it (batch_size tokens by the bucket's length,
 * where fairseq takes the longest pair's). Of a full batch of c pairs
 * max(c - c % multiple, c % multiple) stay; the others begin the next one. The
 * last batch is what is left. Rows are sorted by falling source length. An epoch
 * takes the batches in a shuffled order. */
#ifndef VP_DATA_BY_LENGTH_H
#define VP_DATA_BY_LENGTH_H

#include "data/internal.h"

/* The original's, which fairseq has as 8. */
enum { VP_BY_LENGTH_MULTIPLE = 16 };

/* Sets data->members and data->sampler, and counts in `groups`, one for each
 * bucket, the pairs of its batches. Pairs that fit no bucket are left out; if
 * none does, there is no sampler. */
enum vp_status vp_by_length_plan(struct vp_data *data,
                                 struct vp_sample_group *groups,
                                 struct vp_err *err);

#endif
