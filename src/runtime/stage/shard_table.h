/* The shard of the optimizer's state that one replica of a stage owns, and the
 * chunks of all shards: plain data. */
#ifndef VP_RUNTIME_STAGE_SHARD_TABLE_H
#define VP_RUNTIME_STAGE_SHARD_TABLE_H

#include "comm/comm.h"
#include "plan/stage_plan.h"

struct vp_shard_table {
    int n, index;           /* number of replicas, and index of this one */
    struct vp_group *group; /* group of the replicas; borrowed */
    int64_t *bounds;        /* n + 1: see vp_shard_bounds() */
    int64_t *ends;          /* n: the same ends in bytes of weights */
    /* n: ends in bytes of the array that is being collected. */
    int64_t *item_ends;
    struct vp_sum_part *parts; /* parts of the sum of gradients */
    int n_parts;

    /* Chunks of all tensors, in order: their tensors and owners. */
    int *tensor_of, *owner_of;
    int n_all;
    struct vp_optim_tensor *chunks; /* own chunks, in the form of tensors */
    int *tensors;                   /* per own chunk: its tensor */
    int n_chunks, most_chunks;      /* own chunks; the maximum of any owner */
    /* At most two sums per chunk: of own chunks, and of all owners, with a
     * distance of most_chunks. */
    double *mine, *all;
    double *ratios; /* per own chunk: the trust ratio of its tensor */
    int *next;      /* n: scratch counters, chunks read of each owner */
    bool gathers;   /* a gather of weights is in progress */
};

/* Makes the tables of replica `index` of a stage that was planned with shards.
 * `tensors` are the named tensors of the stage. */
enum vp_status vp_shard_table_create(const struct vp_stage_plan *plan,
                                     const struct vp_optim_tensor *tensors,
                                     int n_tensors, int index,
                                     struct vp_shard_table **out);
void vp_shard_table_free(struct vp_shard_table *shard);
/* Returns the maximum number of bytes that the replicas exchange at once. */
size_t vp_shard_table_bytes(const struct vp_shard_table *shard);

#endif
