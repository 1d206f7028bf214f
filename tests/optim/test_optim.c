/* Optimizers agree with stored PyTorch results and with a reference in double
 * precision; their bits do not depend on threads, slices, aliasing or
 * instruction set. */
#include "base/halves.h"
#include "lib/golden.h"
#include "lib/optim_bed.h"
#include "optim/kernel.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/optim"

#define TOLERANCE 1e-6 /* promised error, by tensor norm */

/* ---- A set of arrays for steps ------------------------------------------ */

/* Step t: weights go from w[(t - 1) % 2] to w[t % 2], or stay in w[0]. */
static struct vp_optim_step bed_step(struct bed *bed, enum vp_optim_kind kind,
                                     int64_t t, bool in_place)
{
    struct vp_optim_step step = {
        .config = vp_optim_defaults(kind),
        .tensors = bed->tensors,
        .n_tensors = bed->n_tensors,
        .w_old = bed->w[in_place ? 0 : (t - 1) % 2],
        .w_new = bed->w[in_place ? 0 : t % 2],
        .grad = bed->g,
        .moment = { bed->m, bed->v },
        .lr = 0.01f / (float)t,
        .grad_scale = 0.75f,
        .t = t,
    };

    step.config.weight_decay = 0.1f;
    if (vp_optim_n_moments(kind) < 2)
        step.moment[1] = NULL;
    return step;
}

static void bed_run(struct bed *bed, enum vp_optim_kind kind, int n_steps,
                    int n_threads, bool in_place)
{
    struct vp_pool *pool;

    assert_int_equal(vp_pool_create(n_threads, NULL, NULL, &pool), VP_OK);
    for (int64_t t = 1; t <= n_steps; t++) {
        struct vp_optim_step step = bed_step(bed, kind, t, in_place);

        bed_fill_grad(bed, t);
        vp_optim_step_host(&step, pool, bed->scratch);
    }
    vp_pool_free(pool);
}

