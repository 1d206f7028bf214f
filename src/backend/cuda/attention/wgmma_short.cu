/* Backward of attention on the tensor cores of warpgroups, for heads of 64
 * columns and up to 128 queries and keys. Such heads are limited by memory
 * bandwidth, so the next one is loaded while one is computed: there is one
 * block per processor of the GPU, which does one head after another.
 *
 * A block is two warpgroups. Each owns 64 keys, whose dk and dv are in its
 * registers while it loops over the tiles of queries. When all ds are in shared
 * memory, it computes dq of one tile of queries from them. */
#include "backend/cuda/attention/backward.cuh"
#include "backend/cuda/attention/short.cuh"
#include "backend/cuda/attention/sums.cuh"

/* Inputs of a head. At the end dq is stored in place of the queries. */
template <typename T> struct head_rows {
    vp_wg_tile<T> queries[GROUPS], douts[GROUPS];
    vp_wg_tile<T> keys[GROUPS], values[GROUPS];
};

template <typename T> struct shared_memory {
    head_rows<T> heads[STAGES];
    vp_wg_tile<T> outs[GROUPS]; /* next head's, once delta is computed */
    /* [tile][group]; transposed: rows are keys. */
    vp_wg_tile<T> ds[GROUPS][GROUPS];
    vp_wg_tile<T> dk[GROUPS], dv[GROUPS]; /* read by the TMA */
    float lse[GROUPS][QUERIES], delta[GROUPS][QUERIES];
    kept_words kept[GROUPS]; /* dropout mask by tile of queries */
    vp_barrier arrived[STAGES];
};

struct maps {
    CUtensorMap q, k, v, out, dout;
    CUtensorMap dq, dk, dv;
};

/* Inputs of a head that go to a thread's registers: lse of one query of the
 * group's tile, and whether key number `lane` of the 32 keys that include the
 * warp's may be seen. */
struct head_words {
    float lse;
    int32_t seen;
};

/* ---- Loads -------------------------------------------------------------- */

template <typename T>
static __device__ void start_copies(shared_memory<T> &shared, int stage,
                                    const struct vp_attention_call &x,
                                    const struct vp_attention_head &h,
                                    const struct maps &maps)
{
    head_rows<T> &rows = shared.heads[stage];
    vp_barrier *arrived = &shared.arrived[stage];
    int n_tiles = 3 * tiles_of(x.q_len) + 2 * tiles_of(x.k_len);
    int col = h.index * VP_WG_DIM, sample = (int)h.sample;

    vp_barrier_expect(arrived, n_tiles * (int)sizeof(vp_wg_tile<T>));
    vp_tma_copy_matrix(rows.douts, &maps.dout, col, 0, sample, arrived);
    vp_tma_copy_matrix(shared.outs, &maps.out, col, 0, sample, arrived);
    vp_tma_copy_matrix(rows.queries, &maps.q, col, 0, sample, arrived);
    vp_tma_copy_matrix(rows.keys, &maps.k, col, 0, sample, arrived);
    vp_tma_copy_matrix(rows.values, &maps.v, col, 0, sample, arrived);
}

/* Starts to load head number `i`, if there is one. */
template <typename T>
static __device__ void start_head(shared_memory<T> &shared, int stage,
                                  struct head_words &words,
                                  const struct vp_attention_call &x,
                                  const struct maps &maps, unsigned i)
{
    struct vp_attention_head h = vp_attention_head_of(x, i);
    int key = first_row() / 32 * 32 + (int)threadIdx.x % 32;

    if (i >= heads_of(x))
        return;
    if (threadIdx.x == 0)
        start_copies(shared, stage, x, h, maps);
    words.lse = read_lse(x, h, group_index());
    words.seen = key < x.k_len;
    if (x.mask && key < x.k_len)
        words.seen = x.mask[h.k_row + key];
}

template <typename T>
static __device__ struct outs outs_of(vp_wg_tile<T> &tile, float lse)
{
    struct outs outs;

#pragma unroll
    for (int i = 0; i < N_READS; i++)
        outs.row[i] = *(const uint4 *)vp_wg_at(
            tile, row_of_thread() + i * CHUNK_ROWS, chunk_of_thread());
    outs.lse = lse;
    return outs;
}

/* Waits for a head: afterwards its rows, lse, delta and dropout mask are
 * visible to all threads, and the TMA has read the gradients of the head
 * before. Returns which keys may be seen: bit 0 for key g of the warp, bit 8
 * for key g + 8. */
