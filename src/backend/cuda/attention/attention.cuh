/* Attention on the GPU: arguments of its kernels, and the sets of kernels,
 * between which attention.cu chooses. */
#ifndef VP_BACKEND_CUDA_ATTENTION_ATTENTION_CUH
#define VP_BACKEND_CUDA_ATTENTION_ATTENTION_CUH

#include "backend/cuda/device.cuh"

/* Arguments of a call. Head h of sample s has `dim` columns from h * dim on, in
 * rows [s * q_len, (s + 1) * q_len) of q, out and their gradients, and in rows
 * [s * k_len, (s + 1) * k_len) of k, v and their gradients. */
struct vp_attention_call {
    enum vp_dtype dtype; /* all tensors but mask, lse, delta, parts and sums */
    int64_t batch;
    int heads, dim;
    int q_len, k_len;
    int64_t ld_q, ld_kv, ld_out; /* elements between rows */
    float scale;
    bool causal;
    struct vp_drop drop;
    int first_head; /* number of head 0 among all members' heads, for dropout */

    const void *q, *k, *v;
    const int32_t *mask; /* [B*Sk], 1: the key may be seen; NULL: all */
    void *out;           /* read only in backward */
    float *lse;          /* [B*Sq, heads], read only in backward */

    /* Backward only. */
    const void *dout;
    void *dq, *dk, *dv; /* laid out like q, k, v; NULL: not computed */
    bool add_q, add_kv;
    float *delta;  /* scratch, [B*Sq, heads]: dout . out */
    float4 *parts; /* same scratch, for long heads in wgmma_b.cu */
    /* [B*S/64, ld_q]: sums of dq, dk and dv, which are side by side, over 64
     * rows each; NULL: not computed. */
    float *sums;
};

/* ---- For kernels -------------------------------------------------------- */

struct vp_attention_head {
    int64_t sample;
    int index;
    int64_t q_row, k_row; /* the sample's first rows */
};

/* `i`: number of the head in the batch. */
static __device__ inline struct vp_attention_head vp_attention_head_of(
    const struct vp_attention_call &x, unsigned i)
{
    struct vp_attention_head h;

    h.sample = i / (unsigned)x.heads;
    h.index = (int)(i % (unsigned)x.heads);
    h.q_row = h.sample * x.q_len;
    h.k_row = h.sample * x.k_len;
    return h;
}

/* Rows of one head in a tensor of T, or of const T. */
template <typename T> struct vp_rows {
    T *data;
    int64_t ld;
    int n, dim;
};

/* The head's rows in a tensor laid out like q or out, and in one laid out like
 * k or v. */
template <typename T, typename P>
static __device__ inline vp_rows<T> vp_q_rows(P *base, int64_t ld,
                                              const struct vp_attention_call &x,
                                              const struct vp_attention_head &h)
{
    return { (T *)base + h.q_row * ld + h.index * x.dim, ld, x.q_len, x.dim };
}

template <typename T, typename P>
static __device__ inline vp_rows<T> vp_k_rows(P *base, int64_t ld,
                                              const struct vp_attention_call &x,
                                              const struct vp_attention_head &h)
{
    return { (T *)base + h.k_row * ld + h.index * x.dim, ld, x.k_len, x.dim };
}

/* ---- Launches ----------------------------------------------------------- */

/* For every type, head size and length; products in float. */
void vp_attention_plain_f(const struct vp_attention_call *x,
                          cudaStream_t stream);
void vp_attention_plain_b(const struct vp_attention_call *x,
                          cudaStream_t stream);

/* Tensor cores, one warp at a time (mma.sync). _takes() returns true if there
 * are kernels for this type, head size and length. */
bool vp_attention_mma_takes(const struct vp_attention_call *x);
void vp_attention_mma_f(const struct vp_attention_call *x, cudaStream_t stream);
void vp_attention_mma_b(const struct vp_attention_call *x, cudaStream_t stream);

/* Tensor cores, a warpgroup at a time (wgmma), for the shapes that the
 * functions vp_attention_takes_*() of backend/cuda_facts.h accept on this
 * GPU. */
void vp_attention_wgmma_f(const struct vp_attention_call *x,
                          cudaStream_t stream);
void vp_attention_wgmma_b(const struct vp_attention_call *x,
                          cudaStream_t stream);
/* The same for short heads. Backward overwrites gradients: add_q and add_kv
 * must be false. */
void vp_attention_wgmma_short_f(const struct vp_attention_call *x,
                                cudaStream_t stream);
void vp_attention_wgmma_short(const struct vp_attention_call *x,
                              cudaStream_t stream);

#endif