/* |a - b| / |b|; |a| where b is zero. */
static double relative_error(const float *a, const double *b, int64_t n)
{
    double diff = 0.0, norm = 0.0;

    for (int64_t i = 0; i < n; i++) {
        diff += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(norm > 0.0 ? diff / norm : diff);
}

static void assert_same_bits(const float *a, const float *b, int64_t n)
{
    if (n > 0)
        assert_memory_equal(a, b, (size_t)n * sizeof(float));
}

/* ---- Reference: one tensor in double, formulas as in the papers --------- */

static double norm_of(const double *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void twin_sgd(const struct vp_optim_step *step, double wd, int64_t n,
                     const float *g, double *w, double *m)
{
    for (int64_t i = 0; i < n; i++) {
        m[i] = step->config.beta1 * m[i] + g[i] * step->grad_scale + wd * w[i];
        w[i] -= step->lr * m[i];
    }
}

/* Computes the directions of Adam into `u`. `l2`: decay added to the
 * gradient. */
static void twin_adam(const struct vp_optim_step *step, double l2, int64_t n,
                      const float *g, const double *w, double *m, double *v,
                      double *u)
{
    double b1 = step->config.beta1, b2 = step->config.beta2;

    for (int64_t i = 0; i < n; i++) {
        double gi = (double)g[i] * step->grad_scale + l2 * w[i];

        m[i] = b1 * m[i] + (1.0 - b1) * gi;
        v[i] = b2 * v[i] + (1.0 - b2) * gi * gi;
        u[i] = m[i] / (1.0 - pow(b1, (double)step->t)) /
               (sqrt(v[i] / (1.0 - pow(b2, (double)step->t))) +
                step->config.eps);
    }
}

static void twin_tensor(const struct vp_optim_step *step, double wd, int64_t n,
                        const float *g, double *w, double *m, double *v)
{
    enum vp_optim_kind kind = step->config.kind;
    double *u = malloc((size_t)(n + 1) * sizeof(*u));
    double rate = step->lr;

    assert_non_null(u);
    if (kind == VP_OPTIM_SGD) {
        twin_sgd(step, wd, n, g, w, m);
    } else {
        twin_adam(step, kind == VP_OPTIM_ADAM ? wd : 0.0, n, g, w, m, v, u);
        for (int64_t i = 0; i < n; i++)
            if (kind != VP_OPTIM_ADAM)
                u[i] += wd * w[i];
        if (kind == VP_OPTIM_LAMB && norm_of(w, n) > 0 && norm_of(u, n) > 0)
            rate *= norm_of(w, n) / norm_of(u, n);
        for (int64_t i = 0; i < n; i++)
            w[i] -= rate * u[i];
    }
    free(u);
}

/* ---- Optimizers --------------------------------------------------------- */

static void test_names_and_defaults(void **state)
{
    static const struct {
        const char *name;
        enum vp_optim_kind kind;
        int n_moments;
        float beta1, beta2, eps, decay, clip;
    } want[] = {
        { "sgd", VP_OPTIM_SGD, 1, 0.9f, 0.0f, 0.0f, 0.0f, 0.0f },
        { "adam", VP_OPTIM_ADAM, 2, 0.9f, 0.997f, 1e-8f, 0.0f, 0.0f },
        { "adamw", VP_OPTIM_ADAMW, 2, 0.9f, 0.999f, 1e-8f, 0.01f, 0.0f },
        { "lamb", VP_OPTIM_LAMB, 2, 0.9f, 0.999f, 1e-6f, 0.0f, 1.0f },
    };
    enum vp_optim_kind kind = VP_OPTIM_KIND_COUNT;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(want); i++) {
        struct vp_optim_config config = vp_optim_defaults(want[i].kind);

        assert_true(vp_optim_from_name(want[i].name, &kind));
        assert_int_equal(kind, want[i].kind);
        assert_string_equal(vp_optim_name(kind), want[i].name);
        assert_int_equal(vp_optim_n_moments(kind), want[i].n_moments);
        assert_int_equal(config.kind, want[i].kind);
        assert_true(config.beta1 == want[i].beta1);
        assert_true(config.beta2 == want[i].beta2);
        assert_true(config.eps == want[i].eps);
        assert_true(config.weight_decay == want[i].decay);
        assert_true(config.grad_clip == want[i].clip);
    }
    kind = VP_OPTIM_ADAMW;
    assert_false(vp_optim_from_name("ADAM", &kind));
    assert_false(vp_optim_from_name("", &kind));
    assert_int_equal(kind, VP_OPTIM_ADAMW);
}

/* Compares every tensor of `got` with stored "<name>.<what>"; a tensor that
 * the reference does not keep is not compared. */
static void check_stored(const struct bed *bed, const struct golden *gold,
                         const char *name, const char *what, const float *got)
{
    char key[96];
    const float *want;
    double *exact = malloc((size_t)bed->n * sizeof(*exact));

    assert_non_null(exact);
    snprintf(key, sizeof(key), "%s.%s", name, what);
    if (golden_find(gold, key)) {
        want = golden_f32(gold, key, NULL, NULL);
        for (int64_t i = 0; i < bed->n; i++)
            exact[i] = want[i];
        for (int i = 0; i < bed->n_tensors; i++) {
            const struct vp_optim_tensor *tensor = &bed->tensors[i];
            double e = relative_error(got + tensor->offset,
                                      exact + tensor->offset, tensor->n);

            if (!(e <= TOLERANCE))
                fail_msg("%s, tensor %d: error %g", key, i, e);
        }
    }
    free(exact);
}

static void run_stored(const struct golden *gold, const char *name,
                       enum vp_optim_kind kind)
{
    char key[96];
    int64_t n_tensors, n_steps, n;
    const int32_t *sizes = golden_i32(gold, "sizes", NULL, &n_tensors);
    const int32_t *decay = golden_i32(gold, "decay", NULL, NULL);
    const float *grads = golden_f32(gold, "grads", &n_steps, &n);
    const float *scales = golden_f32(gold, "grad_scale", NULL, NULL);
    const float *config, *lrs;
    int64_t sizes64[MAX_TENSORS];
    struct vp_pool *pool;
    struct bed bed;

    assert_true(n_tensors <= MAX_TENSORS);
    for (int i = 0; i < n_tensors; i++)
        sizes64[i] = sizes[i];
    bed_init(&bed, sizes64, (int)n_tensors, 0);
    assert_int_equal(bed.n, n);
    for (int i = 0; i < n_tensors; i++)
        bed.tensors[i].decay = decay[i];
    memcpy(bed.w[0], golden_f32(gold, "w0", NULL, NULL), (size_t)n * 4);
    snprintf(key, sizeof(key), "%s.config", name);
    config = golden_f32(gold, key, NULL, NULL);
    snprintf(key, sizeof(key), "%s.lr", name);
    lrs = golden_f32(gold, key, NULL, NULL);

    assert_int_equal(vp_pool_create(2, NULL, NULL, &pool), VP_OK);
    for (int64_t t = 1; t <= n_steps; t++) {
        struct vp_optim_step step = bed_step(&bed, kind, t, false);

        step.config = (struct vp_optim_config){ kind,      config[0], config[1],
                                                config[2], config[3], 0.0f };
        step.lr = lrs[t - 1];
        step.grad_scale = scales[t - 1];
        step.grad = grads + (t - 1) * n;
        vp_optim_step_host(&step, pool, bed.scratch);
    }
    vp_pool_free(pool);
    check_stored(&bed, gold, name, "w", bed.w[n_steps % 2]);
    check_stored(&bed, gold, name, "moment0", bed.m);
    check_stored(&bed, gold, name, "moment1", bed.v);
    bed_release(&bed);
}

static void test_ten_steps_of_pytorch(void **state)
{
    struct golden *gold = golden_open(GOLDEN);

    (void)state;
    run_stored(gold, "sgd", VP_OPTIM_SGD);
    run_stored(gold, "sgd_plain", VP_OPTIM_SGD);
    run_stored(gold, "adam", VP_OPTIM_ADAM);
    run_stored(gold, "adamw", VP_OPTIM_ADAMW);
    run_stored(gold, "adamw_eps", VP_OPTIM_ADAMW);
    run_stored(gold, "lamb", VP_OPTIM_LAMB);
    run_stored(gold, "lamb_no_decay", VP_OPTIM_LAMB);
    golden_close(gold);
}

static void twin_step(struct bed *bed, const struct vp_optim_step *step)
{
    for (int i = 0; i < bed->n_tensors; i++) {
        const struct vp_optim_tensor *tensor = &bed->tensors[i];
        int64_t at = tensor->offset;

        twin_tensor(step, tensor->decay ? step->config.weight_decay : 0.0,
                    tensor->n, bed->g + at, bed->dw + at, bed->dm + at,
                    bed->dv + at);
    }
}

static void check_twin(const struct bed *bed, enum vp_optim_kind kind,
                       const float *w)
{
    for (int i = 0; i < bed->n_tensors; i++) {
        int64_t at = bed->tensors[i].offset, n = bed->tensors[i].n;

        if (relative_error(w + at, bed->dw + at, n) > TOLERANCE ||
            relative_error(bed->m + at, bed->dm + at, n) > TOLERANCE ||
            relative_error(bed->v + at, bed->dv + at, n) > TOLERANCE)
            fail_msg("%s, tensor of %d: w %g m %g v %g", vp_optim_name(kind),
                     (int)n, relative_error(w + at, bed->dw + at, n),
                     relative_error(bed->m + at, bed->dm + at, n),
                     relative_error(bed->v + at, bed->dv + at, n));
    }
}

/* Sizes around multiples of the chunk: every element takes part, and the norms
 * of LAMB span chunks. */
static void test_odd_sizes_agree_with_twin(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        struct vp_pool *pool;
        struct bed bed;

        bed_init(&bed, odd_sizes, VP_COUNT_OF(odd_sizes), PAD);
        assert_int_equal(vp_pool_create(2, NULL, NULL, &pool), VP_OK);
        for (int64_t t = 1; t <= 3; t++) {
            struct vp_optim_step step = bed_step(&bed, (enum vp_optim_kind)kind,
                                                 t, false);

            bed_fill_grad(&bed, t);
            vp_optim_step_host(&step, pool, bed.scratch);
            twin_step(&bed, &step);
        }
        check_twin(&bed, (enum vp_optim_kind)kind, bed.w[1]);
        vp_pool_free(pool);
        bed_release(&bed);
    }
}

