/* Attention on tensor cores, for 16-bit types and small heads: shared by
 * forward (mma_f.cu), backward (mma_b.cu) and the kernels for warpgroups
 * (wgmma*.cu).
 *
 * A warp owns 16 rows of one side, queries or keys, as fragments in registers,
 * and loops over the other side, whose tiles of 64 rows all warps of the block
 * share. Scores are accumulator fragments and are never stored. Warps that own
 * queries compute out and dq, warps that own keys compute dk and dv: two
 * kernels in backward, so that every element is summed by one warp, in one
 * order.
 *
 * Scores, probabilities and their gradients are floats. Probabilities (times
 * dropout's 0 or 1; before normalisation in forward) and gradients of scores
 * are rounded to the tensor's type as factors of the products that follow.
 *
 * Lane 4g + c is named as in ptx/mma.cuh. Note [dropout] in base/rng.h divides
 * the probabilities into groups of 16, each owned by one lane when rows are
 * queries. */
#ifndef VP_BACKEND_CUDA_ATTENTION_MMA_CUH
#define VP_BACKEND_CUDA_ATTENTION_MMA_CUH

#include "backend/cuda/attention/attention.cuh"
#include "backend/cuda/ptx/mma.cuh"

#define LOG2E 1.4426950408889634f

enum {
    WARPS = 4, /* warps per block in backward */
    THREADS = 32 * WARPS,
    TILE = 64,  /* rows of the other side per pass */
    STEP = 32,  /* rows per pass in backward; keys of a dropout group */
    PAD = 8,    /* elements after a row, against bank conflicts of ldmatrix */
    STAGES = 2, /* tiles in shared memory: one in use, one being loaded */
    MAX_KEYS = VP_ATTENTION_MAX_KEYS,
};

static __device__ inline int lane_g(void)
{
    return (int)threadIdx.x % 32 / 4;
}

static __device__ inline int lane_c(void)
{
    return (int)threadIdx.x % 4;
}

/* Maximum, and sum, over the four lanes that share rows. */
static __device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

static __device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

/* ---- Rows and tiles ----------------------------------------------------- */

/* Consecutive blocks belong to the same head, because they read the same
 * rows. */
static __device__ inline struct vp_attention_head head_of(
    const struct vp_attention_call &x, int n_blocks)
{
    return vp_attention_head_of(x, blockIdx.x / (unsigned)n_blocks);
}

/* Number of this block among the blocks of its head. `last_first`: in reverse
 * order. Under a causal mask later queries see more keys, and the longest
 * blocks should start first. */
static __device__ inline int block_of(int n_blocks, bool last_first)
{
    int i = (int)(blockIdx.x % (unsigned)n_blocks);

    return last_first ? n_blocks - 1 - i : i;
}

/* Loads rows [row, row + 16) of device memory as fragments A; 0 beyond the last
 * row. */
template <typename T, int D16>
static __device__ inline void load_fragments(uint32_t (&dst)[D16][4],
                                             const vp_rows<const T> &src,
                                             int row)
{
#pragma unroll
    for (int k = 0; k < D16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = row + lane_g() + i % 2 * 8;
            int col = 16 * k + i / 2 * 8 + 2 * lane_c();

            dst[k][i] = r < src.n
                            ? *(const uint32_t *)(src.data + r * src.ld + col)
                            : 0;
        }
    }
}

/* Starts to copy rows [row, row + TILE) to shared memory; 0 beyond the last
 * row. */
template <typename T, int D>
static __device__ inline void load_tile(T (*dst)[D + PAD],
                                        const vp_rows<const T> &src, int row)
{
#pragma unroll 1 /* addresses of many copies would fill the registers */
    for (unsigned i = threadIdx.x; i < TILE * (D / 8); i += blockDim.x) {
        int r = (int)i / (D / 8), col = (int)i % (D / 8) * 8;
        bool inside = row + r < src.n;

        vp_copy16_async(&dst[r][col],
                        src.data + (inside ? (row + r) * src.ld : 0) + col,
                        inside);
    }
}

/* Waits for the copies of a tile. The copies started since, for the next tile,
 * continue. */
static __device__ inline void finish_tile(void)
{
    vp_copy_commit();
    vp_copy_wait<1>();
    __syncthreads();
}

