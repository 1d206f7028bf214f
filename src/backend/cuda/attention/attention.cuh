/* Attention on the GPU: one call as its kernels take it, and the sets of
 * kernels. attention.cu chooses between them. */
#ifndef VP_BACKEND_CUDA_ATTENTION_ATTENTION_CUH
#define VP_BACKEND_CUDA_ATTENTION_ATTENTION_CUH

#include "backend/cuda/device.cuh"

/* Head h of sample s owns `dim` columns from h * dim on, in rows
 * [s * q_len, (s + 1) * q_len) of q, out and their gradients, and in rows
 * [s * k_len, (s + 1) * k_len) of k, v and theirs. */
struct vp_attention_call {
    enum vp_dtype dtype; /* of everything but mask, lse and delta */
    int64_t batch;
    int heads, dim;
    int q_len, k_len;
    int64_t ld_q, ld_kv, ld_out; /* elements from row to row */
    float scale;
    bool causal;
    struct vp_drop drop;
    int first_head; /* number of head 0 here, in the whole: for dropout */

    const void *q, *k, *v;
    const int32_t *mask; /* [B*Sk], 1 = a real key; or NULL */
    void *out;           /* const in backward */
    float *lse;          /* [B*Sq, heads], const in backward */

    /* Backward only. */
    const void *dout;
    void *dq, *dk, *dv; /* laid out as q, k, v; NULL if not wanted */
    bool add_q, add_kv;
    float *delta;  /* [B*Sq, heads], scratch: dout . out */
    float4 *parts; /* the same scratch, for long heads on warpgroups */
    /* [B*S/64, ld_q]: sums over 64 rows each of dq, dk and dv, which are side by
     * side; NULL if not wanted. */
    float *sums;
};

/* ---- For kernels -------------------------------------------------------- */

struct vp_attention_head {
    int64_t sample;
    int index;
    int64_t q_row, k_row; /* the sample's first rows */
};

/* `i` counts the heads of the batch. */
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

/* In a tensor laid out as q or out; as k or v. */
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

/* Every type, head size and length; products in float. */
void vp_attention_plain_f(const struct vp_attention_call *x,
                          cudaStream_t stream);
void vp_attention_plain_b(const struct vp_attention_call *x,
                          cudaStream_t stream);

/* Tensor cores: whether there are kernels for this type, size and length. */
bool vp_attention_mma_takes(const struct vp_attention_call *x);
void vp_attention_mma_f(const struct vp_attention_call *x, cudaStream_t stream);
void vp_attention_mma_b(const struct vp_attention_call *x, cudaStream_t stream);

/* Tensor cores of warpgroups, for shapes that the functions
 * vp_attention_takes_*() of backend/cuda_facts.h accept on this GPU. */
void vp_attention_wgmma_f(const struct vp_attention_call *x,
                          cudaStream_t stream);
void vp_attention_wgmma_b(const struct vp_attention_call *x,
                          cudaStream_t stream);
/* Short heads. Backward does not add to gradients that are there. */
void vp_attention_wgmma_short_f(const struct vp_attention_call *x,
                                cudaStream_t stream);
void vp_attention_wgmma_short(const struct vp_attention_call *x,
                              cudaStream_t stream);

#endif
