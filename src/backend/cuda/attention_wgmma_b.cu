/* Attention on the tensor cores of warpgroups, backward, for heads of 64
 * columns and at most 512 queries. A block owns a head and takes its keys 128
 * at a time, as two warpgroups with 64 each; dk and dv are in their registers
 * while they walk over the queries, 64 at a time.
 *
 * Rows of scores are keys here, so that p and ds leave the accumulators as the
 * first factors of dv = p^T dout and dk = ds^T q. A third warpgroup, the
 * helper, loads what they read, rolls the dice for dropout, and multiplies the
 * ds that they leave in shared memory by the keys: dq, a sum over all keys,
 * stays in shared memory until its last addend. So every product is computed
 * once, and every sum has one order. */
#include "backend/cuda/attention_wgmma.cuh"

enum {
    GROUP_KEYS = 64,
    GROUPS = 2, /* of warps that own keys */
    KEYS = GROUPS * GROUP_KEYS,
    BLOCK_THREADS = (GROUPS + 1) * VP_WG_THREADS,
    OWNER_REGISTERS = 192, /* three threads, one of each group, have 504 */
    HELPER_REGISTERS = 504 - GROUPS * OWNER_REGISTERS,
    QUERIES = 64, /* a tile of them is walked over at a time */
    MAX_QUERIES = 512,
    MAX_BLOCK_KEYS = 4096,       /* of a head */
    STATS_LANES = VP_WG_DIM / 8, /* that read a row, 16 bytes each */
};

/* Barriers between the helper and the owners, two of each kind. */
enum barrier {
    LOADED = 1, /* queries, dout and dice are there */
    READ = 3,   /* and can be overwritten */
    DS_WRITTEN = 5,
    DS_READ = 7,
};

template <typename T> struct shared_memory {
    vp_wg_tile<T> keys[GROUPS];
    vp_wg_tile<T> queries[STAGES], douts[STAGES];
    vp_wg_tile<T> ds[STAGES][GROUPS];      /* transposed: rows are keys */
    float lse[MAX_QUERIES];                /* times log2(e) */
    float delta[MAX_QUERIES];              /* over dropout's scale */
    uint32_t kept[STAGES][2][2][KEYS / 2]; /* note [kept] */
    uint32_t allowed[MAX_BLOCK_KEYS / 32];
    float4 dq[1]; /* [tiles][8][VP_WG_THREADS] if keys are taken in turns */
};

/* What a block works on. */
template <typename T> struct work {
    struct vp_attention_head head;
    int n_tiles; /* of queries */
    int n_turns; /* of keys */
    int n_seen;  /* turns, before those whose keys are hidden from all */
    int n_steps; /* tiles of all these turns */
    shared_memory<T> *shared;
};

static __device__ inline int group_thread(void)
{
    return (int)threadIdx.x % VP_WG_THREADS;
}

static __device__ inline int group_warp(void)
{
    return group_thread() / 32;
}

static __device__ inline void barrier_wait(int id)
{
    asm volatile("bar.sync %0, %1;"
                 :
                 : "r"(id), "n"((int)BLOCK_THREADS)
                 : "memory");
}

static __device__ inline void barrier_arrive(int id)
{
    asm volatile("bar.arrive %0, %1;"
                 :
                 : "r"(id), "n"((int)BLOCK_THREADS)
                 : "memory");
}

/* ---- Before the first tile ---------------------------------------------- */

template <typename T>
static __device__ float dot8(const vp_vec<T> &a, const vp_vec<T> &b)
{
    float sum = 0.0f;

#pragma unroll
    for (int i = 0; i < vp_vec<T>::N; i++)
        sum = fmaf(vp_float(a.x[i]), vp_float(b.x[i]), sum);
    return sum;
}

