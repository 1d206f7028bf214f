#include "lib/optim_bed.h"

#include "base/halves.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

const int64_t odd_sizes[] = { 1, 3, 17, 16384, 16385, 40000, 0, 300 };

static float random_unit(uint32_t stream, int64_t i)
{
    struct vp_rng4 r = vp_rng(7, VP_RNG_TEST, stream, (uint32_t)i, 0, 0);

    return (float)(2.0 * vp_rng_unit(r.v[0]) - 1.0);
}

void bed_init(struct bed *bed, const int64_t *sizes, int n_tensors, int64_t pad)
{
    size_t n_floats;

    *bed = (struct bed){ .n_tensors = n_tensors, .n = pad };
    for (int i = 0; i < n_tensors; i++) {
        bed->tensors[i] = (struct vp_optim_tensor){ .offset = bed->n,
                                                    .grad = bed->n,
                                                    .n = sizes[i],
                                                    .block = i / 2,
                                                    .decay = i % 3 != 1 };
        bed->n += sizes[i] + pad;
    }
    n_floats = (size_t)bed->n;
    bed->w[0] = calloc(n_floats, sizeof(float));
    bed->w[1] = calloc(n_floats, sizeof(float));
    bed->g = calloc(n_floats, sizeof(float));
    bed->m = calloc(n_floats, sizeof(float));
    bed->v = calloc(n_floats, sizeof(float));
    bed->dw = calloc(n_floats, sizeof(double));
    bed->dm = calloc(n_floats, sizeof(double));
    bed->dv = calloc(n_floats, sizeof(double));
    bed->scratch = malloc(vp_optim_scratch_bytes(bed->tensors, n_tensors));
    assert_true(bed->w[0] && bed->w[1] && bed->g && bed->m && bed->v &&
                bed->dw && bed->dm && bed->dv && bed->scratch);
    for (int64_t i = 0; i < bed->n; i++)
        bed->dw[i] = bed->w[0][i] = 0.1f * random_unit(0, i);
}

void bed_release(struct bed *bed)
{
    free(bed->w[0]);
    free(bed->w[1]);
    free(bed->g);
    free(bed->m);
    free(bed->v);
    free(bed->dw);
    free(bed->dm);
    free(bed->dv);
    free(bed->scratch);
}

void bed_fill_grad(struct bed *bed, int64_t t)
{
    for (int64_t i = 0; i < bed->n; i++)
        bed->g[i] = 0.01f * random_unit((uint32_t)t, i);
}
