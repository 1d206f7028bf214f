/* What planning must know about GPUs: the bytes of scratch that kernels want,
 * and the constants of the backend. Plain C without CUDA headers, linked into
 * the program and into the plugin, whose kernels are chosen by the same rules.
 * So plans for a GPU can be made where there is neither a GPU nor the plugin.
 *
 * `capability` is that of a GPU, 90 for 9.0: GPUs differ in the kernels they
 * have. */
#ifndef VP_BACKEND_CUDA_FACTS_H
#define VP_BACKEND_CUDA_FACTS_H

#include "backend/backend.h"

/* The GPU that is planned for where none is known. */
enum { VP_CUDA_PLANNED_CAPABILITY = 90 };

/* Members of the same names of struct vp_device_ops and vp_backend_ops. */
enum {
    VP_CUDA_HOST_MEMORY = false,
    VP_CUDA_UPDATES_EARLY = true,
    VP_CUDA_W_LINGER = 6,
    VP_CUDA_GRAD_LINGER = 64 << 20,
};

/* Bytes of scratch of a call, for a vp_scratch_fn: `ctx` is a struct
 * vp_backend_config, of which only `capability` is read. */
size_t vp_cuda_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase);

/* Returns true if the GPU has tensor cores of warpgroups and the copy engine
 * that goes with them. */
bool vp_cuda_has_wgmma(int capability);

/* ---- Linear ------------------------------------------------------------- */

size_t vp_cuda_linear_scratch(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_phase phase,
                              int capability);

/* Rows of a block, and of a part of the sums of a layer's columns: the same,
 * but for layers whose dz may come with a product, tile by tile. */
struct vp_cuda_cut {
    int64_t block, part; /* a block has whole parts */
};

struct vp_cuda_cut vp_cuda_cut_of(int64_t rows, int64_t cols, enum vp_act act);
/* Number of parts, and bytes of all of them. */
int64_t vp_cuda_column_parts(int64_t rows, int64_t cols, enum vp_act act);
size_t vp_cuda_column_scratch(int64_t rows, int64_t cols, enum vp_act act);
/* Returns true if the bias of a linear is summed up in parts of
 * VP_CUDA_TILE_ROWS rows. Then the backward of the attention that reads the
 * linear can do it. */
bool vp_cuda_is_summed_in_tiles(const struct vp_graph *graph,
                                const struct vp_op *linear, int capability);
size_t vp_cuda_tile_scratch(int64_t rows, int64_t cols);

/* ---- Embed -------------------------------------------------------------- */

/* Bytes of the areas of the scratch of embed, in this order, each aligned. */
struct vp_embed_scratch {
    size_t list;  /* each of four lists of rows */
    size_t parts; /* of sums */
    size_t sort;  /* temporaries of sorting, not rounded up */
};

struct vp_embed_scratch vp_cuda_embed_areas(const struct vp_graph *graph,
                                            const struct vp_op *op);

/* ---- Tensor-parallel groups --------------------------------------------- */

/* A call in which the members of a group exchange values has steps: what is done
 * before its first meeting, between its meetings and after the last one. */
enum { VP_CUDA_MAX_MEETINGS = 2 };

/* Meetings of a call: 1 for a sum, and for the loss of slices of logits, which has
 * another one in an evaluation; else 0. */
int vp_cuda_n_meetings(const struct vp_graph *graph, const struct vp_op *op,
                       enum vp_phase phase, bool train);
/* Bytes that each member gives in a meeting of such a call. */
size_t vp_cuda_meeting_bytes(const struct vp_graph *graph,
                             const struct vp_op *op, int meeting);

/* What a member knows of a row of logits: of the ids that it has, the largest
 * logit, the sum of e^(x - most) and the sum of x; and the label's logit, 0 if
 * another member has it. */
struct vp_row_part {
    float most, exps, sum, label;
};

/* Bytes of the areas of the scratch of that loss, in this order, each aligned. */
struct vp_loss_scratch {
    size_t mine, all;               /* of struct vp_row_part */
    size_t mine_before, all_before; /* of int32_t: ids before the label */
};

struct vp_loss_scratch vp_cuda_loss_areas(const struct vp_graph *graph,
                                          const struct vp_op *op);

/* A vp_staging_fn: two pieces of what is exchanged at once, for the own bytes and
 * for those of all members. */
size_t vp_cuda_staging_bytes(const struct vp_program *program);

/* ---- Attention ---------------------------------------------------------- */

struct vp_attention_shape {
    enum vp_dtype dtype;
    int64_t batch;
    int heads, dim; /* dim: columns of a head */
    int q_len, k_len;
    bool causal;
};

struct vp_attention_shape vp_attention_shape_of(const struct vp_graph *graph,
                                                const struct vp_op *op);

/* Return true if the kernels for warpgroups take the shape: forward, backward,
 * and both for short heads. */
bool vp_attention_takes_wgmma_f(const struct vp_attention_shape *x,
                                int capability);
bool vp_attention_takes_wgmma_b(const struct vp_attention_shape *x,
                                int capability);
bool vp_attention_takes_short(const struct vp_attention_shape *x,
                              int capability);

/* Bytes of sums for the bias of the linear before it, which come first in the
 * scratch; 0 if the backward cannot make them. */
size_t vp_attention_sums_bytes(const struct vp_graph *graph,
                               const struct vp_op *op, int capability);

/* Returns true if cuDNN may be used: it follows our definition there (two-byte
 * types, no dropout, no key mask) and is not slower. */
bool vp_attention_may_use_cudnn(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase,
                                int capability);
/* Bytes that a plan of cuDNN may want. */
size_t vp_attention_cudnn_room(const struct vp_op *op, enum vp_phase phase);

#endif
