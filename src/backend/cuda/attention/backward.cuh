/* Shared by the backward kernels of attention for warpgroups. A warpgroup owns
 * 64 keys and works on a tile of 64 queries at a time. Rows of scores are keys
 * here, so that the accumulators of p and ds already have the layout of the
 * first factor of dv = p^T dout and dk = ds^T q. */
#ifndef VP_BACKEND_CUDA_ATTENTION_BACKWARD_CUH
#define VP_BACKEND_CUDA_ATTENTION_BACKWARD_CUH

#include "backend/cuda/attention/wgmma.cuh"

enum {
    GROUP_KEYS = 64,
    QUERIES = 64,                        /* queries per tile */
    CHUNKS = VP_WG_DIM / 8,              /* chunks of 16 bytes per row */
    CHUNK_ROWS = VP_WG_THREADS / CHUNKS, /* rows that a group reads at once */
    N_READS = QUERIES / CHUNK_ROWS,
};

static __device__ inline int group_thread(void)
{
    return (int)threadIdx.x % VP_WG_THREADS;
}

static __device__ inline int group_warp(void)
{
    return group_thread() / 32;
}

static __device__ inline int chunk_of_thread(void)
{
    return group_thread() % CHUNKS;
}

static __device__ inline int row_of_thread(void)
{
    return group_thread() / CHUNKS;
}

/* ---- lse and delta ------------------------------------------------------ */

/* Chunks of 16 bytes of `out`: those that this thread copies of dout, in every
 * CHUNK_ROWS-th row; and lse of row number `chunk` of these rows. */
struct outs {
    uint4 row[N_READS];
    float lse;
};

/* lse of the query of a tile that this thread reads; 0 beyond the last
 * query. */
static __device__ float read_lse(const struct vp_attention_call &x,
                                 const struct vp_attention_head &h, int tile)
{
    int q = tile * QUERIES + row_of_thread() + chunk_of_thread() * CHUNK_ROWS;

    return chunk_of_thread() < N_READS && q < x.q_len
               ? x.lse[(h.q_row + q) * x.heads + h.index]
               : 0.0f;
}

template <typename T>
static __device__ void read_outs(struct outs &outs,
                                 const struct vp_attention_call &x,
                                 const struct vp_attention_head &h, int tile)
{
    vp_rows<const T> rows = vp_q_rows<const T>(x.out, x.ld_out, x, h);
    int q = tile * QUERIES + row_of_thread();

#pragma unroll
    for (int i = 0; i < N_READS; i++, q += CHUNK_ROWS)
        outs.row[i] = q < rows.n ? *(const uint4 *)(rows.data + q * rows.ld +
                                                    8 * chunk_of_thread())
                                 : make_uint4(0, 0, 0, 0);
    outs.lse = read_lse(x, h, tile);
}

template <typename T>
static __device__ inline float dot8(const uint4 &a, const uint4 &b)
{
    const uint32_t x[4] = { a.x, a.y, a.z, a.w };
    const uint32_t y[4] = { b.x, b.y, b.z, b.w };
    float sum = 0.0f;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 u = vp_unpack<T>(x[i]), v = vp_unpack<T>(y[i]);

        sum = fmaf(u.y, v.y, fmaf(u.x, v.x, sum));
    }
    return sum;
}

/* Sets lse, times log2(e), and delta, divided by dropout's scale, of a tile of
 * queries; 0 beyond the last query. Uses the chunks of dout that this thread
 * has copied, and those of `out` that it has read. */
template <typename T>
static __device__ void set_stats(float *lse, float *delta, vp_wg_tile<T> &douts,
                                 const struct outs &outs, float unscale)
{
#pragma unroll
    for (int i = 0; i < N_READS; i++) {
        int row = row_of_thread() + i * CHUNK_ROWS;
        const T *dout = vp_wg_at(douts, row, chunk_of_thread());
        float sum = dot8<T>(*(const uint4 *)dout, outs.row[i]) * unscale;

#pragma unroll
        for (int lane = 1; lane < CHUNKS; lane *= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lane);
        if (chunk_of_thread() == i) {
            lse[row] = LOG2E * outs.lse;
            delta[row] = sum;
        }
    }
}

/* ---- Dropout ------------------------------------------------------------ */

/* Note [kept]. Layout of the dropout mask of a tile. Lane (g, c) of a warp
 * needs 32 elements: keys g and g + 8 of its warp's 16, and queries 8n + 2c +
 * i. A warpgroup generates the masks of two groups of 64 keys at once. Its
 * thread with the same c, and c' = g / 2, generates elements of 32 keys, those
 * of two warps, and 32 queries: whole groups of note [dropout], which hold the
 * elements of four lanes. Word [h][warp % 2][..] has n = 4h .. 4h + 3 in bits 2
 * (n % 4) + i of bytes g % 2, for key g, and g % 2 + 2, for key g + 8. */
typedef uint32_t kept_words[2][2][GROUP_KEYS];

/* Generates the dropout mask of 64 queries from q0 on and 128 keys from k0 on,
 * by a warpgroup. */
