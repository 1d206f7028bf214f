/* The original's files: plans, placements, modules, folders; the shipped
 * configurations; every refused one; and that text stays text. */
#include "base/strbuf.h"
#include "config/buckets.h"
#include "config/config.h"
#include "config/json_file.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/module.h"
#include "config/placement.h"
#include "config/plan_file.h"
#include "config/resolve.h"

#include "base/rng.h"
#include "runtime/train_config.h"
#include "sched/schedule.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/configlib.h"

#define BERT "model_type: bert\n"
/* A model of 9 blocks. */
#define NINE BERT "layers: 4\n"

/* ---- Helpers: all files live in one temporary folder -------------------- */

static char temp_folder[] = "/tmp/vpipe_plan_files_XXXXXX";

static int remove_all(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int bad = !dir;

    while (dir && (entry = readdir(dir))) {
        char path[1024];
        struct stat info;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode))
            bad |= remove_all(path);
        else
            bad |= unlink(path) != 0;
    }
    if (dir)
        closedir(dir);
    return bad | (rmdir(folder) != 0);
}

static int enter_temp_folder(void **state)
{
    (void)state;
    return !mkdtemp(temp_folder) || chdir(temp_folder) != 0;
}

static int leave_temp_folder(void **state)
{
    (void)state;
    return chdir("/") | remove_all(temp_folder);
}

static void write_text(const char *path, const char *text)
{
    FILE *file;

    unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65536);

    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, 65535, file), 0, 65534);
    fclose(file);
    return text;
}

