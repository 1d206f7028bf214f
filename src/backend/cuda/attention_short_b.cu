/* Attention on tensor cores, backward, for heads of 64 columns and at most 512
 * keys: every product once. A block owns 128 keys of a head, a warp 32 of them,
 * with dk and dv in registers, and walks over the queries; the blocks of a head
 * are a cluster.
 *
 * Rows of scores are keys here, so that p and ds leave the accumulators as the
 * first factors of dv = p^T dout and dk = ds^T q. Only dq = ds k, a sum over
 * all keys, crosses warps: ds goes through shared memory, and the blocks of a
 * cluster send each other their parts of dq, which are added by rank. */
#include "backend/cuda/attention_mma.cuh"

enum {
    DIM = 64,
    ROW = DIM + PAD, /* elements from row to row in shared memory */
    WARP_KEYS = 32,
    KEYS = WARP_KEYS * WARPS,
    MAX_BLOCKS = 4, /* of a head */
    MAX_QUERIES = 1024,
    BLOCKS_PER_SM = 2,
    STATS_LANES = DIM / 8, /* that read a row, 16 bytes each */
};

/* For heads of so many blocks. A tile is what is walked over at a time; a lone
 * block has the memory for more queries, which saves barriers and loads. Of a
 * tile's dq a warp computes M by N fragments; in a cluster, fragment n of every
 * thread is summed by block n % BLOCKS, as its number n / BLOCKS. */
template <int BLOCKS> struct shape {
    enum {
        QUERIES = BLOCKS > 1 ? 32 : 64,
        M = QUERIES / 32,
        N = 4,
        SUMS = (N + BLOCKS - 1) / BLOCKS,
    };
};

template <int BLOCKS> struct dq_part {
    float c[shape<BLOCKS>::M][shape<BLOCKS>::N][4];
};

/* Of a query: log2(e) lse, and delta over dropout's scale, which then is a
 * factor of ds as a whole. */
struct alignas(8) stats {
    float lse, delta;
};

/* Fragments of dq that the blocks of a cluster have sent. */
template <int BLOCKS> struct mailbox {
    float4 part[STAGES][BLOCKS][shape<BLOCKS>::SUMS][THREADS];
};

template <> struct mailbox<1> {
};

template <typename T, int BLOCKS> struct shared_memory {
    enum { QUERIES = shape<BLOCKS>::QUERIES };
    T keys[KEYS][ROW], values[KEYS][ROW];
    T queries[STAGES][QUERIES][ROW], douts[STAGES][QUERIES][ROW];
    T ds[KEYS][QUERIES + PAD];                   /* transposed: rows are keys */
    alignas(16) struct stats stats[MAX_QUERIES]; /* 0 beyond the last */
    mailbox<BLOCKS> mail;
};

/* What a block works on. */
template <typename T, int BLOCKS> struct work {
    struct vp_attention_head head;
    int rank;      /* which block of its head this is */
    int k0;        /* the warp's first key */
    uint32_t seen; /* of the warp's keys, those that the mask shows */
    shared_memory<T, BLOCKS> *shared;
};

static __device__ inline int warp_index(void)
{
    return (int)threadIdx.x / 32;
}

/* ---- Loads -------------------------------------------------------------- */

/* Starts to copy rows [row, row + N); 0 beyond the last. */
template <int N, typename T>
static __device__ void copy_rows(T (*dst)[ROW], const vp_rows<const T> &src,
                                 int row)
{
    int r = (int)threadIdx.x / (DIM / 8),
        col = (int)threadIdx.x % (DIM / 8) * 8;
    const T *from = src.data + (row + r) * src.ld + col;

#pragma unroll
    for (int i = 0; i < N; i += THREADS / (DIM / 8)) {
        bool inside = row + r + i < src.n;

        vp_copy16_async(&dst[r + i][col], inside ? from + i * src.ld : src.data,
                        inside);
    }
}

