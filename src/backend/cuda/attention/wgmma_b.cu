/* Backward of attention on the tensor cores of warpgroups, for heads of 64
 * columns. A block processes a head's keys 128 at a time, which is a key tile,
 * by two warpgroups ("owners") that own 64 keys each. dk and dv stay in their
 * registers while they loop over the queries, 64 at a time.
 *
 * Rows of scores are keys here, so that the accumulators of p and ds already
 * have the layout of the first factor of dv = p^T dout and dk = ds^T q. A third
 * warpgroup, the helper, loads the tiles, and multiplies the ds that the owners
 * store in shared memory by the keys: dq, a sum over all keys, stays in shared
 * memory until it is complete. So every product is computed once, and every sum
 * has one order. With dropout a fourth warpgroup, the masker, generates the
 * dropout mask.
 *
 * Shared memory holds dq of 512 queries: longer heads are done in bands of 512,
 * and between bands dk and dv are stored in device memory. There is one block
 * per processor of the GPU, which does one head after another: while the owners
 * end a head, the helper loads the next. */
#include "backend/cuda/attention/key_tiles_device.cuh"
#include "backend/cuda/ptx/tma.cuh"

enum { PART = VP_KEY_TILE_PART };

/* Role of a thread, by the number of its warpgroup. */
enum role { OWNER, HELPER = GROUPS, MASKER };

/* Barriers, two of each kind: for even and for odd steps (key_tiles.h).
 * Comments name the threads that arrive; those that wait. */
enum barrier {
    LOADED,     /* helper; owners: the tile is loaded */
    READ,       /* owners; helper: the tile may be overwritten */
    DS_WRITTEN, /* owners; helper */
    DS_READ,    /* helper; owners */
    MASK_READY, /* masker; owners: the tile's mask is generated */
    MASK_READ,  /* owners; masker */
    ROOM_FREE,  /* helper; helper: see change_keys(); per key tile */
    KEYS_READ,  /* the same */
    N_BARRIERS,
};

template <bool DROPS> struct block {
    enum {
        THREADS = OWNERS + (1 + DROPS) * VP_WG_THREADS,
        /* Registers per thread: together 512 for one thread of each of the four
         * warpgroups, or 504 of three. */
        OWNER_REGISTERS = DROPS ? 184 : 192,
        HELPER_REGISTERS = DROPS ? 104 : 120,
        MASKER_REGISTERS = 40,
    };
};

template <typename T> struct shared_memory {
    vp_wg_tile<T> keys[GROUPS];
    vp_wg_tile<T> queries[STAGES], douts[STAGES];
    vp_wg_tile<T> ds[STAGES][GROUPS]; /* transposed: rows are keys */
    float lse[MAX_QUERIES], delta[MAX_QUERIES];
    kept_words kept[STAGES];
    vp_barrier barriers[N_BARRIERS][STAGES];
    float4 dq[1]; /* [tiles][8][VP_WG_THREADS] if there are several key tiles */
};

template <typename T>
static __device__ void make_barriers(shared_memory<T> &shared)
{
    for (int kind = 0; kind < N_BARRIERS; kind++) {
        bool owners = kind == READ || kind == DS_WRITTEN || kind == MASK_READ;

        for (int i = 0; i < STAGES; i++)
            vp_barrier_init(&shared.barriers[kind][i],
                            owners ? OWNERS : VP_WG_THREADS);
    }
}

/* Every thread arrives. One arrival per warp is no faster, and racecheck of
 * compute-sanitizer would report races of the other threads. */
template <enum barrier KIND, typename T>
static __device__ inline void arrive_at(shared_memory<T> &shared, int step)
{
    vp_barrier_arrive(&shared.barriers[KIND][step % STAGES]);
}

/* Waits until all have arrived for this step. */
template <enum barrier KIND, typename T>
static __device__ inline void wait_for(shared_memory<T> &shared, int step)
{
    vp_barrier_wait(&shared.barriers[KIND][step % STAGES], step / STAGES % 2);
}

/* Waits until all have arrived for the step that used this place before, if
 * any. */
template <enum barrier KIND, typename T>
static __device__ inline void wait_for_last(shared_memory<T> &shared, int step)
{
    vp_barrier_wait(&shared.barriers[KIND][step % STAGES],
                    (step / STAGES + 1) % 2);
}

