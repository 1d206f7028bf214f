/* The fast CPU kernels agree with the reference kernels in plain C, for every
 * operator, odd sizes, and every instruction set that the machine has. */
#include "backend/cpu/isa.h"
#include "backend/cpu/simd.h"
#include "lib/cpu_pools.h"
#include "lib/kernel_compare.h"
#include "lib/one_op.h"
#include "lib/op_cases.h"
#include "lib/op_modes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Instruction sets above AVX-512 use its float kernels, so they are not tested
 * here. */
enum { N_ISAS = VP_ISA_AVX512 + 1 };

static const char *const isa_names[N_ISAS] = { "plain", "AVX2", "AVX-512" };

/* ---- One operator, by fast and by reference kernels --------------------- */

/* Tolerances by operator. 0: the operator is a plain float sequence, or adds in
 * the order of the rows, and its bits are defined. Others differ from the
 * reference kernel, which sums in double, by the rounding of float sums of up
 * to n terms, about sqrt(n) * 6e-8, and of exp and erf, 2e-7. */
static double tolerance_of(const struct op_spec *spec)
{
    switch (spec->kind) {
    case VP_OP_LINEAR:
        return 2e-6; /* n <= 1100 */
    case VP_OP_LAYERNORM:
        return 2e-6; /* 1/std enlarges the rounding of x - mean */
    case VP_OP_ATTENTION:
    case VP_OP_CACHED_ATTENTION:
    case VP_OP_CACHED_CROSS_ATTENTION:
        return 2e-6; /* two sums and exp one after the other */
    case VP_OP_CROSS_ENTROPY:
        return 3e-7; /* sums of exp go to double every 1024 terms */
    default:
        return 0;
    }
}

/* Copies the forward results of `twin` to `fast`. Both then run backward on
 * equal values, and the error of the fast forward does not affect it. */
static void take_forward(struct one_op *fast, const struct one_op *twin)
{
    const struct vp_kargs *from = &twin->args;

    memcpy(fast->args.out, from->out, (size_t)fast->n_out * sizeof(float));
    for (int k = 0; k < VP_MAX_AUX; k++)
        if (from->aux[k])
            memcpy(fast->args.aux[k], from->aux[k],
                   (size_t)fast->n_aux[k] * sizeof(float));
}

static void check_mode(const struct op_spec *spec, const struct mode *mode)
{
    double tolerance = tolerance_of(spec);
    struct one_op twin, fast;
    char how[64];

    one_op_init(&twin, spec, &vp_cpu_ref_f32, sizeof(float), 3, NULL);
    prepare(&twin, mode);
    for (int phase = 0; phase < VP_PHASE_COUNT; phase++)
        one_op_run(&twin, (enum vp_phase)phase);
    for (int isa = 0; isa < N_ISAS; isa++) {
        if (!vp_cpu_force_isa((enum vp_isa)isa))
            continue;
        snprintf(how, sizeof(how), "%s, mode %d", isa_names[isa],
                 (int)(mode - modes));
        one_op_init(&fast, spec, &vp_cpu_fast, sizeof(float), 3, pools[1]);
        prepare(&fast, mode);
        one_op_run(&fast, VP_PHASE_F);
        compare(&fast, &twin, PHASE_BIT(VP_PHASE_F), tolerance, how);
        take_forward(&fast, &twin);
        one_op_run(&fast, VP_PHASE_B);
        one_op_run(&fast, VP_PHASE_W);
        compare(&fast, &twin, PHASE_BIT(VP_PHASE_B) | PHASE_BIT(VP_PHASE_W),
                tolerance, how);
        one_op_release(&fast);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
    one_op_release(&twin);
}

static void check(const struct op_spec *spec)
{
    for (size_t i = 0; i < VP_COUNT_OF(modes); i++)
        check_mode(spec, &modes[i]);
}

/* ---- Comparison with the reference kernels ------------------------------ */

static const int64_t sizes[] = { 1, 3, 17, 64, 100, 128, 130 };

static void test_small_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++)
        check(&op_cases[i]);
    for (size_t i = 0; i < VP_COUNT_OF(forward_cases); i++)
        check(&forward_cases[i]);
}

