/* Forward of attention on the tensor cores of warpgroups, for heads of 64
 * columns and up to 128 queries and keys. Such heads are limited by memory
 * bandwidth, so the next one is loaded while one is computed: there are two
 * blocks per processor of the GPU, which do one head after another.
 *
 * A block is two warpgroups, each of which owns 64 queries. The results have
 * the bits of wgmma_f.cu. */
#include "backend/cuda/attention/forward.cuh"
#include "backend/cuda/attention/short.cuh"

enum { BLOCKS = 2 }; /* blocks per processor */

/* Inputs of a head. At the end `out` is stored in place of the queries. */
template <typename T> struct head_rows {
    vp_wg_tile<T> queries[GROUPS], keys[GROUPS], values[GROUPS];
};

/* Barriers of the copies of a head. */
struct arrivals {
    vp_barrier queries_and_keys, values;
};

template <typename T> struct shared_memory {
    head_rows<T> heads[STAGES];
    uint32_t allowed[STAGES][MAX_LEN / 32];
    struct arrivals arrivals[STAGES];
};

struct maps {
    CUtensorMap queries, keys, values, out;
};

/* Dropout mask of the warp's queries, one word for 32 keys: the four words of
 * draw_kept(), number i shifted right by i bits. */
struct kept {
    uint32_t words[MAX_LEN / 32];
};

/* ---- Loads -------------------------------------------------------------- */

static __device__ void make_barriers(struct arrivals *arrivals)
{
    for (int i = 0; i < STAGES; i++) {
        vp_barrier_init(&arrivals[i].queries_and_keys, 1);
        vp_barrier_init(&arrivals[i].values, 1);
    }
    vp_barrier_publish();
}

/* Values are copied last, as scores do not need them. */
template <typename T>
static __device__ void start_copies(head_rows<T> &rows,
                                    struct arrivals &arrivals,
                                    const struct vp_attention_call &x,
                                    const struct vp_attention_head &h,
                                    const struct maps &maps)
{
    int tile_bytes = (int)sizeof(vp_wg_tile<T>);
    int query_bytes = tiles_of(x.q_len) * tile_bytes;
    int key_bytes = tiles_of(x.k_len) * tile_bytes;
    int col = h.index * VP_WG_DIM, sample = (int)h.sample;

    vp_barrier_expect(&arrivals.queries_and_keys, query_bytes + key_bytes);
    vp_tma_copy_matrix(rows.queries, &maps.queries, col, 0, sample,
                       &arrivals.queries_and_keys);
    vp_tma_copy_matrix(rows.keys, &maps.keys, col, 0, sample,
                       &arrivals.queries_and_keys);
    vp_barrier_expect(&arrivals.values, key_bytes);
    vp_tma_copy_matrix(rows.values, &maps.values, col, 0, sample,
                       &arrivals.values);
}

/* Starts to load head number `i`, if there is one. Sets `seen` to whether key
 * number threadIdx.x may be seen. */
template <typename T>
static __device__ void start_head(shared_memory<T> &shared, int stage,
                                  int32_t &seen,
                                  const struct vp_attention_call &x,
                                  const struct maps &maps, unsigned i)
{
    struct vp_attention_head h = vp_attention_head_of(x, i);
    int key = (int)threadIdx.x;

    if (i >= heads_of(x))
        return;
    seen = key < x.k_len;
    if (x.mask && key < x.k_len)
        seen = x.mask[h.k_row + key];
    if (threadIdx.x == 0)
        start_copies(shared.heads[stage], shared.arrivals[stage], x, h, maps);
}

static __device__ inline void set_seen(uint32_t *allowed, int32_t seen)
{
    uint32_t word = __ballot_sync(0xFFFFFFFFu, seen);

    if (threadIdx.x < MAX_LEN && threadIdx.x % 32 == 0)
        allowed[threadIdx.x / 32] = word;
}

/* ---- Dropout ------------------------------------------------------------ */

static __device__ inline uint32_t draw_word(const struct mask_key &key, int q0,
                                            int k0)
{
    uint32_t kept[4], word = 0;

    draw_kept(kept, key, q0, k0);
#pragma unroll
    for (int i = 0; i < 4; i++)
        word |= (kept[i] & 0x80808080u) >> i;
    return word;
}

/* Generates the mask of both tiles of keys, or of the only one. */
static __device__ inline void draw_head(struct kept &kept,
                                        const struct mask_key &key, int q0,
                                        int k_len)
{
    kept.words[0] = draw_word(key, q0, 0);
    kept.words[1] = draw_word(key, q0, 32);
    if (k_len <= TILE)
        return;
    kept.words[2] = draw_word(key, q0, 64);
    kept.words[3] = draw_word(key, q0, 96);
}

/* Rounds the probabilities of a tile; 0 where dropped. */
template <typename T, bool DROPS>
static __device__ void round_kept(uint32_t (&p16)[4][4], const float (&p)[8][4],
                                  const uint32_t *words)
{
    round_rows<T>(p16, p);
#pragma unroll
    for (int i = 0; i < TILE / 32 && DROPS; i++) {
        const uint32_t kept[4] = { words[i], words[i] << 1, words[i] << 2,
                                   words[i] << 3 };

        drop(p16 + 2 * i, kept);
    }
}

/* ---- A head ------------------------------------------------------------- */

template <typename T>
static __device__ inline void start_scores(float (&p)[8][4],
                                           const head_rows<T> &rows, int tile)
{
    vp_wg_product<T, false, false, false, 4>(
        p, vp_wg_tile_of(rows.queries[group_index()]),
        vp_wg_tile_of(rows.keys[tile]));
    vp_wg_commit();
}

