/* Shared by the kernels that work on rows of elements: packs of elements,
 * dropout of a pack, sums over rows in parts, and layer norm fused with its
 * neighbours. */
#ifndef VP_BACKEND_CUDA_ROWS_ROWS_CUH
#define VP_BACKEND_CUDA_ROWS_ROWS_CUH

#include "backend/cuda/device.cuh"

static inline const struct vp_value *vp_call_value(
    const struct vp_cuda_call *call, vp_val value)
{
    return &call->args.graph->values[value];
}

/* ---- Packs: N elements of one thread ------------------------------------ */

/* True if a row consists of packs of 16 bytes, all aligned; else packs of one
 * element are used. */
template <typename T> static inline bool vp_fits_packs(int64_t cols)
{
    return cols % vp_vec<T>::N == 0;
}

template <typename T, int N> struct vp_pack {
    uint4 quad[N * sizeof(T) / 16];
};

template <typename T> struct vp_pack<T, 1> {
    T x;
};

template <int N, typename T>
static __device__ inline vp_pack<T, N> vp_read(const T *src)
{
    return *(const vp_pack<T, N> *)src;
}

/* Word number i of a pack: one float, or two elements of two bytes. */
static __device__ inline uint32_t vp_word(const uint4 *quad, int i)
{
    const uint4 &q = quad[i / 4];

    return i % 4 < 2 ? (i % 4 == 0 ? q.x : q.y) : (i % 4 == 2 ? q.z : q.w);
}

/* Element i of a pack, as float; i is a compile-time constant. */
template <typename T, int N>
static __device__ inline float vp_get(const vp_pack<T, N> &pack, int i)
{
    if constexpr (N == 1)
        return vp_float(pack.x);
    else if constexpr (sizeof(T) == 4)
        return __uint_as_float(vp_word(pack.quad, i));
    else
        return vp_half_word(vp_word(pack.quad, i / 2), i % 2, T());
}

template <int N, typename T>
static __device__ inline void vp_load(float *dst, const T *src)
{
    vp_pack<T, N> pack = vp_read<N>(src);

#pragma unroll
    for (int i = 0; i < N; i++)
        dst[i] = vp_get(pack, i);
}

/* Four words of a pack, from the 4 floats or 8 two-byte elements that they
 * hold. */
template <typename T> static __device__ inline uint4 vp_quad(const float *src)
{
    if constexpr (sizeof(T) == 4)
        return make_uint4(__float_as_uint(src[0]), __float_as_uint(src[1]),
                          __float_as_uint(src[2]), __float_as_uint(src[3]));
    else
        return make_uint4(
            vp_pair(src[0], src[1], T()), vp_pair(src[2], src[3], T()),
            vp_pair(src[4], src[5], T()), vp_pair(src[6], src[7], T()));
}

/* Converts pairs of elements: converting one by one takes four times as
 * long. */
template <typename T, int N>
static __device__ inline vp_pack<T, N> vp_pack_of(const float *src)
{
    vp_pack<T, N> pack;

    if constexpr (N == 1) {
        pack.x = vp_round<T>(*src);
    } else {
#pragma unroll
        for (int i = 0; i < N; i += vp_vec<T>::N)
            pack.quad[i / vp_vec<T>::N] = vp_quad<T>(src + i);
    }
    return pack;
}

template <typename T, int N>
static __device__ inline void vp_write(T *dst, const vp_pack<T, N> &pack)
{
    if constexpr (N == 1) {
        *dst = pack.x;
    } else {
#pragma unroll
        for (int i = 0; i < N; i += vp_vec<T>::N) {
            const uint4 &q = pack.quad[i / vp_vec<T>::N];

            /* The compiler may split a wide store into four narrow ones. */
            asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(dst + i),
                         "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w)
                         : "memory");
        }
    }
}

template <int N, typename T>
static __device__ inline void vp_store(T *dst, const float *src)
{
    vp_write(dst, vp_pack_of<T, N>(src));
}

/* Rounds x to the type T, in place, and returns the pack to be stored. */
template <typename T, int N>
static __device__ inline vp_pack<T, N> vp_round_pack(float *x)
{
    vp_pack<T, N> pack = vp_pack_of<T, N>(x);

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = vp_get(pack, i);
    return pack;
}

/* dst = src, or dst += src if `add`. Leaves the result before rounding in
 * `src`. */