/* ---- Helper ------------------------------------------------------------- */

/* Starts to load a tile of queries and its dout. */
template <typename T>
static __device__ void start_tile(shared_memory<T> &shared,
                                  const struct vp_attention_call &x,
                                  const struct key_tile &t, int tile, int stage)
{
    copy_tile<VP_WG_THREADS>(shared.queries[stage],
                             vp_q_rows<const T>(x.q, x.ld_q, x, t.head),
                             tile * QUERIES, group_thread());
    copy_tile<VP_WG_THREADS>(shared.douts[stage],
                             vp_q_rows<const T>(x.dout, x.ld_out, x, t.head),
                             tile * QUERIES, group_thread());
    vp_copy_commit();
}

/* Adds the products with a key tile to dq of a tile of queries. Writes dq to
 * device memory after the last key tile. */
template <typename T>
static __device__ void add_dq(shared_memory<T> &shared,
                              const struct vp_attention_call &x,
                              const struct vp_key_tiles &w,
                              const struct key_tile &t, int tile, int step)
{
    const vp_wg_tile<T> *ds = shared.ds[step % STAGES];
    float4 *sum =
        &shared.dq[tile % VP_BAND_TILES * 8 * VP_WG_THREADS + group_thread()];
    float scale = x.scale * x.drop.scale, factor[2] = { scale, scale };
    float dq[8][4];

#pragma unroll
    for (int n = 0; n < 8; n++) {
        float4 old = t.index ? sum[n * VP_WG_THREADS]
                             : make_float4(0.0f, 0.0f, 0.0f, 0.0f);

        dq[n][0] = old.x;
        dq[n][1] = old.y;
        dq[n][2] = old.z;
        dq[n][3] = old.w;
    }
    wait_for<DS_WRITTEN>(shared, step);
    vp_wg_fence();
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
        vp_wg_product<T, true, true, true, 4>(dq, vp_wg_tile_of(ds[i]),
                                              vp_wg_tile_of(shared.keys[i]));
    vp_wg_commit();
    vp_wg_wait<0>(dq);
    arrive_at<DS_READ>(shared, step);
    if (t.index + 1 < vp_key_tiles_seen(&w, &t, tile + 1)) {
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n * VP_WG_THREADS] = make_float4(dq[n][0], dq[n][1], dq[n][2],
                                                 dq[n][3]);
    } else if (x.dq) {
        store_fragments(vp_q_rows<T>(x.dq, x.ld_q, x, t.head),
                        tile * QUERIES + 16 * group_warp(), dq, factor,
                        x.add_q);
    }
}

/* add_dq() for the tile that is `back` tiles before the end of a key tile, and
 * was computed in `step`; does nothing if there is no such tile. */
template <typename T>
static __device__ void end_dq(shared_memory<T> &shared,
                              const struct vp_attention_call &x,
                              const struct vp_key_tiles &w,
                              const struct key_tile &t, int back, int step)
{
    int tile = vp_key_tile_end_query_tile(&w, &t) - back;

    if (step >= 0 && tile >= vp_key_tile_first_query_tile(&w, &t))
        add_dq(shared, x, w, t, tile, step);
}

/* Barrier of the helper's threads: the products of all its warps have ended
 * before one of them overwrites their operands. */
template <enum barrier KIND, typename T>
static __device__ inline void meet_helpers(shared_memory<T> &shared,
                                           int n_key_tiles)
{
    arrive_at<KIND>(shared, n_key_tiles);
    wait_for<KIND>(shared, n_key_tiles);
}

/* Replaces the keys of `last` by those of key tile t, which begins with `step`,
 * as soon as dq of `last` is complete. Until then the new keys are in the
 * memory of the ds of that step. n_key_tiles: number of key tiles that the
 * block has finished. */
