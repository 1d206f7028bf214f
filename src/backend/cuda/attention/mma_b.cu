/* Backward of attention on tensor cores, in two kernels: rows of the first are
 * queries (delta and dq), rows of the second are keys (dk and dv). Both compute
 * the scores, so there are seven products instead of five, but no sum crosses
 * blocks. */
#include "backend/cuda/attention/mma.cuh"

enum { ROWS = 16 * WARPS }; /* rows that a block owns */

/* ---- Queries ------------------------------------------------------------ */

/* delta = dout . out of rows g and g + 8, in all four lanes of a row. */
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
            float2 a = vp_unpack<T>(dout[k][i]), b = vp_unpack<T>(out[k][i]);

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

/* Turns ds from dout . v into the gradient of the score, without the factor
 * scale; s is q . k. For 16 queries from q0 on and 32 keys from k0 on. */
template <bool DROPS>
static __device__ void gradients_q(float (&ds)[4][4], const float (&s)[4][4],
                                   const struct vp_attention_call &x,
                                   const struct mask_key &key, int q0, int k0,
                                   const float (&lse)[2],
                                   const float (&delta)[2])
{
    uint32_t byte[4][4];

    if (DROPS)
        draw_queries(byte, key, q0, k0);
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool dropped = DROPS && byte[j][i] < key.threshold;
            float keep = dropped ? 0.0f : x.drop.scale;
            float p = vp_exp2(
                fmaf(x.scale * LOG2E, s[j][i], -LOG2E * lse[i / 2]));

            ds[j][i] = p * fmaf(keep, ds[j][i], -delta[i / 2]);
        }
    }
}

/* Also computes delta, which backward_kv needs: it must be launched before that
 * kernel, even if dq is NULL. */
template <typename T, int D, bool DROPS>
static __global__ void __launch_bounds__(THREADS, D <= 64 ? 3 : 2)
    backward_q(const struct vp_attention_call x, int n_blocks)
{
    __shared__ alignas(16) T k_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T v_tile[STAGES][TILE][D + PAD];
    __shared__ uint32_t allowed[MAX_KEYS / 32];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_q = block_of(n_blocks, true) * ROWS;
    int q0 = block_q + (int)threadIdx.x / 32 * 16;
    int n_keys = x.causal ? min(block_q + ROWS, x.k_len) : x.k_len;
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct mask_key key = mask_key_of(x, h);
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
            uint32_t ds16[1][STEP / 16][4];

            if (x.causal && k0 + i > q0 + 15)
                break;
            dot_rows<T, D, 1, STEP>(s, queries, &k_tile[now][i]);
            dot_rows<T, D, 1, STEP>(ds, dout, &v_tile[now][i]);
            hide(s[0], allowed[(k0 + i) / 32], x.causal, q0, k0 + i);
            gradients_q<DROPS>(ds[0], s[0], x, key, q0, k0 + i, lse, delta);
            round_rows<T>(ds16[0], ds[0]);
            add_rows<T, D, 1, STEP>(dq, ds16, &k_tile[now][i]);
        }
        __syncthreads(); /* the tile is overwritten next */
    }
    store_fragments(vp_q_rows<T>(x.dq, x.ld_q, x, h), q0, dq[0], factor,
                    x.add_q);
}

/* ---- Keys and values ---------------------------------------------------- */

/* Sets scores of keys after the query to -infinity, for 16 keys from k0 on and
 * 32 queries from q0 on. The key mask hides whole rows, so it is applied at the
 * end, by clear_hidden(). */
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

/* Like draw_queries(), in fragments of 16 keys by 32 queries: element i of
 * fragment n is key k0 + g + 8 (i / 2), query q0 + 8n + 2c + i % 2. A lane
 * needs bytes of two groups, those of queries 2c and 2c + 1, and so does its
 * neighbour with key g ^ 1: each generates one group, and they exchange. */