/* lse and delta of all queries, 0 beyond the last. */
template <typename T>
static __device__ void set_stats(const struct vp_attention_call &x,
                                 const work<T> &w)
{
    int lane = (int)threadIdx.x % STATS_LANES;
    float unscale = 1.0f / x.drop.scale;

    static_assert(QUERIES % (32 / STATS_LANES) == 0, "a warp stays together");
#pragma unroll 4
    for (int q = (int)threadIdx.x / STATS_LANES; q < w.n_tiles * QUERIES;
         q += BLOCK_THREADS / STATS_LANES) {
        vp_vec<T> dout = {}, out = {};
        float lse = 0.0f, delta;

        if (q < x.q_len) {
            int64_t at = (w.head.q_row + q) * x.ld_out +
                         w.head.index * VP_WG_DIM + 8 * lane;

            dout = *(const vp_vec<T> *)((const T *)x.dout + at);
            out = *(const vp_vec<T> *)((const T *)x.out + at);
            lse = x.lse[(w.head.q_row + q) * x.heads + w.head.index];
        }
        delta = dot8(dout, out) * unscale;
#pragma unroll
        for (int i = 1; i < STATS_LANES; i *= 2)
            delta += __shfl_xor_sync(0xFFFFFFFFu, delta, i);
        if (lane == 0) {
            w.shared->lse[q] = LOG2E * lse;
            w.shared->delta[q] = delta;
        }
    }
}

/* Turns up to the last that has a key to be seen, or one. */
template <typename T> static __device__ int seen_turns(const work<T> &w)
{
    int turns = w.n_turns;
    const uint32_t *word = &w.shared->allowed[(turns - 1) * (KEYS / 32)];

    for (; turns > 1 && !(word[0] | word[1] | word[2] | word[3]); turns--)
        word -= KEYS / 32;
    return turns;
}

/* ---- Helper ------------------------------------------------------------- */

/* Note [kept]. An owner's lane (g, c) has, of a tile, keys g and g + 8 of its
 * warp's 16, and queries 8n + 2c + i: 32 elements. The helper's thread with the
 * same c and c' = g / 2 rolls for 32 keys, those of two warps, and 32 queries:
 * whole groups of note [dropout], which decide about the elements of four
 * owners. Word [h][warp % 2][..] has n = 4h .. 4h + 3 in bits 2 (n % 4) + i of
 * bytes g % 2, for key g, and g % 2 + 2, for key g + 8. */
