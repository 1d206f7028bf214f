#include "lib/kernel_compare.h"

#include "lib/op_modes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Returns the largest |a - b|, relative to the largest |b| but at least to 1:
 * inputs are of size 1, and where the true result is 0 (the gradient of a
 * softmax over one key) only rounding noise could be compared. */
static double distance(const struct written *a, const struct written *b)
{
    const float *x = a->data, *y = b->data;
    double diff = 0, size = 1;

    for (int64_t i = 0; i < b->n; i++) {
        double one = fabs((double)x[i] - (double)y[i]);

        if (!isfinite(x[i]) || !isfinite(y[i]))
            return INFINITY;
        if (b->apart)
            diff = fmax(diff, one / fmax(1.0, fabs((double)y[i])));
        else
            size = fmax(size, fabs((double)y[i]));
        diff = b->apart ? diff : fmax(diff, one);
    }
    return diff / size;
}

void compare(const struct one_op *x, const struct one_op *y, unsigned phases,
             double tolerance, const char *how)
{
    struct written a[MAX_WRITTEN], b[MAX_WRITTEN];
    const struct op_spec *s = &x->spec;
    int n = written_by(x, phases, a);

    assert_int_equal(written_by(y, phases, b), n);
    for (int i = 0; i < n; i++) {
        double far = distance(&a[i], &b[i]);

        if (far <= tolerance ||
            memcmp(a[i].data, b[i].data, (size_t)b[i].n * sizeof(float)) == 0)
            continue;
        fail_msg("%s, %s: %s is off by %g (batch %d q_len %d k_len %d cols %d "
                 "n_out %d heads %d act %d causal %d mask %d p %g)",
                 s->name, how, a[i].name, far, (int)s->batch, (int)s->q_len,
                 (int)s->k_len, (int)s->cols, (int)s->n_out, s->heads,
                 (int)s->act, s->causal, s->mask, (double)s->p);
    }
}
