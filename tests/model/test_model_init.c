/* Initial weights have known values and distributions, and do not depend on the
 * pieces or the order in which they are made. */
#include "base/rng.h"
#include "lib/tiny_model.h"
#include "model/normal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static vp_par find_param(const struct vp_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_params; i++)
        for (int j = 0; j < graph->params[i].n_parts; j++)
            if (strcmp(graph->params[i].part[j].name, name) == 0)
                return i;
    fail_msg("no parameter %s", name);
    return VP_NONE;
}

/* Returns a new array of *n_out elements with the initial value. */
static float *init_of(const struct vp_graph *graph, vp_par par, uint64_t seed,
                      int64_t *n_out)
{
    int64_t n = graph->params[par].rows * graph->params[par].cols;
    float *w = malloc((size_t)n * sizeof(*w));

    assert_non_null(w);
    memset(w, 0xFF, (size_t)n * sizeof(*w));
    vp_param_init(graph, par, seed, w);
    if (n_out)
        *n_out = n;
    return w;
}

/* Values of an independent program. The key weight is rows 32 to 63. */
static void init_known_values(void **state)
{
    static const struct {
        int64_t i;
        double want;
    } cases[] = {
        { 0, -0.02391050398931376 },   { 1, 0.007060432309404351 },
        { 2, 0.01129291756099075 },    { 3, 0.005967919040777201 },
        { 4, -0.0032324189982360554 }, { 61, -0.013454949391074583 },
    };
    struct vp_model_config c = tiny_config("bert", true);
    struct vp_dims dims = tiny_dims("bert");
    struct vp_graph graph;
    float *w;

    (void)state;
    build_model("bert", &c, &dims, &graph);
    w = init_of(
        &graph,
        find_param(&graph, "bert.encoder.layer.1.attention.self.key.weight"), 7,
        NULL);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        assert_true(fabs(w[32 * 32 + cases[i].i] - cases[i].want) < 2e-9);
    free(w);
    vp_graph_release(&graph);
}

/* The series of note [init], written a second time, for one number. */
static double twin_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent), s, z;

    if (m < 0x1.6A09E667F3BCDp-1) {
        m *= 2.0;
        exponent--;
    }
    s = (m - 1.0) / (m + 1.0);
    z = s * s;
    return exponent * 0.6931471805599453 +
           s * (2.0 +
                z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9)))));
}

static float twin_normal(const struct vp_normal *normal, int64_t i)
{
    int64_t group = i / 4;
    struct vp_rng4 bits = vp_rng(
        normal->seed, VP_RNG_INIT, (uint32_t)normal->name, (uint32_t)group,
        (uint32_t)((uint64_t)group >> 32), normal->name);
    uint32_t length = bits.v[i % 4 / 2 * 2], turn = bits.v[i % 4 / 2 * 2 + 1];
    int64_t quarter = ((int64_t)turn + (1 << 29)) / (1 << 30);
    double x = ((double)(turn - quarter * (1 << 30)) + 0.5) *
               (6.283185307179586 / 4294967296.0);
    double z = x * x;
    double c = 1.0 + z * (-1.0 / 2 +
                          z * (1.0 / 24 +
                               z * (-1.0 / 720 +
                                    z * (1.0 / 40320 + z * (-1.0 / 3628800)))));
    double s = x * (1.0 + z * (-1.0 / 6 +
                               z * (1.0 / 120 +
                                    z * (-1.0 / 5040 + z * (1.0 / 362880)))));
    /* cos and sin of x plus 0 to 4 quarter turns. */
    double cosines[] = { c, -s, -c, s, c }, sines[] = { s, c, -s, -c, s };
    double value = (i % 2 == 0 ? cosines : sines)[quarter];

    return (float)(normal->std *
                   (value * sqrt(-2.0 * twin_log(vp_rng_unit(length)))));
}

/* Every instruction set gives the same bits as the second implementation above,
 * starting at any element. */
static void init_any_range(void **state)
{
    enum { MOST = 400, MANY = 200000 };
    static const int64_t begins[] = { 0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      127,
                                      128,
                                      129,
                                      130,
                                      (INT64_C(1) << 34) - 130,
                                      (INT64_C(1) << 34) + 3 };
    static const int64_t sizes[] = {
        0, 1, 2, 3, 4, 5, 127, 128, 129, 256, 399
    };
    const struct vp_normal normal = { .seed = 0x123456789ABCDEFu,
                                      .name = 0xFEDCBA9876543210u,
                                      .std = 0.02f };
    float *got = malloc(MANY * sizeof(*got));
    int n_isas = 0;

    (void)state;
    assert_non_null(got);
    for (int isa = 0; isa < VP_NORMAL_ISA_COUNT; isa++) {
        if (!vp_normal_fill_by((enum vp_normal_isa)isa, &normal, 0, 0, got))
            continue;
        n_isas++;
        for (size_t i = 0; i < VP_COUNT_OF(begins); i++)
            for (size_t j = 0; j < VP_COUNT_OF(sizes); j++) {
                memset(got, 0xFF, MOST * sizeof(*got));
                vp_normal_fill_by((enum vp_normal_isa)isa, &normal, begins[i],
                                  sizes[j], got);
                for (int64_t k = 0; k < sizes[j]; k++)
                    assert_true(got[k] == twin_normal(&normal, begins[i] + k));
                assert_true(isnan(got[sizes[j]]));
            }
        vp_normal_fill_by((enum vp_normal_isa)isa, &normal, 7, MANY, got);
        for (int64_t k = 0; k < MANY; k++)
            assert_true(got[k] == twin_normal(&normal, 7 + k));
    }
    assert_true(n_isas >= 1);
    free(got);
}

