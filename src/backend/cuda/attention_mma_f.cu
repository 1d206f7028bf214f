/* Attention on tensor cores, forward: one pass over the keys, with the
 * softmax rescaled as larger scores come (Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023). */
#include "backend/cuda/attention_mma.cuh"

/* Rows g and g + 8 of a fragment, as far as they have been seen. */
struct softmax {
    float most[2]; /* the largest product q . k */
    float sum[2];  /* this lane's part of the sum of exp(score - largest) */
};

/* What has been added up fades to the new largest. Seldom needed after the
 * first tiles. */
template <int D8>
static __device__ void fade_out(float (&out)[D8][4], const float (&fade)[2])
{
    if (!__any_sync(0xFFFFFFFFu, fade[0] != 1.0f || fade[1] != 1.0f))
        return;
#pragma unroll
    for (int n = 0; n < D8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[n][i] *= fade[i / 2];
}

/* One more tile of keys: products q . k become exp(score - largest). `scale`
 * is that of scores, times log2(e). */
template <int D8>
static __device__ void softmax_tile(struct softmax &z,
                                    float (&scores)[TILE / 8][4],
                                    float (&out)[D8][4], float scale)
{
    float fade[2];

#pragma unroll
    for (int a = 0; a < 2; a++) {
        float most = z.most[a], sum = 0.0f, base;

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            most = fmaxf(most, fmaxf(scores[n][2 * a], scores[n][2 * a + 1]));
        most = quad_max(most);
        base = most == -INFINITY ? 0.0f : scale * most;
        fade[a] = vp_exp2(fmaf(scale, z.most[a], -base));
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int i = 2 * a; i < 2 * a + 2; i++) {
                scores[n][i] = vp_exp2(fmaf(scale, scores[n][i], -base));
                sum += scores[n][i];
            }
        }
        z.sum[a] = fmaf(z.sum[a], fade[a], sum);
        z.most[a] = most;
    }
    fade_out(out, fade);
}

/* Finds which of four bytes reach the threshold at once. Seven bits of each,
 * plus `add`, carry into the eighth if they do, or if they do as far as they
 * can tell; the byte's own eighth bit then suffices, or is needed as well. */
struct sieve {
    uint32_t add, suffices;
};

static __device__ struct sieve sieve_of(uint32_t threshold)
{
    bool low = threshold <= 128;

    return { ((low ? 128 : 256) - threshold) * 0x01010101u, low ? ~0u : 0u };
}

/* In bit 7 of each byte. */
static __device__ uint32_t kept_bytes(uint32_t x, const struct sieve &sieve)
{
    uint32_t carry = (x & 0x7F7F7F7Fu) + sieve.add;

    return (x & carry) | (sieve.suffices & (x | carry));
}

/* For 16 queries by 32 keys: bit 7 of byte i % 4 of word i / 4 says that number
 * i of the lane's group (note [dropout]) is kept. */
static __device__ void roll_kept(uint32_t (&kept)[4], const struct dice &dice,
                                 int q0, int k0)
{
    struct vp_rng4 bits = roll(dice, q0, k0, lane_g(), lane_c());
    struct sieve sieve = sieve_of(dice.threshold);

#pragma unroll
    for (int i = 0; i < 4; i++)
        kept[i] = kept_bytes(bits.v[i], sieve);
}

/* Rounded probabilities: 0 where dropped. Register i of fragment k has numbers
 * 8 (i % 2) + 4k + 2 (i / 2) and the next of the group. */
static __device__ void drop(uint32_t (&p)[2][4], const uint32_t (&kept)[4])
{
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[k][i] &= vp_spread_signs(kept[i % 2 * 2 + k],
                                       i / 2 ? 0x3322u : 0x1100u);
}

/* Many small warps: while some compute the softmax others use the tensor
 * cores. */
enum {
    FORWARD_WARPS = 8,
    FORWARD_THREADS = 32 * FORWARD_WARPS,
    ROWS = 16 * FORWARD_WARPS, /* that a block owns */
};

/* Of a tile; else it is padding. */
static __device__ bool any_allowed(const uint32_t *allowed, int k0)
{
    uint32_t any = 0;

#pragma unroll
    for (int i = 0; i < TILE / 32; i++)
        any |= allowed[k0 / 32 + i];
    return any != 0;
}

/* One tile of keys and values for the warp's queries, from q0 on. */
template <typename T, int D, bool DROPS>
static __device__ void forward_tile(
    struct softmax &z, float (&acc)[1][D / 8][4],
    const uint32_t (&queries)[1][D / 16][4], const T (*keys)[D + PAD],
    const T (*values)[D + PAD], const uint32_t *allowed,
    const struct vp_attention_call &x, const struct dice &dice, int q0, int k0)
{
    float p[1][TILE / 8][4];
    uint32_t kept[TILE / 32][4];

    /* First, as the tensor cores leave time for it. */
#pragma unroll
    for (int i = 0; i < TILE / 32 && DROPS; i++)
        roll_kept(kept[i], dice, q0, k0 + 32 * i);
    dot_rows<T, D, 1, TILE>(p, queries, keys);
#pragma unroll
    for (int i = 0; i < TILE / 32; i++)
        hide(p[0] + 4 * i, allowed[k0 / 32 + i], x.causal, q0, k0 + 32 * i);
    softmax_tile(z, p[0], acc[0], x.scale * LOG2E);
#pragma unroll
    for (int i = 0; i < TILE / 32; i++) {
        uint32_t p16[1][2][4];

        round_rows<T>(p16[0], p[0] + 4 * i);
        if (DROPS)
            drop(p16[0], kept[i]);
        add_rows<T, D, 1, 32>(acc, p16, values + 32 * i);
    }
}

/* Ends the rows of one fragment: out and lse, 0 where no key was seen. */
template <typename T, int D8>
static __device__ void forward_end(const struct vp_attention_call &x,
                                   const struct vp_attention_head &h, int q0,
                                   const struct softmax &z,
                                   const float (&acc)[D8][4])
{
    float factor[2];

#pragma unroll
    for (int a = 0; a < 2; a++) {
        float sum = quad_sum(z.sum[a]);
        int q = q0 + 8 * a + lane_g();

        factor[a] = sum == 0.0f ? 0.0f : x.drop.scale / sum;
        if (q < x.q_len && lane_c() == 0)
            x.lse[(h.q_row + q) * x.heads + h.index] =
                sum == 0.0f ? 0.0f : fmaf(x.scale, z.most[a], logf(sum));
    }
    store_fragments(vp_q_rows<T>(x.out, x.ld_out, x, h), q0, acc, factor,
                    false);
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
    int warp_keys = x.causal ? q0 + 16 : n_keys; /* those it sees */
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct dice dice = dice_of(x, h);
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
                                      allowed, x, dice, q0, k0);
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
