/* Counter-based random numbers: Philox4x32-10 of (seed, purpose, stream,
 * counter). A number is a pure function of these four, so it does not depend on
 * stage, thread, schedule, restart or device.
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11. */
#ifndef VP_BASE_RNG_H
#define VP_BASE_RNG_H

#include <stdint.h>

#if defined(__CUDACC__)
#define VP_RNG_INLINE static inline __host__ __device__
#else
#define VP_RNG_INLINE static inline
#endif

enum vp_rng_purpose {
    VP_RNG_INIT = 1, /* stream: parameter part; counter: element group */
    VP_RNG_DROPOUT,  /* stream: operator; counter: see note [dropout] */
    VP_RNG_SHUFFLE,  /* stream: Feistel round */
    VP_RNG_MASKING,  /* stream: 0; counter: sample, position */
    VP_RNG_LANGUAGE, /* generated data */
    VP_RNG_TEST,
    VP_RNG_SEARCH,    /* search for schedules; counter: draw */
    VP_RNG_SENTENCES, /* pairs of sentences; stream: duplicate; counter: draw,
                         document or sample */
    VP_RNG_SAMPLING,  /* generated tokens; stream: 0; counter: position,
                         sequence */
};

struct vp_rng4 {
    uint32_t v[4];
};

/* The Philox generator: ten rounds on a 128-bit counter with a 64-bit key. */
VP_RNG_INLINE struct vp_rng4 vp_philox(struct vp_rng4 x, uint32_t k0,
                                       uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x.v[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * x.v[2];

        x.v[0] = (uint32_t)(p1 >> 32) ^ x.v[1] ^ k0;
        x.v[1] = (uint32_t)p1;
        x.v[2] = (uint32_t)(p0 >> 32) ^ x.v[3] ^ k1;
        x.v[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return x;
}

/* Returns 128 random bits. The seed is folded to 32 bits; `stream` has 24
 * bits. */
VP_RNG_INLINE struct vp_rng4 vp_rng(uint64_t seed, enum vp_rng_purpose purpose,
                                    uint32_t stream, uint32_t c0, uint32_t c1,
                                    uint64_t c23)
{
    uint32_t k0 = (uint32_t)seed ^ (uint32_t)(seed >> 32) * 0x85EBCA6Bu;
    uint32_t k1 = (uint32_t)purpose << 24 | (stream & 0xFFFFFFu);
    struct vp_rng4 x = { { c0, c1, (uint32_t)c23, (uint32_t)(c23 >> 32) } };

    return vp_philox(x, k0, k1);
}

/* Maps `bits` to [0, n), n >= 1, uniformly with a bias below 2^-32 * n. */
VP_RNG_INLINE uint32_t vp_rng_below(uint32_t bits, uint32_t n)
{
    return (uint32_t)((uint64_t)bits * n >> 32);
}

/* Maps `bits` to (0, 1), uniformly. */
VP_RNG_INLINE double vp_rng_unit(uint32_t bits)
{
    return ((double)bits + 0.5) * (1.0 / 4294967296.0);
}

/* Note [dropout]. An element is dropped when its byte is below the threshold;
 * a group of 16 elements shares one Philox call, c23 being the sample id.
 *   Rows (x of a layer): row t of its sample, column j:
 *     c0 = j / 16, c1 = t, byte j % 16.
 *   Attention, head h, query q = 16Q + 8a + g, key k = 32K + 8j + 2c + b
 *   (a tensor-core fragment owns whole groups):
 *     c0 = Q << 16 | K, c1 = h << 8 | g << 2 | c, byte 8a + 2j + b.
 * Byte i of a call is bits 8 (i % 4) .. of word i / 4. */
VP_RNG_INLINE uint32_t vp_dropout_threshold(float p)
{
    return (uint32_t)(p * 256.0f + 0.5f);
}

/* Returns the factor for kept elements: 1 / (quantised keep probability). */
VP_RNG_INLINE float vp_dropout_scale(float p)
{
    return 256.0f / (256.0f - (float)vp_dropout_threshold(p));
}

VP_RNG_INLINE uint32_t vp_rng_byte(struct vp_rng4 r, int i)
{
    return r.v[i >> 2] >> (8 * (i & 3)) & 0xFFu;
}

#endif