template <typename T, int BLOCKS>
static __device__ void copy_queries(const struct vp_attention_call &x,
                                    const work<T, BLOCKS> &w, int tile)
{
    enum { QUERIES = shape<BLOCKS>::QUERIES };
    int stage = tile % STAGES, q0 = tile * QUERIES;

    if (q0 < x.q_len) {
        copy_rows<QUERIES>(w.shared->queries[stage],
                           vp_q_rows<const T>(x.q, x.ld_q, x, w.head), q0);
        copy_rows<QUERIES>(w.shared->douts[stage],
                           vp_q_rows<const T>(x.dout, x.ld_out, x, w.head), q0);
    }
    vp_copy_commit();
}

template <typename T>
static __device__ float dot8(const vp_vec<T> &a, const vp_vec<T> &b)
{
    float sum = 0.0f;

#pragma unroll
    for (int i = 0; i < vp_vec<T>::N; i++)
        sum = fmaf(vp_float(a.x[i]), vp_float(b.x[i]), sum);
    return sum;
}

/* Of one query; all lanes of its row have it. */
template <typename T, int BLOCKS>
static __device__ struct stats stats_of(const struct vp_attention_call &x,
                                        const work<T, BLOCKS> &w, int q)
{
    int col = (int)threadIdx.x % STATS_LANES * 8;
    vp_vec<T> dout = {}, out = {};
    struct stats stats = { 0.0f, 0.0f };

    if (q < x.q_len) {
        int64_t at = (w.head.q_row + q) * x.ld_out + w.head.index * DIM + col;

        dout = *(const vp_vec<T> *)((const T *)x.dout + at);
        out = *(const vp_vec<T> *)((const T *)x.out + at);
        stats.lse = LOG2E * x.lse[(w.head.q_row + q) * x.heads + w.head.index];
    }
    stats.delta = dot8(dout, out) / x.drop.scale;
#pragma unroll
    for (int lane = 1; lane < STATS_LANES; lane *= 2)
        stats.delta += __shfl_xor_sync(0xFFFFFFFFu, stats.delta, lane);
    return stats;
}

/* The blocks of a head share this, too. In a cluster, all have it at the end;
 * else after a barrier. */
template <typename T, int BLOCKS>
static __device__ void set_stats(const struct vp_attention_call &x,
                                 const work<T, BLOCKS> &w)
{
    enum { QUERIES = shape<BLOCKS>::QUERIES, ROWS = THREADS / STATS_LANES };
    int end = (x.q_len + QUERIES - 1) / QUERIES * QUERIES;
    int first = w.rank * ROWS + (int)threadIdx.x / STATS_LANES;
    int lane = (int)threadIdx.x % STATS_LANES;

    static_assert(QUERIES % ROWS == 0, "warps leave the loop together");
#pragma unroll 4
    for (int q = first; q < end; q += BLOCKS * ROWS) {
        struct stats stats = stats_of(x, w, q);

        if (lane < BLOCKS)
            *vp_cluster_peer(&w.shared->stats[q], lane) = stats;
    }
    if (BLOCKS > 1) {
        vp_cluster_arrive();
        vp_cluster_wait();
    }
}

static __device__ uint32_t seen_keys(const struct vp_attention_call &x,
                                     const struct vp_attention_head &h, int k0)
{
    int k = k0 + (int)threadIdx.x % 32;
    bool seen = k < x.k_len && (!x.mask || x.mask[h.k_row + k]);

    return __ballot_sync(0xFFFFFFFFu, seen);
}

/* ---- Products ----------------------------------------------------------- */

/* c [32, 32] = rows of a, transposed rows of b: keys by queries. */
template <typename T>
static __device__ void dot_tiles(float (&c)[2][4][4], const T (*a)[ROW],
                                 const T (*b)[ROW])
{
    int lane = (int)threadIdx.x % 32;
    const T *a_at = &a[lane % 16][lane / 16 * 8];
    const T *b_at = &b[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];

#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                c[m][n][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < DIM; k += 16) {
        uint32_t a16[2][4];

        vp_load_matrices(a16[0], a_at + k);
        vp_load_matrices(a16[1], a_at + 16 * ROW + k);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t b16[4]; /* two B, of rows 16n .. and 16n + 8 .. */

            vp_load_matrices(b16, b_at + 16 * n * ROW + k);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                vp_mma<T>(c[m][2 * n], a16[m], b16);
                vp_mma<T>(c[m][2 * n + 1], a16[m], b16 + 2);
            }
        }
    }
}

