/* Optimizers: the definition of a step, its implementation on the host, loss
 * scale, learning-rate curves and clipping. Devices implement the same step.
 *
 * A step reads weights `w_old`, the gradient and the moments, and writes
 * `w_new`: out of place, so older weight versions stay valid. w_old == w_new
 * is allowed (one version).
 *
 * Weights have the type that matrix products read. 16 bits are too coarse to add
 * steps to, so the newest weights of 16 bits also have a `master`, which a step
 * reads and writes in place:
 *
 *     F32    none
 *     BF16   the low halves of floats whose high halves are the weights, so that
 *            both together take the bytes of floats (base/halves.h)
 *     F16    floats, from which the weights are rounded to the nearest: w_old
 *            is not read */
#ifndef VP_OPTIM_OPTIM_H
#define VP_OPTIM_OPTIM_H

#include "base/dtype.h"
#include "base/pool.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum vp_optim_kind {
    VP_OPTIM_SGD,   /* momentum, dampening 0; decay added to the gradient */
    VP_OPTIM_ADAM,  /* decay added to the gradient (L2) */
    VP_OPTIM_ADAMW, /* decoupled decay */
    VP_OPTIM_LAMB,  /* unconditional trust ratio per tensor */
    VP_OPTIM_KIND_COUNT
};

struct vp_optim_config {
    enum vp_optim_kind kind;
    float beta1, beta2; /* momentum is beta1 */
    float eps;
    float weight_decay;
    float grad_clip; /* maximal gradient norm; 0 = off */
};

/* Elements per chunk. Sums over a tensor are computed chunk by chunk, from its
 * first element on: a tensor that is cut at multiples of this number has the
 * same sums per chunk. A chunk is a task of 64 KiB per array: long compared
 * with the cost of starting a task, short enough that all threads finish at
 * nearly the same time. */
#define VP_OPTIM_CHUNK 16384

/* One tensor: elements [grad, grad + n) of the gradients and [offset, offset +
 * n) of all other arrays of a step. */
struct vp_optim_tensor {
    int64_t offset, grad, n;
    int block;  /* index of its block in the model */
    bool decay; /* weight decay applies to it */
};

struct vp_optim_step {
    struct vp_optim_config config;
    const struct vp_optim_tensor *tensors;
    int n_tensors;
    enum vp_dtype dtype; /* type of w_old and w_new */
    const void *w_old;
    void *w_new;
    void *master; /* see the top of this file; NULL with F32 */
    const float *grad;
    float *moment[2]; /* zero before the first update; SGD uses [0] */
    float lr;
    float grad_scale; /* gradients are multiplied by this first */
    int64_t t;        /* number of this update, from 1 */
    /* The element of the weights that master and moments begin with: an owner of
     * a shard of the optimizer's state has no others. */
    int64_t first;
    /* LAMB in two steps, for tensors that are pieces of larger ones; NULL in
     * all other cases. A step with `squares_out` updates the moments and
     * writes, per tensor, the sums of squares of its weights and of its
     * direction; it writes no weights. A later step with `ratios`, the trust
     * ratio per tensor, writes the weights and no moments. */
    double (*squares_out)[2];
    const double *ratios;
};

/* Finds the optimizer named "sgd", "adam", "adamw" or "lamb". Returns false if
 * there is none with this name. */
bool vp_optim_from_name(const char *name, enum vp_optim_kind *out);
const char *vp_optim_name(enum vp_optim_kind kind);
/* Returns the published defaults: Adam betas 0.9 0.997 eps 1e-8 (as vPipe),
 * AdamW 0.9 0.999 1e-8 decay 0.01, LAMB 0.9 0.999 1e-6 clip 1.0, SGD momentum
 * 0.9; otherwise no decay and no clipping. */
struct vp_optim_config vp_optim_defaults(enum vp_optim_kind kind);
/* Returns the number of moments per weight, 1 or 2. */
int vp_optim_n_moments(enum vp_optim_kind kind);
/* Returns the bytes of the master per weight; 0: the type has no master. */
int64_t vp_optim_master_bytes(enum vp_dtype dtype);

/* Makes a step on the host, on the pool's threads. Its bits depend neither on
 * the number of threads nor on the instruction set. Weights are F32 or BF16.
 * w_old may be w_new; no other arrays overlap. Elements between tensors are not
 * changed. `scratch` holds vp_optim_scratch_bytes() bytes, aligned as by
 * malloc. */
void vp_optim_step_host(const struct vp_optim_step *step, struct vp_pool *pool,
                        void *scratch);
size_t vp_optim_scratch_bytes(const struct vp_optim_tensor *tensors,
                              int n_tensors);