template <typename T>
static __device__ void change_keys(shared_memory<T> &shared,
                                   const struct vp_attention_call &x,
                                   const struct vp_key_tiles &w,
                                   const struct key_tile &last,
                                   const struct key_tile &t, int n_key_tiles,
                                   int step)
{
    vp_rows<const T> keys = vp_k_rows<const T>(x.k, x.ld_kv, x, t.head);
    vp_wg_tile<T> *room = shared.ds[step % STAGES];

    end_dq(shared, x, w, last, 2, step - 2);
    meet_helpers<ROOM_FREE>(shared, n_key_tiles);
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
        copy_tile<VP_WG_THREADS>(room[i], keys, t.index * KEYS + i * GROUP_KEYS,
                                 group_thread());
    vp_copy_commit();
    end_dq(shared, x, w, last, 1, step - 1);
    vp_copy_wait<0>();
    meet_helpers<KEYS_READ>(shared, n_key_tiles);
    /* Each thread moves the chunks that it has copied itself. */
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
#pragma unroll
        for (int row = row_of_thread(); row < GROUP_KEYS; row += CHUNK_ROWS) {
            T *from = vp_wg_at(room[i], row, chunk_of_thread());
            T *to = vp_wg_at(shared.keys[i], row, chunk_of_thread());

            *(uint4 *)to = *(const uint4 *)from;
        }
    }
}

template <typename T>
static __device__ void help(shared_memory<T> &shared,
                            const struct vp_attention_call &x,
                            const struct vp_key_tiles &w)
{
    struct key_tile t = first_key_tile(x), last = t;
    float unscale = 1.0f / x.drop.scale;
    int step = 0, n_key_tiles = 0;

    for (; t.number < w.n_heads;
         last = t, t = next_key_tile(x, w, t), n_key_tiles++) {
        int first = vp_key_tile_first_query_tile(&w, &t),
            end = vp_key_tile_end_query_tile(&w, &t);

        if (vp_key_tile_is_first_of_head(&t))
            t.n_seen = seen_key_tiles(x, w, t);
        for (int tile = first; tile < end; tile++, step++) {
            int stage = step % STAGES;
            struct outs outs;

            wait_for_last<READ>(shared, step);
            start_tile(shared, x, t, tile, stage);
            if (t.index == 0)
                read_outs<T>(outs, x, t.head, tile);
            if (tile == first)
                change_keys(shared, x, w, last, t, n_key_tiles, step);
            else if (tile >= first + STAGES)
                add_dq(shared, x, w, t, tile - STAGES, step - STAGES);
            vp_copy_wait<0>();
            if (t.index == 0)
                set_stats(&shared.lse[vp_key_tile_stats(&w, &t, tile)],
                          &shared.delta[vp_key_tile_stats(&w, &t, tile)],
                          shared.douts[stage], outs, unscale);
            vp_wg_publish();
            arrive_at<LOADED>(shared, step);
        }
    }
    end_dq(shared, x, w, last, 2, step - 2);
    end_dq(shared, x, w, last, 1, step - 1);
}

/* ---- Masker ------------------------------------------------------------- */

template <typename T>
static __device__ void make_masks(shared_memory<T> &shared,
                                  const struct vp_attention_call &x,
                                  const struct vp_key_tiles &w)
{
    struct mask_key key = mask_key_of(x, {});
    int step = 0;

    for (struct key_tile t = first_key_tile(x); t.number < w.n_heads;
         t = next_key_tile(x, w, t)) {
        if (vp_key_tile_is_first_of_head(&t))
            t.n_seen = seen_key_tiles(x, w, t);
        for (int tile = vp_key_tile_first_query_tile(&w, &t);
             tile < vp_key_tile_end_query_tile(&w, &t); tile++) {
            wait_for_last<MASK_READ>(shared, step);
            draw_tile(shared.kept[step % STAGES], key, t.head, tile * QUERIES,
                      t.index * KEYS);
            arrive_at<MASK_READY>(shared, step++);
        }
    }
}

/* ---- Owners of keys ----------------------------------------------------- */

static __device__ inline int group_index(void)
{
    return (int)threadIdx.x / VP_WG_THREADS;
}

/* Starts s = q . k and dp = dout . v of a tile. */
template <typename T>
static __device__ void start_scores(float (&s)[8][4], float (&dp)[8][4],
                                    const uint32_t (&values)[4][4],
                                    const shared_memory<T> &shared, int stage)
{
    vp_wg_fence();
    vp_wg_product<T, false, false, false, 4>(
        s, vp_wg_tile_of(shared.keys[group_index()]),
        vp_wg_tile_of(shared.queries[stage]));
    vp_wg_product<T, false, false>(dp, values,
                                   vp_wg_tile_of(shared.douts[stage]));
    vp_wg_commit();
}