/* A warp's part of ds k: queries by columns, from all keys of the block. */
template <typename T, int BLOCKS>
static __device__ void dot_keys(dq_part<BLOCKS> &part,
                                const shared_memory<T, BLOCKS> &shared, int row,
                                int col)
{
    enum { M = shape<BLOCKS>::M, N = shape<BLOCKS>::N };
    enum { DS_ROW = shape<BLOCKS>::QUERIES + PAD };
    int lane = (int)threadIdx.x % 32;
    const T *a_at =
        &shared.ds[lane % 8 + lane / 16 * 8][row + lane / 8 % 2 * 8];
    const T *b_at = &shared.keys[lane % 16][col + lane / 16 * 8];

    part = {};
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) {
        uint32_t a16[M][4];

#pragma unroll
        for (int m = 0; m < M; m++)
            vp_load_matrices_trans(a16[m], a_at + k * DS_ROW + 16 * m);
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            uint32_t b16[4]; /* two B, of columns 16n .. and 16n + 8 .. */

            vp_load_matrices_trans(b16, b_at + k * ROW + 16 * n);
#pragma unroll
            for (int m = 0; m < M; m++) {
                vp_mma<T>(part.c[m][2 * n], a16[m], b16);
                vp_mma<T>(part.c[m][2 * n + 1], a16[m], b16 + 2);
            }
        }
    }
}

/* ---- Scores ------------------------------------------------------------- */

/* Random bytes of 32 keys by 16 queries from q0 on: byte j of word[a][b] is
 * that of key g + 8j, query 2c + b + 8a. A lane needs bytes of two groups (note
 * [dropout]), and so does its neighbour with the key g ^ 1: each rolls one of
 * them and they swap. */
static __device__ void roll_tile(uint32_t (&word)[2][2],
                                 const struct dice &dice, int q0, int k0)
{
    int g = lane_g(), odd = g % 2;
    struct vp_rng4 bits = roll(dice, q0, k0, 2 * lane_c() + odd, g / 2);
    uint32_t mine = odd ? 0x7531u : 0x6420u; /* bytes of odd or even keys */
    uint32_t others = odd ? 0x6420u : 0x7531u;

#pragma unroll
    for (int a = 0; a < 2; a++) {
        uint32_t low = bits.v[2 * a], high = bits.v[2 * a + 1];
        uint32_t own = __byte_perm(low, high, mine);
        uint32_t sent = __byte_perm(low, high, others);
        uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, sent, 4);

        word[a][0] = odd ? got : own;
        word[a][1] = odd ? own : got;
    }
}

/* Scores of the warp's keys, where the mask hides some: -infinity. */
static __device__ void hide_keys(float (&s)[2][4][4], uint32_t seen)
{
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int a = 0; a < 2; a++) {
            bool hidden = !(seen >> (16 * m + 8 * a + lane_g()) & 1);

#pragma unroll
            for (int n = 0; n < 4; n++) {
                s[m][n][2 * a] = hidden ? -INFINITY : s[m][n][2 * a];
                s[m][n][2 * a + 1] = hidden ? -INFINITY : s[m][n][2 * a + 1];
            }
        }
    }
}

/* p goes from q . k to the probability, 0 if dropped; ds from dout . v to the
 * gradient of the score, less its scale and dropout's. Of 32 queries, whose
 * stats these are; `word` has the random bytes of 16 and the next 16. */
