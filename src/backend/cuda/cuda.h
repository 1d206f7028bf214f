/* Interface between the files of the CUDA backend; private to it. Read by C
 * (backend.c, product/linear.c, ...) and by nvcc (*.cu).
 *
 * Every function enqueues on the call's stream, waits for nothing, allocates
 * nothing and returns at once, so that a list of calls can be captured into a
 * CUDA graph. The host may read only `accumulate` and `train` of a minibatch;
 * its other fields are in device memory and differ from replay to replay. Sums
 * have a fixed order, grids depend on shapes only, and floats are never added
 * atomically: the same input gives the same bits. */
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

/* Scalars of the minibatch, in device memory. */
struct vp_cuda_mb {
    uint64_t seed, first_sample;
    float loss_grad;
};

struct vp_cuda; /* library handles and settings of one device; device.h */
struct vp_cuda_wgrad_stream; /* wgrad_stream.h */

struct vp_cuda_call {
    /* Device addresses. In args.mb only `accumulate` and `train` are valid. */
    struct vp_kargs args;
    enum vp_phase phase;
    bool out_is_temporary; /* no other list reads args.out */
    const struct vp_cuda_mb *mb;
    struct vp_cuda *cuda;
    cudaStream_t stream;
    /* For a W in a stream of its own, which `stream` belongs to; NULL: `stream`
     * is that of the list. */
    struct vp_cuda_wgrad_stream *wgrad;
    void *staging; /* as in struct vp_launch */
    size_t n_staging;
};

/* Makes the stream of a W wait for all calls that its list has launched so far.
 * Does nothing for calls in the stream of the list. */
void vp_cuda_wgrad_stream_fork(const struct vp_cuda_call *call);

/* Runs one phase of an operator. Errors of the launch itself are found by the
 * caller, with cudaPeekAtLastError(). */
typedef enum vp_status (*vp_cuda_fn)(const struct vp_cuda_call *call);

/* Functions by phase; NULL: there is no kernel. */
struct vp_cuda_op {
    vp_cuda_fn fn[VP_PHASE_COUNT];
};

extern const struct vp_cuda_op vp_cuda_ops[VP_OP_KIND_COUNT];

/* Compute capability of the calling thread's GPU, 90 for 9.0; 0 if there is no
 * GPU. */
int vp_cuda_capability(void);

/* Writes the scalars of a minibatch to device memory, in stream order. */
void vp_cuda_set_mb(struct vp_cuda_mb *dst, struct vp_cuda_mb value,
                    cudaStream_t stream);

/* Copies a few bytes between the device and pinned memory of the host, by a
 * kernel. */
void vp_cuda_carry(void *dst, const void *src, size_t n_bytes,
                   cudaStream_t stream);

/* Writes n random numbers in -1 .. 1, for measurements. */
void vp_cuda_fill_noise(void *dst, int64_t n, enum vp_dtype dtype,
                        cudaStream_t stream);
/* Compares n pairs of two-byte words. Sets *flag_out, in device memory, to 1 if
 * any pair differs; else does not write it. */
void vp_cuda_find_difference(const void *a, const void *b, int64_t n,
                             int *flag_out, cudaStream_t stream);

/* Kernels of operators, by phase. */
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

/* Runs B of attention, which must be the first of the calls, and writes the
 * bias gradient of the linear that makes its input. Returns 1, or 0 if that is
 * not possible. */
int vp_cuda_run_attention(struct vp_cuda_call *calls, int n_calls);

/* vpipe's own kernels, where cuDNN is not used. `sums`: also the partial sums
 * for the bias gradient, as in vp_cuda_run_attention(). */
void vp_cuda_own_attention_f(const struct vp_cuda_call *call);
void vp_cuda_own_attention_b(const struct vp_cuda_call *call, bool sums);
/* dst (+)= the sums over the rows of x, first over parts of VP_CUDA_TILE_ROWS
 * rows. */
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

/* For a rank that has all columns of the logits; else see group/meeting.h. */
enum vp_status vp_cuda_cross_entropy_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_cross_entropy_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_argmax_f(const struct vp_cuda_call *call);

/* Runs the first of `calls`, which follow each other in a list, as one launch
 * with the same bits. Returns the number of calls done, 0 if there is no such
 * kernel. If the launch also writes the bias gradient of a linear, the W of
 * that linear among the calls is changed not to compute it again. */
