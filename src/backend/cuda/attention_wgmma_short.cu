/* Attention on the tensor cores of warpgroups, backward, for heads of 64 columns
 * and up to 128 queries and keys. Such heads are bound by memory, so one is on
 * its way to shared memory while another is worked on: as many blocks as the GPU
 * has processors take all heads in turns.
 *
 * A block is two warpgroups. Each owns 64 keys, whose dk and dv are in its
 * registers while it meets one tile of queries after the other; then, as all ds
 * are in shared memory, it multiplies dq of one tile out of them. */
#include "backend/cuda/attention_backward.cuh"
#include "backend/cuda/attention_short.cuh"
#include "backend/cuda/attention_sums.cuh"

/* What is read of a head. */
template <typename T> struct head_rows {
    vp_wg_tile<T> queries[GROUPS], douts[GROUPS];
    vp_wg_tile<T> keys[GROUPS], values[GROUPS];
};

template <typename T> struct shared_memory {
    head_rows<T> heads[STAGES];
    vp_wg_tile<T> ds[GROUPS][GROUPS]; /* of a tile; transposed: rows are keys */
    vp_wg_tile<T> grads[GROUPS][GRADS]; /* on their way to device memory */
    float lse[GROUPS][QUERIES], delta[GROUPS][QUERIES];
    kept_words kept[GROUPS]; /* of a tile */
};

/* What comes to a thread's registers: rows of `out` of the group's tile, and
 * whether key number `lane` of the 32 that the warp's are among may be seen. */
struct head_words {
    struct outs outs;
    int32_t seen;
};

/* ---- Loads -------------------------------------------------------------- */

template <typename T>
static __device__ void copy_rows(vp_wg_tile<T> *dst,
                                 const vp_rows<const T> &src)
{
    for (int i = 0; i < tiles_of(src.n); i++)
        copy_tile<OWNERS>(dst[i], src, i * 64, (int)threadIdx.x);
}

/* Starts to load head number `i`, unless there is none. A group's dout is copied
 * by its own threads: for set_stats(). */
template <typename T>
static __device__ void start_head(head_rows<T> &rows, struct head_words &words,
                                  const struct vp_attention_call &x, unsigned i)
{
    struct vp_attention_head h = vp_attention_head_of(x, i);
    int key = first_row() / 32 * 32 + (int)threadIdx.x % 32;
    int tile = group_index();

    if (i >= heads_of(x))
        return;
    if (tile < tiles_of(x.q_len))
        copy_tile<VP_WG_THREADS>(rows.douts[tile],
                                 vp_q_rows<const T>(x.dout, x.ld_out, x, h),
                                 tile * QUERIES, group_thread());
    copy_rows(rows.queries, vp_q_rows<const T>(x.q, x.ld_q, x, h));
    copy_rows(rows.keys, vp_k_rows<const T>(x.k, x.ld_kv, x, h));
    copy_rows(rows.values, vp_k_rows<const T>(x.v, x.ld_kv, x, h));
    vp_copy_commit();
    read_outs<T>(words.outs, x, h, tile);
    words.seen = key < x.k_len;
    if (x.mask && key < x.k_len)
        words.seen = x.mask[h.k_row + key];
}

/* Waits for a head: its rows, lse, delta and dice are there for all. Returns
 * which keys may be seen: bit 0 of key g of the warp, bit 8 of key g + 8. */
template <typename T, bool DROPS>
static __device__ uint32_t finish_head(shared_memory<T> &shared,
                                       head_rows<T> &rows,
                                       const struct head_words &words,
                                       const struct vp_attention_call &x,
                                       const struct vp_attention_head &h,
                                       const struct dice &dice)
{
    int tile = group_index();
    uint32_t seen = __ballot_sync(0xFFFFFFFFu, words.seen);

    if (DROPS)
        roll_tile(shared.kept[tile], dice, h, tile * QUERIES, 0);
    vp_copy_wait<0>();
    set_stats(shared.lse[tile], shared.delta[tile], rows.douts[tile],
              words.outs, 1.0f / x.drop.scale);
    vp_wg_publish();
    __syncthreads();
    return seen >> (first_row() % 32 + lane_g());
}

/* ---- Stores ------------------------------------------------------------- */

/* The group's 64 rows of a gradient. */
template <typename T>
static __device__ void store_grad(vp_wg_tile<T> &room, const vp_rows<T> &dst,
                                  const float (&c)[8][4], float scale, bool add)
{
    float factor[2] = { scale, scale };
    uint32_t a[4][4];

    if (add) {
        store_fragments(dst, first_row(), c, factor, true);
        return;
    }
    round_scaled<T>(a, c, factor);
    store_rows(dst, first_row(), a, room, 16 * group_warp());
}

static __device__ inline void sync_group(void)
{
    asm volatile("bar.sync %0, %1;"
                 :
                 : "r"(1 + group_index()), "n"((int)VP_WG_THREADS)
                 : "memory");
}

