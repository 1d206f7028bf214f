/* Lists, saves and restores the state of a stage. */
#include "runtime/stage/stage_state.h"

#include "graph/slice.h"
#include "runtime/stage/stage_kept.h"

#include <stdlib.h>
#include <string.h>

/* ---- Items -------------------------------------------------------------- */

static int n_moments_of(const struct vp_stage *stage)
{
    return stage->plan.spec.forward_only
               ? 0
               : vp_optim_n_moments(stage->config.work.optim.kind);
}

static int n_kinds(const struct vp_stage *stage)
{
    return 1 + n_moments_of(stage) + stage->plan.shape.n_versions - 1;
}

/* Returns the index of a tensor among the parts of its parameter. */
static int part_of(const struct vp_stage *stage, int tensor)
{
    const struct vp_param *param = stage->tensor_params[tensor];
    int part = 0;

    while (param->part[part].name != stage->tensor_names[tensor])
        part++;
    return part;
}

static bool is_cut(const struct vp_stage *stage, int tensor)
{
    return stage->tensor_params[tensor]->slice.axis != VP_SLICE_NONE;
}

static int n_members_of(const struct vp_stage *stage)
{
    return stage->config.work.graphs[0].n_members;
}

/* Returns item number `k` of a tensor: weights, moments, then older
 * versions. */
static struct vp_state_item item_of(const struct vp_stage *stage, int tensor,
                                    int k)
{
    int n_moments = n_moments_of(stage);
    struct vp_shape shape = vp_param_whole(stage->tensor_params[tensor],
                                           part_of(stage, tensor));
    struct vp_state_item item = {
        .name = stage->tensor_names[tensor],
        .block = stage->tensors[tensor].block,
        .rows = shape.rows,
        .cols = shape.cols,
        .transposed = stage->tensor_params[tensor]->stored_transposed,
    };

    if (k == 0) {
        item.kind = VP_STATE_WEIGHT;
    } else if (k <= n_moments) {
        item.kind = k == 1 ? VP_STATE_MOMENT1 : VP_STATE_MOMENT2;
    } else {
        item.kind = VP_STATE_VERSION;
        item.age = k - n_moments;
    }
    return item;
}

static enum vp_dtype dtype_of(const struct vp_stage *stage,
                              const struct vp_state_item *item)
{
    return item->kind == VP_STATE_VERSION ? stage->config.work.graphs[0].dtype
                                          : VP_DTYPE_F32;
}

/* Returns the array of an item other than weights, which vp_stage_get_weights()
 * copies. */
static void *array_of(const struct vp_stage *stage, int tensor,
                      const struct vp_state_item *item)
{
    int64_t offset = stage->tensors[tensor].offset;

    switch (item->kind) {
    case VP_STATE_MOMENT1:
        return stage->moment[0] + offset;
    case VP_STATE_MOMENT2:
        return stage->moment[1] + offset;
    case VP_STATE_VERSION:
        return vp_stage_version_at(stage, stage->newest - item->age, offset);
    default:
        vp_bug(__FILE__, __LINE__, "weights are not in one array");
    }
}

int vp_stage_n_items(const struct vp_stage *stage)
{
    return stage->n_own_tensors * n_kinds(stage);
}

int vp_stage_list_items(const struct vp_stage *stage,
                        struct vp_state_item *items)
{
    int n = 0;

    for (int i = 0; i < stage->n_own_tensors; i++)
        for (int k = 0; k < n_kinds(stage); k++)
            items[n++] = item_of(stage, i, k);
    return n;
}

/* ---- Saving ------------------------------------------------------------- */

static enum vp_shard_array moment_of(const struct vp_state_item *item)
{
    return item->kind == VP_STATE_MOMENT1 ? VP_SHARD_MOMENT1 : VP_SHARD_MOMENT2;
}

static bool is_moment(const struct vp_state_item *item)
{
    return item->kind == VP_STATE_MOMENT1 || item->kind == VP_STATE_MOMENT2;
}

/* Items are saved as FP32 in every precision. */
static enum vp_status save_item(struct vp_stage *stage,
                                const struct vp_peers *peers, int tensor,
                                const struct vp_state_item *item, float *buffer)
{
    enum vp_dtype dtype = dtype_of(stage, item);
    int64_t at = stage->tensors[tensor].offset, n = stage->tensors[tensor].n;
    size_t n_bytes = (size_t)(n * vp_dtype_bytes(dtype));
    uint16_t *host;
    enum vp_status st;

    if (item->kind == VP_STATE_WEIGHT)
        return vp_stage_collect_weights(stage, peers, at, n, buffer);
    if (stage->shard && is_moment(item))
        return vp_stage_shard_fetch(stage, peers, moment_of(item), at, n,
                                    buffer);
    if (dtype == VP_DTYPE_F32)
        return vp_stream_copy(stage->stream, buffer,
                              array_of(stage, tensor, item), n_bytes);
    host = malloc(n_bytes);
    if (!host)
        return VP_ERR_NOMEM;
    st = vp_stream_copy(stage->stream, host, array_of(stage, tensor, item),
                        n_bytes);
    if (st == VP_OK)
        vp_dtype_expand(dtype, buffer, host, n);
    free(host);
    return st;
}

