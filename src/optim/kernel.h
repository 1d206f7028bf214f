/* The inner loops of a step. Elements are computed independently and sums run
 * over a fixed number of lanes in double, so every table of kernels, whatever
 * its vector width, gives the same bits. */
#ifndef VP_OPTIM_KERNEL_H
#define VP_OPTIM_KERNEL_H

#include "optim/optim.h"

#include <math.h>

#if defined(__CUDACC__)
#define VP_OPTIM_INLINE static inline __host__ __device__
#else
#define VP_OPTIM_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Elements whose LAMB directions are kept in the first-level cache between
 * two loops; short, so that loads of the next block start early. */
enum { VP_OPTIM_BLOCK = 256 };

/* A step's constants, computed once in double and rounded to float. */
struct vp_optim_coef {
    float grad_scale;
    float l2;    /* decay added to the gradient */
    float keep;  /* decoupled decay: weights are multiplied by this */
    float decay; /* decay added to LAMB's direction */
    float lr;
    float beta1, rest1; /* rest = 1 - beta */
    float beta2, rest2;
    float inv_bias1;      /* 1 / (1 - beta1^t) */
    float inv_sqrt_bias2; /* 1 / sqrt(1 - beta2^t) */
    float eps;
};

/* Returns the constants for tensors with weight decay, or without it. */
struct vp_optim_coef vp_optim_coef_of(const struct vp_optim_step *step,
                                      bool decay);

/* ---- One element; the same bits on every device ------------------------- */

VP_OPTIM_INLINE float vp_optim_moment1(float m, float g,
                                       const struct vp_optim_coef *c)
{
    return c->beta1 * m + c->rest1 * g;
}

VP_OPTIM_INLINE float vp_optim_moment2(float v, float g,
                                       const struct vp_optim_coef *c)
{
    return c->beta2 * v + c->rest2 * g * g;
}

/* Bias-corrected m / (sqrt(v) + eps). */
VP_OPTIM_INLINE float vp_optim_direction(float m, float v,
                                         const struct vp_optim_coef *c)
{
    return m * c->inv_bias1 / (sqrtf(v) * c->inv_sqrt_bias2 + c->eps);
}

/* ---- Host tables -------------------------------------------------------- */

/* n elements: old weights `w`, gradient `g`, moments `m` and `v` (NULL with
 * SGD), new weights `w_new`. w_new may be w; no other arrays overlap. */
struct vp_optim_span {
    int n;
    const float *w, *g;
    float *m, *v, *w_new;
};

struct vp_optim_kernels {
    const char *name;
    void (*sgd)(struct vp_optim_span span, struct vp_optim_coef coef);
    /* Adam (decay in coef.l2) and AdamW (decay in coef.keep). */
    void (*adam)(struct vp_optim_span span, struct vp_optim_coef coef);
    /* LAMB's two passes. lamb_measure() updates the moments and adds the sums
     * of squares of w and of the direction u to *w2 and *u2; it does not write
     * w_new. lamb_apply() computes the same u from the updated moments, and
     * w_new = w - rate * u. */
    void (*lamb_measure)(struct vp_optim_span span, struct vp_optim_coef coef,
                         double *w2, double *u2);
    void (*lamb_apply)(struct vp_optim_span span, struct vp_optim_coef coef,
                       float rate);
    double (*sum_squares)(const float *x, int n);
    /* Joins halves of 16 bits to floats, and splits floats into halves, as
     * vp_halves_join_all() and vp_halves_split_all(). */
    void (*join)(float *x, const uint16_t *high, const uint16_t *low, int n);
    void (*split)(uint16_t *high, uint16_t *low, const float *x, int n);
};

/* The table in plain C. */
extern const struct vp_optim_kernels vp_optim_kernels_plain;
/* Returns the fastest table that this processor can run. */
const struct vp_optim_kernels *vp_optim_kernels(void);

#ifdef __cplusplus
}
#endif
#endif
