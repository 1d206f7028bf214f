/* Forward of attention on tensor cores. */
#include "backend/cuda/attention/forward.cuh"

/* Many warps with few rows each: some use the tensor cores while others compute
 * the softmax. */
enum {
    FORWARD_WARPS = 8,
    FORWARD_THREADS = 32 * FORWARD_WARPS,
    ROWS = 16 * FORWARD_WARPS, /* rows that a block owns */
};

/* Adds one tile of keys and values to the warp's queries, which begin at q0. */
template <typename T, int D, bool DROPS>
static __device__ void forward_tile(struct softmax &z,
                                    float (&acc)[1][D / 8][4],
                                    const uint32_t (&queries)[1][D / 16][4],
                                    const T (*keys)[D + PAD],
                                    const T (*values)[D + PAD],
                                    const uint32_t *allowed,
                                    const struct vp_attention_call &x,
                                    const struct mask_key &key, int q0, int k0)
{
    float p[1][TILE / 8][4], fade[2];
    uint32_t kept[TILE / 32][4];

    /* Done first, to run beside the products on the tensor cores. */
#pragma unroll
    for (int i = 0; i < TILE / 32 && DROPS; i++)
        draw_kept(kept[i], key, q0, k0 + 32 * i);
    dot_rows<T, D, 1, TILE>(p, queries, keys);
#pragma unroll
    for (int i = 0; i < TILE / 32; i++)
        hide(p[0] + 4 * i, allowed[k0 / 32 + i], x.causal, q0, k0 + 32 * i);
    softmax_scores(z, p[0], fade, x.scale * LOG2E);
    fade_out(acc[0], fade);
#pragma unroll
    for (int i = 0; i < TILE / 32; i++) {
        uint32_t p16[1][2][4];

        round_rows<T>(p16[0], p[0] + 4 * i);
        if (DROPS)
            drop(p16[0], kept[i]);
        add_rows<T, D, 1, 32>(acc, p16, values + 32 * i);
    }
}

template <typename T, int D, bool DROPS>
static __global__ void __launch_bounds__(FORWARD_THREADS, D <= 64 ? 2 : 1)
    forward(const struct vp_attention_call x, int n_blocks)
{
    __shared__ alignas(16) T k_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T v_tile[STAGES][TILE][D + PAD];
    __shared__ uint32_t allowed[MAX_KEYS / 32];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_q = block_of(n_blocks, true) * ROWS;
    int q0 = block_q + (int)threadIdx.x / 32 * 16;
    int n_keys = x.causal ? min(block_q + ROWS, x.k_len) : x.k_len;
    int warp_keys = x.causal ? q0 + 16 : n_keys; /* keys that this warp sees */
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct mask_key key = mask_key_of(x, h);
    struct softmax z = { { -INFINITY, -INFINITY }, { 0.0f, 0.0f } };
    uint32_t queries[1][D / 16][4];
    float acc[1][D / 8][4] = {};

    load_tile<T, D>(k_tile[0], keys, 0);
    load_tile<T, D>(v_tile[0], values, 0);
    vp_copy_commit();
    set_allowed(allowed, x, h, n_keys);
    load_fragments(queries[0], vp_q_rows<const T>(x.q, x.ld_q, x, h), q0);
    if (q0 >= x.q_len)
        warp_keys = 0;
    for (int k0 = 0; k0 < n_keys; k0 += TILE) {
        int now = k0 / TILE % STAGES, next = (now + 1) % STAGES;

        if (k0 + TILE < n_keys) {
            load_tile<T, D>(k_tile[next], keys, k0 + TILE);
            load_tile<T, D>(v_tile[next], values, k0 + TILE);
        }
        finish_tile();
        if (k0 < warp_keys && any_allowed(allowed, k0))
            forward_tile<T, D, DROPS>(z, acc, queries, k_tile[now], v_tile[now],
                                      allowed, x, key, q0, k0);
        __syncthreads(); /* the tile is overwritten next */
    }
    forward_end<T>(x, h, q0, z, acc[0]);
}

template <typename T, int D, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n = blocks_of(x->q_len, ROWS);
    unsigned grid = (unsigned)(x->batch * x->heads * n);

    forward<T, D, DROPS><<<grid, FORWARD_THREADS, 0, stream>>>(*x, n);
}

bool vp_attention_mma_takes(const struct vp_attention_call *x)
{
    return x->dtype != VP_DTYPE_F32 && (x->dim == 64 || x->dim == 80) &&
           x->k_len <= MAX_KEYS;
}

void vp_attention_mma_f(const struct vp_attention_call *x, cudaStream_t stream)
{
    static const launch_fn table[2][2][2] = { LAUNCHES(launch, __nv_bfloat16),
                                              LAUNCHES(launch, __half) };

    launch_of(table, x)(x, stream);
}