template <typename T>
static __device__ void roll_tile(const work<T> &w, const struct dice &dice,
                                 int turn, int tile)
{
    int stage = (turn * w.n_tiles + tile) % STAGES;
    int q0 = tile * QUERIES, k0 = turn * KEYS;
    int lane = (int)threadIdx.x % 32;
    int c = lane % 4, key_c = lane / 4 % 4, half = lane / 16;
    struct sieve sieve = sieve_of(dice.threshold);
    uint32_t kept[2] = { 0, 0 };

#pragma unroll
    for (int i = 0; i < 4; i++) {
        struct vp_rng4 bits = roll(dice, q0 + 32 * half + i / 2 * 16,
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
        w.shared->kept[stage][half][warp][group_warp() * 16 + key_c * 4 + c] =
            kept[warp];
}

template <typename T>
static __device__ void load_queries(const struct vp_attention_call &x,
                                    const work<T> &w, int stage, int q0)
{
    copy_tile<VP_WG_THREADS>(w.shared->queries[stage],
                             vp_q_rows<const T>(x.q, x.ld_q, x, w.head), q0,
                             group_thread());
    copy_tile<VP_WG_THREADS>(w.shared->douts[stage],
                             vp_q_rows<const T>(x.dout, x.ld_out, x, w.head),
                             q0, group_thread());
}

/* dq of a tile, from the keys of a turn. */
template <typename T>
static __device__ void add_dq(const struct vp_attention_call &x,
                              const work<T> &w, int turn, int tile)
{
    int step = turn * w.n_tiles + tile;
    const vp_wg_tile<T> *ds = w.shared->ds[step % STAGES];
    float4 *sum = &w.shared->dq[tile * 8 * VP_WG_THREADS + group_thread()];
    float scale = x.scale * x.drop.scale, factor[2] = { scale, scale };
    float dq[8][4];

#pragma unroll
    for (int n = 0; n < 8; n++) {
        float4 old = turn ? sum[n * VP_WG_THREADS]
                          : make_float4(0.0f, 0.0f, 0.0f, 0.0f);

        dq[n][0] = old.x;
        dq[n][1] = old.y;
        dq[n][2] = old.z;
        dq[n][3] = old.w;
    }
    barrier_wait(DS_WRITTEN + step % STAGES);
    vp_wg_fence();
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
        vp_wg_product<T, true, true, true, 4>(dq, vp_wg_tile_of(ds[i]),
                                              vp_wg_tile_of(w.shared->keys[i]));
    vp_wg_commit();
    vp_wg_wait<0>(dq);
    if (step + STAGES < w.n_steps)
        barrier_arrive(DS_READ + step % STAGES);
    if (turn + 1 < w.n_seen) {
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n * VP_WG_THREADS] = make_float4(dq[n][0], dq[n][1], dq[n][2],
                                                 dq[n][3]);
    } else if (x.dq) {
        store_fragments(vp_q_rows<T>(x.dq, x.ld_q, x, w.head),
                        tile * QUERIES + 16 * group_warp(), dq, factor,
                        x.add_q);
    }
}

/* Starts to load a tile, where owners have read that which it overwrites. */
template <typename T>
static __device__ void start_tile(const struct vp_attention_call &x,
                                  const work<T> &w, int turn, int tile)
{
    int step = turn * w.n_tiles + tile;

    if (step >= STAGES)
        barrier_wait(READ + step % STAGES);
    load_queries(x, w, step % STAGES, tile * QUERIES);
    vp_copy_commit();
}

/* Starts to load keys, which nobody reads now, and the first tile. */
template <typename T>
static __device__ void start_turn(const struct vp_attention_call &x,
                                  const work<T> &w, int turn)
{
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, w.head);

    for (int i = 0; i < GROUPS; i++)
        copy_tile<VP_WG_THREADS>(w.shared->keys[i], keys,
                                 turn * KEYS + i * GROUP_KEYS, group_thread());
    start_tile(x, w, turn, 0);
}

/* What was started is there: owners may read it. */
static __device__ void hand_over(int step)
{
    vp_copy_wait<0>();
    vp_wg_publish();
    barrier_arrive(LOADED + step % STAGES);
}

template <typename T, bool DROPS>
static __device__ void help(const struct vp_attention_call &x, const work<T> &w)
{
    struct dice dice = dice_of(x, w.head);

    for (int turn = 0; turn < w.n_seen; turn++) {
        for (int tile = 0; tile < w.n_tiles; tile++) {
            if (tile > 0)
                start_tile(x, w, turn, tile);
            if (DROPS)
                roll_tile(w, dice, turn, tile);
            if (tile > 1)
                add_dq(x, w, turn, tile - 2);
            hand_over(turn * w.n_tiles + tile);
        }
        for (int tile = max(w.n_tiles - 2, 0); tile < w.n_tiles; tile++)
            add_dq(x, w, turn, tile);
        if (turn + 1 < w.n_seen)
            start_turn(x, w, turn + 1);
    }
}

/* ---- Owners of keys ----------------------------------------------------- */

static __device__ inline int group_index(void)
{
    return (int)threadIdx.x / VP_WG_THREADS;
}

/* Scores of keys that the mask hides: -infinity. `seen`: bit 0 of key g, bit 8
 * of g + 8. */
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

/* Of element i of fragment n; `kept` as note [kept] has it, for this lane. */
static __device__ bool is_kept(const uint32_t (&kept)[2], int n, int i)
{
    return kept[n / 4] >> (16 * (i / 2) + 2 * (n % 4) + i % 2) & 1;
}

