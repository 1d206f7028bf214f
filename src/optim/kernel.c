/* The host kernels of kernel.inc, compiled once for each instruction set. */
#include "optim/kernel.h"

#include "base/halves.h"

/* Enough independent additions to hide their latency, and few enough to stay
 * in 16 registers of 128 bits. */
enum { LANES = 16 };

/* After every FETCHED elements, the data AHEAD_BYTES further on is prefetched.
 * The hardware prefetcher stops at the end of each page of 4 KiB, and a step
 * reads five arrays. */
enum { FETCHED = 64, AHEAD_BYTES = 4096 };

/* Prefetches `n_bytes` from p + AHEAD_BYTES on. These may be past the end of
 * the array: a prefetch does not fault. */
static inline void fetch_ahead(const void *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        __builtin_prefetch((const char *)p + AHEAD_BYTES + i);
}

/* Tells the compiler that the next loop has no dependence between elements: it
 * cannot see that w_new and w do not overlap at different offsets. */
#if defined(__clang__)
/* With a sanitizer clang cannot vectorize these loops and would warn. */
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

/* 256 bits: vectors of 512 bits make square roots and divisions no faster. */
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