enum { MAX_OWN = 64 };

/* Lists the chunks of the bed's tensors in elements [begin, end), as tensors.
 * Returns their number; of[i] is the tensor of chunk i. */
static int own_chunks(const struct bed *bed, int64_t begin, int64_t end,
                      struct vp_optim_tensor *out, int *of)
{
    int n = 0;

    for (int i = 0; i < bed->n_tensors; i++)
        for (int64_t at = 0; at < bed->tensors[i].n; at += VP_OPTIM_CHUNK) {
            struct vp_optim_tensor chunk = bed->tensors[i];

            chunk.offset += at;
            chunk.grad += at;
            chunk.n = chunk.n - at < VP_OPTIM_CHUNK ? chunk.n - at
                                                    : VP_OPTIM_CHUNK;
            if (chunk.offset < begin || chunk.offset >= end)
                continue;
            assert_true(n < MAX_OWN && chunk.offset + chunk.n <= end);
            of[n] = i;
            out[n++] = chunk;
        }
    return n;
}

/* Makes one step by two owners, each with the moments of its own elements only.
 * LAMB's sums are added over the chunks of both. */
static void step_in_slices(struct bed *bed, enum vp_optim_kind kind, int64_t t,
                           int64_t cut, struct vp_pool *pool)
{
    const int64_t bounds[] = { 0, cut, bed->n };
    struct vp_optim_tensor chunks[2][MAX_OWN];
    double squares[2][MAX_OWN][2], sums[MAX_OWN][2] = { { 0.0 } };
    double ratios[MAX_OWN];
    int of[2][MAX_OWN], n[2];

    for (int phase = kind == VP_OPTIM_LAMB ? 0 : 1; phase < 2; phase++)
        for (int k = 0; k < 2; k++) {
            struct vp_optim_step step = bed_step(bed, kind, t, false);

            n[k] = own_chunks(bed, bounds[k], bounds[k + 1], chunks[k], of[k]);
            step.tensors = chunks[k];
            step.n_tensors = n[k];
            step.first = bounds[k];
            step.moment[0] += bounds[k];
            if (step.moment[1])
                step.moment[1] += bounds[k];
            for (int c = 0; c < n[k] && phase == 1; c++)
                ratios[c] = vp_optim_trust_ratio(sums[of[k][c]][0],
                                                 sums[of[k][c]][1]);
            if (phase == 0)
                step.squares_out = squares[k];
            else if (kind == VP_OPTIM_LAMB)
                step.ratios = ratios;
            vp_optim_step_host(&step, pool, bed->scratch);
            for (int c = 0; c < n[k] && phase == 0; c++)
                for (int j = 0; j < 2; j++)
                    sums[of[k][c]][j] += squares[k][c][j];
        }
}