static __device__ void draw_keys(uint32_t (&byte)[4][4],
                                 const struct mask_key &key, int q0, int k0)
{
    int g = lane_g(), odd = g % 2;
    bool upper = k0 / 16 % 2; /* second half of a group's 32 keys */

#pragma unroll
    for (int big_q = 0; big_q < 2; big_q++) {
        struct vp_rng4 bits = draw_bits(key, q0 + 16 * big_q, k0,
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

/* Starts to load lse and delta of queries [q0, q0 + TILE). Beyond the last
 * query they are 0, as are q and dout, so that these rows add nothing to any
 * gradient. */
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

/* Turns p from q . k into the probability, 0 if dropped, and ds from dout . v
 * into the gradient of the score, without the factor scale. For 16 keys from k0
 * on and 32 queries from q0 on; lse and delta are those of the queries. */
template <bool DROPS>
static __device__ void gradients_kv(float (&p)[4][4], float (&ds)[4][4],
                                    const struct vp_attention_call &x,
                                    const struct mask_key &key, int q0, int k0,
                                    const float *lse, const float *delta)
{
    uint32_t byte[4][4];

    if (DROPS)
        draw_keys(byte, key, q0, k0);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        float2 lse2 = *(const float2 *)&lse[8 * n + 2 * lane_c()];
        float2 delta2 = *(const float2 *)&delta[8 * n + 2 * lane_c()];

#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool dropped = DROPS && byte[n][i] < key.threshold;
            float keep = dropped ? 0.0f : x.drop.scale;
            float q_lse = i % 2 ? lse2.y : lse2.x;
            float q_delta = i % 2 ? delta2.y : delta2.x;
            float e = vp_exp2(fmaf(x.scale * LOG2E, p[n][i], -LOG2E * q_lse));

            ds[n][i] = e * fmaf(keep, ds[n][i], -q_delta);
            p[n][i] = dropped ? 0.0f : e;
        }
    }
}

/* Clears the rows of keys k0 + g and k0 + g + 8 that the mask hides from all
 * queries, whatever the fragments hold. */
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
static __global__ void __launch_bounds__(THREADS, D <= 64 ? 3 : 2)
    backward_kv(const struct vp_attention_call x, int n_blocks)
{
    __shared__ alignas(16) T q_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) T dout_tile[STAGES][TILE][D + PAD];
    __shared__ alignas(16) float lse[STAGES][TILE], delta[STAGES][TILE];
    struct vp_attention_head h = head_of(x, n_blocks);
    int block_k = block_of(n_blocks, false) * ROWS;
    int k0 = block_k + (int)threadIdx.x / 32 * 16;
    int first_q = x.causal ? block_k : 0;
    vp_rows<const T> queries = vp_q_rows<const T>(x.q, x.ld_q, x, h);
    vp_rows<const T> douts = vp_q_rows<const T>(x.dout, x.ld_out, x, h);
    struct mask_key key = mask_key_of(x, h);
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
            uint32_t p16[1][STEP / 16][4], ds16[1][STEP / 16][4];

            if (x.causal && q0 + i + STEP <= k0)
                continue;
            dot_rows<T, D, 1, STEP>(p, keys, &q_tile[now][i]);
            dot_rows<T, D, 1, STEP>(ds, values, &dout_tile[now][i]);
            if (x.causal)
                hide_earlier(p[0], q0 + i, k0);
            gradients_kv<DROPS>(p[0], ds[0], x, key, q0 + i, k0, &lse[now][i],
                                &delta[now][i]);
            round_rows<T>(p16[0], p[0]);
            round_rows<T>(ds16[0], ds[0]);
            add_rows<T, D, 1, STEP>(dv, p16, &dout_tile[now][i]);
            add_rows<T, D, 1, STEP>(dk, ds16, &q_tile[now][i]);
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

template <typename T, int D, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    int n_q = blocks_of(x->q_len, ROWS), n_k = blocks_of(x->k_len, ROWS);
    unsigned grid_q = (unsigned)(x->batch * x->heads * n_q);
    unsigned grid_k = (unsigned)(x->batch * x->heads * n_k);

    backward_q<T, D, DROPS><<<grid_q, THREADS, 0, stream>>>(*x, n_q);
    if (x->dk)
        backward_kv<T, D, DROPS><<<grid_k, THREADS, 0, stream>>>(*x, n_k);
}

void vp_attention_mma_b(const struct vp_attention_call *x, cudaStream_t stream)
{
    static const launch_fn table[2][2][2] = { LAUNCHES(launch, __nv_bfloat16),
                                              LAUNCHES(launch, __half) };

    launch_of(table, x)(x, stream);
}