/* Adds a tile of queries, whose scores have been computed, to dk and dv, and
 * stores its ds. k0: the warp's first key. */
template <typename T, bool DROPS>
static __device__ void add_queries(shared_memory<T> &shared, float (&dk)[8][4],
                                   float (&dv)[8][4], float (&s)[8][4],
                                   const float (&dp)[8][4],
                                   const struct vp_attention_call &x,
                                   uint32_t seen, int k0, int tile, int stats,
                                   int step)
{
    int stage = step % STAGES;
    uint64_t queries = vp_wg_tile_of(shared.queries[stage]);
    uint64_t douts = vp_wg_tile_of(shared.douts[stage]);
    uint32_t kept[2] = { 0, 0 };

    if (DROPS) {
        wait_for<MASK_READY>(shared, step);
        read_kept(kept, shared.kept[stage], group_index());
        arrive_at<MASK_READ>(shared, step);
    }
    hide_rows(s, seen);
    if (x.causal)
        hide_future(s, k0, tile * QUERIES);
    wait_for_last<DS_READ>(shared, step);
    add_tile<T, DROPS>(dk, dv, shared.ds[stage][group_index()], s, dp, kept,
                       &shared.lse[stats], &shared.delta[stats],
                       x.scale * LOG2E, queries, douts);
    vp_wg_publish();
    arrive_at<DS_WRITTEN>(shared, step);
    vp_wg_wait<0>(dk);
    vp_wg_wait<0>(dv);
    arrive_at<READ>(shared, step);
}

/* The warp's first key. */
static __device__ inline int first_key(const struct key_tile &t)
{
    return t.index * KEYS + (int)threadIdx.x / 32 * 16;
}

template <typename T>
static __device__ void read_values(uint32_t (&values)[4][4],
                                   const struct vp_attention_call &x,
                                   const struct key_tile &t)
{
    load_fragments(values, vp_k_rows<const T>(x.v, x.ld_kv, x, t.head),
                   first_key(t));
}

/* Loops over the queries of a key tile, whose first tile has been loaded.
 * Returns the step after the last. */
template <typename T, bool DROPS>
static __device__ int own_key_tile(shared_memory<T> &shared, float (&dk)[8][4],
                                   float (&dv)[8][4],
                                   const uint32_t (&values)[4][4],
                                   const struct vp_attention_call &x,
                                   const struct vp_key_tiles &w,
                                   const struct key_tile &t, uint32_t seen,
                                   int step)
{
    int k0 = first_key(t), tile = vp_key_tile_first_query_tile(&w, &t),
        end = vp_key_tile_end_query_tile(&w, &t);
    float s[8][4], dp[8][4];

    for (;; tile++, step++) {
        start_scores(s, dp, values, shared, step % STAGES);
        vp_wg_wait<0>(s);
        vp_wg_wait<0>(dp);
        add_queries<T, DROPS>(shared, dk, dv, s, dp, x, seen, k0, tile,
                              vp_key_tile_stats(&w, &t, tile), step);
        if (tile + 1 == end)
            return step + 1;
        wait_for<LOADED>(shared, step + 1);
    }
}

/* ---- dk and dv ---------------------------------------------------------- */

/* Address of this thread's part of dk and dv, which is stored in device memory
 * between bands. Quad i is at [i * OWNERS]. */
static __device__ inline float4 *part_of(const struct vp_attention_call &x,
                                         const struct vp_key_tiles &w,
                                         const struct key_tile &t)
{
    size_t i = (size_t)t.number * (size_t)w.n_parts + (size_t)t.index;

    return x.parts + i * PART * OWNERS + threadIdx.x;
}

static __device__ inline void read_part(float (&c)[8][4], const float4 *part)
{
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float4 old = part[n * OWNERS];

        c[n][0] = old.x;
        c[n][1] = old.y;
        c[n][2] = old.z;
        c[n][3] = old.w;
    }
}

static __device__ inline void write_part(float4 *part, const float (&c)[8][4])
{
#pragma unroll
    for (int n = 0; n < 8; n++)
        part[n * OWNERS] = make_float4(c[n][0], c[n][1], c[n][2], c[n][3]);
}

