/* Attention on tensor cores, for 16-bit types and small heads.
 *
 * A warp owns 16 rows (or 32) of one side, as fragments in registers, and
 * walks over the other side, whose tiles of 64 rows all four warps of the
 * block share. Scores are accumulator fragments, never stored. Queries own
 * out and dq, keys own dk and dv: two kernels in backward, so that every
 * element is summed by one warp, in one order.
 *
 * Scores, probabilities and their gradients are floats; probabilities (times
 * dropout's 0 or 1, before normalisation in forward) and gradients of scores
 * are rounded to the tensor's type as factors of the products that follow.
 *
 * Lane 4g + c is named as in mma.cuh. Note [dropout] in base/rng.h cuts the
 * probabilities in groups of 16 that one lane owns when rows are queries. */
#include "backend/cuda/attention.h"
#include "backend/cuda/mma.cuh"

#define LOG2E 1.4426950408889634f

enum {
    WARPS = 4,
    THREADS = 32 * WARPS,
    TILE = 64,  /* rows that are walked over at a time */
    STEP = 32,  /* of these, at a time in backward; keys of a group of bits */
    PAD = 8,    /* elements after a row: 8 rows of ldmatrix miss each other */
    STAGES = 2, /* tiles in shared memory: one is worked on, one is loaded */
    MAX_KEYS = 32768,
};

static __device__ int lane_g(void)
{
    return (int)threadIdx.x % 32 / 4;
}

static __device__ int lane_c(void)
{
    return (int)threadIdx.x % 4;
}

/* Of the four lanes that share rows. */
static __device__ float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

static __device__ float quad_sum(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

static __device__ uint32_t pack(float low, float high, __nv_bfloat16)
{
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);

    return *(uint32_t *)&both;
}

static __device__ uint32_t pack(float low, float high, __half)
{
    __half2 both = __floats2half2_rn(low, high);

    return *(uint32_t *)&both;
}

/* ---- Where things are --------------------------------------------------- */

/* Blocks of a head follow each other: they read the same rows. */
static __device__ struct vp_attention_head head_of(
    const struct vp_attention_call &x, int n_blocks)
{
    return vp_attention_head_of(x, blockIdx.x / (unsigned)n_blocks);
}

/* Which of the blocks of its head this one is; `last_first`: under a causal
 * mask later queries see more keys, and what is long should not start last. */
static __device__ int block_of(int n_blocks, bool last_first)
{
    int i = (int)(blockIdx.x % (unsigned)n_blocks);

    return last_first ? n_blocks - 1 - i : i;
}

/* Rows [row, row + 16) of device memory as fragments A; 0 beyond the last. */
template <typename T, int D16>
static __device__ void load_fragments(uint32_t (&dst)[D16][4],
                                      const struct vp_rows<const T> &src,
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

/* Starts to copy rows [row, row + TILE); 0 beyond the last. */
template <typename T, int D>
static __device__ void load_tile(T (*dst)[D + PAD],
                                 const struct vp_rows<const T> &src, int row)
{
#pragma unroll 1 /* addresses of many copies would fill the registers */
    for (int i = threadIdx.x; i < TILE * (D / 8); i += THREADS) {
        int r = i / (D / 8), col = i % (D / 8) * 8;
        bool inside = row + r < src.n;

        vp_copy16_async(&dst[r][col],
                        src.data + (inside ? (row + r) * src.ld : 0) + col,
                        inside);
    }
}

/* The copies just started are of the next tile: waits for those before. */
static __device__ void finish_tile(void)
{
    vp_copy_commit();
    vp_copy_wait<1>();
    __syncthreads();
}

/* Rows row + g and row + g + 8 get factor[0] and factor[1] times c. */
template <typename T, int D8>
static __device__ void store_fragments(const struct vp_rows<T> &dst, int row,
                                       const float (&c)[D8][4],
                                       const float (&factor)[2], bool add)
{
#pragma unroll
    for (int a = 0; a < 2; a++) {
        int r = row + lane_g() + 8 * a;
        T *at = dst.data + r * dst.ld + 2 * lane_c();

        if (r >= dst.n)
            continue;
#pragma unroll
        for (int n = 0; n < D8; n++, at += 8) {
            float low = factor[a] * c[n][2 * a];
            float high = factor[a] * c[n][2 * a + 1];

            if (add) {
                low += vp_float(at[0]);
                high += vp_float(at[1]);
            }
            *(uint32_t *)at = pack(low, high, T());
        }
    }
}

/* ---- Products ----------------------------------------------------------- */

/* c [16 M, N] = a [16 M, D] times rows [0, N) of the tile, transposed. */
template <typename T, int D, int M, int N>
static __device__ void dot_rows(float (&c)[M][N / 8][4],
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
            uint32_t b[4]; /* two B, of rows 16n .. and 16n + 8 .. */

            vp_load_matrices(b, &tile[16 * n + row][16 * k + col]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                vp_mma<T>(c[m][2 * n], a[m][k], b);
                vp_mma<T>(c[m][2 * n + 1], a[m][k], b + 2);
            }
        }
    }
}