template <bool DROPS>
static __device__ void gradients(float (&p)[2][4][4], float (&ds)[2][4][4],
                                 const uint32_t (&word)[2][2][2],
                                 const struct vp_attention_call &x,
                                 const struct stats *stats)
{
    float scale = x.scale * LOG2E;
    uint32_t threshold = x.drop.threshold << 24;

#pragma unroll
    for (int n = 0; n < 4; n++) {
        float4 two = *(const float4 *)&stats[8 * n + 2 * lane_c()];

#pragma unroll
        for (int m = 0; m < 2; m++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float lse = i % 2 ? two.z : two.x;
                float delta = i % 2 ? two.w : two.y;
                float e = vp_exp2(fmaf(scale, p[m][n][i], -lse));
                int shift = 24 - 8 * (2 * m + i / 2); /* the byte on top: */
                bool dropped = DROPS && /* what is below does not matter */
                               word[n / 2][n % 2][i % 2] << shift < threshold;

                p[m][n][i] = dropped ? 0.0f : e;
                ds[m][n][i] = fmaf(p[m][n][i], ds[m][n][i], -(e * delta));
            }
        }
    }
}

/* Fragments of the warp's keys by 32 queries, from column `col` on. */
template <typename T, int BLOCKS>
static __device__ void put_ds(shared_memory<T, BLOCKS> &shared,
                              const uint32_t (&ds)[2][2][4], int col)
{
    enum { DS_ROW = shape<BLOCKS>::QUERIES + PAD };
    T *at = &shared.ds[warp_index() * WARP_KEYS + lane_g()][col + 2 * lane_c()];

#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                *(uint32_t *)(at + (16 * m + i % 2 * 8) * DS_ROW + 16 * k +
                              i / 2 * 8) = ds[m][k][i];
}

/* Adds 32 queries, rows [row, row + 32) of a tile, to dk and dv, and leaves
 * their ds. */
template <typename T, int BLOCKS, bool DROPS>
static __device__ void add_queries(float (&dk)[2][DIM / 8][4],
                                   float (&dv)[2][DIM / 8][4],
                                   const struct vp_attention_call &x,
                                   const work<T, BLOCKS> &w,
                                   const struct dice &dice, int tile, int row)
{
    shared_memory<T, BLOCKS> &shared = *w.shared;
    const T(*queries)[ROW] = &shared.queries[tile % STAGES][row];
    const T(*douts)[ROW] = &shared.douts[tile % STAGES][row];
    int first = warp_index() * WARP_KEYS;
    int q0 = tile * shape<BLOCKS>::QUERIES + row;
    uint32_t word[2][2][2];
    float p[2][4][4], ds[2][4][4];
    uint32_t p16[2][2][4], ds16[2][2][4];

    /* First, as the tensor cores leave time for it. */
    if (DROPS) {
        roll_tile(word[0], dice, q0, w.k0);
        roll_tile(word[1], dice, q0 + 16, w.k0);
    }
    dot_tiles<T>(p, &shared.keys[first], queries);
    dot_tiles<T>(ds, &shared.values[first], douts);
    if (w.seen != 0xFFFFFFFFu)
        hide_keys(p, w.seen);
    gradients<DROPS>(p, ds, word, x, &shared.stats[q0]);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        round_rows<T>(p16[m], p[m]);
        round_rows<T>(ds16[m], ds[m]);
    }
    put_ds(shared, ds16, row);
    add_rows<T, DIM, 2, 32>(dv, p16, douts);
    add_rows<T, DIM, 2, 32>(dk, ds16, queries);
}

/* ---- Sums over the blocks of a head ------------------------------------- */

template <typename T, int BLOCKS>
static __device__ void send_part(const work<T, BLOCKS> &w,
                                 const dq_part<BLOCKS> &part, int tile)
{
    static_assert(shape<BLOCKS>::M == 1, "the mailbox has no other rows");
#pragma unroll
    for (int n = 0; n < shape<BLOCKS>::N; n++) {
        const float *c = part.c[0][n];
        float4 *at = &w.shared->mail
                          .part[tile % STAGES][w.rank][n / BLOCKS][threadIdx.x];

        *vp_cluster_peer(at, n % BLOCKS) = make_float4(c[0], c[1], c[2], c[3]);
    }
}

