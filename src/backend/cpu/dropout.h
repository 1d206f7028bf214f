/* Parameters of the dropout of one kernel call, for the mask generators in
 * simd.h. Note [dropout] in base/rng.h defines which elements are dropped. */
#ifndef VP_BACKEND_CPU_DROPOUT_H
#define VP_BACKEND_CPU_DROPOUT_H

#include "backend/cpu/kernel.h"
#include "base/rng.h"

/* Constants of vp_philox(), for generators that run it in vector lanes. */
#define VP_PHILOX_ROUNDS 10
#define VP_PHILOX_M0 0xD2511F53u
#define VP_PHILOX_M1 0xCD9E8D57u
#define VP_PHILOX_W0 0x9E3779B9u
#define VP_PHILOX_W1 0xBB67AE85u

struct vp_dropout {
    uint32_t k0, k1; /* Philox key, as vp_rng() computes it */
    uint64_t first_sample;
    uint32_t threshold; /* elements with a smaller byte are dropped; 1..255 */
    float scale;        /* factor of kept elements */
};

/* Returns false, without setting `*out`, if nothing is dropped. */
static inline bool vp_dropout_init(const struct vp_kargs *args,
                                   struct vp_dropout *out)
{
    uint64_t seed = args->mb->seed;
    uint32_t threshold = vp_dropout_threshold(args->op->attr.p);

    if (!args->mb->train || threshold == 0)
        return false;
    out->k0 = (uint32_t)seed ^ (uint32_t)(seed >> 32) * 0x85EBCA6Bu;
    out->k1 = (uint32_t)VP_RNG_DROPOUT << 24 |
              ((uint32_t)args->op->stream & 0xFFFFFFu);
    out->first_sample = args->mb->first_sample;
    out->threshold = threshold;
    out->scale = vp_dropout_scale(args->op->attr.p);
    return true;
}

#endif
