/* The table of fast kernels, and scratch bytes by operator. */
#include "backend/cpu/fast.h"
#include "backend/cpu/cross_entropy.h"
#include "backend/cpu/group_sum.h"
#include "backend/cpu/row_slices.h"
#include "backend/cpu/rows.h"

/* Runs a row-wise kernel as a job of its own. */
static void all_rows(const struct vp_kargs *args, enum vp_phase phase)
{
    struct vp_rows_call call = { vp_cpu_fast.rows[args->op->kind][phase],
                                 args };

    vp_cpu_rows_run(&call, 1);
}

static void rows_f(const struct vp_kargs *args)
{
    all_rows(args, VP_PHASE_F);
}

static void rows_b(const struct vp_kargs *args)
{
    all_rows(args, VP_PHASE_B);
}

static void rows_w(const struct vp_kargs *args)
{
    all_rows(args, VP_PHASE_W);
}

static size_t scratch_bytes(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase,
                            int n_threads)
{
    switch (op->kind) {
    case VP_OP_EMBED:
        return vp_cpu_embed_scratch(graph, op, phase);
    case VP_OP_LINEAR:
        return vp_cpu_linear_scratch(graph, op, phase, n_threads);
    case VP_OP_LAYERNORM:
        return vp_cpu_layernorm_scratch(graph, op, phase);
    case VP_OP_ATTENTION:
        return vp_cpu_attention_scratch(graph, op, phase) * (size_t)n_threads;
    case VP_OP_CACHED_ATTENTION:
    case VP_OP_CACHED_CROSS_ATTENTION:
        return vp_cpu_cached_attention_scratch(graph, op) * (size_t)n_threads;
    case VP_OP_GATHER:
        return vp_cpu_gather_scratch(graph, op, phase);
    case VP_OP_CROSS_ENTROPY:
        return vp_cpu_cross_entropy_scratch(graph, op, phase);
    case VP_OP_GROUP_SUM:
    case VP_OP_GROUP_COPY:
        return vp_cpu_group_sum_scratch(graph, op, phase);
    case VP_OP_REDUCE_SCATTER:
    case VP_OP_ALL_GATHER:
        return vp_cpu_row_slices_scratch(graph, op, phase);
    default:
        return 0;
    }
}

const struct vp_cpu_kernels vp_cpu_fast = {
    .fn = {
        [VP_OP_EMBED] = { [VP_PHASE_F] = vp_cpu_embed_f,
                          [VP_PHASE_W] = vp_cpu_embed_w },
        [VP_OP_LINEAR] = { vp_cpu_linear_f, vp_cpu_linear_b,
                           vp_cpu_linear_w },
        [VP_OP_LAYERNORM] = { rows_f, rows_b, rows_w },
        [VP_OP_ATTENTION] = { vp_cpu_attention_f, vp_cpu_attention_b },
        [VP_OP_CACHED_ATTENTION] = { vp_cpu_cached_attention_f },
        [VP_OP_CACHED_CROSS_ATTENTION] = { vp_cpu_cached_attention_f },
        [VP_OP_DROPOUT] = { rows_f, rows_b },
        [VP_OP_ADD] = { rows_f },
        [VP_OP_SCALE] = { rows_f, rows_b },
        [VP_OP_GATHER] = { vp_cpu_gather_f, vp_cpu_gather_b },
        [VP_OP_CROSS_ENTROPY] = { vp_cpu_cross_entropy_f,
                                  vp_cpu_cross_entropy_b },
        [VP_OP_ARGMAX] = { vp_cpu_argmax_f },
        [VP_OP_COPY] = { rows_f, rows_b },
        [VP_OP_GROUP_SUM] = { [VP_PHASE_F] = vp_cpu_group_sum_f,
                              [VP_PHASE_W] = rows_w },
        [VP_OP_GROUP_COPY] = { rows_f, vp_cpu_group_copy_b },
        [VP_OP_REDUCE_SCATTER] = { vp_cpu_reduce_scatter_f,
                                   vp_cpu_reduce_scatter_b, rows_w },
        [VP_OP_ALL_GATHER] = { vp_cpu_all_gather_f, vp_cpu_all_gather_b },
    },
    .rows = {
        [VP_OP_LAYERNORM] = { { vp_cpu_layernorm_f, NULL },
                              { vp_cpu_layernorm_b, NULL },
                              { vp_cpu_layernorm_w, vp_cpu_layernorm_w_end } },
        [VP_OP_DROPOUT] = { { vp_cpu_dropout_f, NULL },
                            { vp_cpu_dropout_b, NULL } },
        [VP_OP_ADD] = { { vp_cpu_add_f, NULL } },
        [VP_OP_SCALE] = { { vp_cpu_scale_f, NULL }, { vp_cpu_scale_b, NULL } },
        [VP_OP_COPY] = { { vp_cpu_copy_f, NULL }, { vp_cpu_copy_b, NULL } },
        [VP_OP_GROUP_SUM] = { [VP_PHASE_W] = { vp_cpu_group_sum_w,
                                               vp_cpu_group_sum_w_end } },
        [VP_OP_GROUP_COPY] = { { vp_cpu_copy_f, NULL } },
        [VP_OP_REDUCE_SCATTER] = { [VP_PHASE_W] = { vp_cpu_group_sum_w,
                                                    vp_cpu_group_sum_w_end } },
    },
    .scratch_bytes = scratch_bytes,
};
