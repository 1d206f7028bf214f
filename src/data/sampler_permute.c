/* A keyed bijection of [0, n), evaluated one position at a time, so that a
 * shuffled order needs no memory and has random access. */
#include "data/sampler.h"

#include "base/rng.h"

/* Four rounds already hide the order; two more spread tiny domains, where a
 * round moves only a bit or two. */
enum { N_ROUNDS = 6 };

/* One pass of a balanced Feistel network over 2 * half_bits bits. Each round
 * is invertible whatever its round function, hence a bijection. */
static uint64_t feistel(uint64_t seed, uint64_t epoch, int half_bits,
                        uint64_t x)
{
    uint32_t half_mask = (uint32_t)((UINT64_C(1) << half_bits) - 1);
    uint32_t left = (uint32_t)(x >> half_bits);
    uint32_t right = (uint32_t)x & half_mask;

    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        struct vp_rng4 r = vp_rng(seed, VP_RNG_SHUFFLE, round, right, 0, epoch);
        uint32_t next = left ^ (r.v[0] & half_mask);

        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

uint64_t vp_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i)
{
    int half_bits = 1;

    VP_BUG_ON(i >= n);
    while (half_bits < 32 && (n - 1) >> (2 * half_bits) != 0)
        half_bits++;
    /* Cycle walking: repeat while the value is outside [0, n). The domain is
     * smaller than 4n, so the expected number of passes is at most four. */
    do
        i = feistel(seed, epoch, half_bits, i);
    while (i >= n);
    return i;
}
