#include "backend/cuda_facts.h"

#include "backend/cuda/attention/key_tiles.h"
#include "backend/cuda/tiles.h"
#include "base/memory.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t align(size_t n_bytes)
{
    return vp_align_up(n_bytes, VP_TENSOR_ALIGN);
}

bool vp_cuda_has_wgmma(int capability)
{
    return capability / 10 == 9; /* later GPUs have other instructions */
}

/* ---- Attention ---------------------------------------------------------- */

struct vp_attention_shape vp_attention_shape_of(const struct vp_graph *graph,
                                                const struct vp_op *op)
{
    const struct vp_attr *attr = &op->attr;
    const struct vp_value *out = &graph->values[op->out];

    return (struct vp_attention_shape){
        .dtype = out->dtype,
        .batch = attr->batch,
        .heads = attr->heads,
        .dim = (int)(out->cols / attr->heads),
        .q_len = (int)attr->q_len,
        .k_len = (int)attr->k_len,
        .causal = attr->causal,
    };
}

bool vp_attention_takes_wgmma_f(const struct vp_attention_shape *x,
                                int capability)
{
    return x->dtype != VP_DTYPE_F32 && x->dim == VP_WG_DIM &&
           x->k_len <= VP_ATTENTION_MAX_KEYS && vp_cuda_has_wgmma(capability);
}

bool vp_attention_takes_wgmma_b(const struct vp_attention_shape *x,
                                int capability)
{
    return vp_attention_takes_wgmma_f(x, capability) &&
           x->q_len <= VP_KEY_TILES_MAX_QUERIES &&
           x->k_len <= VP_KEY_TILES_MAX_KEYS;
}

bool vp_attention_takes_short(const struct vp_attention_shape *x,
                              int capability)
{
    return vp_attention_takes_wgmma_f(x, capability) &&
           x->q_len <= VP_ATTENTION_SHORT_LEN &&
           x->k_len <= VP_ATTENTION_SHORT_LEN;
}

static bool makes_sums(const struct vp_graph *graph, const struct vp_op *op,
                       int capability)
{
    struct vp_attention_shape x = vp_attention_shape_of(graph, op);

    return op->in[1] == VP_NONE && x.q_len % VP_CUDA_TILE_ROWS == 0 &&
           vp_attention_takes_short(&x, capability);
}

size_t vp_attention_sums_bytes(const struct vp_graph *graph,
                               const struct vp_op *op, int capability)
{
    const struct vp_value *in = &graph->values[op->in[0]];

    return makes_sums(graph, op, capability)
               ? vp_cuda_tile_scratch(in->rows, in->cols)
               : 0;
}

/* dk and dv of key tiles that are kept from band to band. */
static size_t wgmma_b_scratch(const struct vp_attention_shape *x)
{
    struct vp_key_tiles w = vp_key_tiles_of((unsigned)(x->batch * x->heads),
                                            x->q_len, x->k_len, x->causal);

    return (size_t)w.n_heads * (size_t)w.n_parts * VP_KEY_TILE_PART *
           VP_KEY_TILE_OWNERS * 4 * sizeof(float);
}

static size_t own_scratch(const struct vp_graph *graph, const struct vp_op *op,
                          enum vp_phase phase, int capability)
{
    struct vp_attention_shape x = vp_attention_shape_of(graph, op);
    size_t n_bytes = (size_t)(x.batch * x.q_len * x.heads) * sizeof(float);

    if (phase != VP_PHASE_B)
        return 0;
    if (vp_attention_takes_wgmma_b(&x, capability))
        n_bytes = wgmma_b_scratch(&x);
    return align(n_bytes) + vp_attention_sums_bytes(graph, op, capability);
}

enum { CUDNN_UNIT = 128 }; /* lengths are multiples of it */

bool vp_attention_may_use_cudnn(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase,
                                int capability)
{
    const struct vp_attr *attr = &op->attr;
    struct vp_attention_shape x = vp_attention_shape_of(graph, op);
    bool own_is_best = phase == VP_PHASE_B &&
                       vp_attention_takes_wgmma_b(&x, capability);

    return graph->dtype != VP_DTYPE_F32 && attr->p == 0.0f &&
           op->in[2] == VP_NONE && attr->q_len % CUDNN_UNIT == 0 &&
           attr->k_len % CUDNN_UNIT == 0 && x.dim % 8 == 0 &&
           x.dim <= CUDNN_UNIT && !own_is_best;
}

