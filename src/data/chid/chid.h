/* Source of CHID samples in the format of CPM-1-Finetune: a sentence with a
 * gap, ten idioms, and at the end the number of the right idiom. Only that last
 * token is scored. train.json is for training, dev.json or valid.json for
 * evaluation; see split_name.h.
 *
 * The offset of every `step`-th sample is kept, so that memory does not grow
 * with the file; other samples are found by reading on from there. The file is
 * read and checked completely when it is opened. */
#ifndef VP_DATA_CHID_CHID_H
#define VP_DATA_CHID_CHID_H

#include "data/source.h"

enum { VP_CHID_MAX_VOCAB = 1 << 24 };

/* Like vp_source_ops.open. `max_offsets`: most offsets that are kept, an even
 * number, for tests; 0: the default. */
enum vp_status vp_chid_open(const struct vp_data_config *config,
                            int max_offsets, struct vp_source *source,
                            struct vp_err *err);

#endif
