/* Forward of attention on the tensor cores of warpgroups, for heads of 64
 * columns. A warpgroup owns 64 queries and loops over the keys. It generates
 * the dropout mask while its products run. */
#include "backend/cuda/attention/forward.cuh"
#include "backend/cuda/attention/wgmma.cuh"

enum {
    GROUPS = 2, /* warpgroups of a block */
    GROUP_ROWS = 64,
    FORWARD_THREADS = GROUPS * VP_WG_THREADS,
    ROWS = GROUPS * GROUP_ROWS, /* rows that a block owns */
    /* Stages of keys and values: one is in use, one is still read by products
     * of the step before, two are being loaded. */
    FORWARD_STAGES = 4,
};

template <typename T> struct shared_memory {
    vp_wg_tile<T> keys[FORWARD_STAGES], values[FORWARD_STAGES];
    uint32_t allowed[MAX_KEYS / 32];
};

template <typename T>
static __device__ void load_keys(shared_memory<T> &shared,
                                 const vp_rows<const T> &keys,
                                 const vp_rows<const T> &values, int k0,
                                 int n_keys)
{
    int stage = k0 / TILE % FORWARD_STAGES;

    if (k0 < n_keys) {
        copy_tile<FORWARD_THREADS>(shared.keys[stage], keys, k0,
                                   (int)threadIdx.x);
        copy_tile<FORWARD_THREADS>(shared.values[stage], values, k0,
                                   (int)threadIdx.x);
    }
    vp_copy_commit();
}

/* Turns the scores of a tile into probabilities before normalisation; rounded,
 * and 0 where dropped. Waits for the products with the values of the tile
 * before, and rescales their sum. */
template <typename T, bool DROPS>
static __device__ void weigh(struct softmax &z, float (&acc)[8][4],
                             float (&p)[8][4], uint32_t (&p16)[4][4],
                             const uint32_t (&kept)[TILE / 32][4], float scale)
{
    float fade[2];

    softmax_scores(z, p, fade, scale);
    vp_wg_wait<0>(acc);
    fade_out(acc, fade);
    round_rows<T>(p16, p);
#pragma unroll
    for (int i = 0; i < TILE / 32 && DROPS; i++)
        drop(p16 + 2 * i, kept[i]);
}

template <bool DROPS>
static __device__ void draw_tile(uint32_t (&kept)[TILE / 32][4],
                                 const struct mask_key &key, int q0, int k0)
{
#pragma unroll
    for (int i = 0; i < TILE / 32 && DROPS; i++)
        draw_kept(kept[i], key, q0, k0 + 32 * i);
}

/* Waits for the tile at k0, and starts to load the second tile after it. */
template <typename T>
static __device__ void next_tile(shared_memory<T> &shared,
                                 const vp_rows<const T> &keys,
                                 const vp_rows<const T> &values, int k0,
                                 int n_keys)
{
    vp_copy_wait<1>();
    vp_wg_publish();
    __syncthreads();
    load_keys(shared, keys, values, k0 + 2 * TILE, n_keys);
}

/* Returns the end of the last tile with a key that may be seen; at least the
 * end of the first tile. */
static __device__ int seen_end(const uint32_t *allowed, int n_keys)
{
    int k0 = (n_keys - 1) / TILE * TILE;

    while (k0 > 0 && !any_allowed(allowed, k0))
        k0 -= TILE;
    return min(k0 + TILE, n_keys);
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(FORWARD_THREADS, 2)
    forward(const struct vp_attention_call x, int n_blocks)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_q = block_of(n_blocks, true) * ROWS;
    int q0 = block_q + (int)threadIdx.x / 32 * 16;
    int n_keys = x.causal ? min(block_q + ROWS, x.k_len) : x.k_len;
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct mask_key key = mask_key_of(x, h);
    struct softmax z = { { -INFINITY, -INFINITY }, { 0.0f, 0.0f } };
    uint32_t queries[4][4], p16[4][4], kept[TILE / 32][4];
    float acc[8][4] = {}, p[8][4];

    load_keys(shared, keys, values, 0, n_keys);
    load_keys(shared, keys, values, TILE, n_keys);
    set_allowed(shared.allowed, x, h, n_keys);
    load_fragments(queries, vp_q_rows<const T>(x.q, x.ld_q, x, h), q0);
    next_tile(shared, keys, values, 0, n_keys);
    n_keys = seen_end(shared.allowed, n_keys);
    vp_wg_fence();
    vp_wg_product<T, false, false>(p, queries, vp_wg_tile_of(shared.keys[0]));
    vp_wg_commit();
    draw_tile<DROPS>(kept, key, q0, 0);
    vp_wg_wait<0>(p);
    hide_tile(p, shared.allowed, x.causal, q0, 0);
    weigh<T, DROPS>(z, acc, p, p16, kept, x.scale * LOG2E);
    for (int k0 = TILE; k0 < n_keys; k0 += TILE) {
        int stage = k0 / TILE % FORWARD_STAGES;
        int last = (k0 / TILE - 1) % FORWARD_STAGES;

        next_tile(shared, keys, values, k0, n_keys);
        vp_wg_fence();
        vp_wg_product<T, false, false>(p, queries,
                                       vp_wg_tile_of(shared.keys[stage]));
        vp_wg_commit();
        vp_wg_product<T, true, true>(acc, p16,
                                     vp_wg_tile_of(shared.values[last]));
        vp_wg_commit();
        draw_tile<DROPS>(kept, key, q0, k0);
        vp_wg_wait<1>(p);
        hide_tile(p, shared.allowed, x.causal, q0, k0);
        weigh<T, DROPS>(z, acc, p, p16, kept, x.scale * LOG2E);
    }
    vp_wg_fence();
    vp_wg_product<T, true, true>(
        acc, p16,
        vp_wg_tile_of(shared.values[(n_keys - 1) / TILE % FORWARD_STAGES]));
    vp_wg_commit();
    vp_copy_wait<0>(); /* copies of keys that no query sees */
    vp_wg_wait<0>(acc);
    forward_end<T>(x, h, q0, z, acc);
}

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n = blocks_of(x->q_len, ROWS);
    unsigned grid = (unsigned)(x->batch * x->heads * n);
    int bytes = (int)sizeof(shared_memory<T>);

    cudaFuncSetAttribute(forward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    forward<T, DROPS><<<grid, FORWARD_THREADS, bytes, stream>>>(*x, n);
}

void vp_attention_wgmma_f(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    static const launch_fn table[2][2] = WG_LAUNCHES(launch);

    wg_launch_of(table, x)(x, stream);
}