static void load_file(const char *path, const char *set, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    if (vp_config_load(path, &set, set ? 1 : 0, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

static void load_ok(const char *yaml, const char *set, struct vp_config *out)
{
    write_text("a.yml", yaml);
    load_file("a.yml", set, out);
}

/* The message of a configuration that is refused. */
static const char *refused(const char *yaml)
{
    static struct vp_err err;
    struct vp_config config;

    err = (struct vp_err){ .text = "" };
    write_text("a.yml", yaml);
    if (vp_config_load("a.yml", NULL, 0, &config, &err) == VP_OK)
        fail_msg("taken:\n%s", yaml);
    vp_config_release(&config);
    return err.text;
}

static uint32_t draw(uint32_t round, uint32_t i, uint32_t n)
{
    return vp_rng_below(vp_rng(23, VP_RNG_TEST, 1, round, i, 0).v[0], n);
}

/* ---- The program -------------------------------------------------------- */

struct outcome {
    int status;
    char out[16384], err[4096];
};

static void read_back(FILE *file, char *text, size_t n_bytes)
{
    size_t n;

    rewind(file);
    n = fread(text, 1, n_bytes - 1, file);
    text[n] = 0;
    fclose(file);
}

/* vpipe with these arguments, NULL at the end. */
static void run(struct outcome *outcome, const char *const *arguments)
{
    char *argv[40] = { (char *)VP_PROGRAM };
    FILE *out = tmpfile(), *err = tmpfile();
    pid_t child;
    int status;

    assert_non_null(out);
    assert_non_null(err);
    for (int i = 0; arguments[i]; i++) {
        assert_true(i < 38);
        argv[i + 1] = (char *)arguments[i];
    }
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDONLY);

        dup2(null, 0);
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        execv(VP_PROGRAM, argv);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_back(out, outcome->out, sizeof(outcome->out));
    read_back(err, outcome->err, sizeof(outcome->err));
}

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

/* Other keys change single numbers of a module, as of a size. */
static void test_module_changed(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(BERT "module: vgpus=8\nhidden: 64\nheads: 4\n", NULL, &c);
    assert_int_equal(c.sizes.layers, 48);
    assert_int_equal(c.sizes.hidden, 64);
    vp_config_release(&c);
    assert_string_equal(
        refused(BERT "module: vgpus=8\nlayers: 4\npartition: [5, 5]\n"),
        "a.yml:4: key 'partition' has 10 blocks, but the model has 9; make "
        "them equal, or leave partition out");
    assert_string_equal(refused("model_type: cpm\nmodule: medium_2\n"),
                        "a.yml:2: key 'module' must be one of medium_4, "
                        "medium_8, medium_12, medium_dp, large_4, large_8, not "
                        "'medium_2'; write for example 'module: medium_4'");
}

/* ---- Plans -------------------------------------------------------------- */

static void test_plan(void **state)
{
    struct vp_config c;

    (void)state;
    write_text("p.json", "{\n  \"partition\": [2, 3, 4],\n"
                         "  \"recompute_ratio\": [1, 0.25, 0]\n}\n");
    load_ok(NINE "'partition': 'p.json'\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_ints(&c.partition, INTS(2, 3, 4));
    assert_reals(&c.recompute_ratio, REALS(1, 0.25, 0));
    assert_string_equal(vp_config_place(&c, "partition"), "p.json:2");
    assert_string_equal(vp_config_place(&c, "recompute_ratio"), "p.json:3");
    vp_config_release(&c);

    /* A key must say the same, before or after the file. */
    load_ok(NINE "recompute_ratio: [1, 0.25, 0]\npartition: p.json\n",
            "stages=3", &c);
    assert_reals(&c.recompute_ratio, REALS(1, 0.25, 0));
    assert_string_equal(vp_config_place(&c, "recompute_ratio"), "a.yml:3");
    vp_config_release(&c);
    assert_string_equal(
        refused(NINE "recompute_ratio: 0.5\npartition: p.json\n"),
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

    /* Order, spaces and a missing second key are all the same. */
    write_text("p.json", "{\"recompute_ratio\":[5e-1,0.0],\t\"partition\":"
                         "[1 ,\n8]}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.partition, INTS(1, 8));
    assert_reals(&c.recompute_ratio, REALS(0.5, 0));
    vp_config_release(&c);
    write_text("p.json", "{\"partition\": [9]}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.partition, INTS(9));
    assert_int_equal(c.recompute_ratio.n, 0);
    vp_config_release(&c);
}

/* A whole plan: its keys replace defaults, and others must agree. */
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
    write_text("p.json", plan);
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

    /* The resolved configuration names the file, and loads to the same. */
    assert_int_equal(vp_config_write(&c, "b.yml", NULL), VP_OK);
    vp_config_release(&c);
    text = read_text("b.yml");
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
        refused(NINE "partition: p.json\naccumulation_steps: 4\n"),
        "a.yml:4: key 'accumulation_steps' is 4, but by key "
        "'accumulation_steps' of the plan at p.json:4 it is 8; remove one, or "
        "make them equal");
    assert_string_equal(
        refused(NINE "partition: p.json\nsync_mode: asp\n"),
        "a.yml:4: key 'sync_mode' is asp, but by key 'schedule' of the plan at "
        "p.json:3 it is bsp; remove one, or make them equal");
    write_text("p.json", "{\"partition\": [4, 5],\n\"schedule\": "
                         "\"pipedream\", \"keep_all\": true}");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_int_equal(c.sync_mode, VP_SYNC_ASP);
    assert_false(c.recompute);
    vp_config_release(&c);
    write_text("p.json", "{\"partition\": [4, 5],\n\"edges\": [\"host\"]}");
    assert_string_equal(refused(NINE "partition: p.json\n"),
                        "p.json:2: key 'edges' cannot be read from a plan yet; "
                        "remove it, and choose key 'distributed_backend' of "
                        "the configuration");
}

/* A ratio beside sets would have no effect. */
static void test_sets_and_ratio(void **state)
{
    struct vp_config c;

    (void)state;
    write_text("p.json", "{\"partition\": [8, 1],\n\"recompute\": [[1], [], [],"
                         " [], [], [], [], [], []]}\n");
    assert_string_equal(
        refused(NINE "partition: p.json\nrecompute_ratio: 0.5\n"),
        "a.yml:4: key 'recompute_ratio' is set, but key 'recompute' at "
        "p.json:2 names what is recomputed; remove one");
    write_text("p.json", "{\"partition\": [8, 1],\n\"swap\": [[1], [], [],"
                         " [], [], [], [], [], []]}\n");
    assert_string_equal(refused(NINE "partition: p.json\nswap_ratio: 0.5\n"),
                        "a.yml:4: key 'swap_ratio' is set, but key 'swap' at "
                        "p.json:2 names what is swapped; remove one");
    write_text("p.json", "{\"partition\": [8, 1],\n\"recompute\": [[1], [], [],"
                         " [], [], [], [], [], []],\n"
                         "\"recompute_ratio\": [0, 0]}\n");
    load_ok(NINE "partition: p.json\nrecompute_ratio: 0\n", NULL, &c);
    assert_int_equal(c.recompute_sets[0], 2);
    vp_config_release(&c);
}

/* Writes p.json, which recomputes everything in the first `n` blocks. */
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
    write_text("p.json", vp_strbuf_text(&text));
    vp_strbuf_release(&text);
    vp_graph_release(&graph);
}

/* Schedule auto is made for the costs of what sets of a plan recompute: the same
 * lists as for ratios that mean the same. */
static void test_sets_of_auto(void **state)
{
    static const char *const ratios[] = { "recompute_ratio=[1, 0, 0]",
                                          "recompute_ratio=[1, 1, 1]" };
    struct vp_config by_ratio, by_sets, none;

    (void)state;
    load_ok(NINE "schedule: auto\naccumulation_steps: 6\n",
            "partition=[3, 3, 3]", &none);
    for (int i = 0; i < 2; i++) {
        write_text("a.yml", NINE "schedule: auto\naccumulation_steps: 6\n"
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
    write_text("p.json",
               "{\"partition\": [8, 1], \"recompute\": [[63], [], [], "
               "[], [], [], [], [], []]}");
    assert_non_null(strstr(refused(NINE "schedule: auto\npartition: p.json\n"),
                           "p.json:1: recomputation of block 0: the set "));
}

/* A placement inside a plan. */
static void test_placed_plan(void **state)
{
    struct vp_config c;

    (void)state;
    write_text("p.json", "{\"partition\": [4, 5],\n"
                         "\"stage_to_rank_map\": {\"0\": [1], "
                         "\"1\": [2, 0]}}\n");
    load_ok(NINE "partition: p.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(1, 2));
    assert_ints(&c.ranks, INTS(1, 2, 0));
    assert_string_equal(vp_config_place(&c, "replicas"), "p.json:2");
    vp_config_release(&c);
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                         "\"1\": [1]}}\n");
    assert_string_equal(
        refused(NINE "partition: p.json\nconfig_file: m.json\n"),
        "a.yml:4: key 'config_file' names a placement, and the plan at "
        "p.json:2 has one, too; keep one");
    load_ok(NINE "partition: m.json\n", NULL, &c);
    assert_int_equal(c.stages, 2);
    assert_int_equal(c.partition.n, 2);
    vp_config_release(&c);
}

/* Transports of messages and of gradients: none within a process, the host's
 * memory for MPI and for ranks that share a GPU, else from GPU to GPU. */
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

/* ---- Placements --------------------------------------------------------- */

static void test_placement(void **state)
{
    struct vp_config c;

    (void)state;
    write_text("m.json", "{\n"
                         "  \"module_to_stage_map\": [0, 1, 2, 2],\n"
                         "  \"stage_to_rank_map\": {\"0\": [0], \"1\": [1],\n"
                         "                        \"2\": [2, 3]},\n"
                         "  \"mp_size\": 1\n"
                         "}\n");
    load_ok(NINE "partition: [3, 3, 3]\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(1, 1, 2));
    assert_int_equal(vp_config_n_ranks(&c), 4);
    assert_int_equal(c.ranks.n, 0);
    assert_int_equal(c.warmup_depths.n, 0);
    assert_string_equal(vp_config_place(&c, "replicas"), "m.json:3");
    assert_string_equal(vp_config_written(&c, "replicas"), "stage_to_rank_map");
    vp_config_release(&c);

    /* The stages alone are enough; blocks are then cut by work. */
    load_ok(NINE "config_file: m.json\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.partition.n, 3);
    vp_config_release(&c);

    /* A key wins over the file, and the file is then not asked. */
    load_ok(NINE "config_file: m.json\nstages: 2\nreplicas: [2, 1]\n", NULL,
            &c);
    assert_ints(&c.replicas, INTS(2, 1));
    vp_config_release(&c);

    /* Stages in any order; ranks too, and their numbers are kept. */
    write_text("m.json", "{\"stage_to_rank_map\": {\"1\": [3], \"0\": [2, 0],"
                         "\"2\": [1]}, \"stage_to_depth_map\": {\"2\": 0,"
                         "\"0\": 2, \"1\": 2}}");
    load_ok(NINE "sync_mode: asp\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.replicas, INTS(2, 1, 1));
    assert_ints(&c.ranks, INTS(2, 0, 3, 1));
    assert_int_equal(vp_config_rank_number(&c, 2), 3);
    assert_ints(&c.warmup_depths, INTS(2, 2, 0));
    assert_string_equal(vp_config_written(&c, "warmup_depths"),
                        "stage_to_depth_map");
    vp_config_release(&c);
    load_ok(NINE "sync_mode: asp\nconfig_file: m.json\n"
                 "replicas: [1, 1, 1]\nwarmup_depths: [3, 1, 0]\n",
            NULL, &c);
    assert_int_equal(c.ranks.n, 0);
    assert_ints(&c.warmup_depths, INTS(3, 1, 0));
    vp_config_release(&c);

    /* Alone on their stages, ranks may own several. */
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [0], \"1\": [1]}}");
    load_ok(NINE "schedule: interleaved\nconfig_file: m.json\n", NULL, &c);
    assert_int_equal(vp_config_n_stages(&c), 4);
    vp_config_release(&c);
}

/* As many stages as a schedule may have, and one more. */
static void test_placement_limit(void **state)
{
    static const char yaml[] = BERT "layers: 48\nconfig_file: m.json\n";
    struct vp_config c;

    (void)state;
    for (int n = 64; n <= 65; n++) {
        FILE *file = fopen("m.json", "w");

        assert_non_null(file);
        for (int s = 0; s < n; s++)
            fprintf(file, "%s\"%d\": [%d]",
                    s ? ", " : "{\"stage_to_rank_map\": {", s, s);
        fprintf(file, "}}\n");
        assert_int_equal(fclose(file), 0);
        if (n == 64) {
            load_ok(yaml, NULL, &c);
            assert_int_equal(vp_config_n_ranks(&c), 64);
            vp_config_release(&c);
        } else {
            assert_string_equal(refused(yaml),
                                "m.json:1: key 'stage_to_rank_map': 65 stages "
                                "are too many; use at most 64");
        }
    }
}

/* Modules that are blocks tell the partition. */
static void test_modules_are_blocks(void **state)
{
    static const char *const maps[] = { "[0, 0, 0, 0, 1, 1, 1, 2, 2]",
                                        "[0, 0, 0, 0, 1, 1, 1, 2, 2, 2]" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(maps); i++) {
        struct vp_config c;
        char json[256];

        snprintf(json, sizeof(json),
                 "{\"module_to_stage_map\": %s, \"stage_to_rank_map\": "
                 "{\"0\": [0], \"1\": [1], \"2\": [2]}}",
                 maps[i]);
        write_text("m.json", json);
        load_ok(NINE "config_file: m.json\n", NULL, &c);
        assert_ints(&c.partition, INTS(4, 3, 2));
        vp_config_release(&c);
        load_ok(NINE "config_file: m.json\npartition: [4, 3, 2]\n", NULL, &c);
        vp_config_release(&c);
        assert_string_equal(
            refused(NINE "config_file: m.json\npartition: [4, 2, 3]\n"),
            "m.json:1: key 'module_to_stage_map' has 3 blocks on stage 1, but "
            "partition at a.yml:4 has 2; make them agree");
    }
}

/* A random placement: stage s has ranks[first[s] .. first[s + 1]). */
struct sample {
    int n_stages, n_ranks;
    int replicas[8], first[9], ranks[24];
    int order[8]; /* in which stages are written */
};

static void shuffle(int *list, int n, uint32_t round, uint32_t key)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw(round, key + (uint32_t)i, (uint32_t)i + 1);
        int kept = list[i];

        list[i] = list[j];
        list[j] = kept;
    }
}

static void draw_sample(struct sample *sample, uint32_t round)
{
    *sample = (struct sample){ .n_stages = 1 + (int)draw(round, 0, 8) };
    for (int s = 0; s < sample->n_stages; s++) {
        sample->replicas[s] = 1 + (int)draw(round, 10 + (uint32_t)s, 3);
        sample->first[s + 1] = sample->first[s] + sample->replicas[s];
        sample->order[s] = s;
    }
    sample->n_ranks = sample->first[sample->n_stages];
    for (int i = 0; i < sample->n_ranks; i++)
        sample->ranks[i] = i;
    if (round % 3 != 0)
        shuffle(sample->ranks, sample->n_ranks, round, 100);
    shuffle(sample->order, sample->n_stages, round, 200);
}

static void write_sample(const struct sample *sample)
{
    FILE *file = fopen("m.json", "w");

    assert_non_null(file);
    fprintf(file, "{\"stage_to_rank_map\": {");
    for (int k = 0; k < sample->n_stages; k++) {
        int s = sample->order[k];

        fprintf(file, "%s\"%d\": [", k ? ", " : "", s);
        for (int i = sample->first[s]; i < sample->first[s + 1]; i++)
            fprintf(file, "%s%d", i > sample->first[s] ? "," : "",
                    sample->ranks[i]);
        fprintf(file, "]");
    }
    fprintf(file, "}}\n");
    assert_int_equal(fclose(file), 0);
}

/* What is read is what was meant, and one wrong rank is always found. */
static void test_placement_sweep(void **state)
{
    static const char yaml[] = BERT "layers: 8\nconfig_file: m.json\n";

    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct sample sample;
        struct vp_config c;

        draw_sample(&sample, round);
        write_sample(&sample);
        load_ok(yaml, NULL, &c);
        assert_int_equal(c.stages, sample.n_stages);
        assert_ints(&c.replicas, sample.n_stages, sample.replicas);
        assert_int_equal(vp_config_n_ranks(&c), sample.n_ranks);
        for (int i = 0; i < sample.n_ranks; i++)
            assert_int_equal(vp_config_rank_number(&c, i), sample.ranks[i]);
        vp_config_release(&c);

        /* There already, or beyond the last. */
        sample.ranks[draw(round, 99, (uint32_t)sample.n_ranks)]++;
        write_sample(&sample);
        assert_non_null(strstr(refused(yaml), "m.json:1: rank "));
    }
}

/* ---- Paths -------------------------------------------------------------- */

/* The original's tree: configurations beside the folders of models, and the
 * driver started in their parent. */
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
    write_text("runtime/configs/a.yml", yaml);
    write_text("runtime/bert/vgpus=4/p.json", "{\"partition\": [24, 25]}");
    write_text("runtime/bert/vgpus=4/m.json",
               "{\"stage_to_rank_map\": {\"0\": [0], \"1\": [1]}}");
    assert_int_equal(chdir("runtime"), 0);
    load_file("configs/a.yml", NULL, &c);
    assert_string_equal(c.directory, "bert");
    assert_string_equal(c.data_dir, "bert/data");
    assert_string_equal(c.log_directory, "bert/output");
    assert_ints(&c.partition, INTS(24, 25));
    assert_ints(&c.replicas, INTS(1, 1));
    vp_config_release(&c);

    /* What --set says starts where the user is. */
    load_file("configs/a.yml", "log_directory=x", &c);
    assert_string_equal(c.log_directory, "x");
    vp_config_release(&c);
    load_file("configs/a.yml", "data_dir=configs", &c);
    assert_string_equal(c.data_dir, "configs");
    vp_config_release(&c);

    /* From another folder it has to be named. */
    assert_int_equal(chdir(here), 0);
    load_file("runtime/configs/a.yml", "directory=runtime/bert", &c);
    assert_string_equal(c.data_dir, "runtime/bert/data");
    vp_config_release(&c);

    /* Beside the file it is found from everywhere, and first. */
    assert_int_equal(mkdir("bert", 0700), 0);
    write_text("runtime/a.yml", yaml);
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

/* ---- Shipped files ------------------------------------------------------ */

#define CONFIGS VP_SOURCE_DIR "/configs"

/* Every file: blocks, stages, ranks, and one rank's warm-up per stage. */
static const struct {
    const char *name;
    int n_blocks, n_stages, n_ranks;
    enum vp_sync_mode sync;
} shipped[] = {
    { "bert_2gpipe", 49, 2, 2, VP_SYNC_BSP },
    { "bert_4vpipe", 49, 4, 4, VP_SYNC_ASP },
    { "bert_4gpipe", 49, 4, 4, VP_SYNC_BSP },
    { "bert_4pipedream", 49, 4, 4, VP_SYNC_ASP },
    { "bert_8vpipe", 97, 8, 8, VP_SYNC_ASP },
    { "bert_8gpipe", 97, 8, 8, VP_SYNC_BSP },
    { "bert_8pipedream", 97, 8, 8, VP_SYNC_ASP },
    { "transformer_4vpipe", 33, 4, 4, VP_SYNC_ASP },
    { "transformer_4gpipe", 33, 4, 4, VP_SYNC_BSP },
    { "transformer_4pipedream", 33, 4, 4, VP_SYNC_ASP },
    { "transformer_8vpipe", 63, 8, 8, VP_SYNC_ASP },
    { "transformer_8gpipe", 63, 8, 8, VP_SYNC_BSP },
    { "transformer_8pipedream", 63, 8, 8, VP_SYNC_ASP },
    { "cpm_medium_4vpipe", 50, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_4gpipe", 50, 4, 4, VP_SYNC_BSP },
    { "cpm_medium_4pipedream", 50, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_8vpipe", 50, 8, 8, VP_SYNC_ASP },
    { "cpm_medium_12vpipe", 50, 12, 12, VP_SYNC_ASP },
    { "cpm_medium_dp", 50, 3, 4, VP_SYNC_BSP },
    { "cpm_large_4vpipe", 66, 4, 4, VP_SYNC_ASP },
    { "cpm_large_4gpipe", 66, 4, 4, VP_SYNC_BSP },
    { "cpm_large_4pipedream", 66, 4, 4, VP_SYNC_ASP },
    { "cpm_large_8vpipe", 66, 8, 8, VP_SYNC_ASP },
    { "cpm_large_8gpipe", 66, 8, 8, VP_SYNC_BSP },
    { "cpm_large_4mp", 66, 4, 16, VP_SYNC_ASP },
    { "cpm_large_8mp", 66, 8, 32, VP_SYNC_ASP },
    { "cpm_large_4mp_tiny", 10, 4, 16, VP_SYNC_ASP },
    { "cpm_large_8mp_tiny", 18, 8, 32, VP_SYNC_ASP },
    { "bert_tiny", 9, 4, 4, VP_SYNC_ASP },
    { "bert_one", 9, 1, 1, VP_SYNC_BSP },
    { "bert_4gpipe_tiny", 9, 4, 4, VP_SYNC_BSP },
    { "bert_4pipedream_tiny", 9, 4, 4, VP_SYNC_ASP },
    { "bert_2gpipe_tiny", 9, 2, 2, VP_SYNC_BSP },
    { "bert_8vpipe_tiny", 17, 8, 8, VP_SYNC_ASP },
    { "bert_8gpipe_tiny", 17, 8, 8, VP_SYNC_BSP },
    { "bert_8pipedream_tiny", 17, 8, 8, VP_SYNC_ASP },
    { "transformer_4vpipe_tiny", 13, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_4vpipe_tiny", 10, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_dp_tiny", 10, 3, 4, VP_SYNC_BSP },
    { "gpt2_tiny", 6, 1, 1, VP_SYNC_BSP },
    { "translation_tiny", 13, 1, 1, VP_SYNC_BSP },
};

static void test_shipped(void **state)
{
    DIR *dir = opendir(CONFIGS);
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(shipped); i++) {
        struct vp_config c;
        char path[512];

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", shipped[i].name);
        load_file(path, "synthetic_data=true", &c);
        assert_int_equal(c.model->n_blocks(&c.sizes), shipped[i].n_blocks);
        assert_int_equal(vp_config_n_stages(&c), shipped[i].n_stages);
        assert_int_equal(vp_config_n_ranks(&c), shipped[i].n_ranks);
        assert_int_equal(c.sync_mode, shipped[i].sync);
        vp_config_release(&c);
    }
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strstr(entry->d_name, ".yml") != NULL;
    closedir(dir);
    assert_int_equal(n, VP_COUNT_OF(shipped));
}

/* The six files of the original, value by value. */
static void test_original(void **state)
{
    static const struct {
        const char *name;
        int batch, n;
        int partition[8];
        double ratio[8];
    } cases[] = {
        { "bert_4vpipe", 16, 4, { 12, 13, 13, 11 }, { 0.3 } },
        { "bert_4gpipe", 16, 4, { 13, 13, 13, 10 }, { 1, 1, 1, 1 } },
        { "bert_4pipedream", 8, 4, { 13, 13, 13, 10 }, { 0 } },
        { "bert_8vpipe",
          16,
          8,
          { 11, 11, 12, 12, 13, 13, 14, 11 },
          { 1, 0.85, 0.8, 0.6, 0.5, 0.2, 0, 0 } },
        { "bert_8gpipe",
          16,
          8,
          { 12, 12, 13, 13, 13, 13, 12, 9 },
          { 1, 1, 1, 1, 1, 1, 1, 1 } },
        { "bert_8pipedream", 4, 8, { 11, 12, 13, 13, 13, 13, 12, 10 }, { 0 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;
        char path[512];

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", cases[i].name);
        load_file(path, "synthetic_data=true", &c);
        assert_int_equal(c.batch_size, cases[i].batch);
        assert_ints(&c.partition, cases[i].n, cases[i].partition);
        assert_reals(&c.recompute_ratio, cases[i].n, cases[i].ratio);
        assert_true(c.lr.base == 0.05f);
        assert_int_equal(c.lr.policy, VP_LR_POLYNOMIAL);
        assert_int_equal(c.optim.kind, VP_OPTIM_LAMB);
        assert_true(c.optim.weight_decay == 0.0f);
        assert_int_equal(c.epochs, 40);
        assert_int_equal(c.print_frequency, 100);
        assert_int_equal(c.verbose_frequency, 0);
        assert_int_equal(c.distributed_backend, VP_TRANSPORT_GLOO);
        assert_string_equal(c.container, "bert");
        assert_int_equal(c.machines.n, cases[i].n);
        assert_string_equal(c.machines.at[0].host,
                            cases[i].n == 8 ? "heming-g5" : "localhost");
        assert_string_equal(c.machines.at[cases[i].n - 1].host, "localhost");
        assert_int_equal(c.machines.at[cases[i].n - 1].device, 3);
        assert_int_equal(c.sizes.tie_embeddings, c.sync_mode == VP_SYNC_BSP);
        assert_int_equal(c.accumulation_steps,
                         c.sync_mode == VP_SYNC_BSP ? 32 : 1);
        assert_string_equal(strrchr(c.log_directory, '/'), "/output");
        assert_string_equal(strrchr(c.data_dir, '/'), "/bookscorpus");
        assert_int_equal(vp_config_is_distributed(&c), cases[i].n == 8);
        assert_int_equal(c.n_notices, cases[i].n == 8 ? 0 : 1);
        vp_config_release(&c);
    }
}

/* What --dry-run says of them: stage, rank, blocks, warm-up depth, slots,
 * weight versions, recomputed lines of all lines. */
struct table_row {
    const char *blocks;
    int depth, versions;
    const char *lines;
};

static void check_row(const char *text, int stage, const struct table_row *want)
{
    char start[64], blocks[16], lines[16];
    int s, rank, depth, slots, versions;
    const char *line;

    snprintf(start, sizeof(start), "\n%5d  %5d  ", stage, stage);
    line = strstr(text, start);
    assert_non_null(line);
    /* parameters and memory are numbers with units: 79.8M 4.25 GB */
    assert_int_equal(sscanf(line, "%d %d %15s %*s %*s %*s %d %d %d %15s", &s,
                            &rank, blocks, &depth, &slots, &versions, lines),
                     7);
    assert_string_equal(blocks, want->blocks);
    assert_int_equal(depth, want->depth);
    assert_int_equal(slots, want->depth + 1);
    assert_int_equal(versions, want->versions);
    assert_string_equal(lines, want->lines);
}

static const struct {
    const char *name, *blocks;
    struct table_row rows[8];
} dry_runs[] = {
    { "bert_4vpipe",
      "49 blocks, 366M parameters",
      { { "0-11", 3, 4, "18/60" },
        { "12-24", 2, 3, "-" },
        { "25-37", 1, 2, "-" },
        { "38-48", 0, 1, "-" } } },
    { "bert_4gpipe",
      "49 blocks",
      { { "0-12", 3, 1, "65/65" },
        { "13-25", 2, 1, "65/65" },
        { "26-38", 1, 1, "65/65" },
        { "39-48", 0, 1, "50/50" } } },
    { "bert_4pipedream",
      "49 blocks, 366M parameters",
      { { "0-12", 3, 4, "-" },
        { "13-25", 2, 3, "-" },
        { "26-38", 1, 2, "-" },
        { "39-48", 0, 1, "-" } } },
    { "bert_8vpipe",
      "97 blocks, 669M parameters",
      { { "0-10", 7, 8, "55/55" },
        { "11-21", 6, 7, "46/55" },
        { "22-33", 5, 6, "48/60" },
        { "34-45", 4, 5, "36/60" },
        { "46-58", 3, 4, "32/65" },
        { "59-71", 2, 3, "13/65" },
        { "72-85", 1, 2, "-" },
        { "86-96", 0, 1, "-" } } },
    { "bert_8gpipe",
      "97 blocks",
      { { "0-11", 7, 1, "60/60" },
        { "12-23", 6, 1, "60/60" },
        { "24-36", 5, 1, "65/65" },
        { "37-49", 4, 1, "65/65" },
        { "50-62", 3, 1, "65/65" },
        { "63-75", 2, 1, "65/65" },
        { "76-87", 1, 1, "60/60" },
        { "88-96", 0, 1, "45/45" } } },
    { "bert_8pipedream",
      "97 blocks, 669M parameters",
      { { "0-10", 7, 8, "-" },
        { "11-22", 6, 7, "-" },
        { "23-35", 5, 6, "-" },
        { "36-48", 4, 5, "-" },
        { "49-61", 3, 4, "-" },
        { "62-74", 2, 3, "-" },
        { "75-86", 1, 2, "-" },
        { "87-96", 0, 1, "-" } } },
    { "transformer_4vpipe",
      "33 blocks",
      { { "0-8", 3, 4, "25/50" },
        { "9-17", 2, 3, "9/48" },
        { "18-27", 1, 2, "-" },
        { "28-32", 0, 1, "-" } } },
    { "cpm_medium_4vpipe",
      "50 blocks, 365M parameters",
      { { "0-11", 3, 4, "25/37" },
        { "12-23", 2, 3, "21/36" },
        { "24-36", 1, 2, "7/39" },
        { "37-49", 0, 1, "-" } } },
};

static void test_dry_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(dry_runs); i++) {
        char path[512];
        const char *const arguments[] = { "train",     path,
                                          "--set",     "synthetic_data=true",
                                          "--dry-run", NULL };
        struct outcome outcome;

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", dry_runs[i].name);
        run(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(strstr(outcome.out, dry_runs[i].blocks));
        for (int s = 0; s < 8 && dry_runs[i].rows[s].blocks; s++)
            check_row(outcome.out, s, &dry_runs[i].rows[s]);
    }
}

/* Steps in the metrics of `folder`, each with a finite loss and the memory of
 * `n_stages` stages. */
static int read_losses(const char *folder, int n_stages, double *first,
                       double *last)
{
    char path[64], *text, *save = NULL;
    int n = 0;

    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    text = read_text(path);
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *loss = strstr(line, "\"loss\": ");
        const char *memory = strstr(line, "\"memory\": [");
        int n_commas = 0;

        if (strstr(line, "\"event\""))
            continue;
        assert_non_null(loss);
        assert_non_null(memory);
        *last = strtod(loss + 8, NULL);
        assert_true(isfinite(*last) && *last > 0);
        if (n++ == 0)
            *first = *last;
        for (; *memory != ']'; memory++)
            n_commas += *memory == ',';
        assert_int_equal(n_commas, n_stages - 1);
    }
    free(text);
    return n;
}

/* The six files of the original train: their blocks, plans and placements, a
 * small width, and shards that h5py wrote. */
static void test_original_trains(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool sync = strstr(dry_runs[i].name, "gpipe") != NULL;
        int n_stages = dry_runs[i].rows[4].blocks ? 8 : 4;
        int n_steps = sync ? 2 : 24;
        double first = NAN, last = NAN;
        static const char shards[] = "data_dir=" VP_SOURCE_DIR
                                     "/tests/golden/hdf5/nvidia";
        static const char here[] = "distributed_backend=local";
        char path[512], steps[8];
        const char *const arguments[] = { "train",       path,
                                          "--output",    dry_runs[i].name,
                                          "--max-steps", steps,
                                          "--set",       shards,
                                          "--set",       "seq_length=16",
                                          "--set",       "max_pred=4",
                                          "--set",       "batch_size=2",
                                          "--set",       "vocab=200",
                                          "--set",       "hidden=16",
                                          "--set",       "ffn=32",
                                          "--set",       "heads=2",
                                          "--set",       "positions=16",
                                          "--set",       "threads_per_stage=1",
                                          "--set",       here,
                                          NULL };
        struct outcome outcome;

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", dry_runs[i].name);
        snprintf(steps, sizeof(steps), "%d", n_steps);
        run(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(
            strstr(outcome.out, n_stages == 8 ? "97 blocks" : "49 blocks"));
        for (int s = 0; s < n_stages; s++)
            check_row(outcome.out, s, &dry_runs[i].rows[s]);
        assert_int_equal(read_losses(dry_runs[i].name, n_stages, &first, &last),
                         n_steps);
        print_message("%-16s loss %.4f, after %d %s %.4f\n", dry_runs[i].name,
                      first, n_steps, sync ? "updates" : "minibatches", last);
    }
}

/* A run compares what it measures with the forecast of its plan; without a time
 * in it, with one of its own. */
static void test_forecast_is_compared(void **state)
{
    static const char model[] =
        "model_type: bert\nlayers: 4\nhidden: 16\nffn: 32\nheads: 2\n"
        "batch_size: 2\nseq_length: 16\nthreads_per_stage: 1\n"
        "total_steps: 3\nsynthetic_data: true\npartition: f.json\n";
    static const struct {
        const char *folder, *forecast, *want;
    } cases[] = {
        { "planned",
          "{\"step_seconds\": 0.25, \"bubble\": 0.125, \"memory\": [1, 2]}",
          "{\"step\": 3, \"event\": \"forecast\", \"forecast_by\": \"plan\", "
          "\"step_seconds_forecast\": 0.25, \"bubble_forecast\": 0.125, "
          "\"memory_forecast\": [1, 2], \"step_seconds_measured\": " },
        { "unlisted",
          "{\"step_seconds\": 0.25, \"bubble\": 0.125, \"memory\": [1]}",
          "\"step_seconds_forecast\": 0.25, \"bubble_forecast\": 0.125, "
          "\"memory_forecast\": [" },
        { "untimed", "{\"bubble\": 0.125, \"memory\": [1, 2]}",
          "\"forecast_by\": \"first_steps\", " },
        { "timeless", "{\"step_seconds\": 0, \"bubble\": 0}",
          "\"forecast_by\": \"first_steps\", " },
        { "strange", "[\"anything\"]", "\"forecast_by\": \"first_steps\", " },
    };

    (void)state;
    write_text("f.yml", model);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *const arguments[] = { "train", "f.yml", "--output",
                                          cases[i].folder, NULL };
        char path[64], plan[256], *text;
        struct outcome outcome;

        snprintf(plan, sizeof(plan),
                 "{\"version\": 1, \"partition\": [5, 4], \"forecast\": %s}",
                 cases[i].forecast);
        write_text("f.json", plan);
        run(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(strstr(outcome.out, i < 2 ? "\nforecast  by the plan: "
                                                    "step 250 ms, measured "
                                                  : "\nforecast  by the first "
                                                    "steps: step "));
        snprintf(path, sizeof(path), "%s/metrics.jsonl", cases[i].folder);
        text = read_text(path);
        assert_non_null(strstr(text, cases[i].want));
        assert_null(strstr(strstr(text, "\"event\""), "\"loss\""));
        assert_null(strstr(strstr(text, "\"event\""), "\"seconds\""));
        if (i > 0)
            assert_null(strstr(text, "\"memory_forecast\": [1"));
        free(text);
    }
}

/* Tensor parallel placements name the first rank of each group. */
static void test_tensor_parallel(void **state)
{
    static const struct {
        const char *name;
        int stages, mp_size, n_groups, n_ranks;
    } cases[] = {
        { "large_4", 4, 2, 8, 16 },
        { "large_8", 8, 4, 8, 32 },
    };
    struct vp_config c;
    char yaml[512];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        snprintf(yaml, sizeof(yaml),
                 "model_type: cpm\nmodule: %s\n"
                 "config_file: " CONFIGS "/cpm/%s/mp_conf.json\n",
                 cases[i].name, cases[i].name);
        load_ok(yaml, NULL, &c);
        assert_int_equal(c.stages, cases[i].stages);
        assert_int_equal(c.mp_size, cases[i].mp_size);
        assert_int_equal(vp_config_n_groups(&c), cases[i].n_groups);
        assert_int_equal(vp_config_n_ranks(&c), cases[i].n_ranks);
        assert_int_equal(c.ranks.n, 0);
        for (int r = 0; r < cases[i].n_ranks; r++)
            assert_int_equal(vp_config_rank_number(&c, r), r);
        vp_config_release(&c);
    }
    /* Groups in another order; members stay together. */
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [2], "
                         "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "optimizer: adam\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.ranks, INTS(1, 0));
    assert_int_equal(vp_config_n_ranks(&c), 4);
    for (int r = 0; r < 4; r++)
        assert_int_equal(vp_config_rank_number(&c, r), (r + 2) % 4);
    vp_config_release(&c);
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                         "\"1\": [4]}, \"mp_size\": 2}\n");
    assert_string_equal(refused(NINE "config_file: m.json\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
}

/* What groups cannot do is refused in one line. */
static void test_tensor_refusals(void **state)
{
    static const struct {
        const char *key, *why;
    } cases[] = {
        { "optimizer: lamb", "lamb needs norms of whole tensors; use adamw "
                             "(key 'optimizer')" },
        { "device: cuda", "tensor parallelism runs on CPU cores alone; set "
                          "device: cpu (key 'device')" },
        { "rebalance: true", "tensor-parallel ranks cannot be re-balanced; set "
                             "rebalance: false (key 'rebalance')" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char yaml[512], want[512];

        snprintf(yaml, sizeof(yaml), NINE "mp_size: 2\n%s\n%s\n",
                 i > 0 ? "optimizer: adam" : "", cases[i].key);
        snprintf(want, sizeof(want), "key 'mp_size' is 2, but %s",
                 cases[i].why);
        if (!strstr(refused(yaml), want))
            fail_msg("'%s' does not say '%s'", refused(yaml), want);
    }
}

/* A key wins over the placement: without tensor parallelism the ranks that the
 * file names, each the first of a group, are all there are. */
static void test_mp_size_wins(void **state)
{
    static const char start[] = "model_type: cpm\nmodule: large_%d\n"
                                "config_file: " CONFIGS
                                "/cpm/large_%d/mp_conf.json\n";
    struct vp_config c;
    char yaml[512];

    (void)state;
    snprintf(yaml, sizeof(yaml), start, 4, 4);
    load_ok(yaml, "mp_size=1", &c);
    assert_int_equal(c.mp_size, 1);
    assert_string_equal(vp_config_place(&c, "mp_size"), "--set");
    assert_int_equal(c.stages, 4);
    assert_ints(&c.replicas, INTS(2, 2, 2, 2));
    assert_int_equal(c.ranks.n, 0);
    vp_config_release(&c);
    snprintf(yaml, sizeof(yaml), start, 8, 8);
    strncat(yaml, "mp_size: 1\n", sizeof(yaml) - strlen(yaml) - 1);
    load_ok(yaml, NULL, &c);
    assert_string_equal(vp_config_place(&c, "mp_size"), "a.yml:4");
    assert_int_equal(vp_config_n_ranks(&c), 8);
    assert_int_equal(c.ranks.n, 0);
    vp_config_release(&c);

    /* Numbers that leave out no rank mean what they say. */
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [1], "
                         "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "config_file: m.json\n", "mp_size=1", &c);
    assert_ints(&c.ranks, INTS(1, 0));
    vp_config_release(&c);
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [2], "
                         "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "config_file: m.json\n", "mp_size=1", &c);
    assert_ints(&c.ranks, INTS(1, 0));
    vp_config_release(&c);
    write_text("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                         "\"1\": [4]}, \"mp_size\": 2}\n");
    assert_string_equal(refused(NINE "config_file: m.json\n"
                                     "mp_size: 1\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
    assert_string_equal(refused(NINE "config_file: m.json\n"
                                     "mp_size: 2\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
}

/* Every plan and placement in the folders is one that some model takes. */
static void test_shipped_json(void **state)
{
    static const struct {
        const char *model, *folder, *module, *plans[3], *placements[4];
    } cases[] = {
        { "bert", "bert/vgpus=2", "vgpus=2", { "gpipe" }, { "mp_conf" } },
        { "bert",
          "bert/vgpus=4",
          "vgpus=4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf", "dp_conf" } },
        { "bert",
          "bert/vgpus=8",
          "vgpus=8",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "translation",
          "transformer/vgpus=4",
          "vgpus=4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "translation",
          "transformer/vgpus=8",
          "vgpus=8",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "cpm",
          "cpm/medium_4",
          "medium_4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf", "dp_conf", "8dp_conf" } },
        { "cpm", "cpm/medium_8", "medium_8", { "vpipe" }, { "mp_conf" } },
        { "cpm", "cpm/medium_12", "medium_12", { "vpipe" }, { "mp_conf" } },
        { "cpm", "cpm/medium_dp", "medium_dp", { "gpipe_dp" }, { "dp_conf" } },
        { "cpm",
          "cpm/large_4",
          "large_4",
          { "vpipe", "gpipe", "pipedream" },
          { "dp_conf", "32dp_conf" } },
        { "cpm",
          "cpm/large_8",
          "large_8",
          { "vpipe", "gpipe" },
          { "32dp_conf" } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (int p = 0; p < 3 && cases[i].plans[p]; p++)
            for (int k = 0; k < 4 && cases[i].placements[k]; k++) {
                struct vp_config c;
                char yaml[1024];

                snprintf(yaml, sizeof(yaml),
                         "model_type: %s\ndirectory: " CONFIGS "/%s\n"
                         "module: %s\npartition: %s.json\n"
                         "config_file: %s.json\nsync_mode: asp\n",
                         cases[i].model, cases[i].folder, cases[i].module,
                         cases[i].plans[p], cases[i].placements[k]);
                load_ok(yaml, NULL, &c);
                vp_config_release(&c);
            }
}

/* ---- Refused files ------------------------------------------------------ */

#define BAD VP_SOURCE_DIR "/tests/configs/bad"

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && strcmp(dot, ".yml") == 0;
}

/* Enters a folder with links to all files of BAD: what a failing test leaves in
 * the current folder must not become a case of the next run. */
static void enter_bad(void)
{
    DIR *dir = opendir(BAD);
    struct dirent *entry;

    assert_non_null(dir);
    assert_true(mkdir("bad", 0700) == 0 || errno == EEXIST);
    assert_int_equal(chdir("bad"), 0);
    while ((entry = readdir(dir))) {
        char target[sizeof(BAD) + sizeof(entry->d_name) + 1];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(target, sizeof(target), BAD "/%s", entry->d_name);
        assert_true(symlink(target, entry->d_name) == 0 || errno == EEXIST);
    }
    closedir(dir);
}

/* A failed test may have left it. */
static int back_to_temp_folder(void **state)
{
    (void)state;
    return chdir(temp_folder);
}

/* Calls `check` with every `step`-th file and the line it must give. */
static void for_each_bad(int step,
                         void (*check)(const char *name, const char *want))
{
    struct dirent **entries;
    int n;

    enter_bad();
    n = scandir(".", &entries, is_yaml, alphasort);
    assert_true(n >= 45);
    for (int i = 0; i < n; i++) {
        char path[512], *want;

        snprintf(path, sizeof(path), "%.*s.expect",
                 (int)(strlen(entries[i]->d_name) - 4), entries[i]->d_name);
        want = read_text(path);
        if (i % step == 0)
            check(entries[i]->d_name, want);
        free(want);
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(chdir(temp_folder), 0);
}

static void check_load(const char *name, const char *want)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };
    char line[sizeof(err.text) + 1];

    /* Plans are made without the data, which is looked for last. */
    if (vp_config_load(name, NULL, 0, &config, &err) == VP_OK)
        assert_int_not_equal(vp_config_find_data(&config, &err), VP_OK);
    vp_config_release(&config);
    snprintf(line, sizeof(line), "%s\n", err.text);
    assert_string_equal(line, want);
    assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
}

static void check_program(const char *name, const char *want)
{
    const char *const arguments[] = { "train", name, NULL };
    struct outcome outcome;

    run(&outcome, arguments);
    assert_int_equal(outcome.status, 2);
    assert_string_equal(outcome.out, "");
    assert_string_equal(outcome.err, want);
}

static void test_bad(void **state)
{
    (void)state;
    for_each_bad(1, check_load);
}

static void test_bad_program(void **state)
{
    (void)state;
    for_each_bad(3, check_program);
}

/* ---- Notices and origins ------------------------------------------------ */

static void test_notices(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(NINE "stages: 2\nmachines: ['g5:0', 'localhost:0']\n"
                 "container: x\ncompress_in_gpu: True\n"
                 "distributed_backend: local\n",
            NULL, &c);
    assert_int_equal(c.n_notices, 3);
    assert_string_equal(c.notices[0],
                        "a.yml:4: key 'machines' names other hosts, but all "
                        "ranks run in this process");
    assert_string_equal(c.notices[1], "a.yml:5: key 'container' is not used: "
                                      "all ranks run in this process");
    assert_string_equal(c.notices[2],
                        "a.yml:6: key 'compress_in_gpu' has no effect: see "
                        "compress_activations");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nnetwork_interface: eth0\n", NULL, &c);
    assert_int_equal(c.n_notices, 1);
    assert_string_equal(c.notices[0], "a.yml:4: key 'network_interface' has no "
                                      "effect: all ranks run in this process");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nnetwork_interface: eth0\n",
            "distributed_backend=mpi", &c);
    assert_int_equal(c.n_notices, 0);
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nshard_optimizer: true\n", NULL, &c);
    assert_int_equal(c.n_notices, 1);
    assert_string_equal(c.notices[0], "a.yml:4: key 'shard_optimizer' has no "
                                      "effect: no stage has replicas");
    vp_config_release(&c);
    assert_string_equal(
        refused(NINE "stages: 2\nreplicas: [2, 1]\nshard_optimizer: true\n"
                     "rebalance: true\n"),
        "a.yml:6: key 'rebalance' moves blocks with their whole state, but "
        "shard_optimizer gives each replica a slice; remove one of them");
    load_ok(NINE "stages: 2\nreplicas: [2, 1]\nshard_optimizer: true\n", NULL,
            &c);
    assert_int_equal(c.n_notices, 0);
    vp_config_release(&c);
    load_ok(NINE "compress_activations: True\n", NULL, &c);
    assert_int_equal(c.n_notices, 1);
    assert_string_equal(c.notices[0], "a.yml:3: key 'compress_activations' has "
                                      "no effect: there is one stage");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nprecision: bf16\ncompress_activations: True\n",
            NULL, &c);
    assert_int_equal(c.n_notices, 1);
    assert_string_equal(c.notices[0],
                        "a.yml:5: key 'compress_activations' has no effect: "
                        "values have two bytes already");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nmachines: ['localhost:0', '127.0.0.1:0']\n"
                 "compress_activations: False\ndistributed_backend: gloo\n",
            NULL, &c);
    assert_int_equal(c.n_notices, 0);
    assert_false(vp_config_is_distributed(&c));
    vp_config_release(&c);
    /* Other hosts get their ranks, and these their container. */
    load_ok(NINE "stages: 2\nmachines: ['g5:0', 'localhost:0']\n"
                 "container: x\n",
            NULL, &c);
    assert_int_equal(c.distributed_backend, VP_TRANSPORT_MPI);
    assert_true(vp_config_is_distributed(&c));
    assert_int_equal(c.n_notices, 0);
    vp_config_release(&c);
    load_ok(NINE "stages: 2\ndistributed_backend: mpi\ncontainer: none\n", NULL,
            &c);
    assert_true(vp_config_is_distributed(&c));
    assert_null(c.container);
    vp_config_release(&c);
}

/* "key: value" and "# origin" of a line, between spaces. */
static void assert_explained(const char *text, const char *line,
                             const char *origin)
{
    char start[128];
    const char *found;

    snprintf(start, sizeof(start), "\n%s ", line);
    found = strstr(text, start);
    if (!found)
        fail_msg("no '%s' in\n%s", line, text);
    found += strlen(start);
    found += strspn(found, " ");
    if (strncmp(found, "# ", 2) != 0 ||
        strncmp(found + 2, origin, strlen(origin)) != 0 ||
        found[2 + strlen(origin)] != '\n')
        fail_msg("%s: '%.100s', not '%s'", line, found, origin);
}

static void test_explain(void **state)
{
    static const char *const sets[] = { "hidden=64", "heads=4",
                                        "no_input_pipelining=yes",
                                        "recompute=no" };
    struct vp_config c, again;
    struct vp_err err = { .text = "" };
    char *text, *other;

    (void)state;
    write_text("p.json", "{\"partition\": [24, 25],\n"
                         " \"recompute_ratio\": [1, 0]}\n");
    write_text("m.json", "{\"stage_to_rank_map\": {\"1\": [0], \"0\": [1]}}");
    write_text("a.yml", BERT "module: vgpus=4\nsync_mode: asp\n"
                             "partition: p.json\nconfig_file: m.json\n"
                             "container: x\ndropout: 0\n");
    assert_int_equal(vp_config_load("a.yml", sets, 4, &c, &err), VP_OK);
    assert_int_equal(vp_config_explain(&c, &text, &err), VP_OK);
    assert_explained(text, "model_type: bert", "a.yml:1");
    assert_explained(text, "module: vgpus=4", "a.yml:2");
    assert_explained(text, "hidden: 64", "--set");
    assert_explained(text, "layers: 24", "module vgpus=4, a.yml:2");
    assert_explained(text, "ffn: 256", "derived: 4 x hidden");
    assert_explained(text, "attention_dropout: 0", "derived: as dropout");
    assert_explained(text, "tie_embeddings: false",
                     "derived: stages cannot share weights in sync_mode asp");
    assert_explained(text, "synthetic_data: true",
                     "derived: there is no data_dir");
    assert_explained(text, "seed: 1", "default");
    assert_explained(text, "prefetch: 0",
                     "derived: no_input_pipelining is true");
    assert_explained(text, "optimizer: lamb", "default of model_type bert");
    assert_explained(text, "learning_rate: 0.002", "default of optimizer lamb");
    assert_explained(text, "lr_warmup: 0.2",
                     "default of learning_rate_policy polynomial");
    assert_explained(text, "schedule: pipedream", "default of sync_mode asp");
    assert_explained(text, "stages: 2", "derived: entries of partition");
    assert_explained(text, "partition: [24, 25]", "p.json:1, named at a.yml:4");
    assert_explained(text, "recompute_ratio: [0, 0]",
                     "derived: recompute is false");
    assert_explained(text, "# config_file: m.json", "a.yml:5");
    assert_explained(text, "replicas: [1, 1]", "m.json:1, named at a.yml:5");
    assert_explained(text, "ranks: [1, 0]", "m.json:1, named at a.yml:5");
    assert_non_null(strstr(text, "\n# a.yml:6: key 'container' is not used"));

    /* It is a configuration itself, with the same values. */
    write_text("b.yml", text);
    load_file("b.yml", NULL, &again);
    assert_int_equal(vp_config_write(&c, "c.yml", &err), VP_OK);
    assert_int_equal(vp_config_write(&again, "d.yml", &err), VP_OK);
    free(text);
    text = read_text("c.yml");
    other = read_text("d.yml");
    assert_string_equal(text, other);
    free(text);
    free(other);
    vp_config_release(&c);
    vp_config_release(&again);

    load_ok(BERT "size: base\nstages: 2\n", NULL, &c);
    assert_int_equal(vp_config_explain(&c, &text, &err), VP_OK);
    assert_explained(text, "layers: 12", "size base, a.yml:2");
    assert_explained(text, "accumulation_steps: 32", "derived: several stages");
    assert_non_null(strstr(text, "# derived: equal work by FLOPs\n"));
    free(text);
    vp_config_release(&c);
    load_ok(BERT, NULL, &c);
    assert_int_equal(vp_config_explain(&c, &text, &err), VP_OK);
    assert_explained(text, "layers: 24",
                     "size large, the default of model_type bert");
    free(text);
    vp_config_release(&c);
}

static void test_explain_program(void **state)
{
    const char *const arguments[] = { "train", "a.yml", "--explain", NULL };
    struct vp_config c;
    struct vp_err err = { .text = "" };
    struct outcome outcome;
    char *text;

    (void)state;
    load_ok(NINE "stages: 3\nlog_directory: made\n", NULL, &c);
    assert_int_equal(vp_config_explain(&c, &text, &err), VP_OK);
    run(&outcome, arguments);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, text);
    assert_string_equal(outcome.err, "");
    assert_int_equal(access("made", F_OK), -1);
    free(text);
    vp_config_release(&c);
}

/* ---- Text stays text ---------------------------------------------------- */

/* In quotes of YAML, and what that is. */
static const struct {
    const char *yaml, *text;
} payloads[] = {
    { "; touch injected", "; touch injected" },
    { "`touch injected`", "`touch injected`" },
    { "$(touch injected)", "$(touch injected)" },
    { "x\\n touch injected \\n", "x\n touch injected \n" },
    { "'; touch injected; '", "'; touch injected; '" },
    { "| touch injected #", "| touch injected #" },
    { "\\\"; touch injected; \\\"", "\"; touch injected; \"" },
    { "-oProxyCommand=touch injected:0", "-oProxyCommand=touch injected:0" },
    { "localhost;touch injected:0", "localhost;touch injected:0" },
    { "../../x && touch injected", "../../x && touch injected" },
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);

    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* What was taken is what was written, and only keys for free text take it. */
static void assert_verbatim(const struct vp_key *key,
                            const struct vp_config *config, const char *text)
{
    const void *field = (const char *)config + key->offset;

    switch (key->type) {
    case VP_KEY_TEXT:
        assert_string_equal(*(const char *const *)field, text);
        break;
    case VP_KEY_PATH:
    case VP_KEY_INIT:
        assert_true(ends_with(*(const char *const *)field, text));
        break;
    default:
        fail_msg("key '%s' takes '%s'", key->name, text);
    }
}

/* Taken, it survives the way through config.yml; refused, in one line. */
static bool check_payload(const struct vp_key *key, const char *path,
                          const char *set, const char *text)
{
    struct vp_config c, again;
    struct vp_err err = { .text = "" };
    bool taken = vp_config_load(path, &set, set ? 1 : 0, &c, &err) == VP_OK;

    if (taken) {
        assert_verbatim(key, &c, text);
        assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
        load_file("b.yml", NULL, &again);
        assert_verbatim(key, &again, text);
        vp_config_release(&again);
    } else {
        assert_true(err.text[0] != '\0');
        assert_null(strchr(err.text, '\n'));
    }
    vp_config_release(&c);
    assert_int_equal(access("injected", F_OK), -1);
    return taken;
}

/* In every key there is: all of them in the library, some in the program. */
static void test_no_shell(void **state)
{
    const char *const arguments[] = { "train", "a.yml", "--dry-run", "--quiet",
                                      NULL };
    int n = 0, n_taken = 0;

    (void)state;
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];
        bool list = vp_key_is_list(key);
        /* Nothing is looked for in data_dir. */
        const char *base = strcmp(key->name, "synthetic_data") == 0 ? NINE
                                                                    : NINE
                               "synthetic_data: true\n";

        for (size_t j = 0; j < VP_COUNT_OF(payloads); j++) {
            const char *text = payloads[j].text;
            struct outcome outcome;
            char line[512];

            snprintf(line, sizeof(line), "%s%s: %s\"%s\"%s\n",
                     key->type == VP_KEY_MODEL ? "" : base, key->name,
                     list ? "[" : "", payloads[j].yaml, list ? "]" : "");
            write_text("a.yml", line);
            n_taken += check_payload(key, "a.yml", NULL, text);
            if (n++ % 7 == 0) {
                run(&outcome, arguments);
                assert_in_range(outcome.status, 0, 2);
                assert_int_equal(access("injected", F_OK), -1);
            }
            write_text("c.yml", base);
            snprintf(line, sizeof(line), "%s=%s", key->name, text);
            n_taken += check_payload(key, "c.yml", line, text);
        }
    }
    assert_int_equal(n, vp_n_keys * (int)VP_COUNT_OF(payloads));
    /* container, data_dir, init, log_directory, profile, prometheus_file,
     * sample_prompts, text_key, valid_split; but no line break. */
    assert_int_equal(n_taken, 9 * 2 * ((int)VP_COUNT_OF(payloads) - 1));
}

/* A whole run under hostile names. */
static void test_no_shell_in_a_run(void **state)
{
    static const char folder[] = "$(touch injected); `touch injected`";
    const char *const arguments[] = { "train", "a.yml", NULL };
    struct outcome outcome;
    char path[256];

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/text.txt", folder);
    write_text(path,
               "the quick brown fox jumps over the lazy dog, and the lazy "
               "dog does not mind; the fox jumps again and again\n");
    write_text("a.yml", BERT "vocab: 264\nlayers: 1\nhidden: 16\nheads: 2\n"
                             "seq_length: 8\nbatch_size: 1\nstages: 2\n"
                             "accumulation_steps: 2\ntotal_steps: 2\n"
                             "machines: ['localhost:0', 'localhost:1']\n"
                             "data_dir: \"$(touch injected); `touch "
                             "injected`\"\n"
                             "container: \"; touch injected\"\n"
                             "log_directory: \"logs; touch injected\"\n");
    run(&outcome, arguments);
    assert_string_equal(outcome.err, "");
    assert_int_equal(outcome.status, 0);
    assert_int_equal(access("logs; touch injected", F_OK), 0);
    assert_int_equal(access("injected", F_OK), -1);
}

/* ---- JSON --------------------------------------------------------------- */

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

/* YAML that is not JSON, and JSON that is too much. */
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

/* ---- Mutations ---------------------------------------------------------- */

static size_t mutate(char *bytes, size_t n, size_t room, uint32_t round)
{
    static const char special[] = "{}[]:,\"0123456789.-eE \n\\tfn";
    uint32_t n_edits = 1 + draw(round, 0, 4);

    for (uint32_t i = 1; i <= n_edits && n > 4; i++) {
        size_t at = draw(round, 10 * i, (uint32_t)n);
        size_t len = 1 + draw(round, 10 * i + 1, 8);

        len = len < n - at ? len : n - at;
        switch (draw(round, 10 * i + 2, 6)) {
        case 0:
            bytes[at] = (char)draw(round, 10 * i + 3, 256);
            break;
        case 1:
        case 2:
            bytes[at] = special[draw(round, 10 * i + 3, sizeof(special) - 1)];
            break;
        case 3:
            memmove(bytes + at, bytes + at + len, n - at - len);
            n -= len;
            break;
        case 4:
            if (n + len > room)
                break;
            memmove(bytes + at + len, bytes + at, n - at);
            n += len;
            break;
        default:
            if (draw(round, 10 * i + 3, 8) == 0)
                n = at;
        }
    }
    return n;
}

/* Numbers in range, whatever the file was. */
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
        n = mutate(bytes, n, sizeof(bytes), round);
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
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_placement_limit),
        cmocka_unit_test(test_modules_are_blocks),
        cmocka_unit_test(test_placement_sweep),
        cmocka_unit_test(test_directory),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_original),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_original_trains),
        cmocka_unit_test(test_tensor_parallel),
        cmocka_unit_test(test_tensor_refusals),
        cmocka_unit_test(test_mp_size_wins),
        cmocka_unit_test(test_shipped_json),
        cmocka_unit_test_teardown(test_bad, back_to_temp_folder),
        cmocka_unit_test_teardown(test_bad_program, back_to_temp_folder),
        cmocka_unit_test(test_notices),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_explain_program),
        cmocka_unit_test(test_forecast_is_compared),
        cmocka_unit_test(test_no_shell),
        cmocka_unit_test(test_no_shell_in_a_run),
        cmocka_unit_test(test_json_places),
        cmocka_unit_test(test_json_is_strict),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