static void put_slice(const struct vp_stage *stage, int tensor, int member,
                      const float *slice, float *whole)
{
    vp_slice_put(stage->tensor_params[tensor], part_of(stage, tensor), member,
                 n_members_of(stage), slice, whole);
}

/* Gathers the slices of all members, which are other processes, piece by piece.
 * `all` has room for a piece of each member, `slices` for a slice of each. */
static enum vp_status gather_slices(const struct vp_stage *stage, int64_t n,
                                    float *slices, float *all)
{
    const struct vp_members *members = stage->members;
    float *mine = slices + members->me * n;

    for (int64_t at = 0; at < n; at += VP_SAVE_PIECE) {
        int64_t length = n - at < VP_SAVE_PIECE ? n - at : VP_SAVE_PIECE;

        members->exchange(members->ctx, NULL, mine + at,
                          (size_t)length * sizeof(*all), all);
        VP_TRY(members->status(members->ctx));
        for (int k = 0; k < members->n; k++)
            if (k != members->me)
                memcpy(slices + k * n + at, all + k * length,
                       (size_t)length * sizeof(*all));
    }
    return VP_OK;
}

/* Puts this member's slice of a tensor into the buffer of the whole tensor. */
static enum vp_status save_slice(struct vp_stage *stage,
                                 const struct vp_peers *peers, int tensor,
                                 const struct vp_state_item *item, int number,
                                 const struct vp_saver *saver)
{
    int64_t n = stage->tensors[tensor].n;
    int n_members = n_members_of(stage), me = stage->config.member;
    bool apart = stage->members_apart;
    float *slices = malloc(
        (size_t)(apart ? n_members * (n + VP_SAVE_PIECE) : n) *
        sizeof(*slices));
    enum vp_status st;

    if (!slices)
        return VP_ERR_NOMEM;
    st = save_item(stage, peers, tensor, item, slices + (apart ? me * n : 0));
    if (st == VP_OK && !apart)
        put_slice(stage, tensor, me, slices, saver->buffer(saver->ctx, number));
    if (st == VP_OK && apart)
        st = gather_slices(stage, n, slices, slices + n_members * n);
    for (int k = 0; k < n_members && apart && me == 0 && st == VP_OK; k++)
        put_slice(stage, tensor, k, slices + k * n,
                  saver->buffer(saver->ctx, number));
    free(slices);
    return st;
}

/* A tensor that all members of a group have is saved by the first. */
static bool is_saved(const struct vp_stage *stage, int tensor)
{
    return is_cut(stage, tensor) || stage->config.member == 0;
}

enum vp_status vp_stage_save(struct vp_stage *stage,
                             const struct vp_peers *peers, int item,
                             const struct vp_saver *saver)
{
    for (int i = 0; i < stage->n_own_tensors; i++)
        for (int k = 0; k < n_kinds(stage); k++, item++) {
            struct vp_state_item one = item_of(stage, i, k);

            if (is_cut(stage, i))
                VP_TRY(save_slice(stage, peers, i, &one, item, saver));
            else if (is_saved(stage, i))
                VP_TRY(save_item(stage, peers, i, &one,
                                 saver->buffer(saver->ctx, item)));
        }
    return VP_OK;
}

/* In the order of vp_stage_save(). FP32 weights have no master. */
enum vp_status vp_stage_give(struct vp_stage *stage)
{
    for (int i = 0; i < stage->n_own_tensors; i++)
        for (int k = 0; k < n_kinds(stage); k++) {
            struct vp_state_item one = item_of(stage, i, k);
            const struct vp_optim_tensor *tensor = &stage->tensors[i];

            if (!is_saved(stage, i))
                continue;
            if (is_moment(&one))
                VP_TRY(vp_stage_shard_give(stage, moment_of(&one),
                                           tensor->offset, tensor->n));
            else if (one.kind == VP_STATE_WEIGHT && stage->master)
                VP_TRY(vp_stage_shard_give(stage, VP_SHARD_MASTER,
                                           tensor->offset, tensor->n));
        }
    return VP_OK;
}

enum vp_status vp_stage_read_item(struct vp_stage *stage,
                                  const struct vp_state_item *item, float *out)
{
    const struct vp_peers alone = { NULL, 0 };

    VP_BUG_ON(stage->shard);
    for (int i = 0; i < stage->n_own_tensors; i++)
        if (strcmp(stage->tensor_names[i], item->name) == 0)
            return save_item(stage, &alone, i, item, out);
    return VP_ERR_END;
}

bool vp_stage_owns(const struct vp_stage *stage, const char *name)
{
    for (int i = 0; i < stage->n_own_tensors; i++)
        if (strcmp(stage->tensor_names[i], name) == 0)
            return true;
    return false;
}

/* ---- Restoring ---------------------------------------------------------- */