/* One matrix of scores in backward, and sums of rows. */
size_t vp_attention_cudnn_room(const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_attr *attr = &op->attr;
    size_t rows = (size_t)(attr->batch * attr->heads * attr->q_len);

    return (1u << 20) +
           (phase == VP_PHASE_B ? rows * (8 + 2 * (size_t)attr->k_len) : 0);
}

static size_t attention_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase,
                                int capability)
{
    size_t own = own_scratch(graph, op, phase, capability);

    return vp_attention_may_use_cudnn(graph, op, phase, capability)
               ? larger(own, vp_attention_cudnn_room(op, phase))
               : own;
}

/* ---- Linear ------------------------------------------------------------- */

struct vp_cuda_cut vp_cuda_cut_of(int64_t rows, int64_t cols, enum vp_act act)
{
    int64_t block = vp_part_rows(rows, cols);

    if (act != VP_ACT_GELU_ERF || !vp_fills_gelu_tiles(rows, cols))
        return (struct vp_cuda_cut){ block, block };
    return (struct vp_cuda_cut){ vp_parts_of(block, VP_GELU_TILE_ROWS) *
                                     VP_GELU_TILE_ROWS,
                                 VP_GELU_TILE_ROWS };
}

int64_t vp_cuda_column_parts(int64_t rows, int64_t cols, enum vp_act act)
{
    return vp_parts_of(rows, vp_cuda_cut_of(rows, cols, act).part);
}

size_t vp_cuda_column_scratch(int64_t rows, int64_t cols, enum vp_act act)
{
    return align((size_t)(vp_cuda_column_parts(rows, cols, act) * cols) *
                 sizeof(float));
}

bool vp_cuda_is_summed_in_tiles(const struct vp_graph *graph,
                                const struct vp_op *linear, int capability)
{
    const struct vp_op *reader = vp_graph_reader(graph, linear->out);

    return linear->attr.act == VP_ACT_NONE && reader &&
           reader->kind == VP_OP_ATTENTION && reader->in[0] == linear->out &&
           makes_sums(graph, reader, capability);
}

size_t vp_cuda_tile_scratch(int64_t rows, int64_t cols)
{
    return align((size_t)(rows / VP_CUDA_TILE_ROWS * cols) * sizeof(float));
}

size_t vp_cuda_linear_scratch(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_phase phase,
                              int capability)
{
    int64_t rows = graph->values[op->in[0]].rows;
    int64_t cols = graph->values[op->out].cols;
    size_t sums = vp_cuda_is_summed_in_tiles(graph, op, capability)
                      ? vp_cuda_tile_scratch(rows, cols)
                      : vp_cuda_column_scratch(rows, cols, op->attr.act);

    return phase == VP_PHASE_F ? VP_CUDA_WORKSPACE
                               : larger(sums, VP_CUDA_WORKSPACE);
}

/* ---- Embed -------------------------------------------------------------- */

struct vp_embed_scratch vp_cuda_embed_areas(const struct vp_graph *graph,
                                            const struct vp_op *op)
{
    const struct vp_value *out = &graph->values[op->out];
    size_t rows = (size_t)out->rows;
    size_t pieces = (size_t)vp_parts_of(out->rows, VP_EMBED_PIECE);
    size_t types = op->par[2] == VP_NONE
                       ? 0
                       : (size_t)graph->params[op->par[2]].rows;
    size_t n_parts = larger(2 * pieces, VP_EMBED_TYPE_PARTS * types);

    return (struct vp_embed_scratch){
        .list = align(rows * sizeof(uint32_t)),
        .parts = align(n_parts * (size_t)out->cols * sizeof(float)),
        /* A bound on what sorting wants, which CUB tells only where there is a
         * device: another copy of keys and rows, and counters of tiles and
         * digits. */
        .sort = 16 * rows + (2u << 20),
    };
}

static size_t embed_scratch(const struct vp_graph *graph,
                            const struct vp_op *op)
{
    struct vp_embed_scratch areas = vp_cuda_embed_areas(graph, op);

    return 4 * areas.list + areas.parts + align(areas.sort);
}

/* ---- Tensor-parallel groups --------------------------------------------- */

static bool has_slices(const struct vp_graph *graph, const struct vp_op *loss)
{
    return graph->values[loss->in[0]].spread == VP_SPREAD_COLS;
}