template <int N, typename T>
static __device__ inline void vp_put(T *dst, bool add, float *src)
{
    float old[N];

    if (add) {
        vp_load<N>(old, dst);
#pragma unroll
        for (int i = 0; i < N; i++)
            src[i] = old[i] + src[i];
    }
    vp_store<N>(dst, src);
}

static __device__ inline uint32_t vp_rng_word(const struct vp_rng4 &r, int i)
{
    return i < 2 ? (i == 0 ? r.v[0] : r.v[1]) : (i == 2 ? r.v[2] : r.v[3]);
}

/* Random bytes of N columns, four in a word. */
template <int N> struct vp_drop_words {
    uint32_t word[(N + 3) / 4];
};

/* Random bytes of the N columns from `col` on; N is 1, 4, 8 or 16 and divides
 * col. */
template <int N>
static __device__ inline vp_drop_words<N> vp_words_of(
    const struct vp_drop &drop, struct vp_drop_row at, uint32_t col)
{
    struct vp_rng4 bits = vp_drop_bits(drop, at, col / 16);
    vp_drop_words<N> words;

#pragma unroll
    for (int k = 0; k < N; k += 4)
        words.word[k / 4] = vp_rng_word(bits, (int)(col % 16) / 4 + k / 4);
    if (N < 4)
        words.word[0] >>= 8 * (col % 4);
    return words;
}

/* Position of a pack in a tensor. */
struct vp_drop_place {
    struct vp_drop_row row;
    uint32_t col;
};

/* The random bytes of two packs of a thread. All threads of a warp must call
 * it: neighbouring lanes need the same two groups of 16 columns, so each
 * generates one of them and they exchange halves. */
template <int N>
static __device__ inline void vp_words_of_two(vp_drop_words<N> *words,
                                              const struct vp_drop &drop,
                                              struct vp_drop_place a,
                                              struct vp_drop_place b)
{
    if constexpr (N == 8) {
        bool odd = a.col / N % 2;
        struct vp_rng4 bits = vp_drop_bits(drop, odd ? b.row : a.row,
                                           (odd ? b.col : a.col) / 16);

#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t own = odd ? bits.v[2 + i] : bits.v[i];
            uint32_t other = __shfl_xor_sync(
                0xFFFFFFFFu, odd ? bits.v[i] : bits.v[2 + i], 1);

            words[0].word[i] = odd ? other : own;
            words[1].word[i] = odd ? own : other;
        }
    } else {
        words[0] = vp_words_of<N>(drop, a.row, a.col);
        words[1] = vp_words_of<N>(drop, b.row, b.col);
    }
}

/* True if byte i of the word is below the threshold, which may have nine bits.
 * The byte is compared in place, without shifting it down. */
static __device__ inline bool vp_drops(uint32_t word, int i, uint32_t threshold)
{
    return i == 3 ? word >> 24 < threshold
                  : (word & 0xFFu << 8 * i) < threshold << 8 * i;
}

template <int N>
static __device__ inline void vp_drop_pack(float *x, const struct vp_drop &drop,
                                           vp_drop_words<N> words)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] *= vp_drops(words.word[i / 4], i % 4, drop.threshold) ? 0.0f
                                                                   : drop.scale;
}

/* ---- Sums over rows ----------------------------------------------------- */

/* A block sums a part of the rows; row r of a part belongs to team r %
 * VP_TEAMS. A thread adds its columns of its team's rows in order, the block
 * adds its teams, and a second kernel adds the parts. A kernel that follows
 * this order while it does other work gets the bits of
 * vp_cuda_column_sums(). */
enum { VP_TEAM = 128 }; /* largest number of threads, one pack each */

/* Sums of all teams of a block but the first, which adds them. */
template <int N, int THREADS, int TEAMS> struct vp_team_sums {
    float sum[TEAMS > 1 ? TEAMS - 1 : 1][N][THREADS];
};

template <int N, int THREADS, int TEAMS>
static __device__ inline void vp_put_team(
    vp_team_sums<N, THREADS, TEAMS> *shared, const float *sum)
{
    if (threadIdx.y == 0)
        return;
#pragma unroll
    for (int i = 0; i < N; i++)
        shared->sum[threadIdx.y - 1][i][threadIdx.x] = sum[i];
}

/* Adds the sums of the other teams, in the first team. Call it after a
 * barrier. */
template <int N, int THREADS, int TEAMS>
static __device__ inline void vp_add_teams(
    float *sum, const vp_team_sums<N, THREADS, TEAMS> *shared)
{
#pragma unroll
    for (int team = 1; team < TEAMS; team++)
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += shared->sum[team - 1][i][threadIdx.x];
}