/* c [16 M, D] += w [16 M, N] times rows [0, N) of the tile; w is rounded. */
template <typename T, int D, int M, int N>
static __device__ void add_rows(float (&c)[M][D / 8][4],
                                const float (&w)[M][N / 8][4],
                                const T (*tile)[D + PAD])
{
    int lane = (int)threadIdx.x % 32;
    int row = lane % 16, col = lane / 16 * 8;

#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        uint32_t a[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = pack(w[m][2 * k + i / 2][i % 2 * 2],
                               w[m][2 * k + i / 2][i % 2 * 2 + 1], T());
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4]; /* two B, of columns 16n .. and 16n + 8 .. */

            vp_load_matrices_trans(b, &tile[16 * k + row][16 * n + col]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                vp_mma<T>(c[m][2 * n], a[m], b);
                vp_mma<T>(c[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

/* ---- Masks and dropout -------------------------------------------------- */

/* Bit k % 32 of word k / 32 says that key k may be seen; whole tiles of keys,
 * 0 beyond the last. */
static __device__ void set_allowed(uint32_t *words,
                                   const struct vp_attention_call &x,
                                   const struct vp_attention_head &h,
                                   int n_keys)
{
    int n_words = (n_keys + TILE - 1) / TILE * (TILE / 32);

    for (int i = (int)threadIdx.x / 32; i < n_words; i += WARPS) {
        int k = 32 * i + (int)threadIdx.x % 32;
        bool allowed = k < x.k_len && (!x.mask || x.mask[h.k_row + k]);
        uint32_t word = __ballot_sync(0xFFFFFFFFu, allowed);

        if (threadIdx.x % 32 == 0)
            words[i] = word;
    }
}

/* Scores of 16 queries from q0 on and 32 keys from k0 on: -infinity where a
 * query may not see the key. */
static __device__ void hide(float (*scores)[4], uint32_t allowed, bool causal,
                            int q0, int k0)
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

/* The same for 16 keys by 32 queries under a causal mask; the key mask is left
 * to the end, since keys are rows. */
static __device__ void hide_earlier(float (*scores)[4], int q0, int k0)
{
    if (k0 + 15 <= q0)
        return;
#pragma unroll
    for (int n = 0; n < 4; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int q = q0 + 8 * n + 2 * lane_c() + i % 2;
            int k = k0 + lane_g() + i / 2 * 8;

            if (k > q)
                scores[n][i] = -INFINITY;
        }
    }
}

/* What the random bits of a head depend on. */
struct dice {
    uint64_t seed, sample;
    uint32_t op, head, threshold;
};

static __device__ struct dice dice_of(const struct vp_attention_call &x,
                                      const struct vp_attention_head &h)
{
    if (!x.drop.threshold)
        return {};
    return { x.drop.mb->seed, x.drop.mb->first_sample + (uint64_t)h.sample,
             x.drop.op, (uint32_t)h.index, x.drop.threshold };
}

/* Of queries q0 + g and q0 + g + 8, keys k0 + 8j + 2c and the next. */
static __device__ struct vp_rng4 roll(const struct dice &dice, int q0, int k0,
                                      int g, int c)
{
    return vp_rng(dice.seed, VP_RNG_DROPOUT, dice.op,
                  (uint32_t)(q0 / 16) << 16 | (uint32_t)(k0 / 32),
                  dice.head << 8 | (uint32_t)(g << 2 | c), dice.sample);
}

/* byte[j][i] decides about element i of fragment j, in fragments of 16 queries
 * by 32 keys. */
static __device__ void roll_queries(uint32_t (&byte)[4][4],
                                    const struct dice &dice, int q0, int k0)
{
    struct vp_rng4 bits = roll(dice, q0, k0, lane_g(), lane_c());

#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            byte[j][i] = vp_rng_byte(bits, i / 2 * 8 + 2 * j + i % 2);
}

/* The same in fragments of 16 keys by 32 queries: element i of fragment n is
 * key k0 + g + 8 (i / 2), query q0 + 8n + 2c + i % 2. Here a lane needs bytes
 * of two groups, those of the queries 2c and 2c + 1, and so does its neighbour
 * with the key g ^ 1: each rolls one of them and they swap. */
static __device__ void roll_keys(uint32_t (&byte)[4][4],
                                 const struct dice &dice, int q0, int k0)
{
    int g = lane_g(), odd = g % 2;
    bool upper = k0 / 16 % 2; /* half of the 32 keys of a group */

#pragma unroll
    for (int big_q = 0; big_q < 2; big_q++) {
        struct vp_rng4 bits = roll(dice, q0 + 16 * big_q, k0,
                                   2 * lane_c() + odd, g / 2);
#pragma unroll
        for (int a = 0; a < 2; a++) {
            uint32_t mine = upper ? bits.v[2 * a + 1] : bits.v[2 * a];
            uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 4);
            uint32_t of_query[2] = { odd ? other : mine, odd ? mine : other };

#pragma unroll
            for (int i = 0; i < 4; i++)
                byte[2 * big_q + a][i] = of_query[i % 2] >>
                                             (i / 2 * 16 + odd * 8) &
                                         0xFFu;
        }
    }
}

/* ---- F ------------------------------------------------------------------ */

/* Rows g and g + 8 of a fragment, as far as they have been seen. */
struct softmax {
    float most[2]; /* the largest product q . k */
    float sum[2];  /* this lane's part of the sum of exp(score - largest) */
};

/* One more tile of keys: products q . k become exp(score - largest), and `out`
 * fades to the new largest. `scale` is that of scores, times log2(e). */
template <int D8>
static __device__ void softmax_tile(struct softmax &z,
                                    float (&scores)[TILE / 8][4],
                                    float (&out)[D8][4], float scale)
{
#pragma unroll
    for (int a = 0; a < 2; a++) {
        float most = z.most[a], sum = 0.0f, base, fade;

#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
            most = fmaxf(most, fmaxf(scores[n][2 * a], scores[n][2 * a + 1]));
        most = quad_max(most);
        base = most == -INFINITY ? 0.0f : scale * most;
        fade = vp_exp2(fmaf(scale, z.most[a], -base));
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int i = 2 * a; i < 2 * a + 2; i++) {
                scores[n][i] = vp_exp2(fmaf(scale, scores[n][i], -base));
                sum += scores[n][i];
            }
        }
        z.sum[a] = fmaf(z.sum[a], fade, sum);
        z.most[a] = most;
#pragma unroll
        for (int n = 0; n < D8; n++) {
            out[n][2 * a] *= fade;
            out[n][2 * a + 1] *= fade;
        }
    }
}

