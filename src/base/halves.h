/* Splits a float into two 16-bit halves and joins them again without loss.
 *
 * `low` is the lower half of the float's bits. `high` is the upper half, plus 1
 * if `low` is 0x8000 or more: the nearest BF16, which can be used as such. Ties
 * round away from zero: with ties to even, `low` would not show which way a tie
 * was rounded. Joining subtracts the 1 again if `low` is 0x8000 or more, and
 * restores every float bit for bit, even if `high` became infinite. All NaNs
 * become one NaN, and its `high` is a NaN too. */
#ifndef VP_BASE_HALVES_H
#define VP_BASE_HALVES_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define VP_HALVES_INLINE static inline __host__ __device__
#else
#define VP_HALVES_INLINE static inline
#endif

struct vp_halves {
    uint16_t high, low;
};

VP_HALVES_INLINE struct vp_halves vp_halves_split(float x)
{
    struct vp_halves halves;
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* a NaN */
        bits = 0x7FC00000u;
    halves.high = (uint16_t)((bits + 0x8000u) >> 16);
    halves.low = (uint16_t)bits;
    return halves;
}

VP_HALVES_INLINE float vp_halves_join(uint16_t high, uint16_t low)
{
    uint32_t bits = ((uint32_t)high - (low >> 15)) << 16 | low;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The same for `n` floats; the arrays must not overlap. */
static inline void vp_halves_split_all(uint16_t *high, uint16_t *low,
                                       const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        struct vp_halves halves = vp_halves_split(x[i]);

        high[i] = halves.high;
        low[i] = halves.low;
    }
}

static inline void vp_halves_join_all(float *x, const uint16_t *high,
                                      const uint16_t *low, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = vp_halves_join(high[i], low[i]);
}

#endif
