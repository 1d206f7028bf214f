/* Attention by cuDNN: bf16 and fp16 without dropout or key mask, causal or not,
 * heads of a multiple of 8 elements up to 128, lengths of a multiple of 128.
 * Forward keeps no matrix of scores; backward has one in its workspace, the
 * price of a dq that is summed in a fixed order. */
#ifndef VP_BACKEND_CUDA_ATTENTION_CUDNN_H
#define VP_BACKEND_CUDA_ATTENTION_CUDNN_H

#include "backend/args.h"

#include <cudnn.h>

/* Phase F or B of the operators of one shape; of the graph nothing is kept. */
struct vp_cudnn_attention;

/* Compiles for the handle's device, for about half a second. The engine is the
 * first of cuDNN's own ranking that gives the same bits in every run and can be
 * captured into a CUDA graph; VP_ERR_UNSUPPORTED if there is none. */
enum vp_status vp_cudnn_attention_create(
    cudnnHandle_t handle, const struct vp_graph *graph, const struct vp_op *op,
    enum vp_phase phase, struct vp_cudnn_attention **out, struct vp_err *err);
/* `plan` may be NULL. */
void vp_cudnn_attention_free(struct vp_cudnn_attention *plan);

/* Bytes of device memory, aligned as a tensor, that a run wants. */
size_t vp_cudnn_attention_workspace(const struct vp_cudnn_attention *plan);

/* Enqueues on `stream`, which becomes the handle's. Gradients of all inputs are
 * written: VP_ERR_UNSUPPORTED, with nothing done, where `args` wants to add to
 * one or to leave one out. */
enum vp_status vp_cudnn_attention_run(struct vp_cudnn_attention *plan,
                                      cudnnHandle_t handle,
                                      const struct vp_kargs *args,
                                      void *workspace, cudaStream_t stream);

#endif