/* Probabilities of 16 queries by a tile of keys: 0 where dropped. */
static __device__ void drop_tile(float (&p)[TILE / 8][4],
                                 const struct dice &dice, int q0, int k0)
{
#pragma unroll
    for (int n = 0; n < TILE / 8; n += 4) {
        uint32_t byte[4][4];

        roll_queries(byte, dice, q0, k0 + 8 * n);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p[n + j][i] = byte[j][i] < dice.threshold ? 0.0f : p[n + j][i];
    }
}

/* Fragments of 16 rows that a warp owns in forward: with two, what is loaded
 * from shared memory serves twice, if the registers suffice. */
template <int D> struct forward_shape {
    enum { M = D <= 64 ? 2 : 1, ROWS = 16 * M * WARPS };
};

/* One tile of keys and values for the warp's queries, from q0 on. */
template <typename T, int D, int M, bool DROPS>
static __device__ void forward_tile(
    struct softmax (&z)[M], float (&acc)[M][D / 8][4],
    const uint32_t (&queries)[M][D / 16][4], const T (*keys)[D + PAD],
    const T (*values)[D + PAD], const uint32_t *allowed,
    const struct vp_attention_call &x, const struct dice &dice, int q0, int k0)
{
    float p[M][TILE / 8][4];

    dot_rows<T, D, M, TILE>(p, queries, keys);
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int i = 0; i < TILE / 32; i++)
            hide(p[m] + 4 * i, allowed[k0 / 32 + i], x.causal, q0 + 16 * m,
                 k0 + 32 * i);
        softmax_tile(z[m], p[m], acc[m], x.scale * LOG2E);
        if (DROPS)
            drop_tile(p[m], dice, q0 + 16 * m, k0);
    }
    add_rows<T, D, M, TILE>(acc, p, values);
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

        factor[a] = sum > 0.0f ? x.drop.scale / sum : 0.0f;
        if (q < x.q_len && lane_c() == 0)
            x.lse[(h.q_row + q) * x.heads + h.index] =
                sum > 0.0f ? fmaf(x.scale, z.most[a], logf(sum)) : 0.0f;
    }
    store_fragments(vp_q_rows<T>(x.out, x.ld_out, x, h), q0, acc, factor,
                    false);
}