static void check_again(const struct op_spec *spec,
                        const struct vp_cpu_kernels *kernels)
{
    struct one_op t;

    one_op_init(&t, spec, kernels, sizeof(float), 3, pools[1]);
    one_op_run(&t, VP_PHASE_F);
    one_op_run(&t, VP_PHASE_B);
    if (t.args.recomputed_out)
        assert_memory_equal(t.args.recomputed_out, t.args.out,
                            (size_t)t.n_out * sizeof(float));
    one_op_release(&t);
}

/* Backward recomputes the output with the bits of forward. */
static void test_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(op_cases); i++) {
        check_again(&op_cases[i], &vp_cpu_ref_f32);
        for (int isa = 0; isa < N_ISAS; isa++)
            if (vp_cpu_force_isa((enum vp_isa)isa))
                check_again(&op_cases[i], &vp_cpu_fast);
    }
    vp_cpu_force_isa(VP_ISA_BEST);
}

/* Every combination of sizes, for operators on rows and columns. */
static void test_sizes(void **state)
{
    static const struct op_spec kinds[] = {
        { "layernorm", .kind = VP_OP_LAYERNORM },
        { "dropout", .kind = VP_OP_DROPOUT, .p = 0.1f },
        { "add", .kind = VP_OP_ADD },
        { "scale", .kind = VP_OP_SCALE, .scale = 0.3f },
        { "copy", .kind = VP_OP_COPY },
        { "gather", .kind = VP_OP_GATHER, .n_out = 37 },
        { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .smoothing = 0.1f },
        { "embed", .kind = VP_OP_EMBED, .n_out = 75, .scale = 1.7f,
          .positions = true, .types = true, .pad = true },
    };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
        for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
            for (size_t j = 0; j < VP_COUNT_OF(sizes); j++) {
                struct op_spec spec = kinds[k];

                spec.batch = sizes[i] % 2 == 0 ? 2 : 1;
                spec.q_len = sizes[i] / spec.batch;
                spec.cols = sizes[j];
                check(&spec);
            }
        }
    }
}

/* Starts an evaluation with whole numbers as logits, so that many are equal. */
static void start_ranks(struct one_op *t, const struct op_spec *spec,
                        const struct vp_cpu_kernels *kernels)
{
    one_op_init(t, spec, kernels, sizeof(float), 3, pools[1]);
    t->mb.train = false;
    for (int64_t i = 0; i < t->n_in[0]; i++)
        one_op_set(t, t->args.in[0], i,
                   floor(4.0 * one_op_get(t, t->args.in[0], i)));
    one_op_run(t, VP_PHASE_F);
}

static void test_ranks(void **state)
{
    struct op_spec spec = { "ranks", .kind = VP_OP_CROSS_ENTROPY, .batch = 1,
                            .q_len = 64, .weights = true };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        struct one_op fast, twin;

        spec.cols = sizes[i];
        start_ranks(&fast, &spec, &vp_cpu_fast);
        start_ranks(&twin, &spec, &vp_cpu_ref_f32);
        for (int k = 0; k < 64; k++)
            assert_true(one_op_get(&fast, fast.args.aux[0], 2 * k) ==
                        one_op_get(&twin, twin.args.aux[0], 2 * k));
        for (int k = VP_LOSS_WEIGHT; k < VP_LOSS_COLS; k++)
            assert_true(one_op_get(&fast, fast.args.out, k) ==
                        one_op_get(&twin, twin.args.out, k));
        one_op_release(&fast);
        one_op_release(&twin);
    }
}