/* A tensor that is cut between chunks gets the bits of the whole one. */
static void test_slices_have_the_same_bits(void **state)
{
    static const int64_t sizes[] = { 7, 3 * VP_OPTIM_CHUNK + 100,
                                     VP_OPTIM_CHUNK + 1 };
    static const int64_t cuts[] = { 0, 7, 7 + VP_OPTIM_CHUNK,
                                    7 + 3 * VP_OPTIM_CHUNK };

    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++)
        for (size_t i = 0; i < VP_COUNT_OF(cuts); i++) {
            struct bed whole, sliced;
            struct vp_pool *pool;

            bed_init(&whole, sizes, VP_COUNT_OF(sizes), 0);
            bed_init(&sliced, sizes, VP_COUNT_OF(sizes), 0);
            bed_run(&whole, (enum vp_optim_kind)kind, 2, 1, false);
            assert_int_equal(vp_pool_create(2, NULL, NULL, &pool), VP_OK);
            for (int64_t t = 1; t <= 2; t++) {
                bed_fill_grad(&sliced, t);
                step_in_slices(&sliced, (enum vp_optim_kind)kind, t, cuts[i],
                               pool);
            }
            assert_same_bits(whole.w[0], sliced.w[0], whole.n);
            assert_same_bits(whole.w[1], sliced.w[1], whole.n);
            assert_same_bits(whole.m, sliced.m, whole.n);
            assert_same_bits(whole.v, sliced.v, whole.n);
            vp_pool_free(pool);
            bed_release(&whole);
            bed_release(&sliced);
        }
}

static void test_nothing_between_tensors_is_touched(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        struct bed bed;
        int64_t at = 0;

        bed_init(&bed, odd_sizes, VP_COUNT_OF(odd_sizes), PAD);
        bed_run(&bed, (enum vp_optim_kind)kind, 1, 1, false);
        for (int i = 0; i <= bed.n_tensors; i++) {
            for (int j = 0; j < PAD; j++) {
                assert_true(bed.w[1][at + j] == 0.0f);
                assert_true(bed.m[at + j] == 0.0f);
                assert_true(bed.v[at + j] == 0.0f);
            }
            at += PAD + (i < bed.n_tensors ? bed.tensors[i].n : 0);
        }
        bed_release(&bed);
    }
}

