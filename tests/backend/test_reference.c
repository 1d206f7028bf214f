/* The reference kernels give literal forward values, and dropout follows its
 * definition. Gradients are in test_gradients.c. */
#include "lib/one_op.h"

#include <math.h>
#include <string.h>

enum { SEED = 11 };

/* ---- Forward: literal values -------------------------------------------- */

static void set_all(struct one_op *t, const void *tensor, int64_t n,
                    const double *values)
{
    for (int64_t i = 0; i < n; i++)
        one_op_set(t, tensor, i, values[i]);
}

/* Sets the numbers 0, 7, 14, ... modulo 11, scaled to -1.25 .. 1.25. */
static void set_pattern(struct one_op *t, const void *tensor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        one_op_set(t, tensor, i, ((double)(i * 7 % 11) - 5) / 4);
}

static void expect(const struct one_op *t, const char *what, const void *tensor,
                   int64_t n, const double *want)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(one_op_get(t, tensor, i) - want[i]) <= 1e-13))
            fail_msg("%s [%d]: %.17g, not %.17g", what, (int)i,
                     one_op_get(t, tensor, i), want[i]);
}

static void start_f64(struct one_op *t, const struct op_spec *spec)
{
    one_op_init(t, spec, &vp_cpu_ref_f64, sizeof(double), SEED, NULL);
}

static void test_activation_values(void **state)
{
    static const double z[] = { -2, -0.5, 0, 0.5, 3 };
    static const double want[][5] = {
        [VP_ACT_NONE] = { -2, -0.5, 0, 0.5, 3 },
        [VP_ACT_RELU] = { 0, 0, 0, 0.5, 3 },
        [VP_ACT_GELU_ERF] = { -0.045500263896358417, -0.15426876936299344, 0,
                              0.34573123063700656, 2.9959503059051098 },
        [VP_ACT_GELU_TANH] = { -0.045402305912224938, -0.15428599017485606, 0,
                               0.34571400982514394, 2.9963626079182268 },
    };
    static const double one = 1;

    (void)state;
    for (int act = VP_ACT_NONE; act <= VP_ACT_GELU_TANH; act++) {
        struct op_spec spec = { .kind = VP_OP_LINEAR,
                                .batch = 1,
                                .q_len = 5,
                                .cols = 1,
                                .n_out = 1,
                                .act = (enum vp_act)act };
        struct one_op t;

        start_f64(&t, &spec);
        set_all(&t, t.args.in[0], 5, z);
        set_all(&t, t.args.par[0], 1, &one);
        one_op_run(&t, VP_PHASE_F);
        expect(&t, "activation", t.args.out, 5, want[act]);
        if (act != VP_ACT_NONE)
            expect(&t, "pre-activation", t.args.aux[0], 5, z);
        one_op_release(&t);
    }
}

