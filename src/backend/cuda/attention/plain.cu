/* Attention in float, for any head size, any length and every type.
 *
 * All steps are products of two tiles of 64 rows. A block of 256 threads owns a
 * tile of queries (out, dq) or of keys (dk and dv) of one head, and 64 columns
 * of the result; it loops over the tiles of the other side in order. Every
 * element is therefore written by one thread, and its sum has one order. Heads
 * of more than 64 columns take several blocks, each of which computes the
 * scores. */
#include "backend/cuda/attention/attention.cuh"

enum {
    TILE = 64,  /* queries, keys, and columns of a result */
    DEPTH = 32, /* summed elements staged in shared memory at a time */
    OWN = 4,    /* a thread owns OWN x OWN elements of a tile */
    SIDE = TILE / OWN,
    THREADS = SIDE * SIDE,
    LD = TILE + 4, /* spreads columns over banks, keeps 16-byte alignment */
};

/* Operands of products in shared memory, with the summed index first. */
struct stage {
    float a[DEPTH][LD], b[DEPTH][LD];
    float tile[TILE][LD];     /* [column][row] of a tile of scores */
    uint8_t keep[TILE][TILE]; /* [query][key] */
};

/* The thread's first row and column in a tile. */
static __device__ int own_row(void)
{
    return (int)threadIdx.x / SIDE * OWN;
}

static __device__ int own_col(void)
{
    return (int)threadIdx.x % SIDE * OWN;
}

/* ---- Products ----------------------------------------------------------- */

template <typename T>
static __device__ float element(const vp_rows<const T> &m, int row, int col)
{
    return row < m.n && col < m.dim ? vp_float(m.data[row * m.ld + col]) : 0.0f;
}

/* dst[d][r] = m[row + r][col + d] */
template <typename T>
static __device__ void stage_columns(float (*dst)[LD],
                                     const vp_rows<const T> &m, int row,
                                     int col)
{
    for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS)
        dst[i % DEPTH][i / DEPTH] = element(m, row + i / DEPTH,
                                            col + i % DEPTH);
}

/* dst[d][c] = m[row + d][col + c] */
template <typename T>
static __device__ void stage_rows(float (*dst)[LD], const vp_rows<const T> &m,
                                  int row, int col)
{
    for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS)
        dst[i / TILE][i % TILE] = element(m, row + i / TILE, col + i % TILE);
}

/* acc[r][c] += sum over d of a[d][r] * b[d][c], for the elements that the
 * thread owns */
static __device__ void multiply(float (&acc)[OWN][OWN], const float (*a)[LD],
                                const float (*b)[LD])
{
#pragma unroll 8
    for (int d = 0; d < DEPTH; d++) {
        float4 r4 = *(const float4 *)&a[d][own_row()];
        float4 c4 = *(const float4 *)&b[d][own_col()];
        float r[OWN] = { r4.x, r4.y, r4.z, r4.w };
        float c[OWN] = { c4.x, c4.y, c4.z, c4.w };

#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++)
                acc[i][j] = fmaf(r[i], c[j], acc[i][j]);
    }
}

/* acc = rows [a_row, + TILE) of a times the transpose of rows [b_row, + TILE)
 * of b. Contains barriers: earlier writes to shared memory are visible after
 * it. */
template <typename T>
static __device__ void dot_rows(float (&acc)[OWN][OWN], struct stage &s,
                                const vp_rows<const T> &a, int a_row,
                                const vp_rows<const T> &b, int b_row)
{
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int j = 0; j < OWN; j++)
            acc[i][j] = 0.0f;
    for (int col = 0; col < a.dim; col += DEPTH) {
        __syncthreads();
        stage_columns(s.a, a, a_row, col);
        stage_columns(s.b, b, b_row, col);
        __syncthreads();
        multiply(acc, s.a, s.b);
    }
}

/* acc += w * rows [row, + TILE) of m, in columns [col, + TILE). `w` is a tile
 * with one column for each of these rows; each thread passes the elements it
 * owns. */
