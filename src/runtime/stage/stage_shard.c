/* Exchanges between replicas with shards of the optimizer's state. */
#include "runtime/stage/stage_shard.h"

/* ---- Sums of squares ---------------------------------------------------- */

static struct vp_limit limit_of(const struct vp_stage *stage)
{
    return vp_limit_ms(stage->config.timeout_ms);
}

enum vp_status vp_stage_shard_exchange(struct vp_stage *stage, int width)
{
    struct vp_shard_table *shard = stage->shard;
    size_t n = (size_t)(width * shard->most_chunks);

    return vp_group_exchange(shard->group, shard->index, shard->mine,
                             n * sizeof(double), shard->all, limit_of(stage));
}

void vp_stage_shard_add(const struct vp_stage *stage, int width, int which,
                        double *sums_out, int stride)
{
    const struct vp_shard_table *shard = stage->shard;

    for (int k = 0; k < shard->n; k++)
        shard->next[k] = 0;
    for (int i = 0; i < stage->n_tensors; i++)
        sums_out[i * stride] = 0.0;
    for (int c = 0; c < shard->n_all; c++) {
        int owner = shard->owner_of[c];
        int at = owner * shard->most_chunks + shard->next[owner]++;

        sums_out[shard->tensor_of[c] * stride] +=
            shard->all[at * width + which];
    }
}

/* ---- Weights ------------------------------------------------------------ */

void vp_stage_shard_gather(struct vp_stage *stage)
{
    struct vp_shard_table *shard = stage->shard;
    char *weights = vp_stage_weights(stage, stage->newest);
    struct vp_gather gather = {
        .mine = weights +
                (shard->index > 0 ? shard->ends[shard->index - 1] : 0),
        .all = weights,
        .ends = shard->ends,
        .receiver = -1,
    };

    vp_group_gather(shard->group, shard->index, &gather);
    shard->gathers = true;
}

enum vp_status vp_stage_shard_end(struct vp_stage *stage, struct vp_limit limit)
{
    struct vp_shard_table *shard = stage->shard;

    shard->gathers = false;
    return vp_group_end_gather(shard->group, shard->index, limit);
}

/* ---- State -------------------------------------------------------------- */

static int64_t element_bytes(const struct vp_stage *stage,
                             enum vp_shard_array array)
{
    return array == VP_SHARD_MASTER
               ? vp_optim_master_bytes(stage->config.work.graphs[0].dtype)
               : (int64_t)sizeof(float);
}

static char *base_of(const struct vp_stage *stage, enum vp_shard_array array)
{
    switch (array) {
    case VP_SHARD_MOMENT1:
        return (char *)stage->moment[0];
    case VP_SHARD_MOMENT2:
        return (char *)stage->moment[1];
    default:
        return stage->master;
    }
}

/* Moves `at` to the start of the part of [at, at + n) in shard `k`. Returns the
 * length of that part. */
static int64_t clip(const struct vp_shard_table *shard, int k, int64_t *at,
                    int64_t n)
{
    int64_t begin = *at > shard->bounds[k] ? *at : shard->bounds[k];
    int64_t end = *at + n < shard->bounds[k + 1] ? *at + n
                                                 : shard->bounds[k + 1];

    *at = begin;
    return end > begin ? end - begin : 0;
}

void *vp_stage_shard_own(const struct vp_stage *stage,
                         enum vp_shard_array array, int64_t *at, int64_t *n)
{
    const struct vp_shard_table *shard = stage->shard;

    *n = clip(shard, shard->index, at, *n);
    if (*n == 0)
        return NULL;
    return base_of(stage, array) +
           (*at - shard->bounds[shard->index]) * element_bytes(stage, array);
}

/* Starts to collect elements [at, at + n) at `out` of one replica. */
static void collect(struct vp_stage *stage, int receiver,
                    enum vp_shard_array array, int64_t at, int64_t n, void *out)
{
    struct vp_shard_table *shard = stage->shard;
    int64_t size = element_bytes(stage, array), end = 0, first = at, own = n;
    struct vp_gather gather = { .all = out,
                                .ends = shard->item_ends,
                                .receiver = receiver };

    for (int k = 0; k < shard->n; k++) {
        int64_t begin = at;

        end += clip(shard, k, &begin, n) * size;
        shard->item_ends[k] = end;
    }
    gather.mine = vp_stage_shard_own(stage, array, &first, &own);
    vp_group_gather(shard->group, shard->index, &gather);
}

enum vp_status vp_stage_shard_fetch(struct vp_stage *stage,
                                    const struct vp_peers *peers,
                                    enum vp_shard_array array, int64_t at,
                                    int64_t n, void *out)
{
    int me = stage->shard->index;

    for (int i = 0; i < peers->n; i++)
        collect(peers->at[i], me, array, at, n, NULL);
    collect(stage, me, array, at, n, out);
    VP_TRY(vp_stage_shard_end(stage, limit_of(stage)));
    for (int i = 0; i < peers->n; i++)
        VP_TRY(vp_stage_shard_end(peers->at[i], limit_of(stage)));
    return VP_OK;
}

enum vp_status vp_stage_shard_give(struct vp_stage *stage,
                                   enum vp_shard_array array, int64_t at,
                                   int64_t n)
{
    collect(stage, 0, array, at, n, NULL);
    return vp_stage_shard_end(stage, limit_of(stage));
}