/* Writes the sum of squares of each tensor's gradient to sums_out[tensor].
 * Squares are exact in double, and are added in a fixed order. `scratch` as in
 * vp_optim_step_host(). */
void vp_optim_sum_squares_host(const struct vp_optim_tensor *tensors,
                               int n_tensors, const float *grad,
                               double *sums_out, struct vp_pool *pool,
                               void *scratch);
/* Returns LAMB's trust ratio: the square root of `weights` / `direction`, the
 * sums of squares of a tensor's weights and of its direction; 1 if either is
 * 0. */
double vp_optim_trust_ratio(double weights, double direction);
/* Returns the norm of all tensors from `sums`, their sums of squares. Sums of a
 * block are added in the order of tensors, blocks in the order of their
 * numbers, so the bits do not depend on the partition. Tensors of a block need
 * not be neighbours. */
double vp_optim_norm(const struct vp_optim_tensor *tensors, int n_tensors,
                     const double *sums);
/* Returns the factor that clips gradients: grad_clip / norm, or 1 if the norm
 * is small enough. Also 1 for a norm that is not finite: no factor would help,
 * and the caller refuses or skips the update. */
float vp_optim_clip_scale(double norm, float grad_clip);

/* ---- Loss scale --------------------------------------------------------- */

/* Small gradients are rounded to zero in 16 bits, so the backward pass starts
 * from the loss times a scale, and the update divides by it. An update whose
 * gradients overflow is skipped. Scales are powers of two: they change no other
 * bits. */
#define VP_SCALE_START 65536.0f
#define VP_SCALE_MOST 16777216.0f
/* A dynamic scale doubles after VP_SCALE_GROWS_AFTER updates in a row without a
 * skipped one; a run fails after VP_SCALE_GIVES_UP_AFTER skipped ones in a
 * row. */
enum { VP_SCALE_GROWS_AFTER = 2000, VP_SCALE_GIVES_UP_AFTER = 50 };

struct vp_scale_config {
    float start; /* 0: no scale */
    bool dynamic;
};

/* The state of the scale. */
struct vp_scale {
    float value;       /* 0: no scale */
    int in_a_row;      /* n: the last n updates were made, counted since the
                          scale doubled; -n: the last n were skipped */
    int64_t n_skipped; /* updates skipped in the whole run */
};

/* Returns the scale of a resumed run whose checkpoint has `then`: a dynamic
 * scale continues from it; all others begin at config->start. */
struct vp_scale vp_scale_resume(const struct vp_scale_config *config,
                                const struct vp_scale *then);
/* Returns the factor for the loss; 1 without a scale. */
float vp_scale_factor(const struct vp_scale *scale);
/* Counts an update that was made, or skipped because of an overflow. A dynamic
 * scale doubles after VP_SCALE_GROWS_AFTER updates, up to VP_SCALE_MOST, and is
 * halved by every overflow, but not below 1. */
void vp_scale_note(struct vp_scale *scale, bool dynamic, bool made);

/* ---- Learning rate ------------------------------------------------------ */

/* Rates after the warm-up, which is base * p / w while p < w with every policy.
 * p = t / total_steps, w = warmup, e = the epoch of the update (0 = first, a
 * whole number). */
enum vp_lr_policy {
    VP_LR_CONSTANT,     /* base */
    VP_LR_STEP,         /* base * 0.1^floor(e / 30) */
    VP_LR_POLYNOMIAL,   /* base * (1 - p)^0.5; 0 at the end */
    VP_LR_EXPONENTIAL,  /* base * 0.97^(e / epochs) */
    VP_LR_INVERSE_SQRT, /* base * sqrt(s / t), s = w * total_steps; without
                           warm-up base for 4000 updates, then s = 4000 */
    VP_LR_COSINE,       /* base * (1 + cos(pi (p - w) / (1 - w))) / 2 */
    VP_LR_POLICY_COUNT
};

struct vp_lr_config {
    enum vp_lr_policy policy;
    float base;
    float warmup;            /* fraction of total_steps, 0 to 1 */
    int64_t total_steps;     /* 0: unknown; p is 0 and there is no warm-up */
    int64_t steps_per_epoch; /* 0: one endless epoch */
    int epochs;
};

/* Finds the policy named "constant", "step", "polynomial", "exponential_decay",
 * "inverse_sqrt" or "cosine". Returns false if there is none with this name. */
bool vp_lr_from_name(const char *name, enum vp_lr_policy *out);
const char *vp_lr_name(enum vp_lr_policy policy);
/* Returns the learning rate of update `t` (1 = first): finite and >= 0 for
 * every t >= 1; after total_steps, the value of the last step. */
float vp_lr_at(const struct vp_lr_config *config, int64_t t);

#endif
