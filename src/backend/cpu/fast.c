/* The table of fast kernels. */
#include "backend/cpu/fast.h"

static size_t scratch_bytes(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase,
                            int n_threads)
{
    switch (op->kind) {
    case VP_OP_EMBED:
        return vp_cpu_embed_scratch(graph, op, phase);
    case VP_OP_LINEAR:
        return vp_cpu_linear_scratch(graph, op, phase);
    case VP_OP_LAYERNORM:
        return vp_cpu_layernorm_scratch(graph, op, phase);
    case VP_OP_ATTENTION:
        return vp_cpu_attention_scratch(op, phase) * (size_t)n_threads;
    case VP_OP_GATHER:
        return vp_cpu_gather_scratch(graph, op, phase);
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
        [VP_OP_LAYERNORM] = { vp_cpu_layernorm_f, vp_cpu_layernorm_b,
                              vp_cpu_layernorm_w },
        [VP_OP_ATTENTION] = { vp_cpu_attention_f, vp_cpu_attention_b },
        [VP_OP_DROPOUT] = { vp_cpu_dropout_f, vp_cpu_dropout_b },
        [VP_OP_ADD] = { vp_cpu_add_f },
        [VP_OP_SCALE] = { vp_cpu_scale_f, vp_cpu_scale_b },
        [VP_OP_GATHER] = { vp_cpu_gather_f, vp_cpu_gather_b },
        [VP_OP_CROSS_ENTROPY] = { vp_cpu_cross_entropy_f,
                                  vp_cpu_cross_entropy_b },
        [VP_OP_COPY] = { vp_cpu_copy_f, vp_cpu_copy_b },
    },
    .scratch_bytes = scratch_bytes,
};