template <typename T, bool DROPS>
static __device__ uint32_t finish_head(shared_memory<T> &shared, int stage,
                                       int phase,
                                       const struct head_words &words,
                                       const struct vp_attention_call &x,
                                       const struct vp_attention_head &h,
                                       const struct mask_key &key)
{
    int tile = group_index();
    uint32_t seen = __ballot_sync(0xFFFFFFFFu, words.seen);

    if (DROPS)
        draw_tile(shared.kept[tile], key, h, tile * QUERIES, 0);
    vp_barrier_wait(&shared.arrived[stage], phase);
    set_stats(shared.lse[tile], shared.delta[tile],
              shared.heads[stage].douts[tile],
              outs_of(shared.outs[tile], words.lse), 1.0f / x.drop.scale);
    vp_tma_wait_read();
    vp_wg_publish();
    __syncthreads();
    return seen >> (first_row() % 32 + lane_g());
}

/* ---- Stores ------------------------------------------------------------- */

/* Stores the group's 64 rows of a gradient in shared memory, rounded. */
template <typename T>
static __device__ void put_grad(vp_wg_tile<T> &tile, const float (&c)[8][4],
                                float scale)
{
    float factor[2] = { scale, scale };
    uint32_t a[4][4];

    round_scaled<T>(a, c, factor);
    put_rows(tile, 16 * group_warp(), a);
}

/* Writes the sums over these rows to device memory. Call it after a barrier. */
template <typename T>
static __device__ void store_sums(const struct vp_attention_call &x,
                                  const struct vp_attention_head &h,
                                  enum grad grad, vp_wg_tile<T> &tile)
{
    int64_t part = h.q_row / VP_CUDA_TILE_ROWS + group_index();

    sum_tile(x.sums + part * x.ld_q + grad * x.ld_out + h.index * VP_WG_DIM,
             tile);
}

/* ---- dk and dv ---------------------------------------------------------- */

/* Adds a tile of queries to dk and dv, and stores its ds. */
template <typename T, bool DROPS>
static __device__ void add_queries(shared_memory<T> &shared,
                                   const head_rows<T> &rows, float (&dk)[8][4],
                                   float (&dv)[8][4],
                                   const struct vp_attention_call &x,
                                   uint32_t seen, int tile)
{
    int group = group_index();
    uint64_t queries = vp_wg_tile_of(rows.queries[tile]);
    uint64_t douts = vp_wg_tile_of(rows.douts[tile]);
    uint32_t kept[2] = { 0, 0 };
    float s[8][4], dp[8][4];

    vp_wg_fence();
    vp_wg_product<T, false, false, false, 4>(s, vp_wg_tile_of(rows.keys[group]),
                                             queries);
    vp_wg_product<T, false, false, false, 4>(
        dp, vp_wg_tile_of(rows.values[group]), douts);
    vp_wg_commit();
    if (DROPS)
        read_kept(kept, shared.kept[tile], group);
    vp_wg_wait<0>(s);
    vp_wg_wait<0>(dp);
    hide_rows(s, seen);
    if (x.causal)
        hide_future(s, first_row(), tile * QUERIES);
    add_tile<T, DROPS>(dk, dv, shared.ds[tile][group], s, dp, kept,
                       shared.lse[tile], shared.delta[tile], x.scale * LOG2E,
                       queries, douts);
    vp_wg_wait<0>(dk);
    vp_wg_wait<0>(dv);
}

template <typename T, bool DROPS>
static __device__ void do_keys(shared_memory<T> &shared,
                               const head_rows<T> &rows,
                               const struct vp_attention_call &x, uint32_t seen)
{
    int group = group_index();
    float dk[8][4] = {}, dv[8][4] = {};

    for (int tile = x.causal ? group : 0; tile < tiles_of(x.q_len); tile++)
        add_queries<T, DROPS>(shared, rows, dk, dv, x, seen, tile);
    put_grad(shared.dk[group], dk, x.scale * x.drop.scale);
    put_grad(shared.dv[group], dv, x.drop.scale);
}

template <typename T>
static __device__ void send_keys(const shared_memory<T> &shared,
                                 const struct vp_attention_call &x,
                                 const struct vp_attention_head &h,
                                 const struct maps &maps)
{
    int group = group_index();

    if (!x.dk || group_thread() > 0)
        return;
    send_tile(&maps.dk, shared.dk[group], h);
    send_tile(&maps.dv, shared.dv[group], h);
}

/* ---- dq ----------------------------------------------------------------- */

