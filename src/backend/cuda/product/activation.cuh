/* Values and slopes of linear's activations. */
#ifndef VP_BACKEND_CUDA_PRODUCT_ACTIVATION_CUH
#define VP_BACKEND_CUDA_PRODUCT_ACTIVATION_CUH

#include "backend/cuda/device.cuh"

#define VP_SQRT_HALF 0.70710678118654752440f    /* sqrt(1/2) */
#define VP_SQRT_2_BY_PI 0.79788456080286535588f /* sqrt(2/pi) */
#define VP_HALF_LOG2_E 0.72134752044448170368f  /* log2(e) / 2 */
#define VP_GELU_CUBIC 0.044715f

/* exp = exp(-z^2 / 2), and ratio = the normal distribution's tail beyond |z|
 * divided by exp. GELU and both terms of its slope need the same
 * exponential. */
struct vp_tail {
    float exp, ratio;
};

/* Abramowitz and Stegun, 7.1.26. The error with rounding is 3e-7, which is
 * enough for types of two bytes. */
static __device__ inline struct vp_tail vp_tail_of(float z)
{
    struct vp_tail tail;
    float t, sum, power = -VP_HALF_LOG2_E * (z * z);

    asm("rcp.approx.ftz.f32 %0, %1;"
        : "=f"(t)
        : "f"(fmaf(fabsf(z), 0.3275911f * VP_SQRT_HALF, 1.0f)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail.exp) : "f"(power));
    sum = fmaf(t, 0.5f * 1.061405429f, 0.5f * -1.453152027f);
    sum = fmaf(t, sum, 0.5f * 1.421413741f);
    sum = fmaf(t, sum, 0.5f * -0.284496736f);
    sum = fmaf(t, sum, 0.5f * 0.254829592f);
    tail.ratio = t * sum;
    return tail;
}

/* act(z), and d act(z) / dz. */
struct vp_act_point {
    float value, slope;
};

/* value = z * P(z), slope = P(z) + z * p(z), with the cumulative normal
 * distribution P and its density p. */
template <typename T>
static __device__ inline struct vp_act_point vp_gelu_erf(float z)
{
    const float peak = 0.5f * VP_SQRT_2_BY_PI; /* maximum of the density */
    struct vp_tail tail;
    struct vp_act_point p;

    if (sizeof(T) == 4) {
        float erf = erff(z * VP_SQRT_HALF);

        p.value = 0.5f * z * (1.0f + erf);
        p.slope = fmaf(z, peak * __expf(-0.5f * z * z), fmaf(0.5f, erf, 0.5f));
        return p;
    }
    tail = vp_tail_of(z);
    p.value = fmaf(-fabsf(z), tail.exp * tail.ratio, fmaxf(z, 0.0f));
    p.slope = tail.exp * fmaf(-peak, fabsf(z), tail.ratio);
    p.slope = z < 0.0f ? p.slope : 1.0f - p.slope;
    return p;
}

static __device__ inline struct vp_act_point vp_gelu_tanh(float z)
{
    float t = tanhf(VP_SQRT_2_BY_PI * fmaf(VP_GELU_CUBIC * z, z * z, z));
    float inner = VP_SQRT_2_BY_PI * fmaf(3.0f * VP_GELU_CUBIC * z, z, 1.0f);
    struct vp_act_point p;

    p.value = 0.5f * z * (1.0f + t);
    p.slope = fmaf(0.5f * z * fmaf(-t, t, 1.0f), inner, fmaf(0.5f, t, 0.5f));
    return p;
}

template <typename T, int ACT>
static __device__ inline struct vp_act_point vp_act_at(float z)
{
    if (ACT == VP_ACT_RELU)
        return { z <= 0.0f ? 0.0f : z, /* a NaN stays a NaN */
                 z > 0.0f ? 1.0f : 0.0f };
    if (ACT == VP_ACT_GELU_ERF)
        return vp_gelu_erf<T>(z);
    if (ACT == VP_ACT_GELU_TANH)
        return vp_gelu_tanh(z);
    return { z, 1.0f };
}

#endif
