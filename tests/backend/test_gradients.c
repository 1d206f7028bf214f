/* The gradients of the reference kernels equal finite differences in double
 * precision, and float equals double up to rounding. Forward values are in
 * test_reference.c. */
#include "lib/one_op.h"
#include "lib/op_cases.h"

#include <math.h>
#include <string.h>

/* The stencil is exact to STEP^4 = 5e-12 times a fifth derivative; rounding
 * adds 1e-16 / STEP. The largest error seen (layernorm) is 3e-11. */
#define STEP 1.5e-3
#define SLOPE_TOLERANCE 1e-9
/* A few roundings of 6e-8 each per element; sums are taken in double. The
 * largest error seen (gelu tanh) is 3e-7. */
#define FLOAT_TOLERANCE 1e-6

enum { SEED = 11 };

static void start_f64(struct one_op *t, const struct op_spec *spec)
{
    one_op_init(t, spec, &vp_cpu_ref_f64, sizeof(double), SEED, NULL);
}

/* ---- Gradients ---------------------------------------------------------- */

/* Checks that every gradient that `b` computes has the bits of the one of
 * `a`. */
static void assert_same_gradients(const struct one_op *a,
                                  const struct one_op *b)
{
    for (int k = 0; k < VP_MAX_IN; k++)
        if (b->args.din[k])
            assert_memory_equal(a->args.din[k], b->args.din[k],
                                (size_t)a->n_in[k] * a->real);
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (b->args.dpar[k])
            assert_memory_equal(a->args.dpar[k], b->args.dpar[k],
                                (size_t)a->n_par[k] * a->real);
}

/* Returns d(sum of dout * out) / d(tensor[i]) by the five-point central
 * stencil. `plus`: memory for one output. */
static double slope(struct one_op *t, double *plus, const void *tensor,
                    int64_t i)
{
    static const double weight[] = { 8.0, -1.0 };
    double x = one_op_get(t, tensor, i), sum = 0;

    for (int s = 0; s < 2; s++) {
        one_op_set(t, tensor, i, x + (s + 1) * STEP);
        one_op_run(t, VP_PHASE_F);
        memcpy(plus, t->args.out, (size_t)t->n_out * sizeof(*plus));
        one_op_set(t, tensor, i, x - (s + 1) * STEP);
        one_op_run(t, VP_PHASE_F);
        for (int64_t o = 0; o < t->n_out; o++)
            sum += weight[s] * one_op_get(t, t->args.dout, o) *
                   (plus[o] - one_op_get(t, t->args.out, o));
    }
    one_op_set(t, tensor, i, x);
    return sum / (12 * STEP);
}

static void check_slopes(struct one_op *t, const char *what, int k,
                         const void *tensor, int64_t n, const void *grad,
                         bool add)
{
    double *plus = one_op_alloc(t, (size_t)t->n_out * sizeof(*plus));
    double diff = 0, size = 1e-3;

    for (int64_t i = 0; i < n; i++) {
        double base = add ? test_base_number(i) : 0;
        double got = one_op_get(t, grad, i) - base;
        double want = slope(t, plus, tensor, i), off = fabs(got - want);

        diff = isfinite(off) ? fmax(diff, off) : INFINITY;
        size = fmax(size, fabs(want));
    }
    if (diff > SLOPE_TOLERANCE * size)
        fail_msg("%s%s, %s %d: gradient is off by %.2e of %.2e", t->spec.name,
                 add ? " (adding)" : "", what, k, diff, size);
}

static void check_case(const struct op_spec *spec, bool add)
{
    const struct vp_op_def *def = &vp_op_defs[spec->kind];
    bool passes = def->passes_grad;
    struct one_op t;

    start_f64(&t, spec);
    one_op_train(&t, add);
    for (int k = 0; k < VP_MAX_IN; k++) {
        assert_int_equal(t.args.din[k] != NULL,
                         def->grad_in >> k & 1 && t.n_in[k] > 0);
        if (t.args.din[k])
            check_slopes(&t, "input", k, t.args.in[k], t.n_in[k],
                         passes ? t.args.dout : t.args.din[k], add && !passes);
    }
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (t.args.dpar[k])
            check_slopes(&t, "parameter", k, t.args.par[k], t.n_par[k],
                         t.args.dpar[k], add);
    one_op_release(&t);
}

