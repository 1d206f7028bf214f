/* The table of GPU kernels: one row per operator, one function per phase. */
#include "backend/cuda/group/group_sum.h"
#include "backend/cuda/group/meeting.h"

const struct vp_cuda_op vp_cuda_ops[VP_OP_KIND_COUNT] = {
    [VP_OP_EMBED] = {
        .fn = { [VP_PHASE_F] = vp_cuda_embed_f,
                [VP_PHASE_W] = vp_cuda_embed_w },
    },
    [VP_OP_LINEAR] = {
        .fn = { vp_cuda_linear_f, vp_cuda_linear_b, vp_cuda_linear_w },
    },
    [VP_OP_LAYERNORM] = {
        .fn = { vp_cuda_layernorm_f, vp_cuda_layernorm_b,
                vp_cuda_layernorm_w },
    },
    [VP_OP_ATTENTION] = {
        .fn = { vp_cuda_attention_f, vp_cuda_attention_b },
    },
    [VP_OP_CACHED_ATTENTION] = {
        .fn = { vp_cuda_cached_attention_f },
    },
    [VP_OP_DROPOUT] = {
        .fn = { vp_cuda_dropout_f, vp_cuda_dropout_b },
    },
    [VP_OP_ADD] = {
        .fn = { vp_cuda_add_f },
    },
    [VP_OP_SCALE] = {
        .fn = { vp_cuda_scale_f, vp_cuda_scale_b },
    },
    [VP_OP_GATHER] = {
        .fn = { vp_cuda_gather_f, vp_cuda_gather_b },
    },
    [VP_OP_CROSS_ENTROPY] = {
        .fn = { vp_cuda_loss_f, vp_cuda_cross_entropy_b },
    },
    [VP_OP_ARGMAX] = {
        .fn = { vp_cuda_argmax_f },
    },
    [VP_OP_COPY] = {
        .fn = { vp_cuda_copy_f, vp_cuda_copy_b },
    },
    [VP_OP_GROUP_SUM] = {
        .fn = { [VP_PHASE_F] = vp_cuda_group_sum_f,
                [VP_PHASE_W] = vp_cuda_group_sum_w },
    },
    [VP_OP_GROUP_COPY] = {
        .fn = { [VP_PHASE_B] = vp_cuda_group_copy_b },
    },
};
