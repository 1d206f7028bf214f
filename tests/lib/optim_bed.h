/* Tensors of odd sizes with weights, gradients and moments, for tests of
 * optimizers and norms. */
#ifndef VP_TESTS_LIB_OPTIM_BED_H
#define VP_TESTS_LIB_OPTIM_BED_H

#include "optim/optim.h"

#include <stdint.h>

enum { MAX_TENSORS = 16, PAD = 5 };

struct bed {
    struct vp_optim_tensor tensors[MAX_TENSORS];
    int n_tensors;
    int64_t n;
    float *w[2], *g, *m, *v;
    double *dw, *dm, *dv; /* for a reference in double */
    void *scratch;
};

extern const int64_t odd_sizes[8];

/* Leaves `pad` elements before, between and after the tensors. */
void bed_init(struct bed *bed, const int64_t *sizes, int n_tensors,
              int64_t pad);

void bed_release(struct bed *bed);

/* Sets the gradients of step `t`. */
void bed_fill_grad(struct bed *bed, int64_t t);

#endif
