/* Both forms of a profile file (rates, measured blocks) are parsed and printed
 * without loss, and each mistake is refused with its place. Equal blocks share
 * a key, and rates give estimates. */
#include "plan/profile.h"

#include "base/file.h"
#include "base/rng.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COARSE VP_SOURCE_DIR "/configs/profiles/rtx_2080ti.json"

static void parse_ok(const char *text, struct vp_arena *arena,
                     struct vp_device_profile *out)
{
    struct vp_err err = { .text = "" };

    if (vp_profile_parse(text, strlen(text), "p.json", arena, out, &err) !=
        VP_OK)
        fail_msg("%s\n%s", err.text, text);
}

static void read_coarse(struct vp_arena *arena, struct vp_device_profile *out)
{
    struct vp_err err;
    size_t n_bytes;
    char *text;

    assert_int_equal(vp_file_read(COARSE, "JSON", &text, &n_bytes, &err),
                     VP_OK);
    parse_ok(text, arena, out);
    free(text);
}

static void build_bert(int64_t layers, struct vp_graph *graph)
{
    const struct vp_model *model = vp_model_find("bert");
    struct vp_model_config config = vp_model_size_find(model, "base")->config;
    struct vp_err err;

    config.layers = layers;
    if (vp_model_build(
            model, &config,
            &(struct vp_dims){ .batch = 4, .seq = 128, .n_labels = 80 }, graph,
            &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Forms of the file -------------------------------------------------- */

static void coarse_form(void **state)
{
    struct vp_arena arena = { NULL };
    struct vp_device_profile p;

    (void)state;
    read_coarse(&arena, &p);
    assert_int_equal(p.n_blocks, 0);
    assert_int_equal(p.memory_bytes, INT64_C(11060000000));
    assert_true(p.rates.flops[0] == 13.45e12);
    assert_true(p.rates.kernel_seconds == 10 * 1e-6);
    assert_int_equal(p.rates.n_efficiency, 5);
    assert_true(p.rates.efficiency[1].share == 0.65);
    assert_true(p.copy_out == 12e9 && p.copy_in == 12e9);
    assert_true(p.copy_out_both == 10e9 && p.copy_in_both == 10e9);
    assert_true(p.same_host.bytes_per_second == 10e9);
    assert_true(p.between_hosts.bytes_per_second == 1.1 * 1e9);
    assert_int_equal(p.n_hosts, 2);
    assert_int_equal(p.hosts[1], 4);
    vp_arena_release(&arena);
}

static uint32_t rand_count;

static double rand_real(void)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 9, rand_count++, 0, 0);

    return (1.0 + r.v[0]) / 4294967296.0;
}

static uint64_t rand_bits(void)
{
    struct vp_rng4 r = vp_rng(6, VP_RNG_TEST, 9, rand_count++, 0, 0);

    return (uint64_t)r.v[0] << 32 | r.v[1];
}

static void random_profile(struct vp_device_profile *p,
                           struct vp_profile_block blocks[3])
{
    memset(p, 0, sizeof(*p));
    p->facts = (struct vp_profile_facts){ "a \"card\"", "535", "1980 MHz",
                                          "abc\\def", "cublas 12" };
    p->precision = VP_DTYPE_BF16;
    p->batch = 8;
    p->memory_bytes = (int64_t)(rand_bits() >> 20);
    for (int i = 0; i < 3; i++)
        p->rates.flops[i] = 1e14 * rand_real();
    p->rates.bytes_per_second = 1e12 * rand_real();
    p->rates.kernel_seconds = 1e-5 * rand_real();
    p->rates.n_efficiency = 2;
    p->rates.efficiency[0].rows = 128;
    p->rates.efficiency[0].share = rand_real();
    p->rates.efficiency[1].rows = 512;
    p->rates.efficiency[1].share = rand_real();
    p->copy_out = 1e11 * rand_real();
    p->copy_in = 1e11 * rand_real();
    p->copy_out_both = 1e11 * rand_real();
    p->copy_in_both = 1e11 * rand_real();
    p->same_host = (struct vp_profile_link){ 1e-5 * rand_real(),
                                             1e11 * rand_real() };
    p->between_hosts = (struct vp_profile_link){ 1e-4 * rand_real(),
                                                 1e10 * rand_real() };
    p->hosts[0] = 2;
    p->n_hosts = 1;
    p->capacity = 1.0 + rand_real();
    for (int i = 0; i < 2; i++)
        p->loads[i] = (struct vp_profile_load){ 2 + 3 * i, p->capacity,
                                                p->capacity + i / 3.0,
                                                p->capacity * 1.7 };
    p->n_loads = 2;
    p->blocks = blocks;
    p->n_blocks = 3;
    for (int b = 0; b < 3; b++) {
        blocks[b] = (struct vp_profile_block){
            .key = { rand_bits(), rand_bits() },
            .name = "block",
            .alone = { rand_real(), rand_real(), rand_real() },
            .beside_copies = { rand_real(), rand_real(), rand_real() },
            .update = rand_real(),
            .n_sets = b + 1,
        };
        for (int i = 0; i <= b; i++)
            blocks[b].sets[i] = (struct vp_profile_set){ rand_bits(),
                                                         rand_real(),
                                                         rand_real() };
    }
}

/* A number may differ in the last bit after it was multiplied by a unit. */
static bool is_same(double a, double b)
{
    return b == a || b == nextafter(a, 0.0) || b == nextafter(a, INFINITY);
}

/* Printing, parsing and printing again gives the same text and the same
 * numbers. */
static void round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct vp_profile_block blocks[3];
        struct vp_arena arena = { NULL };
        struct vp_device_profile p, q;
        char *text, *again;

        random_profile(&p, blocks);
        assert_int_equal(vp_profile_print(&p, &text), VP_OK);
        parse_ok(text, &arena, &q);
        assert_int_equal(vp_profile_print(&q, &again), VP_OK);
        assert_string_equal(text, again);
        assert_true(is_same(p.rates.flops[1], q.rates.flops[1]));
        assert_true(is_same(p.rates.kernel_seconds, q.rates.kernel_seconds));
        assert_true(is_same(p.copy_in_both, q.copy_in_both));
        assert_true(is_same(p.same_host.seconds, q.same_host.seconds));
        assert_string_equal(q.facts.build, "abc\\def");
        assert_int_equal(q.n_loads, 2);
        assert_int_equal(q.loads[1].n_ranks, 5);
        assert_true(q.loads[1].f == p.loads[1].f);
        assert_true(q.loads[1].b == p.loads[1].b);
        assert_true(q.loads[0].update == p.loads[0].update);
        for (int b = 0; b < 3; b++) {
            assert_true(q.blocks[b].key.low == blocks[b].key.low);
            assert_memory_equal(&q.blocks[b].beside_copies,
                                &blocks[b].beside_copies,
                                sizeof(struct vp_block_seconds));
            assert_memory_equal(q.blocks[b].sets, blocks[b].sets,
                                sizeof(blocks[b].sets));
        }
        free(text);
        free(again);
        vp_arena_release(&arena);
    }
}