template <typename T, int D, bool DROPS>
static __global__ void __launch_bounds__(THREADS, 2)
    forward(const struct vp_attention_call x, int n_blocks)
{
    enum { M = forward_shape<D>::M, ROWS = forward_shape<D>::ROWS };
    __shared__ alignas(16) T k_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T v_tile[STAGES][TILE][D + PAD];
    __shared__ uint32_t allowed[MAX_KEYS / 32];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_q = block_of(n_blocks, true) * ROWS;
    int q0 = block_q + (int)threadIdx.x / 32 * 16 * M;
    int n_keys = x.causal ? min(block_q + ROWS, x.k_len) : x.k_len;
    struct vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    struct vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct dice dice = dice_of(x, h);
    struct softmax z[M];
    uint32_t queries[M][D / 16][4];
    float acc[M][D / 8][4] = {};

    load_tile<T, D>(k_tile[0], keys, 0);
    load_tile<T, D>(v_tile[0], values, 0);
    vp_copy_commit();
    set_allowed(allowed, x, h, n_keys);
#pragma unroll
    for (int m = 0; m < M; m++) {
        load_fragments(queries[m], vp_q_rows<const T>(x.q, x.ld_q, x, h),
                       q0 + 16 * m);
        z[m] = { { -INFINITY, -INFINITY }, { 0.0f, 0.0f } };
    }
    for (int k0 = 0; k0 < n_keys; k0 += TILE) {
        int now = k0 / TILE % STAGES, next = (now + 1) % STAGES;

        if (k0 + TILE < n_keys) {
            load_tile<T, D>(k_tile[next], keys, k0 + TILE);
            load_tile<T, D>(v_tile[next], values, k0 + TILE);
        }
        finish_tile();
        if (!x.causal || k0 < q0 + 16 * M)
            forward_tile<T, D, M, DROPS>(z, acc, queries, k_tile[now],
                                         v_tile[now], allowed, x, dice, q0, k0);
        __syncthreads(); /* the tile is overwritten next */
    }
#pragma unroll
    for (int m = 0; m < M; m++)
        forward_end<T>(x, h, q0 + 16 * m, z[m], acc[m]);
}

/* ---- B: queries --------------------------------------------------------- */

enum { ROWS = 16 * WARPS }; /* that a block owns in backward */

template <typename T> static __device__ float2 unpack(uint32_t both)
{
    const T *x = (const T *)&both;

    return make_float2(vp_float(x[0]), vp_float(x[1]));
}

/* delta = dout . out of rows g and g + 8; all four lanes of a row have it. */
template <typename T, int D16>
static __device__ void dot_fragments(float (&delta)[2],
                                     const uint32_t (&dout)[D16][4],
                                     const uint32_t (&out)[D16][4])
{
    delta[0] = delta[1] = 0.0f;
#pragma unroll
    for (int k = 0; k < D16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 a = unpack<T>(dout[k][i]), b = unpack<T>(out[k][i]);

            delta[i % 2] = fmaf(a.x, b.x, fmaf(a.y, b.y, delta[i % 2]));
        }
    }
    delta[0] = quad_sum(delta[0]);
    delta[1] = quad_sum(delta[1]);
}