template <typename T>
static __device__ void add_rows(float (&acc)[OWN][OWN], struct stage &s,
                                const float (&w)[OWN][OWN],
                                const vp_rows<const T> &m, int row, int col)
{
    __syncthreads();
#pragma unroll
    for (int j = 0; j < OWN; j++)
        *(float4 *)&s.tile[own_col() + j][own_row()] = make_float4(
            w[0][j], w[1][j], w[2][j], w[3][j]);
    for (int d = 0; d < TILE; d += DEPTH) {
        __syncthreads();
        stage_rows(s.b, m, row + d, col);
        __syncthreads();
        multiply(acc, s.tile + d, s.b);
    }
}

template <typename T>
static __device__ void store_rows(const vp_rows<T> &dst, int row, int col,
                                  const float (&acc)[OWN][OWN], bool add)
{
#pragma unroll
    for (int i = 0; i < OWN; i++) {
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            int r = row + own_row() + i, c = col + own_col() + j;
            T *at = dst.data + r * dst.ld + c;

            if (r < dst.n && c < dst.dim)
                *at = vp_round<T>(add ? vp_float(*at) + acc[i][j] : acc[i][j]);
        }
    }
}

/* ---- Probabilities ------------------------------------------------------ */

/* Sets s.keep for queries [q0, + TILE) and keys [k0, + TILE): note [dropout] in
 * base/rng.h. Each thread generates one of the tile's 256 groups of 16. */
static __device__ void draw_bits(struct stage &s,
                                 const struct vp_attention_call &x,
                                 const struct vp_attention_head &h, int q0,
                                 int k0)
{
    int big_q = (int)threadIdx.x / 64, big_k = (int)threadIdx.x / 32 % 2;
    int g = (int)threadIdx.x / 4 % 8, c = (int)threadIdx.x % 4;
    struct vp_rng4 bits;

    if (!x.drop.threshold)
        return;
    bits = vp_rng(x.drop.mb->seed, VP_RNG_DROPOUT, x.drop.op,
                  (uint32_t)(q0 / 16 + big_q) << 16 |
                      (uint32_t)(k0 / 32 + big_k),
                  (uint32_t)((x.first_head + h.index) << 8 | g << 2 | c),
                  x.drop.mb->first_sample + (uint64_t)h.sample);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int q = 16 * big_q + i / 8 * 8 + g;
        int k = 32 * big_k + i % 8 / 2 * 8 + 2 * c + i % 2;

        s.keep[q][k] = vp_rng_byte(bits, i) >= x.drop.threshold;
    }
}

/* Dropout's factor for a probability of the tile. */
static __device__ float keep_factor(const struct stage &s,
                                    const struct vp_attention_call &x, int q,
                                    int k)
{
    if (!x.drop.threshold)
        return 1.0f;
    return s.keep[q % TILE][k % TILE] ? x.drop.scale : 0.0f;
}

static __device__ bool may_attend(const struct vp_attention_call &x,
                                  const struct vp_attention_head &h, int q,
                                  int k)
{
    if (k >= x.k_len || (x.mask && !x.mask[h.k_row + k]))
        return false;
    return !x.causal || k <= q;
}

/* Maximum, and sum, over the 16 threads that own the same rows. */
static __device__ float row_max(float most)
{
    for (int lane = SIDE / 2; lane > 0; lane /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, lane));
    return most;
}

static __device__ float row_sum(float sum)
{
    for (int lane = SIDE / 2; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lane);
    return sum;
}

/* Returns n, if queries [q0, q0 + TILE) may see keys [0, n). */
static __device__ int n_keys_seen(const struct vp_attention_call &x, int q0)
{
    return x.causal ? min(q0 + TILE, x.k_len) : x.k_len;
}

/* ---- F ------------------------------------------------------------------ */

/* State of the softmax of a thread's rows, over the keys so far: `sum` is the
 * sum of exp(score - most), and acc has the same factor. */
struct running {
    float most[OWN], sum[OWN], acc[OWN][OWN];
};

/* Adds one tile of keys to the softmax, and turns w from products q . k into
 * exp(score - most). */