int vp_cuda_run_fused(struct vp_cuda_call *calls, int n_calls);
/* Likewise runs B of a linear with an activation, if its W is among the calls:
 * the bias gradient is computed together with dz. With GELU, the kernel also
 * does the product of B of the linear after it, which must be the first call.
 * Sets *st_out if it returns more than 0. */
int vp_cuda_run_linear(struct vp_cuda_call *calls, int n_calls,
                       enum vp_status *st_out);

/* ---- Parts of linear, around the products ------------------------------- */

/* out = act(z) for n elements of `dtype`. */
void vp_cuda_act(void *out, const void *z, enum vp_act act, int64_t n,
                 enum vp_dtype dtype, cudaStream_t stream);
/* dz = dout * act'(z), rounded to dtype; dz may be dout. `recomputed`, if not
 * NULL, receives act(z). `parts`, if not NULL, receives partial column sums of
 * the rounded dz, vp_cuda_column_scratch() bytes, for
 * vp_cuda_column_finish(). */
void vp_cuda_act_grad(void *dz, void *recomputed, const void *dout,
                      const void *z, enum vp_act act, int64_t rows,
                      int64_t cols, enum vp_dtype dtype, void *parts,
                      cudaStream_t stream);
/* dst (+)= the sum of `n_parts` partial sums of `cols` columns each. */
void vp_cuda_parts_finish(float *dst, const void *parts, int64_t n_parts,
                          int64_t cols, bool add, cudaStream_t stream);
/* dst (+)= the sum of the partial sums of a matrix [rows, cols]. Their number
 * depends on the activation of the layer whose gradients are summed. */
void vp_cuda_column_finish(float *dst, const void *parts, int64_t rows,
                           int64_t cols, enum vp_act act, bool add,
                           cudaStream_t stream);
/* dst (+)= column sums of x [rows, cols], with the same order of sums. */
void vp_cuda_column_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                         enum vp_act act, enum vp_dtype dtype, bool add,
                         void *scratch, cudaStream_t stream);

/* ---- Optimizer ---------------------------------------------------------- */

/* The tensors of a stage, and how they are cut into chunks for blocks of
 * threads. Made once per list of tensors; free it with
 * vp_cuda_tensors_free(). */
struct vp_cuda_tensors;
enum vp_status vp_cuda_tensors_create(const struct vp_optim_tensor *tensors,
                                      int n_tensors,
                                      struct vp_cuda_tensors **out);
void vp_cuda_tensors_free(struct vp_cuda_tensors *tensors);
/* Writes the sum of squares of each gradient to `sums_out`, pinned memory of
 * the host. */
void vp_cuda_sum_squares(struct vp_cuda_tensors *tensors, const float *grad,
                         double *sums_out, cudaStream_t stream);
/* One step of the optimizer. The arrays of `step` are in device memory; its
 * tensors are those that `tensors` was made from. */
void vp_cuda_update(struct vp_cuda_tensors *tensors,
                    const struct vp_optim_step *step, cudaStream_t stream);
/* The same step in parts that can be captured. vp_cuda_set_step() sets the
 * scalars; each vp_cuda_update_ranges() updates some tensors in one launch;
 * when all are done, vp_cuda_add_squares() writes the sums of squares of their
 * gradients to `sums_out`. Elements whose gradient is not finite are not
 * changed. Not for LAMB. */
void vp_cuda_set_step(struct vp_cuda_tensors *tensors,
                      const struct vp_optim_step *step, cudaStream_t stream);
void vp_cuda_update_ranges(struct vp_cuda_tensors *tensors,
                           const struct vp_cuda_ranges *which,
                           const struct vp_optim_step *step,
                           cudaStream_t stream);
void vp_cuda_add_squares(struct vp_cuda_tensors *tensors, double *sums_out,
                         cudaStream_t stream);
/* dst += src, n elements. */
void vp_cuda_add_floats(float *dst, const float *src, int64_t n,
                        cudaStream_t stream);
/* Rounds to the nearest BF16, with the bits of vp_dtype_round(), NaN
 * included. */
void vp_cuda_shorten_floats(float *data, int64_t n, cudaStream_t stream);

/* Sets *flag_out, in device memory, to 1 if any of the n elements is NaN or
 * infinite; else does not write it. */
void vp_cuda_find_nonfinite(const void *data, int64_t n, enum vp_dtype dtype,
                            int *flag_out, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
