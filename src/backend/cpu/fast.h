/* The fast CPU kernels, collected in the table vp_cpu_fast: usually one file
 * per operator. kernel.h describes their arguments; those with `begin` and
 * `end` are row-wise. The *_scratch() functions return bytes of scratch for one
 * call. */
#ifndef VP_BACKEND_CPU_FAST_H
#define VP_BACKEND_CPU_FAST_H

#include "backend/cpu/kernel.h"

/* Called once by every compute thread: makes oneDNN calls use a single OpenMP
 * thread and treats denormals as zero. */
void vp_cpu_thread_setup(int thread);

/* Kinds of work of a compute thread, for profiles; see vp_pool_note(). Bias and
 * activation of a linear layer count as elementwise. */
enum vp_cpu_part {
    VP_CPU_IDLE = VP_POOL_IDLE,
    VP_CPU_PRODUCTS,
    VP_CPU_ATTENTION,
    VP_CPU_ELEMENTWISE, /* also row-wise work: layer norm, embeddings, loss */
    VP_CPU_OPTIMIZER,   /* also the gradient norm */
    VP_CPU_PART_COUNT
};
/* Returns the thread pool of an open CPU backend; borrowed. */
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
/* Bytes for one thread; scratch of other operators is shared by all threads. */
size_t vp_cpu_attention_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase);

void vp_cpu_cached_attention_f(const struct vp_kargs *args);
/* Bytes for one thread. */
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
