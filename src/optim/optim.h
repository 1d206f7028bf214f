/* Optimizers as data and plain mathematics: what a step means, its host
 * version, learning-rate curves and clipping. Devices implement the same step.
 *
 * A step reads weights `w_old`, the gradient and the moments, and writes
 * `w_new`: out of place, so older weight versions stay valid. w_old == w_new
 * is allowed (one version).
 *
 * Weights lie in the type that products read. 16 bits are too coarse to add
 * steps to, so the newest weights have a `master` beside them, which is read and
 * written in place:
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

/* Sums over a tensor are made chunk by chunk, from its first element on: a tensor
 * that is cut at multiples of this number has the same sums per chunk. 64 KiB per
 * array: large beside the cost of taking a task, small enough that the last tasks
 * of a job end close together. */
#define VP_OPTIM_CHUNK 16384

/* One named tensor: elements [offset, offset + n) of every array of a step, but
 * for the gradients, where it begins at `grad`. */
struct vp_optim_tensor {
    int64_t offset, grad, n;
    int block;
    bool decay;
};

struct vp_optim_step {
    struct vp_optim_config config;
    const struct vp_optim_tensor *tensors;
    int n_tensors;
    enum vp_dtype dtype; /* of w_old and w_new */
    const void *w_old;
    void *w_new;
    void *master; /* see above */
    const float *grad;
    float *moment[2]; /* zero before the first update; SGD uses [0] */
    float lr;
    float grad_scale; /* gradients are multiplied by this first */
    int64_t t;        /* 1 for the first update */
    /* The element of the weights that master and moments begin with: an owner of
     * a shard of the optimizer's state has no others. */
    int64_t first;
    /* LAMB in two steps, where tensors are chunks of larger ones. Not NULL:
     * `squares_out` gets the sums of squares of the weights and of the direction of
     * every tensor, and weights stay as they are; then `ratios`, the trust ratio of
     * every tensor, and moments stay as they are. */
    double (*squares_out)[2];
    const double *ratios;
};

/* "sgd", "adam", "adamw", "lamb"; false if unknown. */
bool vp_optim_from_name(const char *name, enum vp_optim_kind *out);
const char *vp_optim_name(enum vp_optim_kind kind);
/* Published defaults: Adam betas 0.9 0.997 eps 1e-8 (as the original), AdamW
 * 0.9 0.999 1e-8 decay 0.01, LAMB 0.9 0.999 1e-6 clip 1.0, SGD momentum 0.9;
 * otherwise no decay and no clipping. */
struct vp_optim_config vp_optim_defaults(enum vp_optim_kind kind);
int vp_optim_n_moments(enum vp_optim_kind kind);
/* Bytes per weight; 0: there is none. */
int64_t vp_optim_master_bytes(enum vp_dtype dtype);

/* The host step on the pool's threads; bits do not depend on their number,
 * nor on the instruction set. Other than w_old == w_new no arrays overlap;
 * between tensors nothing is touched; weights are F32 or BF16. `scratch` holds
 * vp_optim_scratch_bytes() bytes, aligned as by malloc. */
void vp_optim_step_host(const struct vp_optim_step *step, struct vp_pool *pool,
                        void *scratch);
size_t vp_optim_scratch_bytes(const struct vp_optim_tensor *tensors,
                              int n_tensors);

/* Sum of squares of every gradient, in a fixed order and in double: exact but
 * for the rounding of the additions. Same scratch. */
void vp_optim_sum_squares_host(const struct vp_optim_tensor *tensors,
                               int n_tensors, const float *grad,
                               double *sums_out, struct vp_pool *pool,
                               void *scratch);
/* LAMB's trust ratio, of the sums of squares of a tensor's weights and of its
 * direction: 1 where either is 0. */
double vp_optim_trust_ratio(double weights, double direction);
/* The norm of all tensors: sums -> per block, in tensor order -> total, in
 * order of block numbers: the same bits however blocks are spread over stages.
 * Tensors of a block need not be neighbours. */
double vp_optim_norm(const struct vp_optim_tensor *tensors, int n_tensors,
                     const double *sums);
/* The factor for gradients: 1, or clip / norm. A norm that is not finite
 * gives 1: there is no good factor, and the caller refuses the step. */
float vp_optim_clip_scale(double norm, float grad_clip);

/* ---- Loss scale --------------------------------------------------------- */

/* Small gradients vanish in 16 bits, so the backward starts from a multiple of
 * the loss, and updates take it out again. Gradients that overflow make no
 * update. A power of two changes nothing else, not one bit. */
#define VP_SCALE_START 65536.0f
#define VP_SCALE_MOST 16777216.0f
/* Updates in a row: made before a dynamic scale doubles; skipped before a run
 * is given up. */
enum { VP_SCALE_GROWS_AFTER = 2000, VP_SCALE_GIVES_UP_AFTER = 50 };

struct vp_scale_config {
    float start; /* 0: no scale */
    bool dynamic;
};

/* Where it stands. */
struct vp_scale {
    float value;       /* 0: no scale */
    int in_a_row;      /* updates made, below 0 skipped, since the last of the
                          other kind, or since it doubled */
    int64_t n_skipped; /* in all */
};

/* That of a run which goes on: a dynamic scale where it stood, if there was one
 * then. */
struct vp_scale vp_scale_resume(const struct vp_scale_config *config,
                                const struct vp_scale *then);
/* The multiple; 1 without a scale. */
float vp_scale_factor(const struct vp_scale *scale);
/* An update was made, or skipped. A dynamic scale doubles now and then, and is
 * halved by every overflow, but not below 1. */
void vp_scale_note(struct vp_scale *scale, bool dynamic, bool made);

/* ---- Learning rate ------------------------------------------------------ */

/* p = t / total_steps, w = warmup. Every policy starts with a linear warm-up
 * base * p / w while p < w; what follows is below, e being the epoch of the
 * update (0 = first, a whole number). */
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

/* "constant", "step", "polynomial", "exponential_decay", "inverse_sqrt",
 * "cosine"; false if unknown. */
bool vp_lr_from_name(const char *name, enum vp_lr_policy *out);
const char *vp_lr_name(enum vp_lr_policy policy);
/* The rate of update `t` (1 = first). Finite and >= 0 for every t >= 1; past
 * total_steps it keeps the value of the last step. */
float vp_lr_at(const struct vp_lr_config *config, int64_t t);

#endif