static bool is_load(struct vp_profile_load load, double f, double b,
                    double update)
{
    return fabs(load.f - f) < 1e-12 && fabs(load.b - b) < 1e-12 &&
           fabs(load.update - update) < 1e-12;
}

static void loads_between_those_measured(void **state)
{
    struct vp_device_profile p = { .n_loads = 0 };

    (void)state;
    assert_true(is_load(vp_profile_load_of(&p, 8), 1.0, 1.0, 1.0));
    p.loads[0] = (struct vp_profile_load){ 3, 1.2, 1.4, 2.0 };
    p.loads[1] = (struct vp_profile_load){ 8, 1.7, 1.4, 3.0 };
    p.n_loads = 2;
    assert_true(is_load(vp_profile_load_of(&p, 1), 1.0, 1.0, 1.0));
    assert_true(is_load(vp_profile_load_of(&p, 2), 1.1, 1.2, 1.5));
    assert_true(is_load(vp_profile_load_of(&p, 3), 1.2, 1.4, 2.0));
    assert_true(is_load(vp_profile_load_of(&p, 5), 1.4, 1.4, 2.4));
    assert_true(is_load(vp_profile_load_of(&p, 8), 1.7, 1.4, 3.0));
    assert_true(is_load(vp_profile_load_of(&p, 64), 1.7, 1.4, 3.0));
    p.loads[0].n_ranks = 1; /* a load that was measured with one rank */
    assert_true(vp_profile_load_of(&p, 1).update == 2.0);
    assert_true(vp_profile_load_of(&p, 8).update == 3.0);
}

/* ---- Refusals ----------------------------------------------------------- */

#define RATES                                         \
    "\"peak_tflops_fp32\": 1, \"copy_gb_per_s\": 2, " \
    "\"links_gb_per_s\": {\"same_host\": 1}"
#define KEY "\"key\": \"0123456789abcdef0123456789abcdef\""
#define FBW "\"f\": 1, \"b\": 1, \"w\": 1"
#define LOAD(ranks, f) \
    "\"ranks\": " #ranks ", \"f\": " #f ", \"b\": 1, \"update\": 1"

