/* The sampler: which samples, of which length group, batch m holds. It knows
 * counts only, neither sources nor tokens. */
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

/* One batch: `count` samples of a group, from position `first` of its order. */
struct vp_data_slot {
    int group;
    uint64_t epoch;
    int64_t first;
    int64_t count;
    uint64_t first_sample; /* samples of earlier batches, over all epochs */
};

struct vp_sampler;

/* An epoch takes every sample once: full batches of all groups in a shuffled
 * order, then each group's left-over samples as one short batch. Copies
 * `groups`; empty ones are legal. */
enum vp_status vp_sampler_create(uint64_t seed,
                                 const struct vp_sample_group *groups,
                                 int n_groups, struct vp_sampler **out);

/* Runs that are shuffled together. A source that reads whole runs should hold
 * two such sets: readers may be on both sides of a border. */
enum { VP_SAMPLER_MIX = 4 };

/* One group of samples that lie in runs of `run`, each cheap to read as a
 * whole. The runs of an epoch come in a shuffled order, an incomplete one last;
 * the samples of VP_SAMPLER_MIX runs at a time are shuffled together, and
 * batches take them in that order.
 *
 *   stored    0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3  4 4 4 4  5 5
 *   runs      3 1 4 0 | 2 5
 *   samples   1 3 3 0 4 1 0 4 0 3 1 4 1 4 3 0 | 2 5 2 2 5 2 */
enum vp_status vp_sampler_create_runs(uint64_t seed,
                                      const struct vp_sample_group *group,
                                      int64_t run, struct vp_sampler **out);

/* A batch that is given: `count` samples of a group, at places from `first`. */
struct vp_sample_batch {
    int group;
    int64_t first, count;
};

/* Batches that the caller has made of places 0, 1, ...; an epoch takes all of
 * them in a shuffled order. Copies both lists; of the groups only `bucket` is
 * used. vp_sampler_sample() then gives places. */
enum vp_status vp_sampler_create_batches(uint64_t seed,
                                         const struct vp_sample_group *groups,
                                         int n_groups,
                                         const struct vp_sample_batch *batches,
                                         int64_t n_batches,
                                         struct vp_sampler **out);
void vp_sampler_free(struct vp_sampler *sampler);

/* A sample of a run in the next set that should be in memory by the time of
 * this batch, or -1. Its runs are due one by one, so that no batch waits for
 * all of them. */
int64_t vp_sampler_ahead(const struct vp_sampler *sampler,
                         const struct vp_data_slot *slot);

int64_t vp_sampler_batches(const struct vp_sampler *sampler); /* per epoch */
int64_t vp_sampler_samples(const struct vp_sampler *sampler); /* per epoch */
const struct vp_sample_group *vp_sampler_group(const struct vp_sampler *sampler,
                                               int group);

/* Thread-safe; a pure function of (seed, groups, m). */
void vp_sampler_slot(struct vp_sampler *sampler, uint64_t m,
                     struct vp_data_slot *out);

/* The sample (0-based, within its group) in row `row` of a batch. */
int64_t vp_sampler_sample(const struct vp_sampler *sampler,
                          const struct vp_data_slot *slot, int64_t row);

/* A keyed permutation of [0, n): position i of epoch e under a seed. */
uint64_t vp_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