/* Writes delta of the warp's rows, for backward_kv, and reads their lse. */
static __device__ void swap_per_query(const struct vp_attention_call &x,
                                      const struct vp_attention_head &h, int q0,
                                      const float (&delta)[2], float (&lse)[2])
{
#pragma unroll
    for (int a = 0; a < 2; a++) {
        int q = q0 + 8 * a + lane_g();
        int64_t at = (h.q_row + q) * x.heads + h.index;

        lse[a] = q < x.q_len ? x.lse[at] : 0.0f;
        if (q < x.q_len && lane_c() == 0)
            x.delta[at] = delta[a];
    }
}

/* ds goes from dout . v to the gradient of the score, less its scale; s is
 * q . k. Of 16 queries from q0 on, 32 keys from k0 on. */
template <bool DROPS>
static __device__ void gradients_q(float (&ds)[4][4], const float (&s)[4][4],
                                   const struct vp_attention_call &x,
                                   const struct dice &dice, int q0, int k0,
                                   const float (&lse)[2],
                                   const float (&delta)[2])
{
    uint32_t byte[4][4];

    if (DROPS)
        roll_queries(byte, dice, q0, k0);
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool dropped = DROPS && byte[j][i] < dice.threshold;
            float keep = dropped ? 0.0f : x.drop.scale;
            float p = vp_exp2(
                fmaf(x.scale * LOG2E, s[j][i], -LOG2E * lse[i / 2]));

            ds[j][i] = p * fmaf(keep, ds[j][i], -delta[i / 2]);
        }
    }
}

/* Makes delta first, so it runs before backward_kv, also if dq is NULL. */
template <typename T, int D, bool DROPS>
static __global__ void __launch_bounds__(THREADS, 3)
    backward_q(const struct vp_attention_call x, int n_blocks)
{
    __shared__ alignas(16) T k_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T v_tile[STAGES][TILE][D + PAD];
    __shared__ uint32_t allowed[MAX_KEYS / 32];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_q = block_of(n_blocks, true) * ROWS;
    int q0 = block_q + (int)threadIdx.x / 32 * 16;
    int n_keys = x.causal ? min(block_q + ROWS, x.k_len) : x.k_len;
    struct vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    struct vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct dice dice = dice_of(x, h);
    uint32_t queries[1][D / 16][4], dout[1][D / 16][4], out[D / 16][4];
    float dq[1][D / 8][4] = {}, delta[2], lse[2];
    float factor[2] = { x.scale, x.scale };

    load_fragments(out, vp_q_rows<const T>(x.out, x.ld_out, x, h), q0);
    load_fragments(dout[0], vp_q_rows<const T>(x.dout, x.ld_out, x, h), q0);
    dot_fragments<T>(delta, dout[0], out);
    swap_per_query(x, h, q0, delta, lse);
    if (!x.dq)
        return;
    load_tile<T, D>(k_tile[0], keys, 0);
    load_tile<T, D>(v_tile[0], values, 0);
    vp_copy_commit();
    set_allowed(allowed, x, h, n_keys);
    load_fragments(queries[0], vp_q_rows<const T>(x.q, x.ld_q, x, h), q0);
    for (int k0 = 0; k0 < n_keys; k0 += TILE) {
        int now = k0 / TILE % STAGES, next = (now + 1) % STAGES;

        if (k0 + TILE < n_keys) {
            load_tile<T, D>(k_tile[next], keys, k0 + TILE);
            load_tile<T, D>(v_tile[next], values, k0 + TILE);
        }
        finish_tile();
        for (int i = 0; i < TILE; i += STEP) {
            float s[1][STEP / 8][4], ds[1][STEP / 8][4];

            if (x.causal && k0 + i > q0 + 15)
                break;
            dot_rows<T, D, 1, STEP>(s, queries, &k_tile[now][i]);
            dot_rows<T, D, 1, STEP>(ds, dout, &v_tile[now][i]);
            hide(s[0], allowed[(k0 + i) / 32], x.causal, q0, k0 + i);
            gradients_q<DROPS>(ds[0], s[0], x, dice, q0, k0 + i, lse, delta);
            add_rows<T, D, 1, STEP>(dq, ds, &k_tile[now][i]);
        }
        __syncthreads(); /* the tile is overwritten next */
    }
    store_fragments(vp_q_rows<T>(x.dq, x.ld_q, x, h), q0, dq[0], factor,
                    x.add_q);
}

