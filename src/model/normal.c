/* Normal numbers by Box and Muller from Philox, in blocks that compilers turn into
 * vector instructions. */
#include "model/normal.h"

#include "base/rng.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

/* A group is the four numbers of one call of Philox. */
enum { GROUPS = 32, BLOCK = 4 * GROUPS };

#define INLINE static inline __attribute__((always_inline))

/* Note [init]. Logarithm, cosine and sine are series of exactly rounded
 * operations, so that weights have the same bits with every math library and
 * every instruction set. Their error is below 3e-9, less than the rounding to
 * float. */
INLINE double series(const double *c, int n, double x)
{
    double sum = c[n - 1];

    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

INLINE double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

INLINE uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Returns the natural logarithm of x in (0, 1). */
INLINE double log_unit(double x)
{
    static const double atanh2[] = { 2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9 };
    const uint64_t root_half = 0x3FE6A09E667F3BCDu; /* bits of sqrt(1/2) */
    const uint64_t two_52 = 0x4330000000000000u;    /* bits of 2^52 */
    uint64_t shifted = bits_of(x) - root_half + ((uint64_t)1024 << 52);
    /* x = 2^exponent m with m in [sqrt(1/2), sqrt(2)). */
    double exponent = double_of(two_52 | shifted >> 52) - (0x1p52 + 1024.0);
    double m = double_of((shifted & 0xFFFFFFFFFFFFFu) + root_half);
    double s = (m - 1.0) / (m + 1.0);

    return exponent * 0.6931471805599453 + s * series(atanh2, 5, s * s);
}

/* Returns vp_rng_unit(bits). AVX2 converts signed integers only. */
INLINE double unit(uint32_t bits)
{
    double x = (double)(int32_t)(bits ^ 0x80000000u) + 2147483648.0;

    return (x + 0.5) * (1.0 / 4294967296.0);
}

/* Computes Philox for groups first .. first + GROUPS - 1, as vp_rng() does:
 * word j of group g goes to x[j][g]. */
INLINE void draw_words(const struct vp_normal *normal, uint64_t first,
                       uint32_t x[4][GROUPS])
{
    uint32_t k0 = (uint32_t)normal->seed ^
                  (uint32_t)(normal->seed >> 32) * 0x85EBCA6Bu;
    uint32_t k1 = (uint32_t)VP_RNG_INIT << 24 |
                  ((uint32_t)normal->name & 0xFFFFFFu);

    for (int g = 0; g < GROUPS; g++) {
        x[0][g] = (uint32_t)(first + (uint64_t)g);
        x[1][g] = (uint32_t)((first + (uint64_t)g) >> 32);
        x[2][g] = (uint32_t)normal->name;
        x[3][g] = (uint32_t)(normal->name >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int g = 0; g < GROUPS; g++) {
            uint32_t a = x[0][g], b = x[2][g];
            uint32_t high_a = (uint32_t)((uint64_t)0xD2511F53u * a >> 32);
            uint32_t high_b = (uint32_t)((uint64_t)0xCD9E8D57u * b >> 32);

            x[0][g] = high_b ^ x[1][g] ^ k0;
            x[1][g] = 0xCD9E8D57u * b;
            x[2][g] = high_a ^ x[3][g] ^ k1;
            x[3][g] = 0xD2511F53u * a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* std times cosine and sine of the angle 2 pi (turn + 0.5) / 2^32 on a circle of a
 * random radius. Selections are made of bits, for vectors have no branches. */
INLINE void draw_pairs(double std, const uint32_t *lengths,
                       const uint32_t *turns, float *cos_out, float *sin_out)
{
    static const double cosine[] = { 1.0,        -1.0 / 2,    1.0 / 24,
                                     -1.0 / 720, 1.0 / 40320, -1.0 / 3628800 };
    static const double sine[] = { 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040,
                                   1.0 / 362880 };

    for (int g = 0; g < GROUPS; g++) {
        double radius = sqrt(-2.0 * log_unit(unit(lengths[g])));
        /* `quarter`: the nearest quarter turn; x: the angle from there, within
         * +- pi / 4. */
        uint32_t quarter = (turns[g] >> 30) + (turns[g] >> 29 & 1);
        double x = ((double)(int32_t)(turns[g] - (quarter << 30)) + 0.5) *
                   (6.283185307179586 / 4294967296.0);
        uint64_t c = bits_of(series(cosine, 6, x * x));
        uint64_t s = bits_of(x * series(sine, 5, x * x));
        uint64_t odd = (uint64_t)0 - (quarter & 1);
        uint64_t near = (c & ~odd) | (s & odd), far = (s & ~odd) | (c & odd);

        near ^= (uint64_t)((quarter + 1) >> 1 & 1) << 63;
        far ^= (uint64_t)(quarter >> 1 & 1) << 63;
        cos_out[g] = (float)(std * (double_of(near) * radius));
        sin_out[g] = (float)(std * (double_of(far) * radius));
    }
}

/* Writes numbers 4 * first .. 4 * first + BLOCK - 1 of a tensor. */
INLINE void fill_block(const struct vp_normal *normal, int64_t first,
                       float *out)
{
    uint32_t x[4][GROUPS];
    float z[4][GROUPS];

    draw_words(normal, (uint64_t)first, x);
    draw_pairs(normal->std, x[0], x[1], z[0], z[1]);
    draw_pairs(normal->std, x[2], x[3], z[2], z[3]);
    for (int g = 0; g < GROUPS; g++)
        for (int j = 0; j < 4; j++)
            out[4 * g + j] = z[j][g];
}

typedef void (*block_fn)(const struct vp_normal *normal, int64_t first,
                         float *out);

static void block_plain(const struct vp_normal *normal, int64_t first,
                        float *out)
{
    fill_block(normal, first, out);
}

#if defined(__x86_64__)

static __attribute__((target("avx2"))) void block_avx2(
    const struct vp_normal *normal, int64_t first, float *out)
{
    fill_block(normal, first, out);
}

static __attribute__((
    target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void
block_avx512(const struct vp_normal *normal, int64_t first, float *out)
{
    fill_block(normal, first, out);
}

static block_fn find_block(enum vp_normal_isa isa)
{
    switch (isa) {
    case VP_NORMAL_AVX512:
        return __builtin_cpu_supports("avx512f") &&
                       __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl")
                   ? block_avx512
                   : NULL;
    case VP_NORMAL_AVX2:
        return __builtin_cpu_supports("avx2") ? block_avx2 : NULL;
    default:
        return block_plain;
    }
}

#else

static block_fn find_block(enum vp_normal_isa isa)
{
    return isa == VP_NORMAL_PLAIN ? block_plain : NULL;
}

#endif

/* Blocks begin at any group. A block of which only some numbers are needed is
 * computed into `whole` first. */
static void fill(block_fn block, const struct vp_normal *normal, int64_t begin,
                 int64_t n, float *out)
{
    int64_t end = begin + n;
    float whole[BLOCK];

    for (int64_t at = begin / 4 * 4; at < end; at += BLOCK) {
        int64_t from = at < begin ? begin : at;
        int64_t to = at + BLOCK < end ? at + BLOCK : end;

        if (to - from == BLOCK) {
            block(normal, at / 4, out + (at - begin));
            continue;
        }
        block(normal, at / 4, whole);
        memcpy(out + (from - begin), whole + (from - at),
               (size_t)(to - from) * sizeof(*out));
    }
}

bool vp_normal_fill_by(enum vp_normal_isa isa, const struct vp_normal *normal,
                       int64_t begin, int64_t n, float *out)
{
    block_fn block = find_block(isa);

    if (block)
        fill(block, normal, begin, n, out);
    return block != NULL;
}

void vp_normal_fill(const struct vp_normal *normal, int64_t begin, int64_t n,
                    float *out)
{
    int isa = VP_NORMAL_ISA_COUNT - 1;

    while (!vp_normal_fill_by((enum vp_normal_isa)isa, normal, begin, n, out))
        isa--;
}