template <typename T>
static __device__ void write_keys(const struct vp_attention_call &x,
                                  const struct key_tile &t,
                                  const float (&dk)[8][4],
                                  const float (&dv)[8][4])
{
    float scale = x.scale * x.drop.scale, k_factor[2] = { scale, scale };
    float v_factor[2] = { x.drop.scale, x.drop.scale };

    if (!x.dk)
        return;
    store_fragments(vp_k_rows<T>(x.dk, x.ld_kv, x, t.head), first_key(t), dk,
                    k_factor, x.add_kv);
    store_fragments(vp_k_rows<T>(x.dv, x.ld_kv, x, t.head), first_key(t), dv,
                    v_factor, x.add_kv);
}

/* Writes zeros to dk and dv of the key tiles from `t` on, whose keys no query
 * sees. */
template <typename T>
static __device__ void write_unseen(const struct vp_attention_call &x,
                                    const struct vp_key_tiles &w,
                                    struct key_tile t)
{
    const float zeros[8][4] = {};

    for (; t.index < w.n_key_tiles; t.index++)
        write_keys<T>(x, t, zeros, zeros);
}

template <typename T, bool DROPS>
static __device__ void own_keys(shared_memory<T> &shared,
                                const struct vp_attention_call &x,
                                const struct vp_key_tiles &w)
{
    struct key_tile t = first_key_tile(x), next;
    int step = 0;

    for (; t.number < w.n_heads; t = next) {
        float dk[8][4] = {}, dv[8][4] = {};
        uint32_t values[4][4], seen;
        int k0 = first_key(t);

        read_values<T>(values, x, t);
        seen = allowed_word(x, t.head, k0 / 32) >> (k0 % 32 + lane_g());
        if (vp_key_tile_has_part(&w, &t)) {
            read_part(dk, part_of(x, w, t));
            read_part(dv, part_of(x, w, t) + PART / 2 * OWNERS);
        }
        if (vp_key_tile_is_first_of_head(&t))
            t.n_seen = seen_key_tiles(x, w, t);
        wait_for<LOADED>(shared, step);
        next = next_key_tile(x, w, t);
        step = own_key_tile<T, DROPS>(shared, dk, dv, values, x, w, t, seen,
                                      step);
        if (t.band + 1 < w.n_bands) {
            write_part(part_of(x, w, t), dk);
            write_part(part_of(x, w, t) + PART / 2 * OWNERS, dv);
        } else {
            write_keys<T>(x, t, dk, dv);
        }
        if (next.number != t.number) {
            t.index++;
            write_unseen<T>(x, w, t);
        }
    }
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(block<DROPS>::THREADS, 1)
    backward(const struct vp_attention_call x)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    struct vp_key_tiles w = key_tiles_of(x);

    if (threadIdx.x == 0)
        make_barriers(shared);
    __syncthreads();
    switch (threadIdx.x / VP_WG_THREADS) {
    case HELPER:
        vp_wg_give_registers<block<DROPS>::HELPER_REGISTERS>();
        help(shared, x, w);
        break;
    case MASKER:
        vp_wg_give_registers<block<DROPS>::MASKER_REGISTERS>();
        make_masks(shared, x, w);
        break;
    default:
        vp_wg_take_registers<block<DROPS>::OWNER_REGISTERS>();
        own_keys<T, DROPS>(shared, x, w);
    }
}

/* ---- Launches ----------------------------------------------------------- */

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    struct vp_key_tiles w = key_tiles_of(*x);
    unsigned n_blocks = resident_blocks(w.n_heads, 1);
    int bytes = (int)sizeof(shared_memory<T>);

    if (w.n_key_tiles > 1)
        bytes += (w.n_bands > 1 ? VP_BAND_TILES : w.n_tiles) * QUERIES *
                 VP_WG_DIM * (int)sizeof(float);
    cudaFuncSetAttribute(backward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    backward<T, DROPS><<<n_blocks, block<DROPS>::THREADS, bytes, stream>>>(*x);
}

void vp_attention_wgmma_b(const struct vp_attention_call *x,
                          cudaStream_t stream)
{
    static const launch_fn table[2][2] = WG_LAUNCHES(launch);

    wg_launch_of(table, x)(x, stream);
}
