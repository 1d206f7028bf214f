/* A run folder has the run's description, plans and checkpoints. It is created
 * only where no other files are at risk and the disk has enough space. */
#include "lib/runlib.h"
#include "run/disk_space.h"
#include "run/folder.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Counted memory ----------------------------------------------------- */

/* Wrapped at link time, see vp_wrap() in CMakeLists.txt. */
enum vp_status __real_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out);
enum vp_status __wrap_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out);

static atomic_llong n_device_bytes;

enum vp_status __wrap_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out)
{
    atomic_fetch_add(&n_device_bytes, (long long)n_bytes);
    return __real_vp_device_alloc(device, n_bytes, out);
}

/* ---- Contents of the folder --------------------------------------------- */

static void test_describe(void **state)
{
    static const struct vp_machine machines[] = {
        { "b", 0 }, { "a", 0 }, { "b", 1 }, { "c", 0 }, { "a", 1 }
    };
    static char words[][24] = { "train", "x.yml", "--set", "partition=[1, 2]",
                                "it's",  "",      "a\nb'c" };
    char *argv[7];
    struct fake fake;
    struct vp_folder folder = { .lock = -1 };
    struct vp_err err = { .text = "" };

    (void)state;
    for (int i = 0; i < 7; i++)
        argv[i] = words[i];
    make_fake(&fake, 1, 2);
    snprintf(folder.path, sizeof(folder.path), "%s", run_root);
    fake.plan = (struct vp_plan){
        .n_stages = 3,
        .partition = (const int[]){ 3, 4, 5 },
        .recompute_ratio = (const double[]){ 0.3, 1.0 / 3, 1 },
        .accumulation_steps = 4,
        .devices = (const int[]){ 1, 2, 3 }
    };
    fake.summary.n_blocks = 12;
    fake.summary.bubble_simulated = 0.25;
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 2, &err),
                     VP_OK);
    assert_file(path_in_run_root(".", "machinefile"), "localhost\n");
    fake.config.machines = (struct vp_machine_list){ machines, 5 };
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 7, &err),
                     VP_OK);
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 0, &err),
                     VP_OK);
    assert_file(path_in_run_root(".", "machinefile"),
                "b slots=2\na slots=2\nc\n");
    assert_file(path_in_run_root(".", "plan.json"),
                "{\n    \"partition\": [3, 4, 5],\n"
                "    \"recompute_ratio\": [0.3, 0.33333333333333331, 1],\n"
                "    \"version\": 1,\n"
                "    \"schedule\": \"1f1b\",\n"
                "    \"early_recompute\": false,\n"
                "    \"accumulation_steps\": 4,\n"
                "    \"stages\": 3,\n"
                "    \"tensor_parallel\": 1,\n"
                "    \"compress_activations\": false,\n"
                "    \"forecast\": {\"memory\": [1234000000, 2000000000, "
                "500000], \"memory_kinds\": {\"weights\": [0, 0, 0], "
                "\"gradients\": [0, 0, 0], \"moments\": [0, 0, 0], "
                "\"activations\": [0, 0, 0], \"boundary\": [0, 0, 0], "
                "\"work\": [0, 0, 0]}, \"bubble\": 0.25}\n}\n");
    assert_file(path_in_run_root(".", "command_history.log"),
                "vpipe train x.yml\n"
                "vpipe train x.yml --set 'partition=[1, 2]' 'it'\\''s' '' "
                "$'a\\012b\\'c'\n");
    snprintf(folder.path, sizeof(folder.path), "%s/none", run_root);
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 2, &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "none/machinefile: cannot be written"));
}

/* plan.json of a run says the same as its configuration, and logs are named by
 * the user's numbers of ranks. */