/* A parameter that is made in pieces equals the whole parameter. Covers parts,
 * constants and tables. */
static void init_in_pieces(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "translation" };
    static const int64_t pieces[] = { 1, 7, 64, 1000 };

    (void)state;
    for (size_t m = 0; m < VP_COUNT_OF(models); m++) {
        struct vp_model_config c = tiny_config(models[m], true);
        struct vp_dims dims = tiny_dims(models[m]);
        struct vp_graph graph;

        build_model(models[m], &c, &dims, &graph);
        for (vp_par par = 0; par < graph.n_params; par++) {
            int64_t n;
            float *want = init_of(&graph, par, 5, &n);
            float *got = malloc((size_t)n * sizeof(*got));

            assert_non_null(got);
            for (size_t p = 0; p < VP_COUNT_OF(pieces); p++) {
                memset(got, 0xFF, (size_t)n * sizeof(*got));
                for (int64_t at = 0; at < n; at += pieces[p])
                    vp_param_init_range(&graph, par, 5, at,
                                        n - at < pieces[p] ? n - at : pieces[p],
                                        got + at);
                assert_memory_equal(got, want, (size_t)n * sizeof(*got));
            }
            free(got);
            free(want);
        }
        vp_graph_release(&graph);
    }
}

/* The initial value depends on name and seed only: not on depth, buckets or
 * tying. It differs from every other tensor and seed. */
static void init_by_name(void **state)
{
    static const char *const name =
        "bert.encoder.layer.1.attention.self.query.weight";
    struct vp_model_config c = tiny_config("bert", true);
    struct vp_dims dims = tiny_dims("bert");
    struct vp_graph a, b;
    vp_par in_a;
    float *wa, *wb;
    int64_t n;

    (void)state;
    build_model("bert", &c, &dims, &a);
    c.layers = 3;
    c.tie_embeddings = false;
    dims = (struct vp_dims){ .batch = 1, .seq = 7 };
    build_model("bert", &c, &dims, &b);
    in_a = find_param(&a, name);
    wa = init_of(&a, in_a, 1, &n);
    wb = init_of(&b, find_param(&b, name), 1, NULL);
    assert_int_equal(n, 3 * 32 * 32);
    assert_memory_equal(wa, wb, (size_t)n * sizeof(*wa));
    assert_memory_not_equal(wa, wa + 32 * 32, 32 * 32 * sizeof(*wa));
    free(wb);
    wb = init_of(&a, in_a, 2, NULL);
    assert_memory_not_equal(wa, wb, (size_t)n * sizeof(*wa));
    free(wb);
    wb = init_of(&a, in_a, (uint64_t)1 << 32 | 1, NULL);
    assert_memory_not_equal(wa, wb, (size_t)n * sizeof(*wa));
    free(wb);
    free(wa);
    vp_graph_release(&a);
    vp_graph_release(&b);
}

/* Checks mean, deviation, skewness, kurtosis and tail of a normal distribution,
 * with a tolerance of five standard errors of n samples. */
static void check_normal(const float *w, int64_t n, double std)
{
    double sum[5] = { 0 }, tail = 0, root_n = sqrt((double)n);

    for (int64_t i = 0; i < n; i++) {
        double z = w[i] / std, power = 1.0;

        for (int k = 0; k < 5; k++, power *= z)
            sum[k] += power / (double)n;
        tail += fabs(z) > 2.0;
    }
    assert_true(fabs(sum[1]) < 5.0 / root_n);
    assert_true(fabs(sum[2] - 1.0) < 5.0 * sqrt(2.0) / root_n);
    assert_true(fabs(sum[3]) < 5.0 * sqrt(15.0) / root_n);
    assert_true(fabs(sum[4] - 3.0) < 5.0 * sqrt(96.0) / root_n);
    assert_true(fabs(tail / (double)n - 0.0455003) < 5.0 * 0.21 / root_n);
}