template <typename T>
static __device__ void start_dq(float (&dq)[8][4],
                                const vp_wg_tile<T> (&ds)[GROUPS],
                                const head_rows<T> &rows, int n_groups)
{
    vp_wg_fence();
    vp_wg_product<T, false, true, true, 4>(dq, vp_wg_tile_of(ds[0]),
                                           vp_wg_tile_of(rows.keys[0]));
    vp_wg_commit();
    if (n_groups > 1) {
        vp_wg_fence();
        vp_wg_product<T, true, true, true, 4>(dq, vp_wg_tile_of(ds[1]),
                                              vp_wg_tile_of(rows.keys[1]));
        vp_wg_commit();
    }
}

/* Computes dq, and all sums. With sums, the numbers of keys and queries are
 * equal. */
template <typename T>
static __device__ void do_queries(shared_memory<T> &shared, head_rows<T> &rows,
                                  const struct vp_attention_call &x,
                                  const struct vp_attention_head &h,
                                  const struct maps &maps)
{
    int tile = group_index();
    int n_groups = x.causal ? min(tile + 1, tiles_of(x.k_len))
                            : tiles_of(x.k_len);
    float dq[8][4];

    start_dq(dq, shared.ds[tile], rows, n_groups);
    if (x.sums) {
        store_sums(x, h, DK, shared.dk[tile]);
        store_sums(x, h, DV, shared.dv[tile]);
    }
    vp_wg_wait<0>(dq);
    put_grad(rows.queries[tile], dq, x.scale * x.drop.scale);
    vp_wg_publish();
    sync_group();
    if (x.dq && group_thread() == 0)
        send_tile(&maps.dq, rows.queries[tile], h);
    if (x.sums)
        store_sums(x, h, DQ, rows.queries[tile]);
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(OWNERS, 1)
    backward(const struct vp_attention_call x,
             const __grid_constant__ struct maps maps)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    struct mask_key key = mask_key_of(x, {});
    struct head_words words;
    int stage = 0, phase = 0;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++)
            vp_barrier_init(&shared.arrived[i], 1);
        vp_barrier_publish();
    }
    __syncthreads();
    start_head(shared, 0, words, x, maps, blockIdx.x);
    for (unsigned i = blockIdx.x; i < heads_of(x);
         i += gridDim.x, phase ^= stage, stage ^= 1) {
        struct vp_attention_head h = vp_attention_head_of(x, i);
        head_rows<T> &rows = shared.heads[stage];
        uint32_t seen = finish_head<T, DROPS>(shared, stage, phase, words, x, h,
                                              key);
        bool has_keys = group_index() < tiles_of(x.k_len);

        start_head(shared, stage ^ 1, words, x, maps, i + gridDim.x);
        if (has_keys)
            do_keys<T, DROPS>(shared, rows, x, seen);
        vp_wg_publish();
        __syncthreads();
        if (has_keys)
            send_keys(shared, x, h, maps);
        if (group_index() < tiles_of(x.q_len))
            do_queries(shared, rows, x, h, maps);
    }
    vp_tma_wait_read();
}

/* ---- Launches ----------------------------------------------------------- */

static struct maps maps_of(const struct vp_attention_call *x)
{
    /* Maps must be valid even for gradients that are not wanted; nothing is
     * written to these. */
    const void *dq = x->dq ? x->dq : x->q;
    const void *dk = x->dk ? x->dk : x->k, *dv = x->dv ? x->dv : x->v;

    return {
        heads_map(x, x->q, x->q_len, x->ld_q),
        heads_map(x, x->k, x->k_len, x->ld_kv),
        heads_map(x, x->v, x->k_len, x->ld_kv),
        heads_map(x, x->out, x->q_len, x->ld_out),
        heads_map(x, x->dout, x->q_len, x->ld_out),
        tiles_map(x, dq, x->q_len, x->ld_q),
        tiles_map(x, dk, x->k_len, x->ld_kv),
        tiles_map(x, dv, x->k_len, x->ld_kv),
    };
}

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    unsigned n_blocks = resident_blocks(heads_of(*x), 1);
    int bytes = (int)sizeof(shared_memory<T>);

    cudaFuncSetAttribute(backward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    backward<T, DROPS><<<n_blocks, OWNERS, bytes, stream>>>(*x, maps_of(x));
}

void vp_attention_wgmma_short(const struct vp_attention_call *x,
                              cudaStream_t stream)
{
    static const launch_fn table[2][2] = WG_LAUNCHES(launch);

    wg_launch_of(table, x)(x, stream);
}
