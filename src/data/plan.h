/* The order of batches: which samples, of which length group, batch m holds.
 * Knows counts only, neither sources nor tokens. */
#ifndef VP_DATA_PLAN_H
#define VP_DATA_PLAN_H

#include "base/status.h"

#include <stdint.h>

/* Samples that share a batch shape. */
struct vp_group {
    int bucket;
    int64_t n_samples;
    int64_t batch; /* samples per full batch */
};

/* One batch: `count` samples of a group, from position `first` of its order. */
struct vp_slot {
    int group;
    uint64_t epoch;
    int64_t first;
    int64_t count;
    uint64_t first_sample; /* samples of earlier batches, over all epochs */
};

struct vp_plan;

/* An epoch takes every sample once: full batches of all groups in a shuffled
 * order, then each group's left-over samples as one short batch. Copies
 * `groups`; empty ones are legal. */
enum vp_status vp_plan_create(uint64_t seed, const struct vp_group *groups,
                              int n_groups, struct vp_plan **out);
void vp_plan_free(struct vp_plan *plan);

int64_t vp_plan_batches(const struct vp_plan *plan); /* per epoch */
int64_t vp_plan_samples(const struct vp_plan *plan); /* per epoch */
const struct vp_group *vp_plan_group(const struct vp_plan *plan, int group);

/* Thread-safe; a pure function of (seed, groups, m). */
void vp_plan_slot(struct vp_plan *plan, uint64_t m, struct vp_slot *out);

/* The sample (0-based, within its group) in row `row` of a batch. */
int64_t vp_plan_sample(const struct vp_plan *plan, const struct vp_slot *slot,
                       int64_t row);

#endif