static void init_distributions(void **state)
{
    static const struct {
        const char *model, *name;
        double std; /* -1: all ones, 0: all zeros */
    } cases[] = {
        { "bert", "bert.embeddings.word_embeddings.weight", 0.02 },
        { "bert", "bert.encoder.layer.0.attention.self.value.weight", 0.02 },
        { "bert", "bert.encoder.layer.0.attention.self.value.bias", 0 },
        { "bert", "bert.embeddings.LayerNorm.weight", -1 },
        { "bert", "bert.embeddings.LayerNorm.bias", 0 },
        { "bert", "cls.predictions.bias", 0 },
        { "gpt2", "transformer.wpe.weight", 0.02 },
        { "gpt2", "transformer.h.1.mlp.c_fc.weight", 0.02 },
        { "gpt2", "transformer.h.1.mlp.c_proj.weight", 0.01 },
        { "gpt2", "transformer.h.0.attn.c_proj.weight", 0.01 },
        { "translation", "model.shared.weight", 0.125 },
        { "translation", "model.encoder.layers.1.self_attn.q_proj.weight",
          0.08838834764831845 },
        { "translation", "model.decoder.layers.0.encoder_attn.k_proj.weight",
          0.08838834764831845 },
        { "translation", "model.encoder.layers.1.self_attn.out_proj.weight",
          0.125 },
        { "translation", "model.decoder.layers.0.fc2.weight",
          0.07905694150420949 },
        { "translation", "model.decoder.layers.0.fc1.bias", 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config c = tiny_config(cases[i].model, true);
        struct vp_dims dims = tiny_dims(cases[i].model);
        struct vp_graph graph;
        float *w;
        int64_t n;

        c.hidden = 64;
        c.heads = 4;
        c.ffn = 256;
        c.vocab = 5000;
        c.positions = 1000;
        build_model(cases[i].model, &c, &dims, &graph);
        w = init_of(&graph, find_param(&graph, cases[i].name), 3, &n);
        if (cases[i].std > 0)
            check_normal(w, n, cases[i].std);
        for (int64_t j = 0; j < n && cases[i].std <= 0; j++)
            assert_true(w[j] == (cases[i].std < 0 ? 1.0f : 0.0f));
        free(w);
        vp_graph_release(&graph);
    }
}

/* A tied parameter has the initial value of its owner. */
static void init_tied(void **state)
{
    struct vp_model_config c = tiny_config("translation", true);
    struct vp_dims dims = tiny_dims("translation");
    struct vp_graph graph;
    int n_tied = 0;

    (void)state;
    build_model("translation", &c, &dims, &graph);
    for (int i = 0; i < graph.n_params; i++) {
        float *use, *owner;
        int64_t n;

        if (graph.params[i].tied_to == VP_NONE)
            continue;
        use = init_of(&graph, i, 5, &n);
        owner = init_of(&graph, graph.params[i].tied_to, 5, NULL);
        assert_memory_equal(use, owner, (size_t)n * sizeof(*use));
        free(use);
        free(owner);
        n_tied++;
    }
    assert_int_equal(n_tied, 2);
    vp_graph_release(&graph);
}

/* Row r is position pad + 1 + r; the values are those of fairseq's formula. */
static void init_sinusoids(void **state)
{
    static const float want[2][9] = {
        { 0.9092974f, 0.0926985f, 0.0043089f, 0.0002000f, -0.4161468f,
          0.9956942f, 0.9999907f, 1.0000000f, 0.0f },
        { -0.2794155f, 0.2749093f, 0.0129262f, 0.0006000f, 0.9601703f,
          0.9614702f, 0.9999165f, 0.9999998f, 0.0f },
    };
    static const char *const names[] = {
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    };
    struct vp_model_config c = tiny_config("translation", true);
    struct vp_dims dims = tiny_dims("translation");
    struct vp_graph graph;

    (void)state;
    c.hidden = 9;
    build_model("translation", &c, &dims, &graph);
    for (int side = 0; side < 2; side++) {
        vp_par par = find_param(&graph, names[side]);
        float *w = init_of(&graph, par, 5, NULL);

        assert_true(graph.params[par].constant);
        assert_int_equal(graph.params[par].rows, c.positions);
        for (int i = 0; i < 9; i++) {
            assert_true(fabsf(w[i] - want[0][i]) < 1e-7f);
            assert_true(fabsf(w[4 * 9 + i] - want[1][i]) < 1e-7f);
        }
        free(w);
    }
    vp_graph_release(&graph);

    /* One or two columns are too few for several frequencies. */
    for (c.hidden = 1; c.hidden <= 3; c.hidden++) {
        float *w;
        int64_t n;

        c.heads = 1;
        build_model("translation", &c, &dims, &graph);
        w = init_of(&graph, find_param(&graph, names[0]), 5, &n);
        for (int64_t i = 0; i < n; i++)
            assert_true(fabsf(w[i]) <= 1.0f);
        free(w);
        vp_graph_release(&graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_known_values),  cmocka_unit_test(init_any_range),
        cmocka_unit_test(init_in_pieces),     cmocka_unit_test(init_by_name),
        cmocka_unit_test(init_distributions), cmocka_unit_test(init_tied),
        cmocka_unit_test(init_sinusoids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
