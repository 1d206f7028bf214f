/* The shard of the optimizer's state that one replica of a stage owns, and the
 * chunks of all shards: plain data. */
#ifndef VP_RUNTIME_STAGE_SHARD_TABLE_H
#define VP_RUNTIME_STAGE_SHARD_TABLE_H

#include "comm/comm.h"
#include "plan/stage_plan.h"

struct vp_shard_table {
    int n, index;              /* replicas, and which of them this is */
    struct vp_group *group;    /* of the replicas; borrowed */
    int64_t *bounds;           /* n + 1: see vp_shard_bounds() */
    int64_t *ends;             /* n: bytes of weights, as bounds */
    int64_t *item_ends;        /* n: bytes of the array being collected */
    struct vp_sum_part *parts; /* of the sum of gradients */
    int n_parts;

    /* Chunks of all tensors, in their order: their tensors and owners. */
    int *tensor_of, *owner_of;
    int n_all;
    struct vp_optim_tensor *chunks; /* the own ones, as tensors */
    int *tensors;                   /* of each of them */
    int n_chunks, most_chunks;      /* own ones, and of any owner */
    /* Two sums per chunk at most: the own ones, and those of all owners,
     * most_chunks apart. */
    double *mine, *all;
    double *ratios; /* per own chunk: the trust ratio of its tensor */
    int *next;      /* n: chunks of each owner that were read */
    bool gathers;   /* weights are under way */
};

/* Makes the tables of replica `index` of a stage that was planned with shards, and
 * has the named tensors `tensors`. */
enum vp_status vp_shard_table_create(const struct vp_stage_plan *plan,
                                     const struct vp_optim_tensor *tensors,
                                     int n_tensors, int index,
                                     struct vp_shard_table **out);
void vp_shard_table_free(struct vp_shard_table *shard);
/* Bytes that the group of replicas exchanges at once, at most. */
size_t vp_shard_table_bytes(const struct vp_shard_table *shard);

#endif