/* Copies a moment from the host; with a shard only the part in it. */
static enum vp_status set_moment(struct vp_stage *stage, int tensor,
                                 const struct vp_state_item *item,
                                 const float *host)
{
    int64_t at = stage->tensors[tensor].offset, n = stage->tensors[tensor].n;
    int64_t own = at;
    void *to = stage->shard
                   ? vp_stage_shard_own(stage, moment_of(item), &own, &n)
                   : array_of(stage, tensor, item);

    if (!to)
        return VP_OK;
    return vp_stream_copy(stage->stream, to, host + (own - at),
                          (size_t)n * sizeof(*host));
}

/* Weights are copied into every version; older versions then replace them. A
 * tied copy is loaded under the name of its owner. */
static enum vp_status restore_item(struct vp_stage *stage, int tensor, int k,
                                   const struct vp_loader *loader, int past,
                                   float *host, float *slice, void *scratch,
                                   struct vp_err *err)
{
    struct vp_state_item item = item_of(stage, tensor, k);
    int64_t at = stage->tensors[tensor].offset, n = stage->tensors[tensor].n;
    enum vp_dtype dtype = dtype_of(stage, &item);
    enum vp_status st;

    if (item.kind == VP_STATE_VERSION && item.age > past)
        return VP_OK;
    VP_TRY(loader->load(loader->ctx, &item, host, err));
    if (is_cut(stage, tensor)) {
        vp_slice_take(stage->tensor_params[tensor], part_of(stage, tensor),
                      stage->config.member, n_members_of(stage), host, slice);
        host = slice;
    }
    if (item.kind == VP_STATE_WEIGHT) {
        st = vp_stage_set_weights(stage, at, n, host);
    } else if (is_moment(&item)) {
        st = set_moment(stage, tensor, &item, host);
    } else {
        /* exact: they were expanded from this dtype. */
        if (dtype != VP_DTYPE_F32)
            vp_dtype_round(dtype, (uint16_t *)scratch, host, n);
        st = vp_stream_copy(stage->stream, array_of(stage, tensor, &item),
                            dtype == VP_DTYPE_F32 ? (void *)host : scratch,
                            (size_t)(n * vp_dtype_bytes(dtype)));
    }
    if (st != VP_OK)
        return vp_err_set(err, st, "copying '%s' failed", item.name);
    return VP_OK;
}

enum vp_status vp_stage_each_restored(const struct vp_stage *stage, int past,
                                      vp_item_fn fn, void *ctx)
{
    for (int k = 0; k < n_kinds(stage); k++)
        for (int i = 0; i < stage->n_tensors; i++) {
            struct vp_state_item item = item_of(stage, i, k);

            if (item.kind != VP_STATE_VERSION || item.age <= past)
                VP_TRY(fn(ctx, &item));
        }
    return VP_OK;
}

/* Blocks may come from stages with different numbers of updates. Where the
 * update is part of backward, all blocks need the same number. */
static enum vp_status restore_counts(struct vp_stage *stage, int index,
                                     const struct vp_loader *loader,
                                     struct vp_err *err)
{
    int first = stage->plan.spec.first_block, n = stage->plan.spec.n_blocks;
    int64_t made = loader->progress.updates[index] -
                   loader->progress.scale[index].n_skipped;

    stage->newest = loader->progress.updates[index];
    for (int b = 0; loader->blocks && b < n; b++) {
        const struct vp_block_count *block = &loader->blocks[first + b];

        stage->ahead[b] = block->updates - block->n_skipped - made;
        stage->mixed |= stage->ahead[b] != stage->ahead[0];
        if (stage->mixed && stage->plan.spec.grad_linger > 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "blocks %d and %d of stage %d had %lld and %lld "
                              "updates, which this device cannot continue in "
                              "one stage; resume with the partition and "
                              "replicas it was saved with",
                              first, first + b, index,
                              (long long)(made + stage->ahead[0]),
                              (long long)(made + stage->ahead[b]));
    }
    return VP_OK;
}

enum vp_status vp_stage_restore(struct vp_stage *stage, int index,
                                const struct vp_loader *loader,
                                struct vp_err *err)
{
    const struct vp_progress *from = &loader->progress;
    enum vp_status st = VP_OK;
    int64_t most = 1;
    float *host;

    VP_TRY(restore_counts(stage, index, loader, err));
    for (int i = 0; i < stage->n_tensors; i++) {
        struct vp_state_item item = item_of(stage, i, 0);

        most = item.rows * item.cols > most ? item.rows * item.cols : most;
        most = stage->tensors[i].n > most ? stage->tensors[i].n : most;
    }
    host = malloc(3 * (size_t)most * sizeof(*host));
    if (!host)
        return vp_err_set(err, VP_ERR_NOMEM, "restoring: out of memory");
    for (int k = 0; k < n_kinds(stage) && st == VP_OK; k++)
        for (int i = 0; i < stage->n_tensors && st == VP_OK; i++)
            st = restore_item(stage, i, k, loader, from->past[index], host,
                              host + most, host + 2 * most, err);
    free(host);
    return st;
}