int vp_cuda_n_meetings(const struct vp_graph *graph, const struct vp_op *op,
                       enum vp_phase phase, bool train)
{
    if (graph->n_members < 2)
        return 0;
    switch (op->kind) {
    case VP_OP_GROUP_SUM:
        return phase == VP_PHASE_F;
    case VP_OP_GROUP_COPY:
        return phase == VP_PHASE_B;
    case VP_OP_CROSS_ENTROPY:
        return phase == VP_PHASE_F && has_slices(graph, op) ? (train ? 1 : 2)
                                                            : 0;
    default:
        return 0;
    }
}

size_t vp_cuda_meeting_bytes(const struct vp_graph *graph,
                             const struct vp_op *op, int meeting)
{
    size_t rows = (size_t)graph->values[op->in[0]].rows;

    if (op->kind != VP_OP_CROSS_ENTROPY)
        return (size_t)vp_value_bytes(graph, op->out);
    return rows * (meeting == 0 ? sizeof(struct vp_row_part) : sizeof(int32_t));
}

struct vp_loss_scratch vp_cuda_loss_areas(const struct vp_graph *graph,
                                          const struct vp_op *op)
{
    size_t n = (size_t)graph->n_members;
    size_t part = vp_cuda_meeting_bytes(graph, op, 0);
    size_t before = vp_cuda_meeting_bytes(graph, op, 1);

    return (struct vp_loss_scratch){
        .mine = align(part),
        .all = align(n * part),
        .mine_before = align(before),
        .all_before = align(n * before),
    };
}

static size_t loss_scratch(const struct vp_graph *graph, const struct vp_op *op,
                           enum vp_phase phase)
{
    struct vp_loss_scratch areas;

    if (phase == VP_PHASE_B) /* the sum of the weights of rows */
        return VP_TENSOR_ALIGN;
    if (vp_cuda_n_meetings(graph, op, phase, false) == 0)
        return 0;
    areas = vp_cuda_loss_areas(graph, op);
    return areas.mine + areas.all + areas.mine_before + areas.all_before;
}

/* The parts of all members; and as those of a linear layer, sums of the bias. */
static size_t group_sum_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (vp_cuda_n_meetings(graph, op, phase, true) > 0)
        return align((size_t)graph->n_members *
                     vp_cuda_meeting_bytes(graph, op, 0));
    return phase == VP_PHASE_W
               ? vp_cuda_column_scratch(out->rows, out->cols, VP_ACT_NONE)
               : 0;
}

size_t vp_cuda_staging_bytes(const struct vp_program *program)
{
    const struct vp_graph *graph = program->graph;
    size_t most = 0;

    for (int list = 0; list < VP_LIST_COUNT; list++)
        for (int i = 0; i < program->n_calls[list]; i++) {
            const struct vp_call *call = &program->calls[list][i];

            for (int k = 0;
                 k < vp_cuda_n_meetings(graph, call->op, call->phase, false);
                 k++)
                most = larger(most, vp_cuda_meeting_bytes(graph, call->op, k));
        }
    if (most > VP_EXCHANGE_BYTES)
        most = VP_EXCHANGE_BYTES;
    return 2 * ((size_t)graph->n_members + 1) * align(most);
}

/* ---- All of them -------------------------------------------------------- */

/* Sums of dgamma, dbeta and the columns of a branch that ends before it. */
static size_t layernorm_scratch(const struct vp_graph *graph,
                                const struct vp_op *op)
{
    const struct vp_value *out = &graph->values[op->out];

    return align((size_t)(vp_norm_parts(out->rows) * 3 * out->cols) *
                 sizeof(float));
}

size_t vp_cuda_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_backend_config *config = ctx;
    int capability = config->capability ? config->capability
                                        : VP_CUDA_PLANNED_CAPABILITY;

    switch (op->kind) {
    case VP_OP_EMBED:
        return phase == VP_PHASE_W ? embed_scratch(graph, op) : 0;
    case VP_OP_LINEAR:
        return vp_cuda_linear_scratch(graph, op, phase, capability);
    case VP_OP_LAYERNORM:
        return phase == VP_PHASE_W ? layernorm_scratch(graph, op) : 0;
    case VP_OP_ATTENTION:
        return attention_scratch(graph, op, phase, capability);
    case VP_OP_CROSS_ENTROPY:
        return loss_scratch(graph, op, phase);
    case VP_OP_GROUP_SUM:
    case VP_OP_GROUP_COPY:
        return group_sum_scratch(graph, op, phase);
    default:
        return 0;
    }
}
