/* Conversions between 32-bit and 16-bit floats on their bits: the result does
 * not depend on the processor. */
#include "base/dtype.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Drops the low `n` bits, rounding to nearest, ties to even. */
static uint32_t shorten(uint32_t x, int n)
{
    return (x + (1u << (n - 1)) - 1 + (x >> n & 1)) >> n;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits = bits_of(x);

    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* a NaN stays a NaN */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)shorten(bits, 16);
}

static uint16_t to_f16(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u;
    uint32_t size = bits & 0x7FFFFFFFu;
    uint32_t exponent = size >> 23, mantissa = size & 0x7FFFFFu;

    if (size > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (size >= 0x477FF000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7C00u);
    if (exponent >= 113) /* normal: the exponent's bias is 112 less */
        return (uint16_t)(sign | shorten(size - (112u << 23), 13));
    if (exponent < 102) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    return (uint16_t)(sign |
                      shorten(mantissa | 0x800000u, (int)(126 - exponent)));
}

static float from_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16;
    uint32_t exponent = x >> 10 & 0x1Fu, mantissa = x & 0x3FFu;
    float least = float_of(sign | 0x33800000u); /* 2^-24 */

    if (exponent == 0)
        return (float)mantissa * least;
    if (exponent == 31)
        return float_of(sign | 0x7F800000u | mantissa << 13);
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

void vp_dtype_round(enum vp_dtype dtype, uint16_t *dst, const float *src,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = dtype == VP_DTYPE_BF16 ? to_bf16(src[i]) : to_f16(src[i]);
}

static float from_bf16(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

void vp_dtype_expand(enum vp_dtype dtype, float *dst, const uint16_t *src,
                     int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = dtype == VP_DTYPE_BF16 ? from_bf16(src[i]) : from_f16(src[i]);
}

void vp_dtype_shorten(enum vp_dtype dtype, float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = dtype == VP_DTYPE_BF16 ? from_bf16(to_bf16(data[i]))
                                         : from_f16(to_f16(data[i]));
}
