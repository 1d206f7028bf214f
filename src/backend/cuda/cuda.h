/* Private to the CUDA backend: what its files share. Read by C (backend.c,
 * product/linear.c, ...) and by nvcc (*.cu).
 *
 * Every function enqueues on the call's stream, waits for nothing, allocates
 * nothing and returns at once, so that a list of calls can be captured into a
 * CUDA graph. Nothing of a minibatch but `accumulate` and `train` may be read
 * on the host: the rest is in device memory and differs from replay to replay.
 * Sums have a fixed order; grids depend on shapes only, and no float is ever
 * added atomically: the same input gives the same bits. */
#ifndef VP_BACKEND_CUDA_CUDA_H
#define VP_BACKEND_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "backend/args.h"
#include "backend/cuda/optim/ranges.h"
#include "backend/cuda/tiles.h"
#include "backend/cuda_facts.h"

/* Scalars of the minibatch, on the device. */
struct vp_cuda_mb {
    uint64_t seed, first_sample;
    float loss_grad;
};

struct vp_cuda; /* library handles and settings of one device; device.h */
struct vp_cuda_wgrad_stream; /* wgrad_stream.h */

struct vp_cuda_call {
    struct vp_kargs
        args; /* device addresses; of args.mb only accumulate, train */
    enum vp_phase phase;
    bool out_is_temporary; /* no other list reads args.out */
    const struct vp_cuda_mb *mb;
    struct vp_cuda *cuda;
    cudaStream_t stream;
    /* W: its stream belongs to this one; NULL: it is that of the list. */
    struct vp_cuda_wgrad_stream *wgrad;
    void *staging; /* as in struct vp_launch */
    size_t n_staging;
};

/* Makes the stream of a W wait for what its list has launched so far. */
void vp_cuda_wgrad_stream_fork(const struct vp_cuda_call *call);

/* Errors of the launch itself are found by the caller (cudaGetLastError). */
typedef enum vp_status (*vp_cuda_fn)(const struct vp_cuda_call *call);

struct vp_cuda_op {
    vp_cuda_fn fn[VP_PHASE_COUNT];
};

extern const struct vp_cuda_op vp_cuda_ops[VP_OP_KIND_COUNT];

/* Capability of the calling thread's GPU, 90 for 9.0; 0: there is none. */
int vp_cuda_capability(void);

/* Writes the scalars of a minibatch, in the order of the stream. */
void vp_cuda_set_mb(struct vp_cuda_mb *dst, struct vp_cuda_mb value,
                    cudaStream_t stream);

/* A few bytes between the device and memory of the host that it reaches. */
void vp_cuda_carry(void *dst, const void *src, size_t n_bytes,
                   cudaStream_t stream);

/* n random numbers, for measuring. */
void vp_cuda_fill_noise(void *dst, int64_t n, enum vp_dtype dtype,
                        cudaStream_t stream);
/* *flag_out (device) = 1 if n pairs of bytes are not the same everywhere; else
 * it is left alone. */
void vp_cuda_find_difference(const void *a, const void *b, int64_t n,
                             int *flag_out, cudaStream_t stream);

/* One file per operator. */
enum vp_status vp_cuda_embed_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_embed_w(const struct vp_cuda_call *call);

enum vp_status vp_cuda_linear_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_linear_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_linear_w(const struct vp_cuda_call *call);

enum vp_status vp_cuda_layernorm_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_layernorm_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_layernorm_w(const struct vp_cuda_call *call);

enum vp_status vp_cuda_attention_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_attention_b(const struct vp_cuda_call *call);

enum vp_status vp_cuda_cached_attention_f(const struct vp_cuda_call *call);

/* B of attention, the first of the calls, with the sums for the bias of the
 * linear that makes its input; 0 if that is not possible. */
int vp_cuda_run_attention(struct vp_cuda_call *calls, int n_calls);

/* Where cuDNN does not serve, or is slower. */
void vp_cuda_own_attention_f(const struct vp_cuda_call *call);
void vp_cuda_own_attention_b(const struct vp_cuda_call *call, bool sums);
/* dst (+)= the sums over the rows of x, in parts of VP_CUDA_TILE_ROWS rows. */
void vp_cuda_tile_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                       enum vp_dtype dtype, bool add, void *scratch,
                       cudaStream_t stream);

enum vp_status vp_cuda_dropout_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_dropout_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_add_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_scale_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_scale_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_copy_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_copy_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_gather_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_gather_b(const struct vp_cuda_call *call);