static __device__ void draw_tile(kept_words &words, struct mask_key key,
                                 const struct vp_attention_head &h, int q0,
                                 int k0)
{
    int lane = (int)threadIdx.x % 32;
    int c = lane % 4, key_c = lane / 4 % 4, half = lane / 16;
    struct sieve sieve = sieve_of(key.threshold);
    uint32_t kept[2] = { 0, 0 };

    key.sample += (uint64_t)h.sample;
    key.head += (uint32_t)h.index;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        struct vp_rng4 bits = draw_bits(key, q0 + 32 * half + i / 2 * 16,
                                        k0 + 32 * group_warp(), 2 * c + i % 2,
                                        key_c);

#pragma unroll
        for (int a = 0; a < 2; a++)
#pragma unroll
            for (int warp = 0; warp < 2; warp++)
                kept[warp] |= (kept_bytes(bits.v[2 * a + warp], sieve) &
                               0x80808080u) >>
                              (7 - (i / 2 * 4 + a * 2 + i % 2));
    }
#pragma unroll
    for (int warp = 0; warp < 2; warp++)
        words[half][warp][group_warp() * 16 + key_c * 4 + c] = kept[warp];
}

/* ---- Scores ------------------------------------------------------------- */

/* Sets the scores of masked keys to -infinity. `seen`: bit 0 for key g, bit 8
 * for key g + 8; set if the key is not masked. */
static __device__ void hide_rows(float (&s)[8][4], uint32_t seen)
{
    if (__all_sync(0xFFFFFFFFu, (seen & 0x101u) == 0x101u))
        return;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = seen >> (i / 2 * 8) & 1 ? s[n][i] : -INFINITY;
}

/* Sets the scores of keys that come after the query to -infinity. k0: the
 * warp's first key. */
static __device__ void hide_future(float (&s)[8][4], int k0, int q0)
{
    if (q0 >= k0 + 15)
        return;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (k0 + lane_g() + i / 2 * 8 > q0 + 8 * n + 2 * lane_c() + i % 2)
                s[n][i] = -INFINITY;
}

/* Reads this lane's words of note [kept]. `group`: which 64 keys. */
static __device__ void read_kept(uint32_t (&kept)[2], const kept_words &words,
                                 int group)
{
#pragma unroll
    for (int half = 0; half < 2; half++)
        kept[half] =
            words[half][group_warp() % 2][(2 * group + group_warp() / 2) * 16 +
                                          lane_g() / 2 * 4 + lane_c()] >>
            8 * (lane_g() % 2);
}

/* True if element i of fragment n is kept by dropout. */
static __device__ bool is_kept(const uint32_t (&kept)[2], int n, int i)
{
    return kept[n / 4] >> (16 * (i / 2) + 2 * (n % 4) + i % 2) & 1;
}

/* Computes half a tile, fragments 4 half .. 4 half + 3, from s = q . k and dp =
 * dout . v: probabilities p16, 0 if dropped, and gradients of scores ds16,
 * without the factors of the scale and of dropout. Both are rounded. lse and
 * delta: those of the tile. */
template <typename T, bool DROPS>
static __device__ void weigh(uint32_t (&p16)[2][4], uint32_t (&ds16)[2][4],
                             const float (&s)[8][4], const float (&dp)[8][4],
                             const uint32_t (&kept)[2], const float *lse,
                             const float *delta, float scale, int half)
{
    float p[4][4], ds[4][4];

#pragma unroll
    for (int j = 0; j < 4; j++) {
        int n = 4 * half + j;
        float2 l = *(const float2 *)&lse[8 * n + 2 * lane_c()];
        float2 d = *(const float2 *)&delta[8 * n + 2 * lane_c()];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            float e = vp_exp2(fmaf(scale, s[n][i], -(i % 2 ? l.y : l.x)));

            p[j][i] = !DROPS || is_kept(kept, n, i) ? e : 0.0f;
            ds[j][i] = fmaf(p[j][i], dp[n][i], -(e * (i % 2 ? d.y : d.x)));
        }
    }
    round_rows<T>(p16, p);
    round_rows<T>(ds16, ds);
}

/* Stores ds of half a tile: fragments of the warp's keys by 32 queries. */
template <typename T>
static __device__ void put_ds(vp_wg_tile<T> &tile, const uint32_t (&ds)[2][4],
                              int half)
{
    int lane = (int)threadIdx.x % 32;
    int row = 16 * group_warp() + lane / 8 % 2 * 8 + lane % 8;

#pragma unroll
    for (int k = 0; k < 2; k++)
        vp_store_matrices(vp_wg_at(tile, row, 4 * half + 2 * k + lane / 16),
                          ds[k]);
}

/* Adds a tile of queries, whose s and dp have been computed, to dk and dv, and
 * stores its ds. */
template <typename T, bool DROPS>
static __device__ void add_tile(float (&dk)[8][4], float (&dv)[8][4],
                                vp_wg_tile<T> &ds_tile, const float (&s)[8][4],
                                const float (&dp)[8][4],
                                const uint32_t (&kept)[2], const float *lse,
                                const float *delta, float scale,
                                uint64_t queries, uint64_t douts)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t p16[2][4], ds16[2][4];

        weigh<T, DROPS>(p16, ds16, s, dp, kept, lse, delta, scale, half);
        put_ds(ds_tile, ds16, half);
        vp_wg_fence();
        vp_wg_product<T, true, true>(dv, p16,
                                     vp_wg_step<true>(douts, 2 * half));
        vp_wg_product<T, true, true>(dk, ds16,
                                     vp_wg_step<true>(queries, 2 * half));
        vp_wg_commit();
    }
}

#endif