template <typename T>
static __device__ inline void store_four(T *at, const float (&x)[4],
                                         float factor, bool add)
{
    float y[4];

#pragma unroll
    for (int i = 0; i < 4; i++) {
        y[i] = factor * x[i];
        if (add)
            y[i] += vp_float(at[i]);
    }
    *(uint2 *)at = make_uint2(vp_pack<T>(y[0], y[1]), vp_pack<T>(y[2], y[3]));
}

/* Stores c times factor[0] to row + g, and c times factor[1] to row + g + 8.
 * Lanes c and c ^ 1 exchange halves of two fragments, so that the four lanes of
 * a row write 32 consecutive bytes. */
template <typename T, int D8>
static __device__ inline void store_fragments(const vp_rows<T> &dst, int row,
                                              const float (&c)[D8][4],
                                              const float (&factor)[2],
                                              bool add)
{
    int odd = lane_c() % 2;

#pragma unroll
    for (int a = 0; a < 2; a++) {
        int r = row + lane_g() + 8 * a;
        T *at = dst.data + r * dst.ld + 8 * odd + 2 * (lane_c() - odd);

#pragma unroll
        for (int n = 0; n < D8; n += 2, at += 16) {
            float got[2], x[4];

#pragma unroll
            for (int i = 0; i < 2; i++) {
                float sent = odd ? c[n][2 * a + i] : c[n + 1][2 * a + i];
                float kept = odd ? c[n + 1][2 * a + i] : c[n][2 * a + i];

                got[i] = __shfl_xor_sync(0xFFFFFFFFu, sent, 1);
                x[i] = odd ? got[i] : kept;
                x[i + 2] = odd ? kept : got[i];
            }
            if (r < dst.n)
                store_four(at, x, factor[a], add);
        }
    }
}

/* ---- Products ----------------------------------------------------------- */

/* c [16 M, N] = a [16 M, D] times the transpose of rows [0, N) of the tile. */
template <typename T, int D, int M, int N>
static __device__ inline void dot_rows(float (&c)[M][N / 8][4],
                                       const uint32_t (&a)[M][D / 16][4],
                                       const T (*tile)[D + PAD])
{
    int lane = (int)threadIdx.x % 32;
    int row = lane % 8 + lane / 16 * 8, col = lane / 8 % 2 * 8;

#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                c[m][n][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t b[4]; /* two B: rows 16n .. and 16n + 8 .. */

            vp_load_matrices(b, &tile[16 * n + row][16 * k + col]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                vp_mma<T>(c[m][2 * n], a[m][k], b);
                vp_mma<T>(c[m][2 * n + 1], a[m][k], b + 2);
            }
        }
    }
}

/* Rounds w [16, 16 K] to fragments A of a product. */
template <typename T, int K>
static __device__ inline void round_rows(uint32_t (&a)[K][4],
                                         const float (*w)[4])
{
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[k][i] = vp_pack<T>(w[2 * k + i / 2][i % 2 * 2],
                                 w[2 * k + i / 2][i % 2 * 2 + 1]);
}

/* c [16 M, D] += a [16 M, N] times rows [0, N) of the tile. */
template <typename T, int D, int M, int N>
static __device__ inline void add_rows(float (&c)[M][D / 8][4],
                                       const uint32_t (&a)[M][N / 16][4],
                                       const T (*tile)[D + PAD])
{
    int lane = (int)threadIdx.x % 32;
    int row = lane % 16, col = lane / 16 * 8;

#pragma unroll
    for (int k = 0; k < N / 16; k++) {
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4]; /* two B: columns 16n .. and 16n + 8 .. */

            vp_load_matrices_trans(b, &tile[16 * k + row][16 * n + col]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                vp_mma<T>(c[m][2 * n], a[m][k], b);
                vp_mma<T>(c[m][2 * n + 1], a[m][k], b + 2);
            }
        }
    }
}

/* ---- Masks and dropout -------------------------------------------------- */

/* Bit k of word i is set if key 32 i + k may be seen; 0 beyond the last key.
 * All threads of a warp must call it. */
static __device__ inline uint32_t allowed_word(
    const struct vp_attention_call &x, const struct vp_attention_head &h, int i)
{
    int k = 32 * i + (int)threadIdx.x % 32;

    return __ballot_sync(0xFFFFFFFFu,
                         k < x.k_len && (!x.mask || x.mask[h.k_row + k]));
}