static __device__ void softmax_tile(struct running &z, float (&w)[OWN][OWN],
                                    const struct vp_attention_call &x,
                                    const struct vp_attention_head &h, int q,
                                    int k)
{
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float most = z.most[i], sum = 0.0f, base, fade;

#pragma unroll
        for (int j = 0; j < OWN; j++) {
            w[i][j] = may_attend(x, h, q + i, k + j) ? x.scale * w[i][j]
                                                     : -INFINITY;
            most = fmaxf(most, w[i][j]);
        }
        most = row_max(most);
        base = most == -INFINITY ? 0.0f : most;
        fade = expf(z.most[i] - base);
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            w[i][j] = expf(w[i][j] - base);
            sum += w[i][j];
            z.acc[i][j] *= fade;
        }
        z.sum[i] = fmaf(z.sum[i], fade, row_sum(sum));
        z.most[i] = most;
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS, 2)
    forward(const struct vp_attention_call x)
{
    __shared__ struct stage s;
    struct vp_attention_head h = vp_attention_head_of(x, blockIdx.x);
    int q0 = (int)blockIdx.y * TILE, col = (int)blockIdx.z * TILE;
    int q = q0 + own_row(), n_keys = n_keys_seen(x, q0);
    vp_rows<const T> queries = vp_q_rows<const T>(x.q, x.ld_q, x, h);
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    struct running z = {};

#pragma unroll
    for (int i = 0; i < OWN; i++)
        z.most[i] = -INFINITY;
    for (int k0 = 0; k0 < n_keys; k0 += TILE) {
        int k = k0 + own_col();
        float w[OWN][OWN];

        draw_bits(s, x, h, q0, k0);
        dot_rows(w, s, queries, q0, keys, k0);
        softmax_tile(z, w, x, h, q, k);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++)
                w[i][j] *= keep_factor(s, x, q + i, k + j);
        add_rows(z.acc, s, w, values, k0, col);
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        bool seen = z.sum[i] != 0.0f;

#pragma unroll
        for (int j = 0; j < OWN; j++)
            z.acc[i][j] = seen ? z.acc[i][j] / z.sum[i] : 0.0f;
        if (q + i < x.q_len && col == 0 && own_col() == 0)
            x.lse[(h.q_row + q + i) * x.heads + h.index] =
                seen ? z.most[i] + logf(z.sum[i]) : 0.0f;
    }
    store_rows(vp_q_rows<T>(x.out, x.ld_out, x, h), q0, col, z.acc, false);
}

/* ---- B ------------------------------------------------------------------ */

/* delta = dout . out; one warp per query and head. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    set_delta(const struct vp_attention_call x)
{
    int64_t i = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    int64_t at = i / x.heads * x.ld_out + i % x.heads * x.dim;
    float sum = 0.0f;

    if (i >= x.batch * x.q_len * x.heads)
        return;
    for (int j = threadIdx.x % 32; j < x.dim; j += 32)
        sum = fmaf(vp_float(((const T *)x.out)[at + j]),
                   vp_float(((const T *)x.dout)[at + j]), sum);
    sum = vp_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        x.delta[i] = sum;
}

/* lse or delta of a query; 0 beyond the last query, as are q and dout, so that
 * these rows add nothing to any gradient. */
static __device__ float of_query(const float *per_query,
                                 const struct vp_attention_call &x,
                                 const struct vp_attention_head &h, int q)
{
    return q < x.q_len ? per_query[(h.q_row + q) * x.heads + h.index] : 0.0f;
}

/* Turns w from q . k into keep * p, and dp from dout . v into the gradient of
 * the score. */
static __device__ void gradient(float &w, float &dp, const struct stage &s,
                                const struct vp_attention_call &x,
                                const struct vp_attention_head &h, int q, int k,
                                float lse, float delta)
{
    float p = may_attend(x, h, q, k) ? expf(x.scale * w - lse) : 0.0f;
    float keep = keep_factor(s, x, q, k);

    w = keep * p;
    dp = x.scale * p * (keep * dp - delta);
}