static const struct {
    const char *text, *place, *says;
} damaged[] = {
    { "", "p.json:1:", "not JSON" },
    { "[]", "p.json:1:", "a profile is an object" },
    { "{", "p.json:1:", "not JSON" },
    { "{" RATES ",}", "p.json:1:", "not JSON" },
    { "{" RATES ", \"copy_gb_per_s\": 3}", "p.json:1:", "keep one" },
    { "{}", "p.json:1:1: ", "'peak_tflops_fp32'" },
    { "{\"peak_tflops_fp32\": 1}", "p.json:1:1: ", "'copy_gb_per_s'" },
    { "{\"peak_tflops_fp32\": 1, \"copy_gb_per_s\": 2}",
      "p.json:1:1: ", "'same_host'" },
    { "{" RATES ", \"devise\": \"x\"}", "p.json:1: ", "did you mean 'device'" },
    { "{\n\"peak_tflops_fp32\": -1}", "p.json:2:21: ", "peak_tflops_fp32" },
    { "{\n\"peak_tflops_fp32\": \"1\"}", "p.json:2:21: ", "write a number" },
    { "{\n\"peak_tflops_fp32\": 1e30}", "p.json:2:21: ", "write a number" },
    { "{\n\"peak_tflops_fp32\": [1]}", "p.json:2:21: ", "is a list" },
    { "{\n\"copy_gb_per_s\": {}}", "p.json:2:18: ", "is an object" },
    { "{\n\"copy_gb_per_s\": null}", "p.json:2:18: ", "write a number" },
    { "{" RATES ",\n\"capacity\": 4096}", "p.json:2:13: ", "from 0 to 1024" },
    { "{" RATES ",\n\"under_load\": 2}", "p.json:2:15: ", "a list" },
    { "{" RATES ",\n\"under_load\": [{\"ranks\": 2}]}",
      "p.json:2:16: ", "f is missing" },
    { "{" RATES ",\n\"under_load\": [{" LOAD(0, 1) "}]}",
      "p.json:2:26: ", "from 1" },
    { "{" RATES ",\n\"under_load\": [{" LOAD(4, 1) "},\n{" LOAD(4, 1) "}]}",
      "p.json:3:11: ", "from 5" },
    { "{" RATES ",\n\"under_load\": [{" LOAD(4, 0) "}]}",
      "p.json:2:34: ", "above 0" },
    { "{" RATES ",\n\"under_load\": [{" LOAD(4, 1) ", \"w\": 1}]}",
      "p.json:2: ", "unknown key 'w'" },
    { "{" RATES ",\n\"version\": 2}", "p.json:2:12: ", "use a newer one" },
    { "{" RATES ",\n\"version\": 0}", "p.json:2:12: ", "version" },
    { "{" RATES ",\n\"version\": \"1\"}", "p.json:2:12: ", "version" },
    { "{" RATES ",\n\"device\": 3}", "p.json:2:11: ", "write a text" },
    { "{" RATES ",\n\"device\": [\"x\"]}", "p.json:2:11: ", "a list" },
    { "{" RATES ",\n\"precision\": \"fp8\"}", "p.json:2:14: ", "\"bf16\"" },
    { "{" RATES ",\n\"precision\": 32}", "p.json:2:14: ", "precision" },
    { "{" RATES ",\n\"batch_size\": -1}", "p.json:2:15: ", "batch_size" },
    { "{" RATES ",\n\"batch_size\": 1.5}", "p.json:2:15: ", "whole number" },
    { "{" RATES ",\n\"memory_bytes\": \"11G\"}", "p.json:2:17: ", "whole" },
    { "{" RATES ",\n\"made_with\": 1}", "p.json:2: ", "made_with" },
    { "{" RATES ",\n\"made_with\": {\"drive\": \"\"}}",
      "p.json:2: ", "'driver'" },
    { "{" RATES ",\n\"made_with\": {\"driver\": 5}}",
      "p.json:2:25: ", "driver" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": 1}",
      "p.json:2:35: ", "pairs" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": [1]}",
      "p.json:2:36: ", "pairs" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": [[1]]}",
      "p.json:2:36: ", "pairs" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": [[1, 2]]}",
      "p.json:2:40: ", "from 0 to 1" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": [[1, 0]]}",
      "p.json:2:36: ", "above 0" },
    { "{" RATES ",\n\"efficiency_of_products_by_rows\": [[2, 1], [2, 1]]}",
      "p.json:2:44: ", "ascending" },
    { "{" RATES ",\n\"host_link_gb_per_s\": {\"one_way\": 0}}",
      "p.json:2:23: ", "'one_way'" },
    { "{" RATES ",\n\"host_link_gb_per_s\": {\"out\": 5}}",
      "p.json:2:23: ", "each way" },
    { "{" RATES ",\n\"host_link_gb_per_s\": {\"up\": 5}}",
      "p.json:2: ", "unknown key 'up'" },
    { "{" RATES ",\n\"link_microseconds\": {\"same_host\": -1}}",
      "p.json:2:36: ", "same_host" },
    { "{" RATES ",\n\"hosts\": 8}", "p.json:2:10: ", "[4, 4]" },
    { "{" RATES ",\n\"hosts\": [4, 0]}", "p.json:2:14: ", "from 1" },
    { "{" RATES ",\n\"blocks\": {}}", "p.json:2:11: ", "a list" },
    { "{" RATES ",\n\"blocks\": [1]}", "p.json:2: ", "a block is an object" },
    { "{" RATES ",\n\"blocks\": [{" FBW "}]}", "p.json:2:12: ", "'key'" },
    { "{" RATES ",\n\"blocks\": [{\"key\": \"12\"}]}",
      "p.json:2:20: ", "32 hexadecimal digits" },
    { "{" RATES
      ",\n\"blocks\": [{\"key\": \"0123456789ABCDEF0123456789abcdef\"}]}",
      "p.json:2:20: ", "32 hexadecimal digits" },
    { "{" RATES ",\n\"blocks\": [{" KEY ", \"f\": 1, \"b\": 1}]}",
      "p.json:2:12: ", "w is missing" },
    { "{" RATES ",\n\"blocks\": [{" KEY ", \"f\": -1, \"b\": 1, \"w\": 1}]}",
      "p.json:2:61: ", "f is '-1'" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW ",\"u\": 1}]}",
      "p.json:2: ", "unknown key 'u'" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW "},\n{" KEY "," FBW "}]}",
      "p.json:3:1: ", "second block" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW ",\n\"beside_copies\": 1}]}",
      "p.json:3: ", "beside_copies" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW ",\n\"recompute\": {}}]}",
      "p.json:3:14: ", "a list" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW
      ",\n\"recompute\": [{\"seconds\": 1}]}]}",
      "p.json:3:15: ", "'operators'" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW
      ",\n\"recompute\": [{\"operators\": [1]}]}]}",
      "p.json:3:15: ", "'seconds'" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW
      ",\n\"recompute\": [{\"operators\": [], \"seconds\": 1}]}]}",
      "p.json:3:29: ", "[0, 2]" },
    { "{" RATES ",\n\"blocks\": [{" KEY "," FBW
      ",\n\"recompute\": [{\"operators\": [64], \"seconds\": 1}]}]}",
      "p.json:3:30: ", "from 0 to 63" },
};