static void test_folder_of_run(void **state)
{
    const char *const sets[] = { "stages=3",
                                 "sync_mode=asp",
                                 "total_steps=14",
                                 "num_minibatches=7",
                                 "print_frequency=1",
                                 "eval_every=7",
                                 "recompute_ratio=[0.5, 0, 0]",
                                 NULL };
    static const char path[] = "partition=%s";
    char plan[300], *text;
    const char *const again[] = { plan,
                                  "sync_mode=asp",
                                  "total_steps=14",
                                  "num_minibatches=7",
                                  "eval_every=7",
                                  NULL };
    double losses[14];

    (void)state;
    must_run_small(folder_of("first"), NULL, sets);
    memcpy(losses, heard.losses, sizeof(losses));
    for (int i = 0; i < 14; i++)
        assert_int_equal(heard.epochs[i], i / 7);
    assert_file(path_in_run_root("first", "machinefile"),
                "localhost slots=3\n");
    assert_file(path_in_run_root("first", "command_history.log"),
                "vpipe train 'a b' c\n");
    for (int r = 0; r < 3; r++) {
        char name[32];

        snprintf(name, sizeof(name), "output.log.%d", r);
        text = read_run_text(path_in_run_root("first", name));
        assert_int_equal(count_lines(text, "^Epoch [01]: [0-9.]+ seconds$"), 2);
        assert_int_equal(count_lines(text, "^ \\* "), r == 2 ? 2 : 0);
        assert_int_equal(count_lines(text, "^Stage: "), r == 2 ? 4 : 14);
        assert_int_equal(count_lines(text, "^Epoch [01], Iteration [0-6], "
                                           "Loss: [0-9]+\\.[0-9]{4}$"),
                         14);
        assert_int_equal(count_lines(text, "^Saved checkpoint to "
                                           ".*/first/checkpoints/step-14$"),
                         1);
        free(text);
    }
    snprintf(plan, sizeof(plan), path, path_in_run_root("first", "plan.json"));
    must_run_small(folder_of("second"), NULL, again);
    assert_memory_equal(losses, heard.losses, sizeof(losses));
    text = read_run_text(path_in_run_root("first", "plan.json"));
    assert_file(path_in_run_root("second", "plan.json"), text);
    free(text);
}

/* A plan that names recomputed operators changes no loss. The stages allocate
 * the priced memory, which is less than without recomputation. */
static void test_plan_with_sets(void **state)
{
    static const char kept[] = "{\"partition\": [4, 3, 2]}";
    static const char plan_text[] =
        "{\"partition\": [4, 3, 2], \"recompute\": [[0, 1], [0, 1, 2, 3], "
        "[1, 2, 3], [0, 2], [3], [], [0, 1, 2, 3], [1], [0]]}";
    const char *const texts[] = { kept, plan_text };
    char path[300];
    const char *const sets[] = { path, "total_steps=4", "accumulation_steps=4",
                                 "dropout=0.1", NULL };
    double losses[2][4];
    int64_t n_bytes[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "kept" : "sets";
        FILE *f = fopen(path_in_run_root(".", "sets.json"), "w");
        char *text;

        assert_true(f && fputs(texts[i], f) >= 0 && fclose(f) == 0);
        snprintf(path, sizeof(path), "partition=%s",
                 path_in_run_root(".", "sets.json"));
        atomic_store(&n_device_bytes, 0);
        must_run_small(folder_of(name), NULL, sets);
        assert_int_equal(atomic_load(&n_device_bytes), heard.n_bytes);
        n_bytes[i] = heard.n_bytes;
        memcpy(losses[i], heard.losses, sizeof(losses[i]));
        text = read_run_text(path_in_run_root(name, "plan.json"));
        assert_int_equal(strstr(text, "\"recompute\": [") != NULL, i == 1);
        free(text);
    }
    assert_memory_equal(losses[0], losses[1], sizeof(losses[0]));
    assert_true(n_bytes[1] < n_bytes[0]);
}

/* plan.json of a run can be given to another run, which has the same plan and
 * losses, for all kinds of plans. */
static void test_plan_given_back(void **state)
{
    static const char *const cases[][6] = {
        { "schedule=gpipe", "stages=3", "recompute_ratio=[1, 0.5, 0]" },
        { "schedule=zb-v", "stages=2", "early_recompute=false" },
        { "schedule=interleaved", "partition=[1, 3, 2, 3]",
          "accumulation_steps=4" },
        { "schedule=auto", "stages=2" },
        { "schedule=auto", "stages=2", "chunks=2", "schedule_memory=6" },
        { "stages=2", "replicas=[1, 2]", "ranks=[2, 0, 1]",
          "warmup_depths=[2, 0]" },
        { "stages=2", "sync_mode=asp", "macrobatch=true" },
        { "stages=2", "recompute=false", "compress_activations=true" },
        { "stages=1", "recompute_ratio=1" },
    };
    char plan[300], *text;
    const char *const again[] = { plan, "total_steps=3", NULL };
    double losses[3];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *sets[8] = { "total_steps=3" };
        char first[32], second[32];

        memcpy(sets + 1, cases[i], sizeof(cases[i]));
        snprintf(first, sizeof(first), "given%zu", i);
        snprintf(second, sizeof(second), "back%zu", i);
        must_run_small(folder_of(first), NULL, sets);
        memcpy(losses, heard.losses, sizeof(losses));
        snprintf(plan, sizeof(plan), "partition=%s",
                 path_in_run_root(first, "plan.json"));
        must_run_small(folder_of(second), NULL, again);
        assert_memory_equal(losses, heard.losses, sizeof(losses));
        text = read_run_text(path_in_run_root(first, "plan.json"));
        assert_file(path_in_run_root(second, "plan.json"), text);
        free(text);
    }
}

