/* Conversion between the weights of a stage and floats. Their layout is defined
 * in optim.h; only this file and kernels use it. */
#include "base/halves.h"
#include "runtime/stage/stage_shard.h"

#include <stdlib.h>

void *vp_stage_weights(const struct vp_stage *stage, int64_t version)
{
    return stage->weights[version % stage->plan.shape.n_versions];
}

static enum vp_status copy(const struct vp_stage *stage, void *dst,
                           const void *src, int64_t n_bytes)
{
    return vp_stream_copy(stage->stream, dst, src, (size_t)n_bytes);
}

static enum vp_dtype dtype_of(const struct vp_stage *stage)
{
    return stage->config.work.graphs[0].dtype;
}

/* Constants are stored after all trained weights and have no master. */
static bool has_master(const struct vp_stage *stage, int64_t at)
{
    return stage->master && at * (int64_t)sizeof(float) <
                                stage->plan.train[0].layout.train_bytes;
}

static char *master_at(const struct vp_stage *stage, int64_t at)
{
    VP_BUG_ON(stage->shard); /* a shard has only a part of the master */
    return (char *)stage->master + at * vp_optim_master_bytes(dtype_of(stage));
}

/* Sets elements [at, at + n) of the master, as far as they are here. */
static enum vp_status set_master(struct vp_stage *stage, int64_t at, int64_t n,
                                 const void *host)
{
    int64_t size = vp_optim_master_bytes(dtype_of(stage)), own = at, n_own = n;
    char *to;

    if (!has_master(stage, at))
        return VP_OK;
    to = stage->shard ? vp_stage_shard_own(stage, VP_SHARD_MASTER, &own, &n_own)
                      : master_at(stage, at);
    if (!to)
        return VP_OK;
    return copy(stage, to, (const char *)host + (own - at) * size,
                n_own * size);
}

static enum vp_status set_versions(struct vp_stage *stage, int64_t at,
                                   int64_t n, const void *host)
{
    int64_t size = vp_dtype_bytes(dtype_of(stage));

    for (int i = 0; i < stage->plan.shape.n_versions; i++)
        VP_TRY(
            copy(stage, (char *)stage->weights[i] + at * size, host, n * size));
    return VP_OK;
}

enum vp_status vp_stage_set_weights(struct vp_stage *stage, int64_t at,
                                    int64_t n, const float *host)
{
    enum vp_dtype dtype = dtype_of(stage);
    uint16_t *high, *low;
    enum vp_status st;

    if (dtype == VP_DTYPE_F32)
        return set_versions(stage, at, n, host);
    high = calloc(2 * (size_t)n, sizeof(*high));
    if (!high)
        return VP_ERR_NOMEM;
    low = high + n;
    if (dtype == VP_DTYPE_BF16)
        vp_halves_split_all(high, low, host, n);
    else
        vp_dtype_round(dtype, high, host, n);
    st = set_versions(stage, at, n, high);
    if (st == VP_OK)
        st = set_master(stage, at, n,
                        dtype == VP_DTYPE_BF16 ? (const void *)low : host);
    free(high);
    return st;
}

/* Copies the newest 16-bit weights [at, at + n). `buffer` has room for 2 n
 * elements. */
static enum vp_status get_piece(const struct vp_stage *stage, int64_t at,
                                int64_t n, const void *master, uint16_t *buffer,
                                float *host)
{
    const uint16_t *newest = vp_stage_weights(stage, stage->newest);
    int64_t n_bytes = n * (int64_t)sizeof(*buffer);

    VP_TRY(copy(stage, buffer, newest + at, n_bytes));
    if (!master) {
        vp_dtype_expand(dtype_of(stage), host, buffer, n);
        return VP_OK;
    }
    VP_TRY(copy(stage, buffer + n, master, n_bytes));
    vp_halves_join_all(host, buffer, buffer + n, n);
    return VP_OK;
}

/* `master`: that of these elements; NULL: none. */
static enum vp_status get_weights(const struct vp_stage *stage, int64_t at,
                                  int64_t n, const char *master, float *host)
{
    enum { PIECE = 1 << 19 }; /* small enough to stay in a cache */
    enum vp_dtype dtype = dtype_of(stage);
    const float *newest = vp_stage_weights(stage, stage->newest);
    int64_t size = vp_optim_master_bytes(dtype);
    int64_t n_bytes = n * (int64_t)sizeof(*host), piece = n;
    enum vp_status st = VP_OK;
    uint16_t *buffer;

    if (dtype == VP_DTYPE_F32)
        return copy(stage, host, newest + at, n_bytes);
    if (dtype == VP_DTYPE_F16 && master)
        return copy(stage, host, master, n_bytes);
    if (piece > PIECE)
        piece = PIECE;
    buffer = malloc(2 * (size_t)piece * sizeof(*buffer));
    if (!buffer)
        return VP_ERR_NOMEM;
    for (int64_t i = 0; i < n && st == VP_OK; i += piece)
        st = get_piece(stage, at + i, n - i < piece ? n - i : piece,
                       master ? master + i * size : NULL, buffer, host + i);
    free(buffer);
    return st;
}

enum vp_status vp_stage_get_weights(const struct vp_stage *stage, int64_t at,
                                    int64_t n, float *host)
{
    return get_weights(stage, at, n,
                       has_master(stage, at) ? master_at(stage, at) : NULL,
                       host);
}

enum vp_status vp_stage_collect_weights(struct vp_stage *stage,
                                        const struct vp_peers *peers,
                                        int64_t at, int64_t n, float *host)
{
    enum vp_status st;
    char *master;

    if (!stage->shard || !has_master(stage, at))
        return vp_stage_get_weights(stage, at, n, host);
    master = malloc((size_t)(n * vp_optim_master_bytes(dtype_of(stage))));
    st = master ? vp_stage_shard_fetch(stage, peers, VP_SHARD_MASTER, at, n,
                                       master)
                : VP_ERR_NOMEM;
    if (st == VP_OK)
        st = get_weights(stage, at, n, master, host);
    free(master);
    return st;
}
