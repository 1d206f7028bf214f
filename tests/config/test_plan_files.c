/* Modules, plans and folders of the original vPipe are read as it meant them;
 * mistakes in JSON are reported with their place, and mutated files are refused
 * or read with values in range. */
#include "base/json.h"
#include "base/strbuf.h"
#include "config/buckets.h"
#include "config/config.h"
#include "config/module.h"
#include "config/placement.h"
#include "config/plan_file.h"
#include "config/resolve.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/mutate_text.h"
#include "lib/plan_filelib.h"
#include "lib/tempfolder.h"
#include "runtime/train_config.h"
#include "sched/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Modules ------------------------------------------------------------ */

static void test_modules(void **state)
{
    static const struct {
        const char *model, *module;
        int layers, hidden, n_blocks;
    } cases[] = {
        { "bert", "vgpus=2", 24, 1024, 49 },
        { "bert", "vgpus=4", 24, 1024, 49 },
        { "bert", "vgpus=8", 48, 1024, 97 },
        { "translation", "vgpus=4", 6, 1024, 33 },
        { "translation", "vgpus=8", 12, 1024, 63 },
        { "cpm", "medium_4", 24, 1024, 50 },
        { "cpm", "medium_8", 24, 1024, 50 },
        { "cpm", "medium_12", 24, 1024, 50 },
        { "cpm", "medium_dp", 24, 1024, 50 },
        { "cpm", "large_4", 32, 2560, 66 },
        { "cpm", "large_8", 32, 2560, 66 },
    };
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;
        char yaml[256];

        snprintf(yaml, sizeof(yaml), "model_type: %s\n'module': '%s'\n",
                 cases[i].model, cases[i].module);
        load_ok(yaml, NULL, &c);
        assert_string_equal(c.module, cases[i].module);
        assert_int_equal(c.sizes.layers, cases[i].layers);
        assert_int_equal(c.sizes.hidden, cases[i].hidden);
        assert_int_equal(c.model->n_blocks(&c.sizes), cases[i].n_blocks);
        vp_config_release(&c);
    }
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        for (int j = 0; vp_module_at(vp_model_find(models[i]), j); j++)
            n++;
    assert_int_equal(n, VP_COUNT_OF(cases));
}

/* Other keys override single sizes of a module, as they do for `size`. */
static void test_module_changed(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(BERT "module: vgpus=8\nhidden: 64\nheads: 4\n", NULL, &c);
    assert_int_equal(c.sizes.layers, 48);
    assert_int_equal(c.sizes.hidden, 64);
    vp_config_release(&c);
    assert_string_equal(
        refused_message(BERT "module: vgpus=8\nlayers: 4\npartition: [5, 5]\n"),
        "a.yml:4: key 'partition' has 10 blocks, but the model has 9; make "
        "them equal, or leave partition out");
    assert_string_equal(refused_message("model_type: cpm\nmodule: medium_2\n"),
                        "a.yml:2: key 'module' must be one of medium_4, "
                        "medium_8, medium_12, medium_dp, large_4, large_8, not "
                        "'medium_2'; write for example 'module: medium_4'");
}

/* ---- Plans -------------------------------------------------------------- */

