/* --explain and notices tell where the value of each key comes from, and each
 * file of tests/configs/bad is refused with its error line. */
#include "config/config.h"
#include "config/load.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/plan_filelib.h"
#include "lib/tempfolder.h"

#include <dirent.h>
#include <errno.h>
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

/* ---- Refused files ------------------------------------------------------ */

#define BAD VP_SOURCE_DIR "/tests/configs/bad"

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && strcmp(dot, ".yml") == 0;
}

/* Enters a new folder with links to all files of BAD, so that files left by a
 * failing test do not become cases of the next run. */
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

/* Teardown: a failed test may have changed the working directory. */
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
        want = read_plan_text(path);
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

    /* Loading does not need the data; a missing data_dir is found last. */
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
    struct program_outcome outcome;

    run_program(&outcome, arguments);
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
        refused_message(NINE
                        "stages: 2\nreplicas: [2, 1]\nshard_optimizer: true\n"
                        "rebalance: true\n"),
        "a.yml:6: key 'rebalance' moves blocks with their whole state, but "
        "shard_optimizer gives each replica a shard; remove one of them");
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
    /* Ranks of other hosts use the container, so there is no notice. */
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

/* Fails unless `text` has the line `line` with the comment "# origin". */
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
    write_text_file("p.json", "{\"partition\": [24, 25],\n"
                              " \"recompute_ratio\": [1, 0]}\n");
    write_text_file("m.json",
                    "{\"stage_to_rank_map\": {\"1\": [0], \"0\": [1]}}");
    write_text_file("a.yml", BERT "module: vgpus=4\nsync_mode: asp\n"
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

    /* The explanation is itself a configuration with the same values. */
    write_text_file("b.yml", text);
    load_file("b.yml", NULL, &again);
    assert_int_equal(vp_config_write(&c, "c.yml", &err), VP_OK);
    assert_int_equal(vp_config_write(&again, "d.yml", &err), VP_OK);
    free(text);
    text = read_plan_text("c.yml");
    other = read_plan_text("d.yml");
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
    struct program_outcome outcome;
    char *text;

    (void)state;
    load_ok(NINE "stages: 3\nlog_directory: made\n", NULL, &c);
    assert_int_equal(vp_config_explain(&c, &text, &err), VP_OK);
    run_program(&outcome, arguments);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, text);
    assert_string_equal(outcome.err, "");
    assert_int_equal(access("made", F_OK), -1);
    free(text);
    vp_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_bad, back_to_temp_folder),
        cmocka_unit_test_teardown(test_bad_program, back_to_temp_folder),
        cmocka_unit_test(test_notices),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_explain_program),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