/* dst[k] (+)= the sum over all parts, each [n_dst, cols]. */
struct vp_part_sums {
    const float *parts; /* [n_parts, n_dst, cols] */
    float *dst[3];      /* NULL: not computed */
    int n_dst;
    int64_t n_parts, cols;
    bool add;
};

void vp_cuda_add_parts(const struct vp_part_sums *sums, cudaStream_t stream);

/* ---- Layer norm, and its neighbours ------------------------------------- */

/* The end of a residual branch: sum = dropout(x) + trunk. Also used for x
 * alone. */
struct vp_residual {
    const void *x;
    bool has_drop;
    struct vp_drop drop;
    void *dropped;     /* receives dropout(x); NULL: not stored */
    const void *trunk; /* NULL: no addition */
    void *sum;
    int64_t rows, cols;
};

/* N columns of the inputs of a residual. */
template <typename T, int N> struct vp_residual_pack {
    vp_pack<T, N> x, trunk;
};

template <typename T, int N>
static __device__ inline vp_residual_pack<T, N> vp_read_residual(
    const struct vp_residual &res, uint32_t row, uint32_t col)
{
    int64_t at = row * res.cols + col;
    vp_residual_pack<T, N> in;

    in.x = vp_read<N>((const T *)res.x + at);
    if (res.trunk)
        in.trunk = vp_read<N>((const T *)res.trunk + at);
    return in;
}

/* Sets x to the sum, rounded wherever the single operators would round, and
 * stores the results. */
template <typename T, int N>
static __device__ inline void vp_end_residual(float *x,
                                              const vp_residual_pack<T, N> &in,
                                              vp_drop_words<N> words,
                                              const struct vp_residual &res,
                                              uint32_t row, uint32_t col)
{
    int64_t at = row * res.cols + col;

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = vp_get(in.x, i);
    if (res.has_drop) {
        vp_pack<T, N> dropped;

        vp_drop_pack<N>(x, res.drop, words);
        dropped = vp_round_pack<T, N>(x);
        if (res.dropped)
            vp_write((T *)res.dropped + at, dropped);
    }
    if (res.trunk) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] += vp_get(in.trunk, i);
        vp_write((T *)res.sum + at, vp_round_pack<T, N>(x));
    }
}

/* out = layernorm(in) */
struct vp_norm {
    struct vp_residual in;
    const void *gamma, *beta;
    float eps;
    void *out;
    float *stat; /* [rows, 2]: mean, 1/std */
};

/* dx = base + the gradient through the layer norm; dbranch = dropout(dx).
 * Partial sums of dgamma, dbeta, and of the columns of dbranch, are stored in
 * `parts`. */
struct vp_norm_grad {
    const void *x, *dout, *gamma, *beta;
    const float *stat;
    void *dx; /* NULL: not computed, nor dbranch and recomputed_out */
    void *recomputed_out; /* the output, computed again; NULL: not stored */
    const void *base;     /* NULL: dx is overwritten */
    float *parts;         /* [vp_norm_parts(), n_sums, cols]; NULL: no sums */
    int n_sums;    /* 2; 3 with the sums of dbranch (of dx without dropout) */
    void *dbranch; /* NULL: no dropout */
    struct vp_drop drop;
    int64_t rows, cols;
};

/* Return false, without doing anything, if rows do not fit in the registers of
 * a block. vp_cuda_layernorm_f(), _b() and _w() work at every size. */
bool vp_cuda_norm(const struct vp_norm *norm, enum vp_dtype dtype,
                  cudaStream_t stream);
bool vp_cuda_norm_grad(const struct vp_norm_grad *grad, enum vp_dtype dtype,
                       cudaStream_t stream);

/* Arguments of a call of layernorm alone. */
struct vp_norm vp_cuda_norm_of(const struct vp_cuda_call *call);
struct vp_norm_grad vp_cuda_norm_grad_of(const struct vp_cuda_call *call);
/* The second half of W: adds the parts in the call's scratch, and writes dpar
 * and, unless it is NULL, dbranch_sums [cols]; adds to them if the minibatch
 * accumulates. */
void vp_cuda_norm_finish(const struct vp_cuda_call *w, float *dbranch_sums);
/* Returns true if the sums of dbranch have the bits of
 * vp_cuda_column_sums(). */
bool vp_cuda_norm_sums_columns(int64_t cols, enum vp_dtype dtype);
/* Returns true if W has any gradient to write. */
bool vp_cuda_norm_wants_w(const struct vp_cuda_call *w);

#endif