static void test_linear_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        for (size_t j = 0; j < VP_COUNT_OF(sizes); j++) {
            for (size_t k = 0; k < VP_COUNT_OF(sizes); k++) {
                struct op_spec spec = {
                    "linear",           .kind = VP_OP_LINEAR,
                    .batch = 1,         .q_len = sizes[i],
                    .n_out = sizes[j],  .cols = sizes[k],
                    .bias = i % 2 == 0, .act = (enum vp_act)((i + j + k) % 4),
                };

                check_mode(&spec, &modes[(i + j + k) % VP_COUNT_OF(modes)]);
            }
        }
    }
}

static void test_attention_sizes(void **state)
{
    static const struct {
        int64_t q_len, k_len;
    } lengths[] = {
        { 1, 0 },   { 3, 0 },   { 17, 0 },   { 64, 0 },  { 100, 0 },
        { 130, 0 }, { 1, 130 }, { 130, 17 }, { 17, 64 }, { 64, 1 }
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(lengths); i++) {
        for (int bits = 0; bits < 8; bits++) {
            struct op_spec spec = {
                "attention",
                .kind = VP_OP_ATTENTION,
                .batch = 2,
                .cols = 24,
                .q_len = lengths[i].q_len,
                .k_len = lengths[i].k_len,
                .heads = 1 + (int)(i % 3),
                .causal = bits & 1 && lengths[i].k_len == 0,
                .mask = bits & 2,
                .p = bits & 4 ? 0.1f : 0.0f,
            };

            check_mode(&spec, &modes[0]);
            check_mode(&spec, &modes[1]);
            check_mode(&spec, &modes[2]);
        }
    }
}

/* Sizes that are cut: products in several tiles, sums over more rows than one
 * chunk, attention in several tiles with keys that are no multiple of 32,
 * vocabularies longer than one piece. */
static void test_cut_sizes(void **state)
{
    static const struct op_spec specs[] = {
        { "linear", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 1037,
          .cols = 100, .n_out = 203, .bias = true, .act = VP_ACT_GELU_ERF },
        { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 65, .cols = 300,
          .n_out = 421, .bias = true, .act = VP_ACT_GELU_TANH },
        { "linear", .kind = VP_OP_LINEAR, .batch = 2, .q_len = 33, .cols = 64,
          .n_out = 1100, .bias = true, .act = VP_ACT_RELU },
        { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 270,
          .cols = 16, .heads = 2, .causal = true, .p = 0.1f },
        { "attention", .kind = VP_OP_ATTENTION, .batch = 2, .q_len = 90,
          .k_len = 1110, .cols = 8, .heads = 1, .mask = true, .p = 0.25f },
        { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .batch = 1, .q_len = 7,
          .cols = 5003, .smoothing = 0.1f },
        { "dropout", .kind = VP_OP_DROPOUT, .batch = 1, .q_len = 2,
          .cols = 4099, .p = 0.3f },
        { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 1, .q_len = 70,
          .cols = 1023 },
        { "embed", .kind = VP_OP_EMBED, .batch = 1, .q_len = 50, .cols = 300,
          .n_out = 150, .scale = 1.0f, .positions = true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(specs); i++) {
        check_mode(&specs[i], &modes[0]);
        check_mode(&specs[i], &modes[1]);
    }
}

/* Lowering also copies values of integers, for instance a mask. */
static void test_copy_ints(void **state)
{
    static const struct op_spec spec = { "copy", .kind = VP_OP_COPY, .batch = 3,
                                         .q_len = 11, .cols = 1 };
    struct one_op t;

    (void)state;
    one_op_init(&t, &spec, &vp_cpu_fast, sizeof(float), 3, pools[1]);
    t.plain.values[t.args.op->in[0]].dtype = VP_DTYPE_I32;
    for (int32_t i = 0; i < 33; i++)
        ((int32_t *)t.args.in[0])[i] = i * 77777 - 1000000;
    one_op_run(&t, VP_PHASE_F);
    assert_memory_equal(t.args.out, t.args.in[0], 33 * sizeof(int32_t));
    one_op_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_cases),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_linear_sizes),
        cmocka_unit_test(test_attention_sizes),
        cmocka_unit_test(test_cut_sizes),
        cmocka_unit_test(test_copy_ints),
    };

    return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
