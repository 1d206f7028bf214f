/* Attention by cuDNN: bf16 and fp16 without dropout and key mask, causal or
 * not, heads of a multiple of 8 columns up to 128, lengths of a multiple of
 * 128. Forward stores no matrix of scores. Backward has one in its workspace,
 * because dq is summed in a fixed order. */
#ifndef VP_BACKEND_CUDA_ATTENTION_CUDNN_H
#define VP_BACKEND_CUDA_ATTENTION_CUDNN_H

#include "backend/args.h"

#include <cudnn.h>

/* Plan for phase F or B of operators of one shape. Keeps no pointer to the
 * graph. */
struct vp_cudnn_attention;

/* Compiles a plan for the handle's device, which takes about half a second.
 * Uses the first engine of cuDNN's ranking that gives the same bits in every
 * run and can be captured into a CUDA graph; VP_ERR_UNSUPPORTED if there is
 * none. */
enum vp_status vp_cudnn_attention_create(
    cudnnHandle_t handle, const struct vp_graph *graph, const struct vp_op *op,
    enum vp_phase phase, struct vp_cudnn_attention **out, struct vp_err *err);
/* `plan` may be NULL. */
void vp_cudnn_attention_free(struct vp_cudnn_attention *plan);

/* Bytes of device memory that a run needs, aligned like a tensor. */
size_t vp_cudnn_attention_workspace(const struct vp_cudnn_attention *plan);

/* Enqueues the plan on `stream`, which becomes the handle's stream. Gradients
 * of all inputs are overwritten. Returns VP_ERR_UNSUPPORTED, and does nothing,
 * if one of them would have to be added to or left out (din, din_add). */
enum vp_status vp_cudnn_attention_run(struct vp_cudnn_attention *plan,
                                      cudnnHandle_t handle,
                                      const struct vp_kargs *args,
                                      void *workspace, cudaStream_t stream);

#endif