/* And its sums over these rows, after a barrier. */
template <typename T>
static __device__ void store_sums(shared_memory<T> &shared,
                                  const struct vp_attention_call &x,
                                  const struct vp_attention_head &h,
                                  enum grad grad)
{
    int64_t part = h.q_row / VP_CUDA_TILE_ROWS + group_index();

    sum_tile(x.sums + part * x.ld_q + grad * x.ld_out + h.index * VP_WG_DIM,
             shared.grads[group_index()][grad]);
}

/* ---- dk and dv ---------------------------------------------------------- */

/* Adds a tile of queries to dk and dv, and leaves its ds. */
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
                               const struct vp_attention_call &x,
                               const struct vp_attention_head &h, uint32_t seen)
{
    vp_wg_tile<T> *room = shared.grads[group_index()];
    float dk[8][4] = {}, dv[8][4] = {};

    for (int tile = x.causal ? group_index() : 0; tile < tiles_of(x.q_len);
         tile++)
        add_queries<T, DROPS>(shared, rows, dk, dv, x, seen, tile);
    if (!x.dk)
        return;
    store_grad(room[DK], vp_k_rows<T>(x.dk, x.ld_kv, x, h), dk,
               x.scale * x.drop.scale, x.add_kv);
    store_grad(room[DV], vp_k_rows<T>(x.dv, x.ld_kv, x, h), dv, x.drop.scale,
               x.add_kv);
}

/* ---- dq ----------------------------------------------------------------- */

template <typename T>
static __device__ void do_queries(shared_memory<T> &shared,
                                  const head_rows<T> &rows,
                                  const struct vp_attention_call &x,
                                  const struct vp_attention_head &h)
{
    int tile = group_index();
    int n_groups = x.causal ? min(tile + 1, tiles_of(x.k_len))
                            : tiles_of(x.k_len);
    float dq[8][4];

    vp_wg_fence();
    vp_wg_product<T, false, true, true, 4>(
        dq, vp_wg_tile_of(shared.ds[tile][0]), vp_wg_tile_of(rows.keys[0]));
    vp_wg_commit();
    if (n_groups > 1) {
        vp_wg_fence();
        vp_wg_product<T, true, true, true, 4>(
            dq, vp_wg_tile_of(shared.ds[tile][1]), vp_wg_tile_of(rows.keys[1]));
        vp_wg_commit();
    }
    vp_wg_wait<0>(dq);
    if (!x.dq)
        return;
    store_grad(shared.grads[tile][DQ], vp_q_rows<T>(x.dq, x.ld_q, x, h), dq,
               x.scale * x.drop.scale, x.add_q);
    if (!x.sums)
        return;
    sync_group();
    store_sums(shared, x, h, DQ);
}

/* After a barrier. */
template <typename T>
static __device__ void store_key_sums(shared_memory<T> &shared,
                                      const struct vp_attention_call &x,
                                      const struct vp_attention_head &h)
{
    if (!x.sums || group_index() >= tiles_of(x.k_len))
        return;
    store_sums(shared, x, h, DK);
    store_sums(shared, x, h, DV);
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(OWNERS, 1)
    backward(const struct vp_attention_call x)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    struct dice dice = dice_of(x, {});
    struct head_words words;
    int stage = 0;

    start_head(shared.heads[0], words, x, blockIdx.x);
    for (unsigned i = blockIdx.x; i < heads_of(x); i += gridDim.x, stage ^= 1) {
        struct vp_attention_head h = vp_attention_head_of(x, i);
        head_rows<T> &rows = shared.heads[stage];
        uint32_t seen = finish_head<T, DROPS>(shared, rows, words, x, h, dice);

        start_head(shared.heads[stage ^ 1], words, x, i + gridDim.x);
        if (group_index() < tiles_of(x.k_len))
            do_keys<T, DROPS>(shared, rows, x, h, seen);
        vp_wg_publish();
        __syncthreads();
        store_key_sums(shared, x, h);
        if (group_index() < tiles_of(x.q_len))
            do_queries(shared, rows, x, h);
    }
}

/* ---- Launches ----------------------------------------------------------- */

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    unsigned n_blocks = blocks_in_turns(heads_of(*x), 1);
    int bytes = (int)sizeof(shared_memory<T>);

    cudaFuncSetAttribute(backward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    backward<T, DROPS><<<n_blocks, OWNERS, bytes, stream>>>(*x);
}

bool vp_attention_wgmma_short_takes(const struct vp_attention_call *x)
{
    return vp_attention_wgmma_f_takes(x) && x->q_len <= MAX_LEN &&
           x->k_len <= MAX_LEN;
}

void vp_attention_wgmma_short(const struct vp_attention_call *x,
                              cudaStream_t stream)
{
    static const launch_fn table[2][2] = WG_LAUNCHES(launch);

    wg_launch_of(table, x)(x, stream);
}