/* Of a rank that has all columns; else see group/meeting.h. */
enum vp_status vp_cuda_cross_entropy_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_cross_entropy_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_argmax_f(const struct vp_cuda_call *call);

/* Several calls that follow each other in a list, as one launch with the same
 * bits: how many of `calls`, from the first on, were done; 0 if there is no
 * such kernel for them. Where the sums for the bias of a linear came along, its
 * W among the calls is changed to leave them alone. */
int vp_cuda_run_fused(struct vp_cuda_call *calls, int n_calls);
/* The same for B of a linear with an activation, whose W is among the calls:
 * the sums for the bias come with dz; and with GELU, so does B of the linear
 * after it. */
int vp_cuda_run_linear(struct vp_cuda_call *calls, int n_calls,
                       enum vp_status *st_out);

/* ---- Parts of linear, around the products ------------------------------- */

/* out = act(z); n elements of `dtype`. */
void vp_cuda_act(void *out, const void *z, enum vp_act act, int64_t n,
                 enum vp_dtype dtype, cudaStream_t stream);
/* dz = dout * act'(z), rounded to dtype; dz may be dout. `recomputed`, if not
 * NULL, receives act(z). `parts`, if not NULL, receives the column sums of the
 * rounded dz in parts, vp_cuda_column_scratch() bytes: for
 * vp_cuda_column_finish(). */
void vp_cuda_act_grad(void *dz, void *recomputed, const void *dout,
                      const void *z, enum vp_act act, int64_t rows,
                      int64_t cols, enum vp_dtype dtype, void *parts,
                      cudaStream_t stream);
/* dst (+)= the sum of so many parts of `cols` columns each. */
void vp_cuda_parts_finish(float *dst, const void *parts, int64_t n_parts,
                          int64_t cols, bool add, cudaStream_t stream);
/* dst (+)= the parts of a matrix [rows, cols]: gradients of a layer with that
 * activation, on which the order of sums depends. */
void vp_cuda_column_finish(float *dst, const void *parts, int64_t rows,
                           int64_t cols, enum vp_act act, bool add,
                           cudaStream_t stream);
/* dst (+)= column sums of x [rows, cols], in the same order. */
void vp_cuda_column_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                         enum vp_act act, enum vp_dtype dtype, bool add,
                         void *scratch, cudaStream_t stream);

/* ---- Optimizer ---------------------------------------------------------- */

/* The tensors of a stage, and how they are cut over blocks of threads: made
 * once per list of tensors. */
struct vp_cuda_tensors;
enum vp_status vp_cuda_tensors_create(const struct vp_optim_tensor *tensors,
                                      int n_tensors,
                                      struct vp_cuda_tensors **out);
void vp_cuda_tensors_free(struct vp_cuda_tensors *tensors);
/* Squares of each gradient, into memory of the host that the device reaches. */
void vp_cuda_sum_squares(struct vp_cuda_tensors *tensors, const float *grad,
                         double *sums_out, cudaStream_t stream);
/* The arrays of the step are on the device; its tensors are those given. */
void vp_cuda_update(struct vp_cuda_tensors *tensors,
                    const struct vp_optim_step *step, cudaStream_t stream);
/* The same in parts that may be captured: the scalars, some tensors as often as
 * it takes, a launch each time, and the squares of all their gradients. Where a
 * gradient is not finite an element stays as it is. Not LAMB. */
void vp_cuda_set_step(struct vp_cuda_tensors *tensors,
                      const struct vp_optim_step *step, cudaStream_t stream);
void vp_cuda_update_ranges(struct vp_cuda_tensors *tensors,
                           const struct vp_cuda_ranges *which,
                           const struct vp_optim_step *step,
                           cudaStream_t stream);
void vp_cuda_add_squares(struct vp_cuda_tensors *tensors, double *sums_out,
                         cudaStream_t stream);
void vp_cuda_add_floats(float *dst, const float *src, int64_t n,
                        cudaStream_t stream);
/* To the nearest BF16, with the bits of vp_dtype_round(), NaN included. */
void vp_cuda_shorten_floats(float *data, int64_t n, cudaStream_t stream);

/* *flag_out (device) = 1 if any of n elements is NaN or infinite; else it is
 * left alone. */
void vp_cuda_find_nonfinite(const void *data, int64_t n, enum vp_dtype dtype,
                            int *flag_out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