/* ---- B: keys and values ------------------------------------------------- */

/* lse and delta of queries [q0, q0 + TILE); 0 beyond the last, as are their
 * rows of q and dout, so that they add nothing to any gradient. */
static __device__ void load_per_query(float *lse, float *delta,
                                      const struct vp_attention_call &x,
                                      const struct vp_attention_head &h, int q0)
{
    bool first = threadIdx.x < TILE;
    int i = (int)threadIdx.x % TILE;
    bool inside = q0 + i < x.q_len;
    int64_t row = h.q_row + (inside ? q0 + i : 0);

    static_assert(THREADS == 2 * TILE, "a thread copies one value");
    vp_copy4_async((first ? lse : delta) + i,
                   (first ? x.lse : x.delta) + row * x.heads + h.index, inside);
}

/* p goes from q . k to the probability, 0 if dropped; ds from dout . v to the
 * gradient of the score, less its scale. Of 16 keys from k0 on, 32 queries
 * from q0 on; lse and delta are of those. */
template <bool DROPS>
static __device__ void gradients_kv(float (&p)[4][4], float (&ds)[4][4],
                                    const struct vp_attention_call &x,
                                    const struct dice &dice, int q0, int k0,
                                    const float *lse, const float *delta)
{
    uint32_t byte[4][4];

    if (DROPS)
        roll_keys(byte, dice, q0, k0);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        float2 lse2 = *(const float2 *)&lse[8 * n + 2 * lane_c()];
        float2 delta2 = *(const float2 *)&delta[8 * n + 2 * lane_c()];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool dropped = DROPS && byte[n][i] < dice.threshold;
            float keep = dropped ? 0.0f : x.drop.scale;
            float q_lse = i % 2 ? lse2.y : lse2.x;
            float q_delta = i % 2 ? delta2.y : delta2.x;
            float e = vp_exp2(fmaf(x.scale * LOG2E, p[n][i], -LOG2E * q_lse));

            ds[n][i] = e * fmaf(keep, ds[n][i], -q_delta);
            p[n][i] = dropped ? 0.0f : e;
        }
    }
}

/* Whether keys k0 + g and k0 + g + 8 are hidden from all queries: their rows
 * of the fragments, whatever they hold, become 0. */
template <int D8>
static __device__ void clear_hidden(float (&c)[D8][4],
                                    const struct vp_attention_call &x,
                                    const struct vp_attention_head &h, int k0)
{
#pragma unroll
    for (int a = 0; a < 2; a++) {
        int k = k0 + lane_g() + 8 * a;

        if (!x.mask || k >= x.k_len || x.mask[h.k_row + k])
            continue;
#pragma unroll
        for (int n = 0; n < D8; n++)
            c[n][2 * a] = c[n][2 * a + 1] = 0.0f;
    }
}

