/* Initial weights of a stage, made by several threads. */
#include "base/pool.h"
#include "graph/slice.h"
#include "runtime/stage/stage.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Elements per task: few enough to stay in a cache until they are copied. */
enum { PIECE = 1 << 16, PIECES_PER_THREAD = 4 };

/* A parameter whose elements are being made. */
struct fill {
    struct vp_stage *stage;
    struct vp_pool *pool;
    float *host; /* PIECE elements for each of n_at_once pieces */
    int n_at_once;
    vp_par par;     /* parameter whose initial values are used */
    int64_t offset; /* first element among the weights of the stage */
    int64_t n;      /* number of elements */
    int64_t begin;  /* first element of this round */
    _Atomic(int) status;
};

static int64_t piece_size(const struct fill *fill, int task)
{
    int64_t left = fill->n - fill->begin - (int64_t)task * PIECE;

    return left < PIECE ? left : PIECE;
}

static void make_piece(void *ctx, int task, int thread)
{
    struct fill *fill = ctx;
    struct vp_stage *stage = fill->stage;
    int64_t at = fill->begin + (int64_t)task * PIECE;
    int64_t n = piece_size(fill, task);
    float *host = fill->host + (size_t)task * PIECE;
    enum vp_status st;

    (void)thread;
    stage->config.init(&stage->config.work.graphs[0], fill->par,
                       stage->config.seed, at, n, host);
    if (!vp_device_has_host_memory(stage->device))
        return; /* this device needs one thread, which copies later */
    st = vp_stage_set_weights(stage, fill->offset + at, n, host);
    if (st != VP_OK)
        atomic_store(&fill->status, st);
}

/* Makes a parameter on the host and copies it into every version, because
 * constants are not written again. */
static enum vp_status fill_param(struct fill *fill)
{
    struct vp_stage *stage = fill->stage;
    int64_t round = (int64_t)fill->n_at_once * PIECE;

    for (fill->begin = 0; fill->begin < fill->n; fill->begin += round) {
        int64_t n = fill->n - fill->begin;

        n = n < round ? n : round;
        vp_pool_run(fill->pool, (int)((n + PIECE - 1) / PIECE), make_piece,
                    fill);
        VP_TRY((enum vp_status)atomic_load(&fill->status));
        if (!vp_device_has_host_memory(stage->device))
            VP_TRY(vp_stage_set_weights(stage, fill->offset + fill->begin, n,
                                        fill->host));
    }
    return VP_OK;
}

/* Makes the slice of a member of a tensor-parallel group from the whole
 * parameter. */
static enum vp_status fill_slice(const struct fill *fill,
                                 const struct vp_param *param)
{
    struct vp_stage *stage = fill->stage;
    const struct vp_graph *graph = &stage->config.work.graphs[0];
    int64_t n = vp_param_whole_count(param), at = 0;
    float *whole = malloc((size_t)(n + fill->n) * sizeof(*whole));
    float *slices = whole + n;
    enum vp_status st;

    if (!whole)
        return VP_ERR_NOMEM;
    stage->config.init(graph, fill->par, stage->config.seed, 0, n, whole);
    for (int i = 0; i < param->n_parts; i++) {
        struct vp_shape shape = vp_param_whole(param, i);

        vp_slice_take(param, i, stage->config.member, graph->n_members,
                      whole + at, slices + param->part[i].row * param->cols);
        at += shape.rows * shape.cols;
    }
    st = vp_stage_set_weights(stage, fill->offset, fill->n, slices);
    free(whole);
    return st;
}

/* A tied copy starts with the values of its owner. */
static enum vp_status fill_all(struct fill *fill)
{
    const struct vp_stage *stage = fill->stage;
    const struct vp_layout *layout = &stage->plan.train[0].layout;
    const struct vp_graph *graph = &stage->config.work.graphs[0];

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &graph->params[entry->par];

        if (entry->storage != i ||
            (stage->config.only_constants && !param->constant))
            continue;
        fill->par = param->tied_to == VP_NONE ? entry->par : param->tied_to;
        fill->offset = entry->offset / vp_dtype_bytes(graph->dtype);
        fill->n = param->rows * param->cols;
        VP_TRY(param->slice.axis == VP_SLICE_NONE ? fill_param(fill)
                                                  : fill_slice(fill, param));
    }
    return VP_OK;
}

enum vp_status vp_stage_init_weights(struct vp_stage *stage)
{
    int n_threads = stage->config.init_threads > 1 ? stage->config.init_threads
                                                   : 1;
    struct fill fill = { .stage = stage,
                         .n_at_once = PIECES_PER_THREAD * n_threads };
    enum vp_status st;

    fill.host = malloc((size_t)fill.n_at_once * PIECE * sizeof(*fill.host));
    if (!fill.host)
        return VP_ERR_NOMEM;
    st = vp_pool_create(n_threads, NULL, NULL, &fill.pool);
    if (st == VP_ERR_UNSUPPORTED) /* no more threads: use this one alone */
        st = vp_pool_create(1, NULL, NULL, &fill.pool);
    if (st == VP_OK) {
        st = fill_all(&fill);
        vp_pool_free(fill.pool);
    }
    free(fill.host);
    return st;
}
