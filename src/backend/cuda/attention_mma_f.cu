/* Attention on tensor cores, forward: one pass over the keys, with the
 * softmax rescaled as larger scores come (Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023). */
#include "backend/cuda/attention_mma.cuh"

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
    uint32_t p16[M][TILE / 16][4];

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
        round_rows<T>(p16[m], p[m]);
    }
    add_rows<T, D, M, TILE>(acc, p16, values);
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
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
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

template <typename T, int D, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n = blocks_of(x->q_len, forward_shape<D>::ROWS);
    unsigned grid = (unsigned)(x->batch * x->heads * n);

    forward<T, D, DROPS><<<grid, THREADS, 0, stream>>>(*x, n);
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
