/* Shared by the forward kernels of attention: one pass over the keys, in which
 * the softmax is rescaled when a larger score is found (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018; Dao, "FlashAttention-2",
 * 2023). */
#ifndef VP_BACKEND_CUDA_ATTENTION_FORWARD_CUH
#define VP_BACKEND_CUDA_ATTENTION_FORWARD_CUH

#include "backend/cuda/attention/mma.cuh"

/* State of the softmax of rows g and g + 8 of a fragment, over the keys so
 * far. */
struct softmax {
    float most[2]; /* the largest product q . k */
    float sum[2];  /* this lane's part of the sum of exp(score - largest) */
};

/* Multiplies the sums so far by `fade`, for the new largest score. Seldom
 * needed after the first tiles. */
template <int D8>
static __device__ inline void fade_out(float (&out)[D8][4],
                                       const float (&fade)[2])
{
    if (!__any_sync(0xFFFFFFFFu, fade[0] != 1.0f || fade[1] != 1.0f))
        return;
#pragma unroll
    for (int n = 0; n < D8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[n][i] *= fade[i / 2];
}

/* Adds a tile of keys to the softmax: products q . k become exp(score -
 * largest), and `fade` is set to the factors for the sums so far. `scale`: the
 * scale of scores, times log2(e). */
static __device__ inline void softmax_scores(struct softmax &z,
                                             float (&scores)[TILE / 8][4],
                                             float (&fade)[2], float scale)
{
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
}

/* Dropout mask of 16 queries by 32 keys: bit 7 of byte i % 4 of word i / 4 is
 * set if element i of the lane's group (note [dropout]) is kept. */
static __device__ inline void draw_kept(uint32_t (&kept)[4],
                                        const struct mask_key &key, int q0,
                                        int k0)
{
    struct vp_rng4 bits = draw_bits(key, q0, k0, lane_g(), lane_c());
    struct sieve sieve = sieve_of(key.threshold);

#pragma unroll
    for (int i = 0; i < 4; i++)
        kept[i] = kept_bytes(bits.v[i], sieve);
}

/* Sets dropped elements of the rounded probabilities to 0. Register i of
 * fragment k holds elements 8 (i % 2) + 4k + 2 (i / 2) and the next of the
 * group. */
static __device__ inline void drop(uint32_t (*p)[4], const uint32_t (&kept)[4])
{
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[k][i] &= vp_spread_signs(kept[i % 2 * 2 + k],
                                       i / 2 ? 0x3322u : 0x1100u);
}

/* True if any key of the tile from k0 on may be seen; otherwise the tile is
 * padding. */
static __device__ inline bool any_allowed(const uint32_t *allowed, int k0)
{
    uint32_t any = 0;

#pragma unroll
    for (int i = 0; i < TILE / 32; i++)
        any |= allowed[k0 / 32 + i];
    return any != 0;
}

/* Ends the softmax of one fragment's rows: writes lse, and sets `factor` to the
 * factors by which the sums must be multiplied; 0 if no key was seen. */
static __device__ inline void end_softmax(float (&factor)[2],
                                          const struct vp_attention_call &x,
                                          const struct vp_attention_head &h,
                                          int q0, const struct softmax &z)
{
#pragma unroll
    for (int a = 0; a < 2; a++) {
        float sum = quad_sum(z.sum[a]);
        int q = q0 + 8 * a + lane_g();

        factor[a] = sum == 0.0f ? 0.0f : x.drop.scale / sum;
        if (q < x.q_len && lane_c() == 0)
            x.lse[(h.q_row + q) * x.heads + h.index] =
                sum == 0.0f ? 0.0f : fmaf(x.scale, z.most[a], logf(sum));
    }
}

template <typename T, int D8>
static __device__ inline void forward_end(const struct vp_attention_call &x,
                                          const struct vp_attention_head &h,
                                          int q0, const struct softmax &z,
                                          const float (&acc)[D8][4])
{
    float factor[2];

    end_softmax(factor, x, h, q0, z);
    store_fragments(vp_q_rows<T>(x.out, x.ld_out, x, h), q0, acc, factor,
                    false);
}

#endif