/* Two elements of a row of dq. */
template <typename T>
static __device__ void store_pair(const vp_rows<T> &dst, int row, int col,
                                  float low, float high, float factor, bool add)
{
    T *at = dst.data + row * dst.ld + col;

    if (row >= dst.n)
        return;
    low *= factor;
    high *= factor;
    if (add) {
        low += vp_float(at[0]);
        high += vp_float(at[1]);
    }
    *(uint32_t *)at = vp_pack<T>(low, high);
}

/* Adds what the blocks have sent for a tile. */
template <typename T, int BLOCKS>
static __device__ void add_parts(const struct vp_attention_call &x,
                                 const work<T, BLOCKS> &w, int tile, int row,
                                 int col)
{
    vp_rows<T> dq = vp_q_rows<T>(x.dq, x.ld_q, x, w.head);
    float scale = x.scale * x.drop.scale;

#pragma unroll
    for (int i = 0; i < shape<BLOCKS>::SUMS; i++) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        int n = i * BLOCKS + w.rank;
        int q = tile * shape<BLOCKS>::QUERIES + row + lane_g();
        int at = col + 8 * n + 2 * lane_c();

        if (n >= shape<BLOCKS>::N)
            break;
#pragma unroll
        for (int from = 0; from < BLOCKS; from++) {
            float4 c = w.shared->mail.part[tile % STAGES][from][i][threadIdx.x];

            sum = make_float4(sum.x + c.x, sum.y + c.y, sum.z + c.z,
                              sum.w + c.w);
        }
        store_pair(dq, q, at, sum.x, sum.y, scale, x.add_q);
        store_pair(dq, q + 8, at, sum.z, sum.w, scale, x.add_q);
    }
}

/* ---- The kernel --------------------------------------------------------- */

/* dq of a tile, once its ds is there; in a cluster, the sums of the tile
 * before, so that nobody waits for blocks that are a little behind. */
template <typename T, int BLOCKS>
static __device__ void add_tile_dq(const struct vp_attention_call &x,
                                   const work<T, BLOCKS> &w, int tile)
{
    enum { QUERIES = shape<BLOCKS>::QUERIES };
    enum { M = shape<BLOCKS>::M, N = shape<BLOCKS>::N };
    int row = warp_index() % 2 * 16 * M, col = warp_index() / 2 * 8 * N;
    dq_part<BLOCKS> part;

    dot_keys(part, *w.shared, row, col);
    if constexpr (BLOCKS > 1) {
        if (tile > 0) {
            vp_cluster_wait();
            add_parts(x, w, tile - 1, row, col);
        }
        send_part(w, part, tile);
        vp_cluster_arrive();
        if ((tile + 1) * QUERIES >= x.q_len) {
            vp_cluster_wait();
            add_parts(x, w, tile, row, col);
        }
    } else {
        vp_rows<T> dq = vp_q_rows<T>(x.dq, x.ld_q, x, w.head);
        float scale = x.scale * x.drop.scale, factor[2] = { scale, scale };

        dq.data += col;
#pragma unroll
        for (int m = 0; m < M; m++)
            store_fragments(dq, tile * QUERIES + row + 16 * m, part.c[m],
                            factor, x.add_q);
    }
}

template <typename T, int BLOCKS>
static __device__ work<T, BLOCKS> work_of(const struct vp_attention_call &x,
                                          shared_memory<T, BLOCKS> *shared)
{
    int rank = (int)(blockIdx.x % BLOCKS);
    int k0 = rank * KEYS + warp_index() * WARP_KEYS;
    struct vp_attention_head h = vp_attention_head_of(x, blockIdx.x / BLOCKS);

    return { h, rank, k0, 0, shared };
}

template <typename T, int BLOCKS>
static __device__ void start_copies(const struct vp_attention_call &x,
                                    const work<T, BLOCKS> &w)
{
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, w.head);
    vp_rows<const T> values = vp_k_rows<const T>(x.v, x.ld_kv, x, w.head);

    copy_rows<KEYS>(w.shared->keys, keys, w.rank * KEYS);
    copy_rows<KEYS>(w.shared->values, values, w.rank * KEYS);
    for (int tile = 0; tile < STAGES; tile++)
        copy_queries(x, w, tile);
}