/* Of half a tile, fragments 4 half .. 4 half + 3 of s = q . k and of
 * dp = dout . v: probabilities, 0 if dropped, and gradients of scores, less
 * their scale and dropout's, rounded. lse and delta are of the tile. */
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

/* Half a tile: fragments of the warp's keys by 32 queries. */
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

/* Starts s = q . k and dp = dout . v of a tile, once it is there. */
template <typename T>
static __device__ void start_scores(float (&s)[8][4], float (&dp)[8][4],
                                    const uint32_t (&values)[4][4],
                                    const work<T> &w, int step)
{
    const shared_memory<T> &shared = *w.shared;
    int stage = step % STAGES;

    barrier_wait(LOADED + stage);
    vp_wg_fence();
    vp_wg_product<T, false, false, false, 4>(
        s, vp_wg_tile_of(shared.keys[group_index()]),
        vp_wg_tile_of(shared.queries[stage]));
    vp_wg_product<T, false, false>(dp, values,
                                   vp_wg_tile_of(shared.douts[stage]));
    vp_wg_commit();
}

/* Starts to add a tile of queries, whose scores are there, to dk and dv, and
 * leaves its ds. */
template <typename T, bool DROPS>
static __device__ void add_queries(float (&dk)[8][4], float (&dv)[8][4],
                                   float (&s)[8][4], const float (&dp)[8][4],
                                   const struct vp_attention_call &x,
                                   const work<T> &w, uint32_t seen, int step,
                                   int tile)
{
    shared_memory<T> &shared = *w.shared;
    int stage = step % STAGES;
    uint64_t queries = vp_wg_tile_of(shared.queries[stage]);
    uint64_t douts = vp_wg_tile_of(shared.douts[stage]);
    uint32_t kept[2] = { 0, 0 };

#pragma unroll
    for (int half = 0; half < 2 && DROPS; half++)
        kept[half] = shared.kept[stage][half][group_warp() % 2]
                                [(2 * group_index() + group_warp() / 2) * 16 +
                                 lane_g() / 2 * 4 + lane_c()] >>
                     8 * (lane_g() % 2);
    hide_rows(s, seen);
    if (step >= STAGES)
        barrier_wait(DS_READ + stage);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t p16[2][4], ds16[2][4];

        weigh<T, DROPS>(p16, ds16, s, dp, kept, &shared.lse[tile * QUERIES],
                        &shared.delta[tile * QUERIES], x.scale * LOG2E, half);
        put_ds(shared.ds[stage][group_index()], ds16, half);
        vp_wg_fence();
        vp_wg_product<T, true, true>(dv, p16,
                                     vp_wg_step<true>(douts, 2 * half));
        vp_wg_product<T, true, true>(dk, ds16,
                                     vp_wg_step<true>(queries, 2 * half));
        vp_wg_commit();
    }
    vp_wg_wait<1>(); /* the first half's registers are free for new scores */
    vp_wg_publish();
    barrier_arrive(DS_WRITTEN + stage);
}

/* dk and dv have what was started; the tile can be overwritten. */
template <typename T>
static __device__ void end_queries(float (&dk)[8][4], float (&dv)[8][4],
                                   const work<T> &w, int step)
{
    vp_wg_wait<0>(dk);
    vp_wg_wait<0>(dv);
    if (step + STAGES < w.n_steps)
        barrier_arrive(READ + step % STAGES);
}