/* Runs 3 steps in two ways; weights and moments must have the same bits. */
static void check_same_run(enum vp_optim_kind kind, int n_threads,
                           bool in_place)
{
    struct bed one, other;

    bed_init(&one, odd_sizes, VP_COUNT_OF(odd_sizes), 0);
    bed_init(&other, odd_sizes, VP_COUNT_OF(odd_sizes), 0);
    bed_run(&one, kind, 3, 1, false);
    bed_run(&other, kind, 3, n_threads, in_place);
    assert_same_bits(one.w[1], other.w[in_place ? 0 : 1], one.n);
    assert_same_bits(one.m, other.m, one.n);
    assert_same_bits(one.v, other.v, one.n);
    bed_release(&one);
    bed_release(&other);
}

static void test_in_place_has_the_same_bits(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++)
        check_same_run((enum vp_optim_kind)kind, 1, true);
}

static void test_threads_have_the_same_bits(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++)
        for (int n_threads = 2; n_threads <= 3; n_threads++)
            for (int in_place = 0; in_place < 2; in_place++)
                check_same_run((enum vp_optim_kind)kind, n_threads, in_place);
}

/* Makes the same steps with the weights as halves of floats: high halves in two
 * versions, low halves in place. */
static void run_halves(struct bed *bed, enum vp_optim_kind kind, int n_steps,
                       int n_threads, uint16_t *high[2], uint16_t *low)
{
    struct vp_pool *pool;

    assert_int_equal(vp_pool_create(n_threads, NULL, NULL, &pool), VP_OK);
    vp_halves_split_all(high[0], low, bed->w[0], bed->n);
    for (int64_t t = 1; t <= n_steps; t++) {
        struct vp_optim_step step = bed_step(bed, kind, t, false);

        step.dtype = VP_DTYPE_BF16;
        step.w_old = high[(t + 1) % 2];
        step.w_new = high[t % 2];
        step.master = low;
        bed_fill_grad(bed, t);
        vp_optim_step_host(&step, pool, bed->scratch);
    }
    vp_pool_free(pool);
    vp_halves_join_all(bed->w[1], high[n_steps % 2], low, bed->n);
}

static void test_halves_have_the_bits_of_floats(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        uint16_t *high[2], *low;
        struct bed floats, halves;

        bed_init(&floats, odd_sizes, VP_COUNT_OF(odd_sizes), 0);
        bed_init(&halves, odd_sizes, VP_COUNT_OF(odd_sizes), 0);
        high[0] = calloc((size_t)halves.n, sizeof(*low));
        high[1] = calloc((size_t)halves.n, sizeof(*low));
        low = calloc((size_t)halves.n, sizeof(*low));
        assert_true(high[0] && high[1] && low);
        bed_run(&floats, (enum vp_optim_kind)kind, 3, 1, true);
        run_halves(&halves, (enum vp_optim_kind)kind, 3, 2, high, low);
        assert_same_bits(floats.w[0], halves.w[1], floats.n);
        assert_same_bits(floats.m, halves.m, floats.n);
        assert_same_bits(floats.v, halves.v, floats.n);
        free(high[0]);
        free(high[1]);
        free(low);
        bed_release(&floats);
        bed_release(&halves);
    }
}