/* dq. Tiles are [query][key]. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, 2)
    backward_q(const struct vp_attention_call x)
{
    __shared__ struct stage s;
    struct vp_attention_head h = vp_attention_head_of(x, blockIdx.x);
    int q0 = (int)blockIdx.y * TILE, col = (int)blockIdx.z * TILE;
    int q = q0 + own_row(), n_keys = n_keys_seen(x, q0);
    vp_rows<const T> queries = vp_q_rows<const T>(x.q, x.ld_q, x, h);
    vp_rows<const T> douts = vp_q_rows<const T>(x.dout, x.ld_out, x, h);
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    float dq[OWN][OWN] = {}, lse[OWN], delta[OWN];

#pragma unroll
    for (int i = 0; i < OWN; i++) {
        lse[i] = of_query(x.lse, x, h, q + i);
        delta[i] = of_query(x.delta, x, h, q + i);
    }
    for (int k0 = 0; k0 < n_keys; k0 += TILE) {
        int k = k0 + own_col();
        float w[OWN][OWN], ds[OWN][OWN];

        draw_bits(s, x, h, q0, k0);
        dot_rows(w, s, queries, q0, keys, k0);
        dot_rows(ds, s, douts, q0, values, k0);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < OWN; j++)
                gradient(w[i][j], ds[i][j], s, x, h, q + i, k + j, lse[i],
                         delta[i]);
        add_rows(dq, s, ds, keys, k0, col);
    }
    store_rows(vp_q_rows<T>(x.dq, x.ld_q, x, h), q0, col, dq, x.add_q);
}

/* dk and dv. Tiles are [key][query]. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, 2)
    backward_kv(const struct vp_attention_call x)
{
    __shared__ struct stage s;
    struct vp_attention_head h = vp_attention_head_of(x, blockIdx.x);
    int k0 = (int)blockIdx.y * TILE, col = (int)blockIdx.z * TILE;
    int k = k0 + own_row();
    vp_rows<const T> queries = vp_q_rows<const T>(x.q, x.ld_q, x, h);
    vp_rows<const T> douts = vp_q_rows<const T>(x.dout, x.ld_out, x, h);
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, h);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, h);
    float dk[OWN][OWN] = {}, dv[OWN][OWN] = {};

    for (int q0 = x.causal ? k0 : 0; q0 < x.q_len; q0 += TILE) {
        int q = q0 + own_col();
        float w[OWN][OWN], ds[OWN][OWN];

        draw_bits(s, x, h, q0, k0);
        dot_rows(w, s, keys, k0, queries, q0);
        dot_rows(ds, s, values, k0, douts, q0);
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            float lse = of_query(x.lse, x, h, q + j);
            float delta = of_query(x.delta, x, h, q + j);

#pragma unroll
            for (int i = 0; i < OWN; i++)
                gradient(w[i][j], ds[i][j], s, x, h, q + j, k + i, lse, delta);
        }
        add_rows(dv, s, w, douts, q0, col);
        add_rows(dk, s, ds, queries, q0, col);
    }
    store_rows(vp_k_rows<T>(x.dk, x.ld_kv, x, h), k0, col, dk, x.add_kv);
    store_rows(vp_k_rows<T>(x.dv, x.ld_kv, x, h), k0, col, dv, x.add_kv);
}

/* ---- Launches ----------------------------------------------------------- */

/* Number of blocks: heads, tiles of `len` rows, tiles of columns. */
static dim3 grid_of(const struct vp_attention_call *x, int len)
{
    return dim3((unsigned)(x->batch * x->heads),
                (unsigned)((len + TILE - 1) / TILE),
                (unsigned)((x->dim + TILE - 1) / TILE));
}

void vp_attention_plain_f(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    dim3 grid = grid_of(x, x->q_len);

    VP_WITH_TYPE(x->dtype, (forward<T><<<grid, THREADS, 0, stream>>>(*x)));
}

template <typename T>
static void backward(const struct vp_attention_call *x, cudaStream_t stream)
{
    int64_t n_warps = x->batch * x->q_len * x->heads;
    unsigned n_blocks = (unsigned)((n_warps + THREADS / 32 - 1) /
                                   (THREADS / 32));

    set_delta<T><<<n_blocks, THREADS, 0, stream>>>(*x);
    if (x->dq)
        backward_q<T><<<grid_of(x, x->q_len), THREADS, 0, stream>>>(*x);
    if (x->dk)
        backward_kv<T><<<grid_of(x, x->k_len), THREADS, 0, stream>>>(*x);
}

void vp_attention_plain_b(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    VP_WITH_TYPE(x->dtype, backward<T>(x, stream));
}