/* Sets the words of whole tiles of keys, by all threads of the block. */
static __device__ inline void set_allowed(uint32_t *words,
                                          const struct vp_attention_call &x,
                                          const struct vp_attention_head &h,
                                          int n_keys)
{
    int n_words = (n_keys + TILE - 1) / TILE * (TILE / 32);

    for (int i = (int)threadIdx.x / 32; i < n_words;
         i += (int)blockDim.x / 32) {
        uint32_t word = allowed_word(x, h, i);

        if (threadIdx.x % 32 == 0)
            words[i] = word;
    }
}

/* Sets scores to -infinity where a query may not see the key, for 16 queries
 * from q0 on and 32 keys from k0 on. */
static __device__ inline void hide(float (*scores)[4], uint32_t allowed,
                                   bool causal, int q0, int k0)
{
    if (allowed == 0xFFFFFFFFu && !(causal && k0 + 31 > q0))
        return;
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int q = q0 + lane_g() + i / 2 * 8;
            int k = 8 * j + 2 * lane_c() + i % 2;

            if (!(allowed >> k & 1) || (causal && k0 + k > q))
                scores[j][i] = -INFINITY;
        }
    }
}

/* Arguments from which the dropout mask of a head is generated. */
struct mask_key {
    uint64_t seed, sample;
    uint32_t op, head, threshold;
};

static __device__ inline struct mask_key mask_key_of(
    const struct vp_attention_call &x, const struct vp_attention_head &h)
{
    if (!x.drop.threshold)
        return {};
    return { x.drop.mb->seed, x.drop.mb->first_sample + (uint64_t)h.sample,
             x.drop.op, (uint32_t)(x.first_head + h.index), x.drop.threshold };
}

/* Random bytes of the group of lane (g, c): queries q0 + g and q0 + g + 8, keys
 * k0 + 8j + 2c and the next. */
static __device__ inline struct vp_rng4 draw_bits(const struct mask_key &key,
                                                  int q0, int k0, int g, int c)
{
    return vp_rng(key.seed, VP_RNG_DROPOUT, key.op,
                  (uint32_t)(q0 / 16) << 16 | (uint32_t)(k0 / 32),
                  key.head << 8 | (uint32_t)(g << 2 | c), key.sample);
}

/* Random bytes for 16 queries by 32 keys: byte[j][i] belongs to element i of
 * fragment j. */
static __device__ inline void draw_queries(uint32_t (&byte)[4][4],
                                           const struct mask_key &key, int q0,
                                           int k0)
{
    struct vp_rng4 bits = draw_bits(key, q0, k0, lane_g(), lane_c());

#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            byte[j][i] = vp_rng_byte(bits, i / 2 * 8 + 2 * j + i % 2);
}

/* Compares four bytes with the dropout threshold at once. The lower seven bits
 * of a byte, plus `add`, carry into bit 7 if they reach the threshold, or the
 * threshold - 128 if it is above 128. A byte reaches a threshold up to 128 if
 * it has the carry or bit 7 (`suffices` is all ones), and a larger one if it
 * has both. */
struct sieve {
    uint32_t add, suffices;
};

static __device__ inline struct sieve sieve_of(uint32_t threshold)
{
    bool low = threshold <= 128;

    return { ((low ? 128 : 256) - threshold) * 0x01010101u, low ? ~0u : 0u };
}

/* Bit 7 of each byte of the result is set if the byte of x reaches the
 * threshold, which means that the element is kept. */
static __device__ inline uint32_t kept_bytes(uint32_t x,
                                             const struct sieve &sieve)
{
    uint32_t carry = (x & 0x7F7F7F7Fu) + sieve.add;

    return (x & carry) | (sieve.suffices & (x | carry));
}

/* ---- Launches ----------------------------------------------------------- */

typedef void (*launch_fn)(const struct vp_attention_call *x,
                          cudaStream_t stream);

/* f<T, head size, with dropout> */
#define LAUNCHES(f, T)                           \
    {                                            \
        { f<T, 64, false>, f<T, 64, true> },     \
            { f<T, 80, false>, f<T, 80, true> }, \
    }

static inline launch_fn launch_of(const launch_fn (&table)[2][2][2],
                                  const struct vp_attention_call *x)
{
    bool f16 = x->dtype == VP_DTYPE_F16, drops = x->drop.threshold != 0;

    return table[f16][x->dim == 80][drops];
}

static inline int blocks_of(int len, int rows)
{
    return (len + rows - 1) / rows;
}

#endif
