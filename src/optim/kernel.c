#include "optim/kernel.h"

#include <math.h>

/* Enough independent additions to hide their latency, and few enough to stay
 * in 16 registers of 128 bits. */
enum { LANES = 16 };
/* Elements whose LAMB directions are kept in the first-level cache between
 * two loops; short, so that loads of the next block start early. */
enum { BLOCK = 256 };

/* The next loop carries nothing from one element to the next, although the
 * compiler must fear that w_new is a shifted w. */
#if defined(__clang__)
/* Sanitizers keep these loops scalar, and that is no news. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

static inline float moment1(float m, float g, const struct vp_optim_coef *c)
{
    return c->beta1 * m + c->rest1 * g;
}

static inline float moment2(float v, float g, const struct vp_optim_coef *c)
{
    return c->beta2 * v + c->rest2 * g * g;
}

/* Bias-corrected m / (sqrt(v) + eps). */
static inline float direction(float m, float v, const struct vp_optim_coef *c)
{
    return m * c->inv_bias1 / (sqrtf(v) * c->inv_sqrt_bias2 + c->eps);
}

#define TABLE(table_name)                                                   \
    {                                                                       \
        .name = table_name, .sgd = NAME(sgd), .adam = NAME(adam),           \
        .lamb_measure = NAME(lamb_measure), .lamb_apply = NAME(lamb_apply), \
        .sum_squares = NAME(sum_squares),                                   \
    }

#define NAME(x) x##_plain
#define TARGET
#include "optim/kernel.inc"
const struct vp_optim_kernels vp_optim_kernels_plain = TABLE("plain");
#undef NAME
#undef TARGET

#if defined(__x86_64__) && defined(__GNUC__)

/* 256 bits: square roots and divisions come no faster at 512. */
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#include "optim/kernel.inc"
static const struct vp_optim_kernels kernels_avx2 = TABLE("avx2");
#undef NAME
#undef TARGET

const struct vp_optim_kernels *vp_optim_kernels(void)
{
    return __builtin_cpu_supports("avx2") ? &kernels_avx2
                                          : &vp_optim_kernels_plain;
}

#else

const struct vp_optim_kernels *vp_optim_kernels(void)
{
    return &vp_optim_kernels_plain;
}

#endif
