/* BERT's pre-training data as NVIDIA's scripts write it: HDF5 shards of masked
 * samples, one row each.
 *
 *   input_ids             [n, seq]       token ids, some hidden
 *   input_mask            [n, seq]       1 real, 0 padding
 *   segment_ids           [n, seq]       0 or 1
 *   masked_lm_positions   [n, max_pred]  what is scored; the first 0 ends it
 *   masked_lm_ids         [n, max_pred]  what stood there
 *
 * Integers of any width; other data sets, such as next_sentence_labels, are not
 * read. Of a folder all files *training*.hdf5 and *training*.h5 are taken, in
 * the byte order of their names; all have one seq and one max_pred. The samples
 * are numbered through all shards, and an epoch is one pass over all of them.
 *
 * Evaluation takes the files *test*.hdf5 and *test*.h5 of the folder. Where
 * there are none, every tenth row of the training shards is held out, as of
 * other data.
 *
 * Sequences shorter than seq_length are padded, longer ones refused.
 *
 * Shards may be larger than memory: rows are read in blocks of about 8 MiB,
 * each as a whole, of which 2 VP_SAMPLER_MIX are held. The order of samples
 * keeps to that; see vp_sampler_create_runs(). A block is checked when it is
 * read, so a bad row is found when its batch is made. A file that changes after
 * the start is refused, as resuming could not give the same run. */
#ifndef VP_DATA_HDF5_H
#define VP_DATA_HDF5_H

#include "data/source.h"

#include <stdbool.h>
#include <stddef.h>

/* True if `path`, which may be NULL, is an HDF5 file or a folder that holds
 * training shards. */
bool vp_hdf5_is_at(const char *path);

/* For tests; zero is the normal way. */
struct vp_hdf5_options {
    int64_t block;     /* rows of a block, a multiple of 10 */
    const void *image; /* the bytes of one shard, instead of files; borrowed */
    size_t n_image;
};

/* As vp_source_ops.open. */
enum vp_status vp_hdf5_open(const struct vp_data_config *config,
                            const struct vp_hdf5_options *options,
                            struct vp_source *source, struct vp_err *err);

#endif