static void refusals(void **state)
{
    (void)state;
    assert_true(VP_COUNT_OF(damaged) >= 50);
    for (size_t i = 0; i < VP_COUNT_OF(damaged); i++) {
        struct vp_arena arena = { NULL };
        struct vp_err err = { .text = "" };
        struct vp_device_profile p;

        if (vp_profile_parse(damaged[i].text, strlen(damaged[i].text), "p.json",
                             &arena, &p, &err) == VP_OK)
            fail_msg("accepted: %s", damaged[i].text);
        if (strncmp(err.text, damaged[i].place, strlen(damaged[i].place)) !=
                0 ||
            !strstr(err.text, damaged[i].says))
            fail_msg("%s\nfor %s\nwants '%s' and '%s'", err.text,
                     damaged[i].text, damaged[i].place, damaged[i].says);
        vp_arena_release(&arena);
    }
}

/* A file that is cut at any byte is refused with a place. */
static void cut_files(void **state)
{
    struct vp_profile_block blocks[3];
    struct vp_device_profile p;
    char *text;

    (void)state;
    random_profile(&p, blocks);
    assert_int_equal(vp_profile_print(&p, &text), VP_OK);
    for (size_t n = 0; n + 3 < strlen(text); n++) {
        struct vp_arena arena = { NULL };
        struct vp_err err;
        struct vp_device_profile q;

        assert_int_equal(vp_profile_parse(text, n, "p.json", &arena, &q, &err),
                         VP_ERR_INVALID);
        assert_memory_equal(err.text, "p.json:", 7);
        vp_arena_release(&arena);
    }
    free(text);
}

/* ---- Blocks ------------------------------------------------------------- */

static bool same_key(struct vp_block_key a, struct vp_block_key b)
{
    return a.low == b.low && a.high == b.high;
}

/* BERT has the blocks embeddings and attention, ffn, attention, ffn, ...,
 * head. */
