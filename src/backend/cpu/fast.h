/* The fast CPU kernels: one file per operator. See kernel.h for what a kernel
 * is given; vp_cpu_fast is the table. Those with `begin` and `end` do rows. */
#ifndef VP_BACKEND_CPU_FAST_H
#define VP_BACKEND_CPU_FAST_H

#include "backend/cpu/kernel.h"

/* Every compute thread calls it once: one OpenMP thread per oneDNN call, and
 * denormals count as zero. */
void vp_cpu_thread_setup(int thread);

/* What a compute thread is at, for profiles; see vp_pool_note(). Bias and
 * activation of a linear layer count as elementwise. */
enum vp_cpu_part {
    VP_CPU_IDLE = VP_POOL_IDLE,
    VP_CPU_PRODUCTS,
    VP_CPU_ATTENTION,
    VP_CPU_ELEMENTWISE, /* and rows: layer norm, embeddings, loss */
    VP_CPU_OPTIMIZER,   /* and the gradient norm */
    VP_CPU_PART_COUNT
};
struct vp_pool *vp_cpu_pool(const struct vp_backend *backend);

void vp_cpu_embed_f(const struct vp_kargs *args);
void vp_cpu_embed_w(const struct vp_kargs *args);
size_t vp_cpu_embed_scratch(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase);

void vp_cpu_linear_f(const struct vp_kargs *args);
void vp_cpu_linear_b(const struct vp_kargs *args);
void vp_cpu_linear_w(const struct vp_kargs *args);
size_t vp_cpu_linear_scratch(const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase,
                             int n_threads);

void vp_cpu_layernorm_f(const struct vp_kargs *args, int64_t begin,
                        int64_t end);
void vp_cpu_layernorm_b(const struct vp_kargs *args, int64_t begin,
                        int64_t end);
void vp_cpu_layernorm_w(const struct vp_kargs *args, int64_t begin,
                        int64_t end);
void vp_cpu_layernorm_w_end(const struct vp_kargs *args);
size_t vp_cpu_layernorm_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase);

void vp_cpu_attention_f(const struct vp_kargs *args);
void vp_cpu_attention_b(const struct vp_kargs *args);
/* Per thread; other operators' scratch is shared by all threads. */
size_t vp_cpu_attention_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase);

void vp_cpu_cached_attention_f(const struct vp_kargs *args);
/* Per thread. */
size_t vp_cpu_cached_attention_scratch(const struct vp_graph *graph,
                                       const struct vp_op *op);

void vp_cpu_dropout_f(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_dropout_b(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_add_f(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_scale_f(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_scale_b(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_copy_f(const struct vp_kargs *args, int64_t begin, int64_t end);
void vp_cpu_copy_b(const struct vp_kargs *args, int64_t begin, int64_t end);

void vp_cpu_gather_f(const struct vp_kargs *args);
void vp_cpu_gather_b(const struct vp_kargs *args);
size_t vp_cpu_gather_scratch(const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase);

void vp_cpu_argmax_f(const struct vp_kargs *args);

#endif