template <typename T, int D, bool DROPS>
static __global__ void __launch_bounds__(THREADS, 3)
    backward_kv(const struct vp_attention_call x, int n_blocks)
{
    __shared__ alignas(16) T q_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T dout_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) float lse[STAGES][TILE], delta[STAGES][TILE];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_k = block_of(n_blocks, false) * ROWS;
    int k0 = block_k + (int)threadIdx.x / 32 * 16;
    int first_q = x.causal ? block_k : 0;
    struct vp_rows<const T> queries = vp_q_rows<const T>(x.q, x.ld_q, x, h);
    struct vp_rows<const T> douts = vp_q_rows<const T>(x.dout, x.ld_out, x, h);
    struct dice dice = dice_of(x, h);
    uint32_t keys[1][D / 16][4], values[1][D / 16][4];
    float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
    float k_factor[2] = { x.scale, x.scale };
    float v_factor[2] = { x.drop.scale, x.drop.scale };

    load_tile<T, D>(q_tile[0], queries, first_q);
    load_tile<T, D>(dout_tile[0], douts, first_q);
    load_per_query(lse[0], delta[0], x, h, first_q);
    vp_copy_commit();
    load_fragments(keys[0], vp_k_rows<const T>(x.k, x.ld_kv, x, h), k0);
    load_fragments(values[0], vp_k_rows<const T>(x.v, x.ld_kv, x, h), k0);
    for (int q0 = first_q; q0 < x.q_len; q0 += TILE) {
        int now = (q0 - first_q) / TILE % STAGES, next = (now + 1) % STAGES;

        if (q0 + TILE < x.q_len) {
            load_tile<T, D>(q_tile[next], queries, q0 + TILE);
            load_tile<T, D>(dout_tile[next], douts, q0 + TILE);
            load_per_query(lse[next], delta[next], x, h, q0 + TILE);
        }
        finish_tile();
        for (int i = 0; i < TILE; i += STEP) {
            float p[1][STEP / 8][4], ds[1][STEP / 8][4];

            if (x.causal && q0 + i + STEP <= k0)
                continue;
            dot_rows<T, D, 1, STEP>(p, keys, &q_tile[now][i]);
            dot_rows<T, D, 1, STEP>(ds, values, &dout_tile[now][i]);
            if (x.causal)
                hide_earlier(p[0], q0 + i, k0);
            gradients_kv<DROPS>(p[0], ds[0], x, dice, q0 + i, k0, &lse[now][i],
                                &delta[now][i]);
            add_rows<T, D, 1, STEP>(dv, p, &dout_tile[now][i]);
            add_rows<T, D, 1, STEP>(dk, ds, &q_tile[now][i]);
        }
        __syncthreads(); /* the tile is overwritten next */
    }
    clear_hidden(dk[0], x, h, k0);
    clear_hidden(dv[0], x, h, k0);
    store_fragments(vp_k_rows<T>(x.dk, x.ld_kv, x, h), k0, dk[0], k_factor,
                    x.add_kv);
    store_fragments(vp_k_rows<T>(x.dv, x.ld_kv, x, h), k0, dv[0], v_factor,
                    x.add_kv);
}

/* ---- Launches ----------------------------------------------------------- */

static int blocks_of(int len, int rows)
{
    return (len + rows - 1) / rows;
}

template <typename T, int D, bool DROPS>
static void launch_f(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n = blocks_of(x->q_len, forward_shape<D>::ROWS);
    unsigned grid = (unsigned)(x->batch * x->heads * n);

    forward<T, D, DROPS><<<grid, THREADS, 0, stream>>>(*x, n);
}

template <typename T, int D, bool DROPS>
static void launch_b(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n_q = blocks_of(x->q_len, ROWS), n_k = blocks_of(x->k_len, ROWS);
    unsigned grid_q = (unsigned)(x->batch * x->heads * n_q);
    unsigned grid_k = (unsigned)(x->batch * x->heads * n_k);

    backward_q<T, D, DROPS><<<grid_q, THREADS, 0, stream>>>(*x, n_q);
    if (x->dk)
        backward_kv<T, D, DROPS><<<grid_k, THREADS, 0, stream>>>(*x, n_k);
}

/* Runs launch<T, D, DROPS> as the call wants it. */
#define WITH_SHAPE(x, launch, stream)                       \
    do {                                                    \
        if ((x)->dtype == VP_DTYPE_BF16)                    \
            WITH_DIM(__nv_bfloat16, (x), launch, (stream)); \
        else                                                \
            WITH_DIM(__half, (x), launch, (stream));        \
    } while (0)
#define WITH_DIM(T, x, launch, stream)              \
    do {                                            \
        if ((x)->dim == 64)                         \
            WITH_DROPOUT(T, 64, x, launch, stream); \
        else                                        \
            WITH_DROPOUT(T, 80, x, launch, stream); \
    } while (0)
#define WITH_DROPOUT(T, D, x, launch, stream) \
    do {                                      \
        if ((x)->drop.threshold)              \
            launch<T, D, true>(x, stream);    \
        else                                  \
            launch<T, D, false>(x, stream);   \
    } while (0)

bool vp_attention_mma_takes(const struct vp_attention_call *x)
{
    return x->dtype != VP_DTYPE_F32 && (x->dim == 64 || x->dim == 80) &&
           x->k_len <= MAX_KEYS;
}

void vp_attention_mma_f(const struct vp_attention_call *x, cudaStream_t stream)
{
    WITH_SHAPE(x, launch_f, stream);
}

void vp_attention_mma_b(const struct vp_attention_call *x, cudaStream_t stream)
{
    WITH_SHAPE(x, launch_b, stream);
}
