#include "optim/kernel.h"

#include "base/halves.h"

/* Enough independent additions to hide their latency, and few enough to stay
 * in 16 registers of 128 bits. */
enum { LANES = 16 };
/* Elements whose LAMB directions are kept in the first-level cache between
 * two loops; short, so that loads of the next block start early. */
enum { BLOCK = 256 };

/* Elements whose successors are prefetched at once. A processor's own prefetching
 * stops at the end of each page of 4 KiB, and a step reads five arrays. */
enum { FETCHED = 64, AHEAD_BYTES = 4096 };

/* Prefetches what is AHEAD_BYTES behind the first `n_bytes` of `p`, which may be
 * behind the end of the array. */
static inline void fetch_ahead(const void *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        __builtin_prefetch((const char *)p + AHEAD_BYTES + i);
}

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

#define TABLE(table_name)                                                   \
    {                                                                       \
        .name = table_name, .sgd = NAME(sgd), .adam = NAME(adam),           \
        .lamb_measure = NAME(lamb_measure), .lamb_apply = NAME(lamb_apply), \
        .sum_squares = NAME(sum_squares), .join = NAME(join),               \
        .split = NAME(split),                                               \
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