static void repeated_blocks(void **state)
{
    struct vp_block_key keys[9], again[5];
    struct vp_graph graph, shallow;

    (void)state;
    build_bert(4, &graph);
    build_bert(2, &shallow);
    assert_int_equal(graph.n_blocks, 9);
    assert_int_equal(vp_profile_keys(&graph, keys), VP_OK);
    assert_int_equal(vp_profile_keys(&shallow, again), VP_OK);
    assert_true(same_key(keys[1], keys[3]) && same_key(keys[3], keys[5]));
    assert_true(same_key(keys[2], keys[4]) && same_key(keys[4], keys[6]));
    assert_false(same_key(keys[1], keys[2]));
    assert_false(same_key(keys[0], keys[2]));
    assert_true(same_key(keys[1], again[1]) && same_key(keys[2], again[2]));
    vp_graph_release(&graph);
    vp_graph_release(&shallow);
}

static void candidates(void **state)
{
    uint64_t sets[VP_PROFILE_MAX_SETS];
    struct vp_graph graph;

    (void)state;
    build_bert(2, &graph);
    /* layernorm, linear, attention, linear, dropout, add */
    assert_int_equal(vp_profile_candidates(&graph, 2, sets), 4);
    assert_int_equal(sets[0], 16 | 1);
    assert_int_equal(sets[1], 16 | 1 | 4);
    assert_int_equal(sets[2], 31);
    assert_int_equal(sets[3], 63);
    /* layernorm, linear with activation, linear, dropout, add */
    assert_int_equal(vp_profile_candidates(&graph, 1, sets), 4);
    assert_int_equal(sets[0], 8 | 1);
    assert_int_equal(sets[1], 8 | 1 | 2);
    assert_int_equal(sets[2], 15);
    assert_int_equal(sets[3], 31);
    vp_graph_release(&graph);
}

static void estimates(void **state)
{
    struct vp_profile_block block;
    struct vp_arena arena = { NULL };
    struct vp_device_profile p;
    struct vp_graph graph;
    double product, norm, peak = 13.45e12 * 0.65; /* efficiency for 512 rows */

    (void)state;
    read_coarse(&arena, &p);
    build_bert(2, &graph);
    vp_profile_estimate(&p, &graph, 1, 2, &block);
    /* Two products of 512 rows; layer norm, dropout and add move 2, 2 and 3
     * tensors, layer norm also 2 floats per row. */
    product = 2.0 * 512 * 768 * 3072;
    norm = (2.0 * 512 * 768 + 2.0 * 512) * 4 / 616e9;
    assert_float_equal(block.alone.f,
                       2 * product / peak + norm + 5.0 * 512 * 768 * 4 / 616e9 +
                           5 * 10e-6,
                       1e-12);
    assert_float_equal(block.alone.w, 2 * product / peak + 2 * 10e-6, 1e-12);
    /* Backward reads no result of the second product and of the dropout, so
     * these take no time in a recompute set. */
    assert_int_equal(block.n_sets, 4);
    assert_float_equal(block.sets[0].seconds, norm + 10e-6, 1e-12);
    assert_float_equal(block.sets[1].seconds, norm + product / peak + 2 * 10e-6,
                       1e-12);
    assert_true(block.sets[2].seconds == block.sets[1].seconds);
    assert_float_equal(block.sets[3].seconds, block.alone.f, 1e-12);
    vp_graph_release(&graph);
    vp_arena_release(&arena);
}

static void names_and_facts(void **state)
{
    const struct vp_block_key keys[] = { { 1, 2 }, { 3, 4 } };
    char a[VP_PROFILE_NAME], b[VP_PROFILE_NAME];
    struct vp_profile_facts today;
    struct vp_device_profile p;

    (void)state;
    vp_profile_synthetic(true, VP_DTYPE_F32, &p);
    today = p.facts;
    vp_profile_name(&p, keys, 2, a);
    assert_int_equal(strlen(a), 32 + 5);
    p.batch = 3;
    vp_profile_name(&p, keys, 2, b);
    assert_string_not_equal(a, b);
    p.batch = 0;
    vp_profile_name(&p, keys, 1, b);
    assert_string_not_equal(a, b);
    assert_null(vp_profile_stale(&p, &today));
    p.facts.driver = "1";
    assert_null(vp_profile_stale(&p, &today));
    today.driver = "2";
    assert_string_equal(vp_profile_stale(&p, &today), "driver");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarse_form),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(refusals),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(repeated_blocks),
        cmocka_unit_test(candidates),
        cmocka_unit_test(estimates),
        cmocka_unit_test(names_and_facts),
        cmocka_unit_test(loads_between_those_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