template <typename T, bool DROPS>
static __device__ void own_turn(float (&dk)[8][4], float (&dv)[8][4],
                                const struct vp_attention_call &x,
                                const work<T> &w, int turn, int k0)
{
    uint32_t seen = w.shared->allowed[k0 / 32] >> (k0 % 32 + lane_g());
    int step = turn * w.n_tiles;
    uint32_t values[4][4];
    float s[8][4], dp[8][4];

    load_fragments(values, vp_k_rows<const T>(x.v, x.ld_kv, x, w.head), k0);
    start_scores(s, dp, values, w, step);
    vp_wg_wait<0>(s);
    vp_wg_wait<0>(dp);
    for (int tile = 0; tile + 1 < w.n_tiles; tile++) {
        add_queries<T, DROPS>(dk, dv, s, dp, x, w, seen, step, tile);
        start_scores(s, dp, values, w, step + 1);
        vp_wg_wait<0>(s);
        vp_wg_wait<0>(dp);
        end_queries(dk, dv, w, step++);
    }
    add_queries<T, DROPS>(dk, dv, s, dp, x, w, seen, step, w.n_tiles - 1);
    end_queries(dk, dv, w, step);
}

template <typename T, bool DROPS>
static __device__ void own_keys(const struct vp_attention_call &x,
                                const work<T> &w)
{
    float scale = x.scale * x.drop.scale, k_factor[2] = { scale, scale };
    float v_factor[2] = { x.drop.scale, x.drop.scale };

    for (int turn = 0; turn < w.n_turns; turn++) {
        int k0 = turn * KEYS + (int)threadIdx.x / 32 * 16;
        float dk[8][4] = {}, dv[8][4] = {};

        if (turn < w.n_seen)
            own_turn<T, DROPS>(dk, dv, x, w, turn, k0);
        if (x.dk) {
            store_fragments(vp_k_rows<T>(x.dk, x.ld_kv, x, w.head), k0, dk,
                            k_factor, x.add_kv);
            store_fragments(vp_k_rows<T>(x.dv, x.ld_kv, x, w.head), k0, dv,
                            v_factor, x.add_kv);
        }
    }
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    backward(const struct vp_attention_call x)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    work<T> w = { vp_attention_head_of(x, blockIdx.x),
                  (x.q_len + QUERIES - 1) / QUERIES,
                  (x.k_len + KEYS - 1) / KEYS,
                  0,
                  0,
                  (shared_memory<T> *)memory };

    if (threadIdx.x >= GROUPS * VP_WG_THREADS)
        start_turn(x, w, 0);
    set_allowed(w.shared->allowed, x, w.head, w.n_turns * KEYS);
    set_stats(x, w);
    __syncthreads();
    w.n_seen = seen_turns(w);
    w.n_steps = w.n_seen * w.n_tiles;
    if (threadIdx.x < GROUPS * VP_WG_THREADS) {
        vp_wg_take_registers<OWNER_REGISTERS>();
        own_keys<T, DROPS>(x, w);
    } else {
        vp_wg_give_registers<HELPER_REGISTERS>();
        help<T, DROPS>(x, w);
    }
}

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    unsigned grid = (unsigned)(x->batch * x->heads);
    int bytes = (int)sizeof(shared_memory<T>);

    if (x->k_len > KEYS)
        bytes += blocks_of(x->q_len, QUERIES) * QUERIES * VP_WG_DIM *
                 (int)sizeof(float);
    cudaFuncSetAttribute(backward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    backward<T, DROPS><<<grid, BLOCK_THREADS, bytes, stream>>>(*x);
}

bool vp_attention_wgmma_b_takes(const struct vp_attention_call *x)
{
    return vp_attention_wgmma_f_takes(x) && !x->causal &&
           x->q_len <= MAX_QUERIES && x->k_len <= MAX_BLOCK_KEYS;
}

void vp_attention_wgmma_b(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    static const launch_fn table[2][2] = {
        { launch<__nv_bfloat16, false>, launch<__nv_bfloat16, true> },
        { launch<__half, false>, launch<__half, true> },
    };
    bool f16 = x->dtype == VP_DTYPE_F16, drops = x->drop.threshold != 0;

    table[f16][drops](x, stream);
}
