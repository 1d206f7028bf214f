/* Normally distributed random numbers by counter, for initial weights. */
#ifndef VP_MODEL_NORMAL_H
#define VP_MODEL_NORMAL_H

#include <stdbool.h>
#include <stdint.h>

/* Instruction sets that the generator is compiled for. All give the same
 * bits. */
enum vp_normal_isa {
    VP_NORMAL_PLAIN,
    VP_NORMAL_AVX2,
    VP_NORMAL_AVX512, /* F, BW, DQ, VL */
    VP_NORMAL_ISA_COUNT
};

/* The numbers of one tensor: number i is a function of these and of i alone. */
struct vp_normal {
    uint64_t seed;
    uint64_t name; /* hash of the tensor's name */
    double std;
};

/* Writes numbers [begin, begin + n) of a tensor to out[0 .. n-1]. Any thread. */
void vp_normal_fill(const struct vp_normal *normal, int64_t begin, int64_t n,
                    float *out);
/* The same with one instruction set. Returns false and writes nothing if the
 * processor does not have it. */
bool vp_normal_fill_by(enum vp_normal_isa isa, const struct vp_normal *normal,
                       int64_t begin, int64_t n, float *out);

#endif