/* Keys that no query sees have ds = 0, once for all tiles. */
template <typename T, int BLOCKS>
static __device__ void clear_ds(shared_memory<T, BLOCKS> &shared)
{
    uint32_t zero[2][2][4] = {};

    for (int col = 0; col < shape<BLOCKS>::QUERIES; col += 32)
        put_ds(shared, zero, col);
}

template <typename T, int BLOCKS, bool DROPS>
static __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    backward(const struct vp_attention_call x)
{
    enum { QUERIES = shape<BLOCKS>::QUERIES };
    extern __shared__ __align__(16) unsigned char memory[];
    work<T, BLOCKS> w = work_of(x, (shared_memory<T, BLOCKS> *)memory);
    struct dice dice = dice_of(x, w.head);
    float dk[2][DIM / 8][4] = {}, dv[2][DIM / 8][4] = {};
    float scale = x.scale * x.drop.scale, k_factor[2] = { scale, scale };
    float v_factor[2] = { x.drop.scale, x.drop.scale };

    if (BLOCKS > 1)
        vp_cluster_arrive();
    start_copies(x, w);
    w.seen = seen_keys(x, w.head, w.k0);
    if (BLOCKS > 1)
        vp_cluster_wait(); /* all have started: their memory can be written */
    set_stats(x, w);
    if (!w.seen)
        clear_ds(*w.shared);
    for (int tile = 0; tile * QUERIES < x.q_len; tile++) {
        vp_copy_wait<STAGES - 1>();
        __syncthreads(); /* the tile is there, ds of the last one is used */
#pragma unroll 1         /* the code should stay in its cache */
        for (int row = 0; row < QUERIES && w.seen; row += 32)
            add_queries<T, BLOCKS, DROPS>(dk, dv, x, w, dice, tile, row);
        __syncthreads(); /* ds is there, the tile is used */
        copy_queries(x, w, tile + STAGES);
        if (x.dq)
            add_tile_dq(x, w, tile);
    }
    if (!x.dk)
        return;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        store_fragments(vp_k_rows<T>(x.dk, x.ld_kv, x, w.head), w.k0 + 16 * m,
                        dk[m], k_factor, x.add_kv);
        store_fragments(vp_k_rows<T>(x.dv, x.ld_kv, x, w.head), w.k0 + 16 * m,
                        dv[m], v_factor, x.add_kv);
    }
}

template <typename T, int BLOCKS, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    size_t bytes = sizeof(shared_memory<T, BLOCKS>);
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t config = {};

    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { BLOCKS, 1, 1 };
    config.gridDim = dim3((unsigned)(x->batch * x->heads * BLOCKS));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = BLOCKS > 1 ? 1 : 0;
    cudaFuncSetAttribute(backward<T, BLOCKS, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)bytes);
    cudaLaunchKernelEx(&config, backward<T, BLOCKS, DROPS>, *x);
}

template <typename T, bool DROPS>
static void launch_blocks(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    static const launch_fn of_blocks[MAX_BLOCKS] = {
        launch<T, 1, DROPS>,
        launch<T, 2, DROPS>,
        launch<T, 3, DROPS>,
        launch<T, 4, DROPS>,
    };

    of_blocks[blocks_of(x->k_len, KEYS) - 1](x, stream);
}

static bool has_clusters(void)
{
    int device, major;

    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                  device) == cudaSuccess &&
           major >= 9;
}

bool vp_attention_short_takes(const struct vp_attention_call *x)
{
    return x->dtype != VP_DTYPE_F32 && x->dim == DIM && !x->causal &&
           x->q_len <= MAX_QUERIES && x->k_len <= MAX_BLOCKS * KEYS &&
           (x->k_len <= KEYS || has_clusters());
}

void vp_attention_short_b(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    static const launch_fn table[2][2] = {
        { launch_blocks<__nv_bfloat16, false>,
          launch_blocks<__nv_bfloat16, true> },
        { launch_blocks<__half, false>, launch_blocks<__half, true> },
    };
    bool f16 = x->dtype == VP_DTYPE_F16, drops = x->drop.threshold != 0;

    table[f16][drops](x, stream);
}
