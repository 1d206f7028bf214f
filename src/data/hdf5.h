/* Source of BERT pre-training data in the format of NVIDIA's scripts: HDF5
 * shards of masked samples, one row per sample.
 *
 *   input_ids             [n, seq]       token ids, some replaced by [MASK]
 *   input_mask            [n, seq]       1 real, 0 padding
 *   segment_ids           [n, seq]       0 or 1
 *   masked_lm_positions   [n, max_pred]  scored positions; the first 0 ends it
 *   masked_lm_ids         [n, max_pred]  original ids at these positions
 *
 * Integers may have any width; other data sets, such as next_sentence_labels,
 * are not read. In a folder all files *training*.hdf5 and *training*.h5 are
 * used, in the byte order of their names; all must have the same seq and
 * max_pred. Samples are numbered across all shards, and an epoch is one pass
 * over all of them.
 *
 * Evaluation uses the files *test*.hdf5 and *test*.h5 of the folder. If there
 * are none, every tenth row of the training shards is held out.
 *
 * Sequences shorter than seq_length are padded, longer ones refused.
 *
 * Shards may be larger than memory: rows are read in whole blocks of about
 * 8 MiB, of which 2 VP_SAMPLER_MIX are kept in memory. The order of samples is
 * adapted to that; see vp_sampler_create_runs(). A block is checked when it is
 * read, so an invalid row is found when its batch is made. A file that changes
 * after the start is refused, because a resumed run could not repeat its
 * samples. */
#ifndef VP_DATA_HDF5_H
#define VP_DATA_HDF5_H

#include "data/source.h"

#include <stdbool.h>
#include <stddef.h>

/* True if `path`, which may be NULL, is an HDF5 file or a folder that holds
 * training shards. */
bool vp_hdf5_is_at(const char *path);

/* For tests; normally all zero. */
struct vp_hdf5_options {
    int64_t block;     /* rows of a block, a multiple of 10; 0: by size */
    const void *image; /* bytes of one shard, instead of files; borrowed */
    size_t n_image;
};

/* Like vp_source_ops.open, with options. */
enum vp_status vp_hdf5_open(const struct vp_data_config *config,
                            const struct vp_hdf5_options *options,
                            struct vp_source *source, struct vp_err *err);

#endif