static void test_plan(void **state)
{
    struct vp_config c;

    (void)state;
    write_text_file("p.json", "{\n  \"partition\": [2, 3, 4],\n"
                              "  \"recompute_ratio\": [1, 0.25, 0]\n}\n");
    load_ok(NINE "'partition': 'p.json'\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_ints(&c.partition, INTS(2, 3, 4));
    assert_reals(&c.recompute_ratio, REALS(1, 0.25, 0));
    assert_string_equal(vp_config_place(&c, "partition"), "p.json:2");
    assert_string_equal(vp_config_place(&c, "recompute_ratio"), "p.json:3");
    vp_config_release(&c);

    /* A key beside the plan must be equal to it, before or after it in the
     * file; --set overrides the plan. */
    load_ok(NINE "recompute_ratio: [1, 0.25, 0]\npartition: p.json\n",
            "stages=3", &c);
    assert_reals(&c.recompute_ratio, REALS(1, 0.25, 0));
    assert_string_equal(vp_config_place(&c, "recompute_ratio"), "a.yml:3");
    vp_config_release(&c);
    assert_string_equal(
        refused_message(NINE "recompute_ratio: 0.5\npartition: p.json\n"),
        "a.yml:3: key 'recompute_ratio' is [0.5], but by key 'recompute_ratio' "
        "of the plan at p.json:3 it is [1, 0.25, 0]; remove one, or make them "
        "equal");
    load_ok(NINE "partition: p.json\n", "partition=[4, 5]", &c);
    assert_ints(&c.partition, INTS(4, 5));
    assert_int_equal(c.recompute_ratio.n, 0);
    vp_config_release(&c);
    load_ok(NINE "partition: [4, 5]\n", "partition=p.json", &c);
    assert_ints(&c.partition, INTS(2, 3, 4));
    vp_config_release(&c);
    load_ok(NINE "partition: p.json\n", "recompute=false", &c);
    assert_reals(&c.recompute_ratio, REALS(0, 0, 0));
    vp_config_release(&c);

    /* The order of keys, spaces and a missing second key make no difference. */
    write_text_file("p.json", "{\"recompute_ratio\":[5e-1,0.0],\t\"partition\":"
                              "[1 ,\n8]}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.partition, INTS(1, 8));
    assert_reals(&c.recompute_ratio, REALS(0.5, 0));
    vp_config_release(&c);
    write_text_file("p.json", "{\"partition\": [9]}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.partition, INTS(9));
    assert_int_equal(c.recompute_ratio.n, 0);
    vp_config_release(&c);
}

/* A plan with all keys: they replace defaults, and keys of the configuration
 * must agree with them. */
static void test_whole_plan(void **state)
{
    static const char plan[] = "{\"partition\": [1, 2, 3, 3],\n"
                               "\"recompute\": [[], [0], [], [], [], [], [], "
                               "[], [1, 2]],\n"
                               "\"schedule\": \"interleaved\",\n"
                               "\"accumulation_steps\": 8,\n"
                               "\"bundle_bytes\": 4096,\n"
                               "\"early_recompute\": false}\n";
    struct vp_train_config train = { .plan.n_stages = 0 };
    struct vp_config c;
    char *text;

    (void)state;
    write_text_file("p.json", plan);
    load_ok(NINE "partition: p.json\n", "stages=2", &c);
    assert_string_equal(vp_generator_at(c.schedule)->name, "interleaved");
    assert_int_equal(c.chunks, 2);
    assert_int_equal(c.accumulation_steps, 8);
    assert_false(c.early_recompute);
    assert_string_equal(vp_config_place(&c, "accumulation_steps"), "p.json:4");
    vp_resolve_train(&c, &train);
    assert_int_equal(train.plan.recompute_sets[1], 1);
    assert_int_equal(train.plan.recompute_sets[8], 6);
    assert_int_equal(train.plan.bundle_bytes, 4096);

    /* The written configuration names the plan and loads to the same values. */
    assert_int_equal(vp_config_write(&c, "b.yml", NULL), VP_OK);
    vp_config_release(&c);
    text = read_plan_text("b.yml");
    assert_non_null(strstr(text, "/p.json\"\n"));
    free(text);
    load_file("b.yml", NULL, &c);
    vp_resolve_train(&c, &train);
    assert_int_equal(train.plan.recompute_sets[8], 6);
    vp_config_release(&c);
    load_ok(NINE "partition: p.json\n", "recompute=false", &c);
    train = (struct vp_train_config){ .plan.n_stages = 0 };
    vp_resolve_train(&c, &train);
    assert_null(train.plan.recompute_sets);
    vp_config_release(&c);

    assert_string_equal(
        refused_message(NINE "partition: p.json\naccumulation_steps: 4\n"),
        "a.yml:4: key 'accumulation_steps' is 4, but by key "
        "'accumulation_steps' of the plan at p.json:4 it is 8; remove one, or "
        "make them equal");
    assert_string_equal(
        refused_message(NINE "partition: p.json\nsync_mode: asp\n"),
        "a.yml:4: key 'sync_mode' is asp, but by key 'schedule' of the plan at "
        "p.json:3 it is bsp; remove one, or make them equal");
    write_text_file("p.json", "{\"partition\": [4, 5],\n\"schedule\": "
                              "\"pipedream\", \"keep_all\": true}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_int_equal(c.sync_mode, VP_SYNC_ASP);
    assert_false(c.recompute);
    vp_config_release(&c);
    write_text_file("p.json",
                    "{\"partition\": [4, 5],\n\"edges\": [\"host\"]}");
    assert_string_equal(refused_message(NINE "partition: p.json\n"),
                        "p.json:2: key 'edges' cannot be read from a plan yet; "
                        "remove it, and choose key 'distributed_backend' of "
                        "the configuration");
}

/* A ratio beside explicit sets would have no effect, so it is refused. */
static void test_sets_and_ratio(void **state)
{
    struct vp_config c;

    (void)state;
    write_text_file("p.json",
                    "{\"partition\": [8, 1],\n\"recompute\": [[1], [], [],"
                    " [], [], [], [], [], []]}\n");
    assert_string_equal(
        refused_message(NINE "partition: p.json\nrecompute_ratio: 0.5\n"),
        "a.yml:4: key 'recompute_ratio' is set, but key 'recompute' at "
        "p.json:2 names what is recomputed; remove one");
    write_text_file("p.json", "{\"partition\": [8, 1],\n\"swap\": [[1], [], [],"
                              " [], [], [], [], [], []]}\n");
    assert_string_equal(
        refused_message(NINE "partition: p.json\nswap_ratio: 0.5\n"),
        "a.yml:4: key 'swap_ratio' is set, but key 'swap' at "
        "p.json:2 names what is swapped; remove one");
    write_text_file("p.json",
                    "{\"partition\": [8, 1],\n\"recompute\": [[1], [], [],"
                    " [], [], [], [], [], []],\n"
                    "\"recompute_ratio\": [0, 0]}\n");
    load_ok(NINE "partition: p.json\nrecompute_ratio: 0\n", NULL, &c);
    assert_int_equal(c.recompute_sets[0], 2);
    vp_config_release(&c);
}

/* Writes p.json, which recomputes all operations of the first `n` blocks. */
static void write_all_sets(const struct vp_config *config, int n)
{
    struct vp_dims dims[VP_MAX_BUCKETS];
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    struct vp_graph graph;

    vp_buckets_make(config, dims);
    if (vp_model_build(config->model, &config->sizes, dims, &graph, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    vp_strbuf_adds(&text, "{\"partition\": [3, 3, 3], \"recompute\": [");
    for (int b = 0; b < graph.n_blocks; b++) {
        vp_strbuf_adds(&text, b > 0 ? ", [" : "[");
        for (int i = 0; b < n && i < graph.blocks[b].n_ops; i++)
            vp_strbuf_addf(&text, i > 0 ? ", %d" : "%d", i);
        vp_strbuf_adds(&text, "]");
    }
    vp_strbuf_adds(&text, "]}");
    write_text_file("p.json", vp_strbuf_text(&text));
    vp_strbuf_release(&text);
    vp_graph_release(&graph);
}

/* The schedule `auto` counts the cost of recomputation from the sets of a plan:
 * it makes the same lists as for ratios with the same meaning. */
static void test_sets_of_auto(void **state)
{
    static const char *const ratios[] = { "recompute_ratio=[1, 0, 0]",
                                          "recompute_ratio=[1, 1, 1]" };
    struct vp_config by_ratio, by_sets, none;

    (void)state;
    load_ok(NINE "schedule: auto\naccumulation_steps: 6\n",
            "partition=[3, 3, 3]", &none);
    for (int i = 0; i < 2; i++) {
        write_text_file("a.yml", NINE "schedule: auto\naccumulation_steps: 6\n"
                                      "partition: [3, 3, 3]\n");
        load_file("a.yml", ratios[i], &by_ratio);
        write_all_sets(&none, i == 0 ? 3 : 9);
        load_ok(NINE "schedule: auto\naccumulation_steps: 6\n",
                "partition=p.json", &by_sets);
        assert_string_equal(by_sets.schedule_text, by_ratio.schedule_text);
        assert_string_not_equal(by_sets.schedule_text, none.schedule_text);
        vp_config_release(&by_sets);
        vp_config_release(&by_ratio);
    }
    vp_config_release(&none);
    write_text_file("p.json",
                    "{\"partition\": [8, 1], \"recompute\": [[63], [], [], "
                    "[], [], [], [], [], []]}");
    assert_non_null(
        strstr(refused_message(NINE "schedule: auto\npartition: p.json\n"),
               "p.json:1: recomputation of block 0: the set "));
}

/* A plan may contain the placement of its stages. */
static void test_placed_plan(void **state)
{
    struct vp_config c;

    (void)state;
    write_text_file("p.json", "{\"partition\": [4, 5],\n"
                              "\"stage_to_rank_map\": {\"0\": [1], "
                              "\"1\": [2, 0]}}\n");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(1, 2));
    assert_ints(&c.ranks, INTS(1, 2, 0));
    assert_string_equal(vp_config_place(&c, "replicas"), "p.json:2");
    vp_config_release(&c);
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                              "\"1\": [1]}}\n");
    assert_string_equal(
        refused_message(NINE "partition: p.json\nconfig_file: m.json\n"),
        "a.yml:4: key 'config_file' names a placement, and the plan at "
        "p.json:2 has one, too; keep one");
    load_ok(NINE "partition: m.json\n", NULL, &c);
    assert_int_equal(c.stages, 2);
    assert_int_equal(c.partition.n, 2);
    vp_config_release(&c);
}

/* Transports of activations and of gradients: local within a process, host
 * memory for MPI and for ranks that share a GPU, otherwise from GPU to GPU. */
static void test_edges(void **state)
{
    struct vp_train_config train = { .plan.n_stages = 0 };
    struct vp_config c;

    (void)state;
    load_ok(NINE "stages: 3\nreplicas: [1, 2, 1]\n", NULL, &c);
    assert_null(c.edges);
    assert_null(c.replica_edges);
    assert_int_equal(c.tie_edge, VP_EDGE_LOCAL);
    vp_config_release(&c);
    load_ok(NINE "stages: 3\nreplicas: [1, 2, 1]\n", "distributed_backend=mpi",
            &c);
    vp_resolve_train(&c, &train);
    for (int s = 0; s < 3; s++)
        assert_int_equal(train.plan.replica_edges[s],
                         s == 1 ? VP_EDGE_HOST : VP_EDGE_LOCAL);
    assert_int_equal(train.plan.edges[1], VP_EDGE_HOST);
    assert_int_equal(train.plan.tie_edge, VP_EDGE_HOST);
    vp_config_release(&c);
    load_ok(NINE "replicas: [2]\ndevice: cuda\n", "distributed_backend=nccl",
            &c);
    assert_null(c.edges);
    assert_int_equal(c.replica_edges[0], VP_EDGE_DEVICE);
    assert_int_equal(c.tie_edge, VP_EDGE_DEVICE);
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nreplicas: [1, 2]\ndevice: cuda\n"
                 "machines: ['a:0', 'b:0', 'b:0']\n",
            "distributed_backend=nccl", &c);
    assert_int_equal(c.edges[0], VP_EDGE_DEVICE);
    assert_int_equal(c.replica_edges[1], VP_EDGE_HOST);
    assert_int_equal(c.tie_edge, VP_EDGE_HOST);
    vp_config_release(&c);
}

/* A member of a tensor-parallel group sends to the member with its number in
 * the next group. */
static void test_edges_of_members(void **state)
{
    static const struct {
        const char *machines;
        enum vp_edge_kind kind;
    } cases[] = {
        { "['a:0', 'a:1', 'b:0', 'b:1']", VP_EDGE_DEVICE },
        { "['a:0', 'a:1', 'a:1', 'a:0']", VP_EDGE_DEVICE },
        { "['a:0', 'a:1', 'a:2', 'a:1']", VP_EDGE_HOST },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;
        char yaml[512];

        snprintf(yaml, sizeof(yaml),
                 NINE "stages: 2\nmp_size: 2\noptimizer: adam\n"
                      "device: cuda\nmachines: %s\n",
                 cases[i].machines);
        load_ok(yaml, "distributed_backend=nccl", &c);
        assert_int_equal(c.edges[0], cases[i].kind);
        assert_int_equal(c.tie_edge, cases[i].kind);
        vp_config_release(&c);
    }
}

/* ---- Paths -------------------------------------------------------------- */

/* The folder tree of the original vPipe: configurations in a folder beside
 * those of models, and the driver is started in their parent. */
static void test_directory(void **state)
{
    static const char yaml[] = BERT "'directory': 'bert'\n"
                                    "'module': 'vgpus=4'\n"
                                    "'partition': 'vgpus=4/p.json'\n"
                                    "'config_file': 'vgpus=4/m.json'\n"
                                    "'log_directory': 'output'\n"
                                    "'data_dir': 'data'\n";
    char *here = getcwd(NULL, 0), path[1024];
    struct vp_config c;

    (void)state;
    assert_int_equal(mkdir("runtime", 0700) | mkdir("runtime/configs", 0700) |
                         mkdir("runtime/bert", 0700) |
                         mkdir("runtime/bert/data", 0700) |
                         mkdir("runtime/bert/vgpus=4", 0700),
                     0);
    write_text_file("runtime/configs/a.yml", yaml);
    write_text_file("runtime/bert/vgpus=4/p.json", "{\"partition\": [24, 25]}");
    write_text_file("runtime/bert/vgpus=4/m.json",
                    "{\"stage_to_rank_map\": {\"0\": [0], \"1\": [1]}}");
    assert_int_equal(chdir("runtime"), 0);
    load_file("configs/a.yml", NULL, &c);
    assert_string_equal(c.directory, "bert");
    assert_string_equal(c.data_dir, "bert/data");
    assert_string_equal(c.log_directory, "bert/output");
    assert_ints(&c.partition, INTS(24, 25));
    assert_ints(&c.replicas, INTS(1, 1));
    vp_config_release(&c);

    /* Paths of --set are relative to the working directory. */
    load_file("configs/a.yml", "log_directory=x", &c);
    assert_string_equal(c.log_directory, "x");
    vp_config_release(&c);
    load_file("configs/a.yml", "data_dir=configs", &c);
    assert_string_equal(c.data_dir, "configs");
    vp_config_release(&c);

    /* From another working directory, `directory` has to be set. */
    assert_int_equal(chdir(here), 0);
    load_file("runtime/configs/a.yml", "directory=runtime/bert", &c);
    assert_string_equal(c.data_dir, "runtime/bert/data");
    vp_config_release(&c);

    /* A folder beside the configuration is found from everywhere, and has
     * priority. */
    assert_int_equal(mkdir("bert", 0700), 0);
    write_text_file("runtime/a.yml", yaml);
    load_file("runtime/a.yml", NULL, &c);
    assert_string_equal(c.directory, "runtime/bert");
    vp_config_release(&c);
    snprintf(path, sizeof(path),
             BERT "directory: %s/runtime\n"
                  "data_dir: bert/data\n",
             here);
    load_ok(path, NULL, &c);
    snprintf(path, sizeof(path), "%s/runtime/bert/data", here);
    assert_string_equal(c.data_dir, path);
    vp_config_release(&c);
    free(here);
}

/* ---- The JSON parser ---------------------------------------------------- */

static void test_json_places(void **state)
{
    static const char text[] = "{\"a\": [1,\n  {\"b\\u00e9\": \"x\"}],\n"
                               " \"c\" : -1.5e3, \"d\":true}";
    struct vp_arena arena = { 0 };
    struct vp_err err = { .text = "" };
    const struct vp_yaml_node *root, *a, *b, *c;

    (void)state;
    if (vp_json_parse("t", text, strlen(text), &arena, &root, &err) != VP_OK)
        fail_msg("%s", err.text);
    a = vp_json_find(root, "a");
    b = a->child->next->child;
    c = vp_json_find(root, "c");
    assert_int_equal(a->kind, VP_YAML_LIST);
    assert_int_equal(a->key_line, 1);
    assert_string_equal(b->key, "b\xC3\xA9");
    assert_int_equal(b->key_line, 2);
    assert_int_equal(b->key_column, 4);
    assert_true(b->quoted);
    assert_string_equal(c->text, "-1.5e3");
    assert_int_equal(c->line, 3);
    assert_false(c->quoted);
    assert_string_equal(vp_json_find(root, "d")->text, "true");
    assert_null(vp_json_find(root, "e"));
    vp_arena_release(&arena);
}

/* YAML that is not JSON, duplicate keys, and other invalid text. */
static void test_json_is_strict(void **state)
{
    static const char *const bad[] = {
        "",
        "a: 1",
        "{a: 1}",
        "{'a': 1}",
        "{\"a\": 1} # comment",
        "{\"a\": 1,}",
        "{\"a\": [1 2]}",
        "{\"a\": 01}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": 0x10}",
        "{\"a\": NaN}",
        "{\"a\": yes}",
        "{\"a\": &x 1}",
        "{\"a\": 1, \"a\": 2}",
        "{\"a\": {\"b\": 1, \"b\": 1}}",
        "{\"a\": 1}{\"b\": 2}",
        "--- {\"a\": 1}",
        "{\"a\": \"\x01\"}",
        "{\"a\": \"\xFF\"}",
        "{\"a\": \"\\n\"}",
        "{\"a\": 1",
        "1",
        "null",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        struct vp_arena arena = { 0 };
        struct vp_err err = { .text = "" };
        const struct vp_yaml_node *root;

        if (vp_json_parse("t", bad[i], strlen(bad[i]), &arena, &root, &err) ==
            VP_OK)
            fail_msg("taken: %s", bad[i]);
        assert_true(strncmp(err.text, "t:", 2) == 0);
        assert_non_null(strstr(err.text, "; "));
        vp_arena_release(&arena);
    }
}

/* ---- Mutated plans and placements --------------------------------------- */

static const char special_to_json[] = "{}[]:,\"0123456789.-eE \n\\tfn";
static const struct text_mutation mutation = {
    .seed = 23,
    .special = special_to_json,
    .n_special = sizeof(special_to_json) - 1,
    .most_edits = 4,
    .most_bytes = 8,
};

/* All numbers that were accepted are in range. */
static void check_lists(const struct vp_config *c)
{
    for (int i = 0; i < c->partition.n; i++)
        assert_in_range(c->partition.at[i], 1, 100000);
    for (int i = 0; i < c->recompute_ratio.n; i++)
        assert_true(c->recompute_ratio.at[i] >= 0.0 &&
                    c->recompute_ratio.at[i] <= 1.0);
    for (int i = 0; i < c->replicas.n; i++)
        assert_in_range(c->replicas.at[i], 1, 1024);
    for (int i = 0; i < c->ranks.n; i++)
        assert_in_range(c->ranks.at[i], 0, c->ranks.n - 1);
    for (int i = 0; i < c->warmup_depths.n; i++)
        assert_in_range(c->warmup_depths.at[i], 0, 1000);
}

static void test_mutations(void **state)
{
    static const char *const seeds[] = {
        "{\"partition\": [12, 13, 13, 11],\n"
        " \"recompute_ratio\": [0.3, 0, 0, 1e-1]}\n",
        "{\"module_to_stage_map\": [0, 1, 2, 2],\n"
        " \"stage_to_rank_map\": {\"0\": [0], \"1\": [1, 3], \"2\": [2]},\n"
        " \"stage_to_depth_map\": {\"0\": 3, \"1\": 1, \"2\": 0},\n"
        " \"mp_size\": 1}\n",
    };
    int n_ok[2] = { 0 };

    (void)state;
    for (uint32_t round = 0; round < 60000; round++) {
        size_t which = round % 2, n = strlen(seeds[which]);
        struct vp_config c = { .mp_size = 1 };
        struct vp_err err = { .text = "" };
        const struct vp_yaml_node *root;
        enum vp_status st;
        char bytes[1024];

        memcpy(bytes, seeds[which], n);
        n = mutate_text(&mutation, round, bytes, n, sizeof(bytes));
        st = vp_json_parse("m.json", bytes, n, &c.arena, &root, &err);
        if (st == VP_OK && which == 0)
            st = vp_plan_file_take("m.json", root, "a.yml:1", &c, &err);
        else if (st == VP_OK)
            st = vp_placement_take("m.json", root, "a.yml:1", &c, &err);
        if (st == VP_OK) {
            n_ok[which]++;
            assert_string_equal(err.text, "");
            check_lists(&c);
        } else {
            assert_non_null(strstr(err.text, "; "));
        }
        vp_config_release(&c);
    }
    assert_true(n_ok[0] > 1000);
    assert_true(n_ok[1] > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_module_changed),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_whole_plan),
        cmocka_unit_test(test_sets_and_ratio),
        cmocka_unit_test(test_sets_of_auto),
        cmocka_unit_test(test_placed_plan),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_edges_of_members),
        cmocka_unit_test(test_directory),
        cmocka_unit_test(test_json_places),
        cmocka_unit_test(test_json_is_strict),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
