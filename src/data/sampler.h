/* The sampler chooses which samples batch m holds, and of which length group.
 * It works on counts only, without access to sources or tokens. */
#ifndef VP_DATA_SAMPLER_H
#define VP_DATA_SAMPLER_H

#include "base/status.h"

#include <stdint.h>

/* Samples that share a batch shape. */
struct vp_sample_group {
    int bucket;
    int64_t n_samples;
    int64_t batch; /* samples per full batch */
};

/* One batch: `count` samples of a group, from position `first` of the group's
 * shuffled order. */
struct vp_data_slot {
    int group;
    uint64_t epoch;
    int64_t first;
    int64_t count;
    uint64_t first_sample; /* samples of earlier batches, over all epochs */
};

struct vp_sampler;

/* An epoch takes every sample once: full batches of all groups in a shuffled
 * order, then the remaining samples of each group as one short batch. Copies
 * `groups`; groups may be empty, but not all of them. */
enum vp_status vp_sampler_create(uint64_t seed,
                                 const struct vp_sample_group *groups,
                                 int n_groups, struct vp_sampler **out);

/* Number of runs that are shuffled together. A source that reads whole runs
 * should hold two such sets: readers may be on both sides of a border. */
enum { VP_SAMPLER_MIX = 4 };

/* One group of samples, stored in runs of `run` samples; a run is cheap to read
 * as a whole. An epoch takes the runs in a shuffled order, an incomplete one
 * last; the samples of VP_SAMPLER_MIX runs at a time are shuffled together, and
 * batches take them in that order.
 *
 *   stored    0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3  4 4 4 4  5 5
 *   runs      3 1 4 0 | 2 5
 *   samples   1 3 3 0 4 1 0 4 0 3 1 4 1 4 3 0 | 2 5 2 2 5 2 */
enum vp_status vp_sampler_create_runs(uint64_t seed,
                                      const struct vp_sample_group *group,
                                      int64_t run, struct vp_sampler **out);

/* A batch made by the caller: `count` samples of a group, from position
 * `first`. */
struct vp_sample_batch {
    int group;
    int64_t first, count;
};

/* Batches that the caller has made of positions 0, 1, ...; an epoch takes all
 * of them in a shuffled order. Copies both lists; uses only `bucket` of the
 * groups. vp_sampler_sample() returns positions. */
enum vp_status vp_sampler_create_batches(uint64_t seed,
                                         const struct vp_sample_group *groups,
                                         int n_groups,
                                         const struct vp_sample_batch *batches,
                                         int64_t n_batches,
                                         struct vp_sampler **out);
void vp_sampler_free(struct vp_sampler *sampler);

/* Returns a sample of the run that should be prefetched during this batch, or
 * -1. The runs of the next set become due one by one, so that no batch waits
 * for all of them. */
int64_t vp_sampler_ahead(const struct vp_sampler *sampler,
                         const struct vp_data_slot *slot);

int64_t vp_sampler_batches(const struct vp_sampler *sampler); /* per epoch */
int64_t vp_sampler_samples(const struct vp_sampler *sampler); /* per epoch */
const struct vp_sample_group *vp_sampler_group(const struct vp_sampler *sampler,
                                               int group);

/* Finds batch `m`, 0-based across epochs. Thread-safe; a pure function of
 * (seed, groups, m). */
void vp_sampler_slot(struct vp_sampler *sampler, uint64_t m,
                     struct vp_data_slot *out);

/* Returns the sample (0-based, within its group) in row `row` of a batch. */
int64_t vp_sampler_sample(const struct vp_sampler *sampler,
                          const struct vp_data_slot *slot, int64_t row);

/* Returns the image of `i` under a permutation of [0, n) that is keyed by
 * `seed` and `epoch`. */
uint64_t vp_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