static void test_finite_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++) {
        check_case(&op_cases[i], false);
        check_case(&op_cases[i], true);
    }
}

static void check_close(const struct one_op *a, const void *x,
                        const struct one_op *b, const void *y, int64_t n,
                        const char *what)
{
    double off;

    if (!x || n == 0)
        return;
    off = test_distance(a, x, b, y, n);
    if (!(off <= FLOAT_TOLERANCE))
        fail_msg("%s, %s: float and double differ by %.2e", a->spec.name, what,
                 off);
}

static void test_float_agrees_with_double(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * VP_COUNT_OF(op_cases); i++) {
        const struct op_spec *spec = &op_cases[i / 2];
        bool passes = vp_op_defs[spec->kind].passes_grad;
        struct one_op a, b;

        one_op_init(&a, spec, &vp_cpu_ref_f32, sizeof(float), SEED, NULL);
        start_f64(&b, spec);
        one_op_train(&a, i % 2);
        one_op_train(&b, i % 2);
        check_close(&a, a.args.out, &b, b.args.out,
                    spec->kind == VP_OP_CROSS_ENTROPY ? VP_LOSS_WEIGHT
                                                      : a.n_out,
                    "out");
        check_close(&a, a.args.aux[0], &b, b.args.aux[0], a.n_aux[0], "aux");
        for (int k = 0; !passes && k < VP_MAX_IN; k++)
            check_close(&a, a.args.din[k], &b, b.args.din[k], a.n_in[k], "din");
        for (int k = 0; k < VP_MAX_PARAM; k++)
            check_close(&a, a.args.dpar[k], &b, b.args.dpar[k], a.n_par[k],
                        "dpar");
        one_op_release(&a);
        one_op_release(&b);
    }
}

static void test_tables_match_definitions(void **state)
{
    static const struct vp_cpu_kernels *const tables[] = { &vp_cpu_ref_f32,
                                                           &vp_cpu_ref_f64 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int kind = 0; kind < VP_OP_KIND_COUNT; kind++) {
            const struct vp_op_def *def = &vp_op_defs[kind];

            assert_non_null(tables[i]->fn[kind][VP_PHASE_F]);
            assert_int_equal(tables[i]->fn[kind][VP_PHASE_B] != NULL,
                             def->has_b);
            assert_int_equal(tables[i]->fn[kind][VP_PHASE_W] != NULL,
                             def->has_w);
        }
    }
}

/* ---- Shared memory and absent gradients --------------------------------- */

static void test_in_place_gives_same_bits(void **state)
{
    static const struct op_spec specs[] = {
        { .kind = VP_OP_CROSS_ENTROPY,
          .batch = 3,
          .q_len = 4,
          .cols = 9,
          .smoothing = 0.1f },
        { .kind = VP_OP_LINEAR,
          .batch = 3,
          .q_len = 4,
          .cols = 9,
          .n_out = 5,
          .bias = true,
          .act = VP_ACT_GELU_ERF },
    };

    (void)state;
    for (int s = 0; s < 2; s++) {
        struct one_op a, b;

        start_f64(&a, &specs[s]);
        start_f64(&b, &specs[s]);
        if (specs[s].kind == VP_OP_LINEAR)
            b.args.dz = (void *)b.args.dout;
        else
            b.args.din[0] = (void *)b.args.in[0];
        one_op_train(&a, false);
        one_op_train(&b, false);
        assert_same_gradients(&a, &b);
        one_op_release(&a);
        one_op_release(&b);
    }
}

/* A gradient that is not needed is NULL; the others keep their bits. */
static void test_absent_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++) {
        for (int gone = 0; gone < VP_MAX_IN + VP_MAX_PARAM; gone++) {
            struct one_op a, b;

            start_f64(&a, &op_cases[i]);
            start_f64(&b, &op_cases[i]);
            if (gone < VP_MAX_IN)
                b.args.din[gone] = NULL;
            else
                b.args.dpar[gone - VP_MAX_IN] = NULL;
            one_op_train(&a, false);
            one_op_train(&b, false);
            assert_same_gradients(&a, &b);
            one_op_release(&a);
            one_op_release(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_float_agrees_with_double),
        cmocka_unit_test(test_tables_match_definitions),
        cmocka_unit_test(test_in_place_gives_same_bits),
        cmocka_unit_test(test_absent_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
