/* Keeps overwritten weight versions for a move to another plan. */
#include "runtime/stage/stage_kept.h"

#include <stdlib.h>

static int64_t dtype_bytes(const struct vp_stage *stage)
{
    return vp_dtype_bytes(stage->config.work.graphs[0].dtype);
}

/* Sets the range of elements [*begin_out, *end_out) that contains the
 * blocks. */
static void find_range(const struct vp_stage *stage, int first, int n,
                       int64_t *begin_out, int64_t *end_out)
{
    const struct vp_layout_block *blocks = stage->plan.train[0].layout.blocks;
    int64_t begin = INT64_MAX, end = 0;

    for (int b = first; b < first + n; b++) {
        const struct vp_layout_block *block =
            &blocks[b - stage->plan.spec.first_block];

        if (block->n == 0)
            continue;
        begin = block->base < begin ? block->base : begin;
        end = block->base + block->n > end ? block->base + block->n : end;
    }
    *begin_out = begin < end ? begin : 0;
    *end_out = begin < end ? end : 0;
}

int64_t vp_kept_bytes(const struct vp_stage *stage, int first, int n,
                      int n_versions)
{
    int64_t begin, end;

    find_range(stage, first, n, &begin, &end);
    return (end - begin) * dtype_bytes(stage) * n_versions;
}

enum vp_status vp_kept_create(const struct vp_stage *stage, int first, int n,
                              int n_versions, struct vp_kept **out)
{
    struct vp_kept *kept = calloc(1, sizeof(*kept));
    int64_t end;

    if (!kept)
        return VP_ERR_NOMEM;
    find_range(stage, first, n, &kept->first, &end);
    kept->device = stage->device;
    kept->n = end - kept->first;
    kept->n_bytes = kept->n * dtype_bytes(stage);
    kept->versions = calloc((size_t)n_versions, sizeof(*kept->versions));
    if (!kept->versions) {
        vp_kept_free(kept);
        return VP_ERR_NOMEM;
    }
    for (; kept->n_versions < n_versions; kept->n_versions++) {
        enum vp_status st = kept->n_bytes == 0
                                ? VP_OK
                                : vp_device_alloc(
                                      kept->device, (size_t)kept->n_bytes,
                                      &kept->versions[kept->n_versions]);

        if (st != VP_OK) {
            vp_kept_free(kept);
            return st;
        }
    }
    *out = kept;
    return VP_OK;
}

void vp_kept_free(struct vp_kept *kept)
{
    if (!kept)
        return;
    for (int i = 0; i < kept->n_versions; i++)
        vp_device_free(kept->device, kept->versions[i], (size_t)kept->n_bytes);
    free(kept->versions);
    free(kept);
}

enum vp_status vp_stage_keep_overwritten(struct vp_stage *stage)
{
    struct vp_kept *kept = atomic_load(&stage->kept);
    int64_t version = stage->newest + 1 - stage->plan.shape.n_versions;

    if (!kept || version < stage->oldest)
        return VP_OK;
    VP_TRY(vp_stream_copy(stage->stream,
                          kept->versions[version % kept->n_versions],
                          (char *)vp_stage_weights(stage, stage->newest + 1) +
                              kept->first * dtype_bytes(stage),
                          (size_t)kept->n_bytes));
    atomic_fetch_add(&kept->n_kept, 1);
    return VP_OK;
}

void *vp_stage_version_at(const struct vp_stage *stage, int64_t version,
                          int64_t at)
{
    int n_versions = stage->plan.shape.n_versions;
    const struct vp_kept *kept = atomic_load(&stage->kept);

    if (stage->newest - version < n_versions)
        /* Before the first updates, places of the ring are unused. Any address
         * will do, because nothing reads those versions. */
        return (char *)vp_stage_weights(stage, version + n_versions) +
               at * dtype_bytes(stage);
    VP_BUG_ON(!kept || at < kept->first || at >= kept->first + kept->n);
    return (char *)kept->versions[version % kept->n_versions] +
           (at - kept->first) * dtype_bytes(stage);
}