/* Gradients may lie in another order than the tensors, and without gaps. */
static void test_gradients_lie_anywhere(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        struct vp_optim_step step;
        double sums[2][MAX_TENSORS];
        struct bed here, there;
        struct vp_pool *pool;
        int64_t at = 0;

        bed_init(&here, odd_sizes, VP_COUNT_OF(odd_sizes), PAD);
        bed_init(&there, odd_sizes, VP_COUNT_OF(odd_sizes), PAD);
        bed_fill_grad(&here, 1);
        for (int i = here.n_tensors - 1; i >= 0; i--) {
            const struct vp_optim_tensor *tensor = &here.tensors[i];

            memcpy(there.g + at, here.g + tensor->grad,
                   (size_t)tensor->n * sizeof(float));
            there.tensors[i].grad = at;
            at += tensor->n;
        }
        assert_int_equal(vp_pool_create(2, NULL, NULL, &pool), VP_OK);
        step = bed_step(&here, (enum vp_optim_kind)kind, 1, true);
        vp_optim_step_host(&step, pool, here.scratch);
        vp_optim_sum_squares_host(here.tensors, here.n_tensors, here.g, sums[0],
                                  pool, here.scratch);
        step = bed_step(&there, (enum vp_optim_kind)kind, 1, true);
        vp_optim_step_host(&step, pool, there.scratch);
        vp_optim_sum_squares_host(there.tensors, there.n_tensors, there.g,
                                  sums[1], pool, there.scratch);
        vp_pool_free(pool);
        assert_same_bits(here.w[0], there.w[0], here.n);
        assert_same_bits(here.m, there.m, here.n);
        assert_same_bits(here.v, there.v, here.n);
        assert_memory_equal(sums[0], sums[1],
                            (size_t)here.n_tensors * sizeof(double));
        bed_release(&here);
        bed_release(&there);
    }
}

/* An out-of-place step keeps the old weights: other versions read them. */
static void test_old_weights_stay(void **state)
{
    (void)state;
    for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
        struct bed bed;

        bed_init(&bed, odd_sizes, VP_COUNT_OF(odd_sizes), 0);
        bed_run(&bed, (enum vp_optim_kind)kind, 1, 1, false);
        for (int64_t i = 0; i < bed.n; i++)
            assert_true((double)bed.w[0][i] == bed.dw[i]);
        bed_release(&bed);
    }
}

/* ---- Instruction sets ---------------------------------------------------- */

static const struct vp_optim_coef any_coef = {
    .grad_scale = 0.7f,
    .l2 = 0.1f,
    .keep = 0.99f,
    .decay = 0.1f,
    .lr = 0.01f,
    .beta1 = 0.9f,
    .rest1 = 0.1f,
    .beta2 = 0.99f,
    .rest2 = 0.01f,
    .inv_bias1 = 1.3f,
    .inv_sqrt_bias2 = 1.7f,
    .eps = 1e-6f,
};

/* Runs all kernels of a table on the first n elements of a bed. */
static void run_table(const struct vp_optim_kernels *table, struct bed *bed,
                      int n, double sums_out[3])
{
    struct vp_optim_span span = { n,      bed->w[0], bed->g,
                                  bed->m, bed->v,    bed->w[1] };

    sums_out[0] = sums_out[1] = 0.0;
    bed_fill_grad(bed, 1);
    table->sgd(span, any_coef);
    span.w = bed->w[1];
    table->adam(span, any_coef);
    table->lamb_measure(span, any_coef, &sums_out[0], &sums_out[1]);
    table->lamb_apply(span, any_coef, 0.01f);
    sums_out[2] = table->sum_squares(bed->w[1], n);
}

static void test_instruction_sets_have_the_same_bits(void **state)
{
    (void)state;
    for (int n = 0; n < 600; n += n < 70 ? 1 : 53) {
        const int64_t size = 600;
        double plain_sums[3], best_sums[3];
        struct bed plain, best;

        bed_init(&plain, &size, 1, 0);
        bed_init(&best, &size, 1, 0);
        run_table(&vp_optim_kernels_plain, &plain, n, plain_sums);
        run_table(vp_optim_kernels(), &best, n, best_sums);
        assert_same_bits(plain.w[1], best.w[1], size);
        assert_same_bits(plain.m, best.m, size);
        assert_same_bits(plain.v, best.v, size);
        assert_memory_equal(plain_sums, best_sums, sizeof(plain_sums));
        bed_release(&plain);
        bed_release(&best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_defaults),
        cmocka_unit_test(test_ten_steps_of_pytorch),
        cmocka_unit_test(test_odd_sizes_agree_with_twin),
        cmocka_unit_test(test_slices_have_the_same_bits),
        cmocka_unit_test(test_nothing_between_tensors_is_touched),
        cmocka_unit_test(test_in_place_has_the_same_bits),
        cmocka_unit_test(test_threads_have_the_same_bits),
        cmocka_unit_test(test_halves_have_the_bits_of_floats),
        cmocka_unit_test(test_gradients_lie_anywhere),
        cmocka_unit_test(test_old_weights_stay),
        cmocka_unit_test(test_instruction_sets_have_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