template <typename T>
static __device__ inline void start_values(float (&acc)[8][4],
                                           const uint32_t (&p16)[4][4],
                                           const head_rows<T> &rows, int tile)
{
    vp_wg_product<T, true, true>(acc, p16, vp_wg_tile_of(rows.values[tile]));
    vp_wg_commit();
}

/* Turns the scores of a tile into probabilities before normalisation. */
static __device__ inline void weigh(struct softmax &z, float (&p)[8][4],
                                    float (&fade)[2], const uint32_t *allowed,
                                    const struct vp_attention_call &x, int q0,
                                    int tile)
{
    hide_tile(p, allowed, x.causal, q0, tile * TILE);
    softmax_scores(z, p, fade, x.scale * LOG2E);
}

/* Computes the sums of values, and the softmax by which they are divided. If
 * there are at most 64 queries, the second group computes with stale data of
 * shared memory, and its results are not stored. */
template <typename T, bool DROPS>
static __device__ void do_head(const head_rows<T> &rows,
                               struct arrivals &arrivals, int phase,
                               const uint32_t *allowed, const struct kept &kept,
                               const struct vp_attention_call &x, int q0,
                               struct softmax &z, float (&acc)[8][4])
{
    uint32_t p16[4][4];
    float p[8][4], fade[2];
    bool second;

    vp_barrier_wait(&arrivals.queries_and_keys, phase);
    second = x.k_len > TILE && any_allowed(allowed, TILE);
    vp_wg_fence();
    start_scores(p, rows, 0);
    vp_wg_wait<0>(p);
    weigh(z, p, fade, allowed, x, q0, 0);
    round_kept<T, DROPS>(p16, p, kept.words);
    vp_barrier_wait(&arrivals.values, phase);
    if (second) {
        vp_wg_fence();
        start_scores(p, rows, 1);
        start_values(acc, p16, rows, 0);
        vp_wg_wait<1>(p);
        weigh(z, p, fade, allowed, x, q0, 1);
        vp_wg_wait<0>(acc);
        fade_out(acc, fade);
        round_kept<T, DROPS>(p16, p, kept.words + TILE / 32);
    }
    vp_wg_fence();
    start_values(acc, p16, rows, second);
    vp_wg_wait<0>(acc);
}

/* Writes lse and `out` of a head, when the group's products have ended. */
template <typename T>
static __device__ void end_head(head_rows<T> &rows,
                                const struct vp_attention_call &x,
                                const struct vp_attention_head &h,
                                const struct maps &maps,
                                const struct softmax &z,
                                const float (&acc)[8][4])
{
    vp_wg_tile<T> &out = rows.queries[group_index()];
    uint32_t rounded[4][4];
    float factor[2];

    end_softmax(factor, x, h, first_row(), z);
    round_scaled<T>(rounded, acc, factor);
    sync_group(); /* its products no longer read the queries */
    put_rows(out, first_row() % 64, rounded);
    vp_wg_publish();
    sync_group();
    if (threadIdx.x % VP_WG_THREADS == 0 && group_index() < tiles_of(x.q_len))
        send_tile(&maps.out, out, h);
}

template <typename T, bool DROPS>
static __global__ void __launch_bounds__(OWNERS, BLOCKS)
    forward(const struct vp_attention_call x,
            const __grid_constant__ struct maps maps)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    int32_t seen = 0;
    int stage = 0, phase = 0;

    if (threadIdx.x == 0)
        make_barriers(shared.arrivals);
    __syncthreads();
    start_head(shared, 0, seen, x, maps, blockIdx.x);
    for (unsigned i = blockIdx.x; i < heads_of(x);
         i += gridDim.x, phase ^= stage, stage ^= 1) {
        struct vp_attention_head h = vp_attention_head_of(x, i);
        struct softmax z = { { -INFINITY, -INFINITY }, { 0.0f, 0.0f } };
        float acc[8][4] = {};
        struct kept kept = {};
        int q0 = first_row();

        if (DROPS) /* done first, while the head is loaded */
            draw_head(kept, mask_key_of(x, h), q0, x.k_len);
        set_seen(shared.allowed[stage], seen);
        vp_tma_wait_read();
        __syncthreads(); /* the head before is no longer used */
        start_head(shared, stage ^ 1, seen, x, maps, i + gridDim.x);
        do_head<T, DROPS>(shared.heads[stage], shared.arrivals[stage], phase,
                          shared.allowed[stage], kept, x, q0, z, acc);
        end_head(shared.heads[stage], x, h, maps, z, acc);
    }
    vp_tma_wait_read();
}

/* ---- Launches ----------------------------------------------------------- */

template <typename T, bool DROPS>
static void launch(const struct vp_attention_call *x, cudaStream_t stream)
{
    const struct maps maps = {
        heads_map(x, x->q, x->q_len, x->ld_q),
        heads_map(x, x->k, x->k_len, x->ld_kv),
        heads_map(x, x->v, x->k_len, x->ld_kv),
        tiles_map(x, x->out, x->q_len, x->ld_out),
    };
    unsigned n_blocks = resident_blocks(heads_of(*x), BLOCKS);
    int bytes = (int)sizeof(shared_memory<T>);

    cudaFuncSetAttribute(forward<T, DROPS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    forward<T, DROPS><<<n_blocks, OWNERS, bytes, stream>>>(*x, maps);
}

void vp_attention_wgmma_short_f(const struct vp_attention_call *x,
                                cudaStream_t stream)
{
    static const launch_fn table[2][2] = WG_LAUNCHES(launch);

    wg_launch_of(table, x)(x, stream);
}
