/* Facts about the CUDA backend that planning needs: the scratch bytes of
 * kernels and the backend's constants. Plain C without CUDA headers. It is
 * linked into the program and into the plugin, which chooses its kernels by the
 * same rules, so plans for a GPU can be made on a machine with neither a GPU
 * nor the plugin.
 *
 * `capability` is a compute capability, 90 for 9.0. It decides which kernels a
 * GPU can run. */
#ifndef VP_BACKEND_CUDA_FACTS_H
#define VP_BACKEND_CUDA_FACTS_H

#include "backend/backend.h"

/* The compute capability to plan for if no GPU is known. */
enum { VP_CUDA_PLANNED_CAPABILITY = 90 };

/* Values of the members of these names in struct vp_device_ops and
 * vp_backend_ops. */
enum {
    VP_CUDA_HOST_MEMORY = false,
    VP_CUDA_UPDATES_EARLY = true,
    VP_CUDA_W_LINGER = 6,
    VP_CUDA_GRAD_LINGER = 64 << 20,
};

/* A vp_scratch_fn: returns the scratch bytes of a call. `ctx` is a struct
 * vp_backend_config, of which only `capability` is read. */
size_t vp_cuda_scratch_bytes(const void *ctx, const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase);

/* Returns true if the GPU has warpgroup matrix instructions (wgmma) and the
 * tensor memory accelerator. */
bool vp_cuda_has_wgmma(int capability);

/* ---- Linear ------------------------------------------------------------- */

/* Returns the scratch bytes of one phase of a linear. */
size_t vp_cuda_linear_scratch(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_phase phase,
                              int capability);

/* Column sums (bias gradients) are made in parts: a thread block sums `block`
 * rows, and writes one partial sum for every `part` rows. Both are equal,
 * except for layers whose dz may be computed in the tiles of a product. */
struct vp_cuda_cut {
    int64_t block, part; /* rows; block is a multiple of part */
};

struct vp_cuda_cut vp_cuda_cut_of(int64_t rows, int64_t cols, enum vp_act act);
/* Return the number of partial sums, and the bytes of all of them. */
int64_t vp_cuda_column_parts(int64_t rows, int64_t cols, enum vp_act act);
size_t vp_cuda_column_scratch(int64_t rows, int64_t cols, enum vp_act act);
/* Returns true if the bias gradient of a linear is made from partial sums of
 * VP_CUDA_TILE_ROWS rows. The backward kernel of the attention that reads the
 * linear can then write these sums. */
bool vp_cuda_is_summed_in_tiles(const struct vp_graph *graph,
                                const struct vp_op *linear, int capability);
/* Returns the bytes of these sums. */
size_t vp_cuda_tile_scratch(int64_t rows, int64_t cols);

/* ---- Embed -------------------------------------------------------------- */

/* Bytes of the areas in the scratch of embed's W kernel, in this order, each
 * aligned. */
struct vp_embed_scratch {
    size_t list;  /* each of four lists of rows */
    size_t parts; /* partial sums */
    size_t sort;  /* temporaries of the sort; not a multiple of the alignment */
};

struct vp_embed_scratch vp_cuda_embed_areas(const struct vp_graph *graph,
                                            const struct vp_op *op);

/* ---- Tensor-parallel groups --------------------------------------------- */

/* Most meetings of a call. A meeting is an exchange of values between the
 * members of a group; kernels run before, between and after the meetings. */
enum { VP_CUDA_MAX_MEETINGS = 2 };

/* Returns the number of meetings of a call: 1 for a sum; 1 for the loss of
 * slices of logits, and 2 in evaluation; else 0. */
int vp_cuda_n_meetings(const struct vp_graph *graph, const struct vp_op *op,
                       enum vp_phase phase, bool train);
/* Returns the bytes that each member contributes to a meeting of such a call. */
size_t vp_cuda_meeting_bytes(const struct vp_graph *graph,
                             const struct vp_op *op, int meeting);

/* Statistics of one member's slice of a row of logits: the largest logit, the
 * sum of e^(x - most), the sum of x, and the label's logit, 0 if another member
 * has it. */
struct vp_row_part {
    float most, exps, sum, label;
};

/* Bytes of the areas in the scratch of that loss, in this order, each aligned. */
struct vp_loss_scratch {
    size_t mine, all; /* arrays of struct vp_row_part */
    size_t mine_before,
        all_before; /* arrays of int32_t: ids before the label */
};

struct vp_loss_scratch vp_cuda_loss_areas(const struct vp_graph *graph,
                                          const struct vp_op *op);

/* A vp_staging_fn: two buffers, each for the bytes that a member contributes at
 * once and for those of all members. */
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

/* Return true if a wgmma kernel supports the shape: the forward kernel, the
 * backward kernel, and the two kernels for short sequences. */
bool vp_attention_takes_wgmma_f(const struct vp_attention_shape *x,
                                int capability);
bool vp_attention_takes_wgmma_b(const struct vp_attention_shape *x,
                                int capability);
bool vp_attention_takes_short(const struct vp_attention_shape *x,
                              int capability);

/* Returns the bytes at the start of the scratch where the backward kernel
 * writes sums for the bias gradient of the linear before it; 0 if it does not
 * write them. */
size_t vp_attention_sums_bytes(const struct vp_graph *graph,
                               const struct vp_op *op, int capability);

/* Returns true if cuDNN may be used: for these shapes it computes the same
 * function (two-byte types, no dropout, no key mask) and is not slower than our
 * kernels. */
bool vp_attention_may_use_cudnn(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase,
                                int capability);
/* Returns the largest workspace, in bytes, that an execution plan of cuDNN may
 * use. */
size_t vp_attention_cudnn_room(const struct vp_op *op, enum vp_phase phase);

#endif
