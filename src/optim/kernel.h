/* The inner loops of a step. Elements are computed independently and sums run
 * over a fixed number of lanes in double, so every vector width, and so every
 * table of kernels, gives the same bits. */
#ifndef VP_OPTIM_KERNEL_H
#define VP_OPTIM_KERNEL_H

/* A step's constants, worked out once in double. */
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

/* n elements: old weights `w`, gradient `g`, moments `m` and `v`, new weights
 * `w_new`, which may be `w`; nothing else overlaps. */
struct vp_optim_span {
    int n;
    const float *w, *g;
    float *m, *v, *w_new;
};

struct vp_optim_kernels {
    const char *name;
    void (*sgd)(struct vp_optim_span span, struct vp_optim_coef coef);
    /* Adam (l2) and AdamW (keep). */
    void (*adam)(struct vp_optim_span span, struct vp_optim_coef coef);
    /* LAMB's two passes. The first moves the moments on and finds the sums of
     * squares of w and of the direction u; w_new is not touched. The second
     * works out the same u from the new moments: w_new = w - rate * u. */
    void (*lamb_measure)(struct vp_optim_span span, struct vp_optim_coef coef,
                         double *w2_out, double *u2_out);
    void (*lamb_apply)(struct vp_optim_span span, struct vp_optim_coef coef,
                       float rate);
    double (*sum_squares)(const float *x, int n);
};

/* Plain C, and the best table for this machine (possibly the same). */
extern const struct vp_optim_kernels vp_optim_kernels_plain;
const struct vp_optim_kernels *vp_optim_kernels(void);

#endif