static bool has_step(const char *folder, int step)
{
    char name[64];

    snprintf(name, sizeof(name), "checkpoints/step-%d/manifest.json", step);
    return access(path_in_run_root(folder, name), F_OK) == 0;
}

/* Returns the steps 1 to 64 that have a checkpoint, as bits. */
static uint64_t saved_steps(const char *folder)
{
    uint64_t steps = 0;

    for (int step = 1; step <= 64; step++)
        steps |= (uint64_t)has_step(folder, step) << (step - 1);
    return steps;
}

#define STEP(n) (UINT64_C(1) << ((n)-1))

/* The run has three epochs of 7 minibatches. Groups of 2 make 3 updates per
 * epoch. A stage on two ranks ends its rounds at even minibatches; the last
 * checkpoint is that of the run's end. */
static void test_checkpoints_of_epochs(void **state)
{
    static const struct {
        const char *sets[4];
        uint64_t want;
        int early, last; /* a step within an epoch; the last step */
    } cases[] = {
        { { "stages=3", "sync_mode=asp" },
          STEP(7) | STEP(14) | STEP(21),
          5,
          21 },
        { { "stages=2", "sync_mode=bsp", "accumulation_steps=2" },
          STEP(3) | STEP(6) | STEP(9),
          4,
          9 },
        { { "stages=2", "sync_mode=asp", "replicas=[2, 1]" },
          STEP(8) | STEP(14) | STEP(21),
          10,
          21 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *sets[10] = { "checkpoint_every=epoch", "num_minibatches=7",
                                 "epochs=3", "keep_checkpoints=9",
                                 "learning_rate_policy=constant" };
        char name[32], part[32], stop[32];
        uint64_t before = STEP(cases[i].early + 1) - 1;
        double losses[64];
        int n = 5;

        for (int k = 0; cases[i].sets[k]; k++)
            sets[n++] = cases[i].sets[k];
        snprintf(name, sizeof(name), "epochs%zu", i);
        must_run_small(folder_of(name), NULL, sets);
        memcpy(losses, heard.losses, sizeof(losses));
        assert_int_equal(heard.n_steps, cases[i].last);
        assert_true(saved_steps(name) == cases[i].want);
        /* A run in two parts has the same checkpoints, and one at the end of
         * the first part. */
        snprintf(part, sizeof(part), "parts%zu", i);
        snprintf(stop, sizeof(stop), "total_steps=%d", cases[i].early);
        sets[n] = stop;
        must_run_small(folder_of(part), NULL, sets);
        assert_true(saved_steps(part) ==
                    ((cases[i].want & before) | STEP(cases[i].early)));
        sets[n] = NULL;
        must_run_small(NULL, folder_of(part), sets);
        assert_true(saved_steps(part) ==
                    (cases[i].want | STEP(cases[i].early)));
        for (int s = cases[i].early; s < cases[i].last; s++)
            assert_true(heard.losses[s] == losses[s]);
    }
}

/* ---- Places and disk space ---------------------------------------------- */

/* A run folder can be created below a folder, at any depth, but not below a
 * file. */
static void test_a_place_for_a_folder(void **state)
{
    char deep[512];
    struct vp_err err = { .text = "" };

    (void)state;
    snprintf(deep, sizeof(deep), "%s/not/yet/there", folder_of("place"));
    assert_int_equal(vp_folder_check_place(deep, &err), VP_OK);
    assert_int_equal(vp_folder_check_place("not-yet/there", &err), VP_OK);
    assert_int_equal(vp_folder_check_place("/dev/null/x", &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "/dev/null is a file, not a folder; choose another "
                        "--output or log_directory");
}

/* A run folder must be new, empty or begun by a run. */
static void test_a_folder_with_other_files(void **state)
{
    static const struct {
        const char *name; /* file that is put into the folder */
        bool good;        /* accepted, with all files so far */
    } cases[] = {
        { ".gitignore", true },
        { "notes.txt", false },
        { "config.yml", false },
        { "command_history.log", true },
    };
    char folder[256], file[512];
    struct vp_err err = { .text = "" };

    (void)state;
    snprintf(folder, sizeof(folder), "%s", folder_of("others"));
    assert_int_equal(vp_folder_check(folder, &err), VP_OK);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(vp_folder_check(folder, &err), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        snprintf(file, sizeof(file), "%s/%s", folder, cases[i].name);
        assert_int_equal(vp_folder_write_text(file, "text", &err), VP_OK);
        assert_int_equal(vp_folder_check(folder, &err),
                         cases[i].good ? VP_OK : VP_ERR_INVALID);
        if (!cases[i].good)
            assert_non_null(
                strstr(err.text, i == 1 ? "('notes.txt')" : "('config.yml')"));
    }
}

static void test_disk_space(void **state)
{
    static const struct {
        struct vp_disk_space disk;
        int64_t need;
        const char *text; /* NULL: it fits */
    } cases[] = {
        /* While the fourth checkpoint is written, three exist. */
        { { 10, 100, 0, 3, false, 40, "" }, 4, NULL },
        { { 10, 100, 0, 3, false, 39, "" },
          4,
          "dir: not enough space: 4 checkpoints of 10 bytes must fit, 39 "
          "bytes are free; set keep_checkpoints: 2, free 1 bytes, or choose "
          "another --output or log_directory" },
        { { 10, 100, 0, 3, false, 20, "" },
          4,
          "set keep_checkpoints: 1, free 20" },
        { { 10, 100, 0, 3, false, 19, "" },
          4,
          "dir: not enough space: 4 checkpoints of 10 bytes must fit, 19 "
          "bytes are free; free 21 bytes, or choose another --output or "
          "log_directory" },
        { { 10, 100, 0, 1, false, 15, "" },
          2,
          "15 bytes are free; free 5 bytes" },
        /* The best checkpoint needs space of its own. */
        { { 10, 100, 0, 3, true, 40, "" }, 5, "set keep_checkpoints: 2, " },
        /* Runs that save once, or not at all. */
        { { 10, 1, 0, 3, false, 10, "" }, 1, NULL },
        { { 10, 1, 0, 3, false, 9, "" }, 1, "space: 1 checkpoint of 10 bytes" },
        { { 10, 0, 2, 3, false, 0, "" }, 0, NULL },
        /* Existing checkpoints have their space; there must be space for one
         * more. */
        { { 10, 100, 2, 3, false, 20, "" }, 2, NULL },
        { { 10, 100, 3, 3, false, 10, "" }, 1, NULL },
        { { 10, 100, 9, 3, false, 9, "" }, 1, "1 more checkpoint of" },
        /* A checkpoint that was set aside needs space until the first new one
         * is written. */
        { { 10, 100, 1, 3, false, 9, "step-75.aside-1" },
          3,
          "3 more checkpoints of 10 bytes must fit, 9 bytes are free; remove "
          "checkpoints/step-75.aside-1, free 21 bytes, or" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_err err = { .text = "" };
        enum vp_status st = vp_disk_space_judge(&cases[i].disk, "dir", &err);

        assert_int_equal(vp_disk_space_need(&cases[i].disk), cases[i].need);
        assert_int_equal(st, cases[i].text ? VP_ERR_INVALID : VP_OK);
        if (cases[i].text && !strstr(err.text, cases[i].text))
            fail_msg("case %d: %s", (int)i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_folder_of_run),
        cmocka_unit_test(test_plan_with_sets),
        cmocka_unit_test(test_plan_given_back),
        cmocka_unit_test(test_checkpoints_of_epochs),
        cmocka_unit_test(test_a_place_for_a_folder),
        cmocka_unit_test(test_a_folder_with_other_files),
        cmocka_unit_test(test_disk_space),
    };

    return cmocka_run_group_tests(tests, make_run_root, remove_run_root);
}
