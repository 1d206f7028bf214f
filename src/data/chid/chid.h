/* CHID of CPM-1-Finetune: a sentence with a gap, ten idioms, the number of the
 * right one at its end. Only that last token is scored. train.json is for
 * training, dev.json or valid.json for evaluation; see split_name.h.
 *
 * Offsets of samples are kept for every `step`-th one, so that their number does
 * not grow with the file; the others are found by reading on from there. The
 * file is read once at the start, which checks all of it. */
#ifndef VP_DATA_CHID_CHID_H
#define VP_DATA_CHID_CHID_H

#include "data/source.h"

enum { VP_CHID_MAX_VOCAB = 1 << 24 };

/* As vp_source_ops.open. `max_offsets`: of samples, an even number, for tests;
 * 0: as usual. */
enum vp_status vp_chid_open(const struct vp_data_config *config,
                            int max_offsets, struct vp_source *source,
                            struct vp_err *err);

#endif