/* Linear by hand: [1 2; 3 4; 5 6] [1 0; 2 1; -1 3]^T + [10 20 30]. */
static void test_linear_and_layernorm_values(void **state)
{
    static const struct {
        struct op_spec spec;
        double x[6], par0[6], par1[4], out[9];
    } literal[] = {
        { { "linear", .kind = VP_OP_LINEAR, .batch = 3, .q_len = 1, .cols = 2,
            .n_out = 3, .bias = true },
          { 1, 2, 3, 4, 5, 6 },
          { 1, 0, 2, 1, -1, 3 },
          { 10, 20, 30 },
          { 11, 24, 35, 13, 30, 39, 15, 36, 43 } },
        { { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 1, .q_len = 1,
            .cols = 4 },
          { 1, 2, 3, 5 },
          { 1, 2, -1, 0.5 },
          { 0, 0, 1, 0.25 },
          { -1.1832132521356489, -1.0141827875448419, 0.83096953540919305,
            1.0106370906586313 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(literal); i++) {
        struct one_op t;

        start_f64(&t, &literal[i].spec);
        set_all(&t, t.args.in[0], t.n_in[0], literal[i].x);
        set_all(&t, t.args.par[0], t.n_par[0], literal[i].par0);
        set_all(&t, t.args.par[1], t.n_par[1], literal[i].par1);
        one_op_run(&t, VP_PHASE_F);
        expect(&t, t.spec.name, t.args.out, t.n_out, literal[i].out);
        one_op_release(&t);
    }
}

/* Two heads of two columns over three tokens; set_pattern() sets the packed
 * input. */
static void test_attention_values(void **state)
{
    static const double causal_out[] = { -1,
                                         0.75,
                                         -0.25,
                                         -1.25,
                                         -0.519751149714401,
                                         0.475572085551086,
                                         -0.507183318694648,
                                         -0.799929192284367,
                                         0.397098800505563,
                                         -0.303229184922845,
                                         -0.619596755034241,
                                         -0.267213764678925 };
    static const double causal_lse[] = { -0.48613590374589, -0.353553384542465,
                                         0.674348236313909, 1.18118945378107,
                                         1.46536665668477,  1.2400627740967 };
    static const double mask_out[] = { -0.698609774897348,
                                       -0.0537072669404057,
                                       0.348037461705817,
                                       -0.651962538294183,
                                       -0.625,
                                       -0.25,
                                       -0.127658959646978,
                                       -1.12765895964698,
                                       -0.551390225102652,
                                       -0.446292733059594,
                                       -0.00959657639214623,
                                       -1.00959657639215 };
    struct op_spec spec = { .kind = VP_OP_ATTENTION,
                            .batch = 1,
                            .q_len = 3,
                            .cols = 4,
                            .heads = 2,
                            .causal = true };
    static const int32_t mask[] = { 1, 0, 1 };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    set_pattern(&t, t.args.in[0], t.n_in[0]);
    one_op_run(&t, VP_PHASE_F);
    expect(&t, "causal attention", t.args.out, 12, causal_out);
    expect(&t, "its log-sum-exp", t.args.aux[0], 6, causal_lse);
    one_op_release(&t);

    spec.causal = false;
    spec.mask = true;
    start_f64(&t, &spec);
    set_pattern(&t, t.args.in[0], t.n_in[0]);
    memcpy((void *)t.args.in[2], mask, sizeof(mask));
    one_op_run(&t, VP_PHASE_F);
    expect(&t, "masked attention", t.args.out, 12, mask_out);
    one_op_release(&t);
}

/* Queries, keys and values in one matrix or in two give the same bits. */
static void test_cross_attention_is_self_attention(void **state)
{
    struct op_spec spec = { .kind = VP_OP_ATTENTION,
                            .batch = 2,
                            .q_len = 5,
                            .cols = 6,
                            .heads = 3,
                            .causal = true,
                            .p = 0.25f };
    struct one_op packed, apart;

    (void)state;
    start_f64(&packed, &spec);
    spec.k_len = spec.q_len;
    start_f64(&apart, &spec);
    for (int64_t i = 0; i < packed.n_in[0]; i++) {
        int64_t row = i / 18, col = i % 18;
        double x = one_op_get(&packed, packed.args.in[0], i);

        if (col < 6)
            one_op_set(&apart, apart.args.in[0], row * 6 + col, x);
        else
            one_op_set(&apart, apart.args.in[1], row * 12 + col - 6, x);
    }
    one_op_train(&packed, false);
    one_op_train(&apart, false);
    assert_memory_equal(packed.args.out, apart.args.out,
                        (size_t)packed.n_out * sizeof(double));
    for (int64_t i = 0; i < packed.n_in[0]; i++) {
        int64_t row = i / 18, col = i % 18;
        double dx = one_op_get(&packed, packed.args.din[0], i);

        assert_true(dx == (col < 6 ? one_op_get(&apart, apart.args.din[0],
                                                row * 6 + col)
                                   : one_op_get(&apart, apart.args.din[1],
                                                row * 12 + col - 6)));
    }
    one_op_release(&packed);
    one_op_release(&apart);
}

static void test_attention_without_keys(void **state)
{
    struct op_spec spec = { .kind = VP_OP_ATTENTION,
                            .batch = 2,
                            .q_len = 3,
                            .cols = 4,
                            .heads = 2,
                            .mask = true };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    one_op_train(&t, false);
    for (int64_t i = 12; i < 24; i++) /* the second sample has no key */
        assert_true(one_op_get(&t, t.args.out, i) == 0);
    for (int64_t i = 36; i < 72; i++)
        assert_true(one_op_get(&t, t.args.din[0], i) == 0);
    for (int64_t i = 6; i < 12; i++)
        assert_true(one_op_get(&t, t.args.aux[0], i) == 0);
    one_op_release(&t);
}

static void test_cross_entropy_values(void **state)
{
    /* Plain, smoothed, with weights: the mean and the number of predictions. */
    static const double loss[3][VP_LOSS_COLS] = {
        { 1.8912576895183504, 3 },
        { 1.8945910229013543, 3 },
        { 1.7676243651488026, 2 },
    };
    static const double rows[] = {
        /* log-sum-exp and loss */
        1.9900808300847905, 0.8600808318729297, 0, 0, 0, 0,
        1.7651678997657803, 2.6751678984246756
    };
    static const int32_t labels[] = { 3, -1, 0, 4 };
    static const int32_t weights[] = { 1, 1, 0, 1 };
    struct op_spec spec = {
        .kind = VP_OP_CROSS_ENTROPY, .batch = 4, .q_len = 1, .cols = 5
    };

    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        struct one_op t;

        spec.smoothing = variant > 0 ? 0.1f : 0.0f;
        spec.weights = variant == 2;
        start_f64(&t, &spec);
        set_pattern(&t, t.args.in[0], t.n_in[0]);
        memcpy((void *)t.args.in[1], labels, sizeof(labels));
        if (variant == 2)
            memcpy((void *)t.args.in[2], weights, sizeof(weights));
        one_op_run(&t, VP_PHASE_F);
        expect(&t, "loss", t.args.out, VP_LOSS_COLS, loss[variant]);
        if (variant == 2)
            expect(&t, "row loss", t.args.aux[0], 8, rows);
        one_op_release(&t);
    }
}

/* Ranks of labels in evaluation: of equal logits the smaller id comes first,
 * and a NaN comes before any label. */
static void test_cross_entropy_ranks(void **state)
{
    static const double logits[8][7] = {
        { 9, 1, 2, 3, 4, 5, 6 },   /* label 0: the first */
        { 1, 9, 9, 0, 0, 0, 0 },   /* label 1: equal to the next */
        { 1, 9, 9, 0, 0, 0, 0 },   /* label 2: equal to the one before */
        { 0, 1, 2, 3, 4, 5, 6 },   /* label 2: four are larger */
        { 0, 1, 2, 3, 4, 5, 6 },   /* label 1: five are larger */
        { 0, 0, 0, 0, 0, 0, 0 },   /* no label */
        { 9, 1, 2, 3, 4, 5, 6 },   /* label 0, but weight 0 */
        { 1, 2, NAN, 0, 0, 0, 0 }, /* label 1: behind a NaN */
    };
    static const int32_t labels[8] = { 0, 1, 2, 2, 1, -1, 0, 1 };
    static const int32_t weights[8] = { 1, 1, 1, 1, 1, 1, 0, 1 };
    static const double ranks[8] = { 0, 0, 1, 4, 5, 0, 0, 1 };
    struct op_spec spec = { .kind = VP_OP_CROSS_ENTROPY,
                            .batch = 8,
                            .q_len = 1,
                            .cols = 7,
                            .weights = true };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    memcpy((void *)t.args.in[0], logits, sizeof(logits));
    memcpy((void *)t.args.in[1], labels, sizeof(labels));
    memcpy((void *)t.args.in[2], weights, sizeof(weights));
    t.mb.train = false;
    one_op_run(&t, VP_PHASE_F);
    for (int i = 0; i < 8; i++)
        assert_true(one_op_get(&t, t.args.aux[0], 2 * i) == ranks[i]);
    assert_true(one_op_get(&t, t.args.out, VP_LOSS_WEIGHT) == 6);
    assert_true(one_op_get(&t, t.args.out, VP_LOSS_TOP1) == 2);
    assert_true(one_op_get(&t, t.args.out, VP_LOSS_TOP5) == 5);
    one_op_release(&t);
}

static void test_cross_entropy_without_labels(void **state)
{
    struct op_spec spec = { .kind = VP_OP_CROSS_ENTROPY,
                            .batch = 2,
                            .q_len = 2,
                            .cols = 3,
                            .smoothing = 0.1f };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    memset((void *)t.args.in[1], 0xFF, 4 * sizeof(int32_t)); /* all -1 */
    one_op_train(&t, false);
    assert_true(one_op_get(&t, t.args.out, 0) == 0);
    for (int64_t i = 0; i < t.n_in[0]; i++)
        assert_true(one_op_get(&t, t.args.din[0], i) == 0);
    one_op_release(&t);
}

/* exp() of the raw numbers would overflow in some rows and underflow in
 * others. */
static void test_large_scores_stay_finite(void **state)
{
    static const struct op_spec specs[] = {
        { .kind = VP_OP_CROSS_ENTROPY, .batch = 3, .q_len = 4, .cols = 9 },
        { .kind = VP_OP_ATTENTION,
          .batch = 1,
          .q_len = 6,
          .cols = 4,
          .heads = 2,
          .causal = true },
    };

    (void)state;
    for (int s = 0; s < 2; s++) {
        struct one_op t;

        one_op_init(&t, &specs[s], &vp_cpu_ref_f32, sizeof(float), SEED, NULL);
        for (int64_t i = 0; i < t.n_in[0]; i++)
            one_op_set(&t, t.args.in[0], i,
                       1000 * one_op_get(&t, t.args.in[0], i) +
                           (i / specs[s].cols % 2 ? 5000 : -5000));
        one_op_train(&t, false);
        for (int64_t i = 0; i < t.n_out; i++)
            assert_true(isfinite(one_op_get(&t, t.args.out, i)));
        for (int64_t i = 0; i < t.n_in[0]; i++)
            assert_true(isfinite(one_op_get(&t, t.args.din[0], i)));
        one_op_release(&t);
    }
}

/* A NaN must reach the loss, where it is detected. */
static void test_nan_is_not_hidden(void **state)
{
    static const struct op_spec specs[] = {
        { "relu", .kind = VP_OP_LINEAR, .batch = 1, .q_len = 2, .cols = 3,
          .n_out = 2, .act = VP_ACT_RELU },
        { "layernorm", .kind = VP_OP_LAYERNORM, .batch = 1, .q_len = 2,
          .cols = 3 },
        { "attention", .kind = VP_OP_ATTENTION, .batch = 1, .q_len = 2,
          .cols = 3, .heads = 1 },
        { "cross entropy", .kind = VP_OP_CROSS_ENTROPY, .batch = 1, .q_len = 2,
          .cols = 3 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(specs); i++) {
        for (int col = 0; col < 3; col++) {
            struct one_op t;

            start_f64(&t, &specs[i]);
            if (specs[i].kind == VP_OP_CROSS_ENTROPY)
                memset((void *)t.args.in[1], 0, 2 * sizeof(int32_t));
            for (int64_t row = 0; row < 2; row++) /* attention: the keys */
                one_op_set(&t, t.args.in[0],
                           specs[i].kind == VP_OP_ATTENTION ? row * 9 + 3 + col
                                                            : row * 3 + col,
                           NAN);
            one_op_run(&t, VP_PHASE_F);
            assert_true(isnan(one_op_get(&t, t.args.out, 0)));
            one_op_release(&t);
        }
    }
}

/* Table row v is [v, v], position p is [100 p, 100 p], type t is [0, 1000 t];
 * token 1 is padding, at the front of one sample and inside the other. */
static void test_embed_values(void **state)
{
    static const int32_t ids[] = { 1, 1, 3, 4, 2, 1, 0, 5 };
    static const int32_t types[] = { 0, 0, 1, 2, 2, 0, 1, 0 };
    static const double padded[] = { 0, 0,    0, 0, 6,   1006, 108, 2108,
                                     4, 2004, 0, 0, 100, 1100, 210, 210 };
    static const double plain[] = { 2, 2,    102, 102, 206, 1206, 308, 2308,
                                    4, 2004, 102, 102, 200, 1200, 310, 310 };
    struct op_spec spec = { .kind = VP_OP_EMBED,
                            .batch = 2,
                            .q_len = 4,
                            .cols = 2,
                            .n_out = 6,
                            .scale = 2.0f,
                            .positions = true,
                            .types = true };

    (void)state;
    for (int pad = 0; pad < 2; pad++) {
        struct one_op t;

        spec.pad = pad;
        start_f64(&t, &spec);
        memcpy((void *)t.args.in[0], ids, sizeof(ids));
        memcpy((void *)t.args.in[1], types, sizeof(types));
        for (int64_t i = 0; i < 6 * 2; i++) {
            one_op_set(&t, t.args.par[0], i, (double)(i / 2));
            one_op_set(&t, t.args.par[1], i, 100.0 * (double)(i / 2));
            if (i < 3 * 2)
                one_op_set(&t, t.args.par[2], i,
                           i % 2 ? 1000.0 * (double)(i / 2) : 0);
        }
        one_op_run(&t, VP_PHASE_F);
        expect(&t, "embedding", t.args.out, 16, pad ? padded : plain);
        one_op_release(&t);
    }
}

/* A gather of row -1 must give zeros: the memory before the input holds NaN. */
static void test_gather_values(void **state)
{
    static const int32_t pick[] = { 2, -1, 0, 2 };
    static const double x[] = { NAN, NAN, 1, 2, 3, 4, 5, 6 };
    static const double want[] = { 5, 6, 0, 0, 1, 2, 5, 6 };
    static const double dout[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const double din[] = { 5, 6, 0, 0, 8, 10, 0, 0 };
    struct op_spec spec = {
        .kind = VP_OP_GATHER, .batch = 1, .q_len = 4, .cols = 2, .n_out = 4
    };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    memcpy((void *)t.args.in[1], pick, sizeof(pick));
    set_all(&t, t.args.in[0], 8, x);
    t.args.in[0] = (const double *)t.args.in[0] + 2;
    set_all(&t, t.args.dout, 8, dout);
    one_op_train(&t, false);
    expect(&t, "gather", t.args.out, 8, want);
    expect(&t, "gather's gradient", t.args.din[0], 8, din);
    one_op_release(&t);
}

/* The reference kernels in double copy integers of four bytes, not of eight. */
static void test_copy_of_integers(void **state)
{
    static const int32_t mask[] = { 1, 0, 7, -1, 5, 6 };
    struct op_spec spec = {
        .kind = VP_OP_COPY, .batch = 2, .q_len = 3, .cols = 1
    };
    struct one_op t;
    const int32_t *out;

    (void)state;
    start_f64(&t, &spec);
    t.plain.values[t.args.op->in[0]].dtype = VP_DTYPE_I32;
    memcpy((void *)t.args.in[0], mask, sizeof(mask));
    one_op_run(&t, VP_PHASE_F);
    out = t.args.out;
    assert_memory_equal(out, mask, sizeof(mask));
    for (int i = 6; i < 12; i++) /* not written */
        assert_int_equal(out[i], -1);
    one_op_release(&t);
}

/* ---- Dropout ------------------------------------------------------------ */

static void set_ones(struct one_op *t, const void *tensor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        one_op_set(t, tensor, i, 1);
}

/* p is quantised to n / 256; the rate must be within five standard
 * deviations. */
static void test_dropout_rate_and_scale(void **state)
{
    static const struct {
        float p;
        int dropped;
    } rates[] = {
        { 0.1f, 26 },
        { 0.5f, 128 },
        { 0.3f, 77 },
        { 0.001f, 0 },
    };

    (void)state;
    for (size_t r = 0; r < VP_COUNT_OF(rates); r++) {
        struct op_spec spec = { .kind = VP_OP_DROPOUT,
                                .batch = 8,
                                .q_len = 32,
                                .cols = 257,
                                .p = rates[r].p };
        double keep = 1 - rates[r].dropped / 256.0, kept = 0, n, sigma;
        struct one_op t;

        start_f64(&t, &spec);
        set_ones(&t, t.args.in[0], t.n_in[0]);
        one_op_run(&t, VP_PHASE_F);
        for (int64_t i = 0; i < t.n_out; i++) {
            double x = one_op_get(&t, t.args.out, i);

            assert_true(x == 0 || fabs(x - 1 / keep) < 1e-6);
            kept += x != 0;
        }
        n = (double)t.n_out;
        sigma = sqrt(n * keep * (1 - keep));
        assert_true(fabs(kept - n * keep) <= 5 * sigma);
        one_op_release(&t);
    }
}

/* Checks every group of elements against note [dropout] of base/rng.h. */
static void test_dropout_follows_the_note(void **state)
{
    struct op_spec spec = {
        .kind = VP_OP_DROPOUT, .batch = 2, .q_len = 5, .cols = 37, .p = 0.3f
    };
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    set_ones(&t, t.args.in[0], t.n_in[0]);
    one_op_run(&t, VP_PHASE_F);
    for (int sample = 0; sample < 2; sample++) {
        for (int row = 0; row < 5; row++) {
            const double *out = (double *)t.args.out + (sample * 5 + row) * 37;

            for (uint32_t group = 0; group < 3; group++) {
                struct vp_rng4 r = vp_rng(77, VP_RNG_DROPOUT, 0, group,
                                          (uint32_t)row,
                                          1000 + (uint64_t)sample);

                for (uint32_t i = 0; i < 16 && group * 16 + i < 37; i++) {
                    uint32_t byte = r.v[i / 4] >> (i % 4 * 8) & 255;

                    assert_int_equal(out[group * 16 + i] == 0, byte < 77);
                }
            }
        }
    }
    one_op_release(&t);
}

/* Scores are equal and value k is the k-th unit vector, so element (q, k) of a
 * head's output is keep(q, k) / Sk. Checks every group against the note. */
static void test_attention_dropout_follows_the_note(void **state)
{
    enum { SQ = 19, SK = 37, HEADS = 2, H = SK * HEADS, SAMPLES = 2 };
    struct op_spec spec = { .kind = VP_OP_ATTENTION,
                            .batch = SAMPLES,
                            .q_len = SQ,
                            .k_len = SK,
                            .cols = H,
                            .heads = HEADS,
                            .p = 0.25f };
    double one = 256.0 / (256 - 64) / SK;
    int seen = 0;
    struct one_op t;

    (void)state;
    start_f64(&t, &spec);
    for (int64_t i = 0; i < t.n_in[0]; i++)
        one_op_set(&t, t.args.in[0], i, 0);
    for (int64_t i = 0; i < t.n_in[1]; i++) /* k [0, H), v [H, 2H) */
        one_op_set(&t, t.args.in[1], i,
                   i % (2 * H) >= H && i % H % SK == i / (2 * H) % SK);
    one_op_run(&t, VP_PHASE_F);

    for (int n = 0; n < SAMPLES * HEADS * 2 * 2 * 8 * 4 * 16; n++) {
        int i = n % 16, c = n / 16 % 4, g = n / 64 % 8, K = n / 512 % 2;
        int Q = n / 1024 % 2, head = n / 2048 % HEADS, sample = n / 4096;
        int a = i / 8, j = i / 2 % 4, b = i % 2;
        int q = 16 * Q + 8 * a + g, k = 32 * K + 8 * j + 2 * c + b;
        struct vp_rng4 r = vp_rng(
            77, VP_RNG_DROPOUT, 0, (uint32_t)(Q * 65536 + K),
            (uint32_t)(head * 256 + g * 4 + c), 1000 + (uint64_t)sample);
        bool drop = (r.v[i / 4] >> (i % 4 * 8) & 255) < 64;

        if (q >= SQ || k >= SK)
            continue;
        seen++;
        assert_true(
            fabs(((double *)t.args.out)[(sample * SQ + q) * H + head * SK + k] -
                 (drop ? 0 : one)) < 1e-8);
    }
    assert_int_equal(seen, SAMPLES * HEADS * SQ * SK);
    one_op_release(&t);
}

/* B drops the elements that F dropped, and evaluation drops none. */
static void test_dropout_backward_and_evaluation(void **state)
{
    struct op_spec spec = {
        .kind = VP_OP_DROPOUT, .batch = 3, .q_len = 7, .cols = 33, .p = 0.4f
    };
    struct one_op t;
    size_t n_bytes;

    (void)state;
    one_op_init(&t, &spec, &vp_cpu_ref_f32, sizeof(float), SEED, NULL);
    n_bytes = (size_t)t.n_out * sizeof(float);
    memcpy((void *)t.args.dout, t.args.in[0], n_bytes);
    one_op_train(&t, false);
    assert_memory_equal(t.args.din[0], t.args.out, n_bytes);
    assert_memory_not_equal(t.args.in[0], t.args.out, n_bytes);
    t.mb.train = false;
    one_op_train(&t, false);
    assert_memory_equal(t.args.in[0], t.args.out, n_bytes);
    assert_memory_equal(t.args.in[0], t.args.din[0], n_bytes);
    one_op_release(&t);
}

static void test_attention_evaluation_drops_nothing(void **state)
{
    struct op_spec spec = {
        .kind = VP_OP_ATTENTION, .batch = 2, .q_len = 9, .cols = 6, .heads = 2
    };
    struct one_op plain, eval;
    size_t n_bytes;

    (void)state;
    start_f64(&plain, &spec);
    spec.p = 0.5f;
    start_f64(&eval, &spec);
    n_bytes = (size_t)plain.n_out * sizeof(double);
    one_op_train(&plain, false);
    one_op_train(&eval, false);
    assert_memory_not_equal(plain.args.out, eval.args.out, n_bytes);
    eval.mb.train = false;
    one_op_train(&eval, false);
    assert_memory_equal(plain.args.out, eval.args.out, n_bytes);
    one_op_release(&plain);
    one_op_release(&eval);
}

/* Sample 1001 of a batch that starts at 1000 and the first one of a batch
 * that starts at 1001 are the same sample: only the row differs. */
static void test_dropout_depends_on_the_sample(void **state)
{
    static const struct op_spec specs[] = {
        { .kind = VP_OP_DROPOUT,
          .batch = 3,
          .q_len = 5,
          .cols = 20,
          .p = 0.5f },
        { .kind = VP_OP_ATTENTION,
          .batch = 3,
          .q_len = 5,
          .cols = 4,
          .heads = 2,
          .p = 0.5f },
    };

    (void)state;
    for (int s = 0; s < 2; s++) {
        struct op_spec single = specs[s];
        struct one_op all, one;
        int64_t n;

        single.batch = 1;
        start_f64(&all, &specs[s]);
        start_f64(&one, &single);
        n = one.n_in[0];
        memcpy((double *)all.args.in[0] + n, one.args.in[0],
               (size_t)n * sizeof(double));
        one.mb.first_sample = 1001;
        one_op_run(&all, VP_PHASE_F);
        one_op_run(&one, VP_PHASE_F);
        assert_memory_equal((double *)all.args.out + one.n_out, one.args.out,
                            (size_t)one.n_out * sizeof(double));
        one.mb.first_sample = 1002;
        one_op_run(&one, VP_PHASE_F);
        assert_memory_not_equal((double *)all.args.out + one.n_out,
                                one.args.out,
                                (size_t)one.n_out * sizeof(double));
        one_op_release(&all);
        one_op_release(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation_values),
        cmocka_unit_test(test_linear_and_layernorm_values),
        cmocka_unit_test(test_attention_values),
        cmocka_unit_test(test_cross_attention_is_self_attention),
        cmocka_unit_test(test_attention_without_keys),
        cmocka_unit_test(test_cross_entropy_values),
        cmocka_unit_test(test_cross_entropy_ranks),
        cmocka_unit_test(test_cross_entropy_without_labels),
        cmocka_unit_test(test_large_scores_stay_finite),
        cmocka_unit_test(test_nan_is_not_hidden),
        cmocka_unit_test(test_embed_values),
        cmocka_unit_test(test_gather_values),
        cmocka_unit_test(test_copy_of_integers),
        cmocka_unit_test(test_dropout_rate_and_scale),
        cmocka_unit_test(test_dropout_follows_the_note),
        cmocka_unit_test(test_attention_dropout_follows_the_note),
        cmocka_unit_test(test_dropout_backward_and_evaluation),
        cmocka_unit_test(test_attention_evaluation_drops_nothing),
        cmocka_unit_test(test_dropout_depends_on_the_sample),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
