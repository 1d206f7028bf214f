/* auto_plan replaces the documented keys of a configuration, and a run gets the
 * expected plan. */
#include "config/load.h"
#include "config/resolve.h"
#include "lib/slow.h"
#include "plan/plan_json.h"
#include "run/auto_plan.h"
#include "run/planning.h"
#include "run/run.h"
#include "runtime/train_config.h"

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

#define MODEL(layers)                                                         \
    "model_type: bert\nlayers: " #layers                                      \
    "\nhidden: 32\nheads: 2\nvocab: 264\n"                                    \
    "seq_length: 16\nbatch_size: 4\nthreads_per_stage: 1\ndevice: cpu\n"      \
    "tie_embeddings: false\naccumulation_steps: 4\nprofile: \"" VP_SOURCE_DIR \
    "/configs/profiles/rtx_2080ti.json\"\n"

static char temp_folder[] = "/tmp/vp_auto_plan_XXXXXX";

static const char *const files[] = { "a.yml",           "b.yml",
                                     "plan.json",       "profile.json",
                                     "run/plan.json",   "run/config.yml",
                                     "run/checkpoints", "run" };

static int enter_temp_folder(void **state)
{
    (void)state;
    return !mkdtemp(temp_folder) || chdir(temp_folder) != 0;
}

static int leave_temp_folder(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(files); i++)
        remove(files[i]);
    return chdir("/") | rmdir(temp_folder);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");

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

/* Loads a.yml with up to two sets and a plan. Sets and plan may be NULL. */
static enum vp_status load(const char *const sets[2], const char *plan,
                           struct vp_config *out, struct vp_err *err)
{
    const struct vp_config_source from = {
        .path = "a.yml",
        .sets = sets,
        .n_sets = (sets[0] != NULL) + (sets[1] != NULL),
        .plan = plan,
    };

    *err = (struct vp_err){ .text = "" };
    return vp_config_load_from(&from, out, err);
}

/* ---- Keys that a plan replaces ------------------------------------------ */

/* Keys that the plan decides have the plan's values, even if the user gave
 * others. All other keys stay, and must not contradict the plan. */
static void test_plan_replaces(void **state)
{
    static const char *const none[2] = { NULL, NULL };
    static const char plan[] =
        "{\"partition\": [1, 2, 1, 1],\n\"recompute\": [[], [0], [], [], []],\n"
        "\"schedule\": \"interleaved\", \"accumulation_steps\": 4,\n"
        "\"stages\": 2, \"chunks\": 2, \"forecast\": {\"step_seconds\": 0.5, "
        "\"bubble\": 0.25}}\n";
    struct vp_train_config train = { .plan.n_stages = 0 };
    struct vp_planned_forecast forecast;
    struct vp_config c;
    struct vp_err err;
    char *text;

    (void)state;
    write_text("a.yml",
               MODEL(2) "auto_plan: true\nschedule: gpipe\nstages: 2\n"
                        "partition: [3, 2]\nrecompute_ratio: [1, 0]\n"
                        "recompute: false\nearly_recompute: false\n"
                        "recompute_in_backward: true\nswap_ratio: 0.5\n");
    assert_int_equal(load(none, NULL, &c, &err), VP_OK);
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_ON);
    vp_config_release(&c);
    assert_int_equal(load(none, plan, &c, &err), VP_OK);
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_OFF);
    assert_string_equal(vp_generator_at(c.schedule)->name, "interleaved");
    assert_int_equal(c.partition.n, 4);
    assert_int_equal(c.recompute_ratio.n, 0);
    assert_true(c.recompute && c.early_recompute && !c.recompute_in_backward);
    assert_int_equal(c.swap_ratio.n, 0);
    assert_string_equal(vp_config_place(&c, "partition"), "plan.json:1");
    vp_resolve_train(&c, &train);
    assert_int_equal(train.plan.recompute_sets[1], 1);
    assert_true(vp_resolve_forecast(&c, &forecast));
    assert_true(forecast.step_seconds == 0.5);

    /* The plan is written beside the configuration, which names it. */
    assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
    vp_config_release(&c);
    text = read_text("b.yml");
    assert_non_null(strstr(text, "\npartition: \"plan.json\"\n"));
    assert_non_null(strstr(text, "\nauto_plan: false\n"));
    free(text);
    write_text("plan.json", plan);
    assert_int_equal(vp_config_load("b.yml", NULL, 0, &c, &err), VP_OK);
    assert_int_equal(c.chunks, 2);
    vp_config_release(&c);

    write_text("a.yml", MODEL(2) "auto_plan: true\nstages: 3\n");
    assert_int_equal(load(none, plan, &c, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "a.yml:14: key 'stages' is 3, but by key "
                                     "'stages' of the plan at plan.json:4"));
    vp_config_release(&c);
}

/* A partition from --set wins over auto_plan in the file, but contradicts
 * auto_plan from --set. */
static void test_partition_wins(void **state)
{
    const char *one[2] = { "partition=[3, 2]", NULL };
    const char *both[2] = { "partition=[3, 2]", "auto_plan=again" };
    const char *off[2] = { "partition=[3, 2]", "auto_plan=false" };
    const char *anew[2] = { "auto_plan=again", NULL };
    struct vp_config c;
    struct vp_err err;

    (void)state;
    write_text("a.yml", MODEL(2) "auto_plan: true\npartition: [2, 3]\n");
    assert_int_equal(load(one, NULL, &c, &err), VP_OK);
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_OFF);
    assert_int_equal(c.partition.at[0], 3);
    vp_config_release(&c);
    assert_int_equal(load(off, NULL, &c, &err), VP_OK);
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_OFF);
    vp_config_release(&c);
    assert_int_equal(load(anew, NULL, &c, &err), VP_OK);
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_AGAIN);
    vp_config_release(&c);
    assert_int_equal(load(both, NULL, &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "--set: key 'auto_plan' is again, which "
                                  "chooses the partition, and partition is "
                                  "set, too; remove one");
    vp_config_release(&c);
}

/* ---- Plans of runs ------------------------------------------------------ */

/* Plans a.yml with `sets`. Returns false if that is refused. The caller frees
 * `line`. */
static bool plans(const char *const sets[2], const char *resume,
                  struct vp_config *out, char **line, struct vp_err *err)
{
    struct vp_auto_plan_options options = {
        .source = { .path = "a.yml",
                    .sets = sets,
                    .n_sets = (sets[0] != NULL) + (sets[1] != NULL) },
        .resume = resume,
    };

    *line = NULL;
    if (load(sets, NULL, out, err) != VP_OK)
        fail_msg("%s", err->text);
    return vp_auto_plan(out, &options, line, err) == VP_OK;
}

static void keep_peak(void *ctx, const struct vp_run_summary *summary)
{
    int64_t *peak = ctx, ranks[VP_MAX_STAGES] = { 0 };

    for (int s = 0; s < summary->n_stages; s++) {
        int64_t *rank = &ranks[summary->stages[s].first_rank];

        *rank += summary->stages[s].memory->total;
        *peak = *rank > *peak ? *rank : *peak;
    }
}

/* Returns the bytes of the largest rank; the configuration must be valid. */
static int64_t peak_of(const struct vp_config *config)
{
    const struct vp_run_options options = { .dry_run = true };
    int64_t peak = 0;
    struct vp_run_events events = { .ctx = &peak, .on_start = keep_peak };
    struct vp_err err = { .text = "" };

    if (vp_run_train(config, &options, &events, &err) != VP_OK)
        fail_msg("%s", err.text);
    return peak;
}

static void test_limit(void **state)
{
    static const char *const tight[2] = { "memory_limit=700K", NULL };
    static const char *const roomy[2] = { "memory_limit=1G", NULL };
    static const char *const none[2] = { "memory_limit=10K", NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_text("a.yml", MODEL(1) "auto_plan: true\nstages: 2\n");
    assert_true(plans(tight, NULL, &c, &line, &err));
    assert_in_range(peak_of(&c), 1, 700 * 1024);
    assert_non_null(strstr(line, "plan: "));
    assert_non_null(strstr(line, " of memory of 700 KiB; the fastest of "));
    free(line);
    vp_config_release(&c);
    assert_true(plans(roomy, NULL, &c, &line, &err));
    assert_true(peak_of(&c) > 700 * 1024);
    free(line);
    vp_config_release(&c);
    assert_false(plans(none, NULL, &c, &line, &err));
    assert_non_null(
        strstr(err.text, "a.yml:13: key 'auto_plan': no plan fits: "));
    assert_int_equal(c.auto_plan, VP_AUTO_PLAN_ON); /* unchanged */
    assert_null(line);
    vp_config_release(&c);
}

/* A resumed run keeps the plan of its folder. */
static void test_resume(void **state)
{
    static const char plan[] = "{\"partition\": [1, 2], \"schedule\": "
                               "\"gpipe\", \"accumulation_steps\": 4}\n";
    static const char *const none[2] = { NULL, NULL };
    static const char *const anew[2] = { "auto_plan=again", NULL };
    static const char *const three[2] = { "stages=3", NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_text("a.yml", MODEL(1) "auto_plan: true\nstages: 2\n");
    assert_int_equal(mkdir("run", 0777) | mkdir("run/checkpoints", 0777), 0);
    assert_true(plans(none, "run", &c, &line, &err)); /* there is no plan */
    assert_null(strstr(line, "kept"));
    free(line);
    vp_config_release(&c);
    write_text("run/plan.json", plan);
    assert_true(plans(none, "run", &c, &line, &err));
    assert_string_equal(line, "plan: run/plan.json is kept");
    assert_int_equal(c.partition.at[0], 1);
    assert_string_equal(vp_generator_at(c.schedule)->name, "gpipe");
    free(line);
    vp_config_release(&c);
    assert_true(plans(anew, "run", &c, &line, &err));
    assert_string_not_equal(vp_generator_at(c.schedule)->name, "gpipe");
    free(line);
    vp_config_release(&c);
    assert_true(plans(three, "run", &c, &line, &err));
    assert_non_null(strstr(line, "plan: run/plan.json is for 2 ranks, this run "
                                 "has 3 and is planned again: "));
    assert_int_equal(c.stages, 3);
    free(line);
    vp_config_release(&c);
    write_text("run/plan.json", "{\"partition\": 4}");
    assert_false(plans(none, "run", &c, &line, &err));
    assert_non_null(strstr(err.text, "run/plan.json:1:"));
    assert_non_null(strstr(err.text, "--set auto_plan=again"));
    vp_config_release(&c);
    /* Without auto_plan the folder's plan is not used. */
    write_text("a.yml", MODEL(1));
    write_text("run/plan.json", "{\"partition\": [3]}");
    assert_true(plans(none, "run", &c, &line, &err));
    assert_null(line);
    vp_config_release(&c);
}

/* ---- Numbers that are auto ---------------------------------------------- */

#define AUTO                                                          \
    "model_type: bert\nlayers: 1\nhidden: 32\nheads: 2\nvocab: 264\n" \
    "seq_length: 16\nthreads_per_stage: 1\ndevice: cpu\n"             \
    "tie_embeddings: false\nprofile: \"" VP_SOURCE_DIR                \
    "/configs/profiles/rtx_2080ti.json\"\nbatch_size: auto\n"         \
    "accumulation_steps: auto\nreplicas: auto\nauto_plan: true\n"     \
    "partition: [2, 1]\n"

/* Returns the samples per second of the best plan of a.yml with `sets`, or 0 if it
 * does not fit. */
static double searched_rate(const char *const *sets, int n_sets,
                            const char *profile)
{
    static struct vp_search_result result;
    const struct vp_config_source from = {
        .path = "a.yml", .sets = sets, .n_sets = n_sets, .unplanned = true
    };
    const struct vp_planning_options options = { .profile = profile };
    struct vp_planning *planning;
    struct vp_config c;
    struct vp_err err = { .text = "" };
    double rate = 0.0;

    if (vp_config_load_from(&from, &c, &err) != VP_OK ||
        vp_planning_open(&c, &options, &planning, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (vp_search_run(vp_planning_search(planning), vp_planning_input(planning),
                      &result, &err) == VP_OK) {
        rate = (double)c.batch_size / result.time.per_mb;
        vp_search_result_release(&result);
    }
    vp_planning_close(planning);
    vp_config_release(&c);
    return rate;
}

/* Returns the samples per second of a.yml with these numbers in place of auto,
 * or 0 if it does not fit. */
static double rate_of(const char *limit, int batch, int steps, int n_stages)
{
    char texts[3][32];
    const char *sets[] = { limit, texts[0], texts[1], texts[2],
                           n_stages == 1 ? "replicas=[2]" : "replicas=[1,1]" };

    snprintf(texts[0], sizeof(texts[0]), "batch_size=%d", batch);
    snprintf(texts[1], sizeof(texts[1]), "accumulation_steps=%d", steps);
    snprintf(texts[2], sizeof(texts[2]), "stages=%d", n_stages);
    return searched_rate(sets, 5, NULL);
}

/* Returns the samples per second of the best combination of numbers. */
static double best_rate(const char *limit)
{
    double best = 0.0;

    for (int n_stages = 1; n_stages <= 2; n_stages++)
        for (int batch = 1; batch <= 32; batch *= 2)
            for (int steps = 2; steps <= 16; steps *= 2) {
                double rate = rate_of(limit, batch, steps, n_stages);

                best = rate > best ? rate : best;
            }
    return best;
}

/* The chosen numbers are those of the fastest combination, and the resolved
 * configuration has them. */
static void test_numbers(void **state)
{
    static const char *const limits[][2] = { { "memory_limit=900K", NULL },
                                             { "memory_limit=2M", NULL } };
    struct vp_config c;
    struct vp_err err;
    char *line, text[64];
    int batches[2];

    (void)state;
    write_text("a.yml", AUTO);
    for (size_t i = 0; i < VP_COUNT_OF(limits); i++) {
        double rate;

        assert_true(plans(limits[i], NULL, &c, &line, &err));
        assert_int_equal(vp_config_n_ranks(&c), 2);
        assert_int_equal(c.auto_keys, 0);
        assert_in_range(peak_of(&c), 1, c.memory_limit);
        rate = rate_of(limits[i][0], (int)c.batch_size, c.accumulation_steps,
                       c.stages);
        if (i == 0 && !SLOW)
            assert_true(rate >= 0.99 * best_rate(limits[i][0]));
        snprintf(text, sizeof(text), "batch_size=%d, accumulation_steps=%d, ",
                 (int)c.batch_size, c.accumulation_steps);
        assert_non_null(strstr(line, text));
        batches[i] = (int)c.batch_size;
        assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
        free(line);
        vp_config_release(&c);
    }
    assert_true(batches[0] < batches[1]);
    line = read_text("b.yml");
    snprintf(text, sizeof(text), "\nbatch_size: %d\n", batches[1]);
    assert_non_null(strstr(line, text));
    assert_non_null(strstr(line, "\nreplicas: ["));
    free(line);
}

/* The value auto is refused without a search, and stays auto until the
 * search. */
static void test_auto_needs_a_search(void **state)
{
    static const char *const off[2] = { "auto_plan=false", NULL };
    static const char *const cut[2] = { "partition=[1, 2]", NULL };
    static const char *const asp[2] = { "sync_mode=asp", NULL };
    static const char *const none[2] = { NULL, NULL };
    struct vp_config c;
    struct vp_err err;
    char *text;

    (void)state;
    write_text("a.yml", AUTO);
    assert_int_equal(load(off, NULL, &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:11: key 'batch_size' is auto, which needs a "
                        "search for a plan; set auto_plan: true, or the number "
                        "that 'vpipe plan' finds");
    vp_config_release(&c);
    assert_int_equal(load(cut, NULL, &c, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "key 'batch_size' is auto"));
    vp_config_release(&c);
    assert_int_equal(load(asp, NULL, &c, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "a.yml:12: key 'accumulation_steps' has "
                                     "no effect with sync_mode asp"));
    vp_config_release(&c);
    assert_int_equal(load(none, NULL, &c, &err), VP_OK);
    assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
    vp_config_release(&c);
    text = read_text("b.yml");
    assert_non_null(strstr(text, "\nbatch_size: auto\n"));
    assert_non_null(strstr(text, "\naccumulation_steps: auto\n"));
    assert_non_null(strstr(text, "\nreplicas: auto\n"));
    free(text);
}

/* A resumed run keeps its batch_size and accumulation_steps, even with a new
 * plan. */
static void test_numbers_are_kept(void **state)
{
    static const char *const none[2] = { NULL, NULL };
    static const char *const anew[2] = { "auto_plan=again", NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_text("a.yml", AUTO);
    mkdir("run", 0777);
    mkdir("run/checkpoints", 0777);
    write_text("run/plan.json",
               "{\"partition\": [1, 2], \"accumulation_steps\": 6}\n");
    write_text("run/config.yml",
               "model_type: bert\nlayers: 1\nbatch_size: 5\nseq_length: 16\n"
               "hidden: 32\nheads: 2\naccumulation_steps: 6\nstages: 2\n"
               "partition: plan.json\n");
    assert_true(plans(none, "run", &c, &line, &err));
    assert_string_equal(line, "plan: run/plan.json is kept");
    assert_int_equal(c.batch_size, 5);
    assert_int_equal(c.accumulation_steps, 6);
    assert_int_equal(c.stages, 2);
    free(line);
    vp_config_release(&c);
    assert_true(plans(anew, "run", &c, &line, &err));
    assert_int_equal(c.batch_size, 5);
    assert_int_equal(c.accumulation_steps, 6);
    assert_int_equal(c.stages, 1); /* faster than 2, without a limit */
    free(line);
    vp_config_release(&c);
}

/* ---- Tensor-parallel groups --------------------------------------------- */

#define GROUPS(heads, more)                                      \
    "model_type: bert\nlayers: 2\nhidden: 32\nheads: " #heads    \
    "\nvocab: 4000\nseq_length: 16\nbatch_size: 4\n"             \
    "threads_per_stage: 1\ndevice: cpu\ntie_embeddings: false\n" \
    "profile: profile.json\nmp_size: auto\nstages: 4\nauto_plan: true\n" more

/* Writes a profile in which products are slow, and kernels and copies take
 * nearly no time. */
static void write_profile(double link_gb_per_s)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"device\": \"test\", \"memory_bytes\": 11060000000,\n"
             "\"peak_tflops_fp32\": 0.01, \"copy_gb_per_s\": 616,\n"
             "\"efficiency_of_products_by_rows\": [[128, 1.0]],\n"
             "\"microseconds_per_kernel\": 0.001,\n"
             "\"links_gb_per_s\": {\"same_host\": %g, "
             "\"between_hosts\": %g}}\n",
             link_gb_per_s, link_gb_per_s);
    write_text("profile.json", text);
}

/* Returns the samples per second of a.yml with groups of `members`, or 0 if it
 * does not fit. */
static double group_rate(const char *limit, int members)
{
    char texts[2][32];
    const char *sets[] = { limit, texts[0], texts[1] };

    snprintf(texts[0], sizeof(texts[0]), "mp_size=%d", members);
    snprintf(texts[1], sizeof(texts[1]), "stages=%d", 4 / members);
    return searched_rate(sets, 3, "profile.json");
}

/* Plans a.yml within `limit` and returns the chosen mp_size. Checks that
 * configuration, plan and line name the same mp_size and, in a fast build, that
 * no other size up to `most` is faster. */
static int chosen(const char *limit, int most)
{
    const char *sets[2] = { limit, NULL };
    struct vp_train_config train = { .plan.n_stages = 0 };
    struct vp_config c;
    struct vp_err err;
    char *line, text[64];
    double rate;
    int members;

    if (!plans(sets, NULL, &c, &line, &err))
        fail_msg("%s", err.text);
    members = c.mp_size;
    assert_int_equal(c.auto_keys, 0);
    assert_int_equal(vp_config_n_ranks(&c), 4);
    assert_int_equal(c.stages, 4 / members);
    vp_resolve_train(&c, &train);
    assert_int_equal(train.plan.tensor_parallel, members);
    assert_in_range(peak_of(&c), 1, c.memory_limit);
    snprintf(text, sizeof(text), "plan: mp_size=%d, stages=%d, ", members,
             c.stages);
    if (!strstr(line, text))
        fail_msg("'%s' does not say '%s'", line, text);
    rate = SLOW ? 0.0 : group_rate(limit, members);
    for (int m = 1; m <= most && !SLOW; m *= 2)
        assert_true(m == members || rate >= group_rate(limit, m));
    assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
    free(line);
    vp_config_release(&c);
    line = read_text("b.yml");
    snprintf(text, sizeof(text), "\nmp_size: %d\n", members);
    assert_non_null(strstr(line, text));
    free(line);
    return members;
}

/* The size of groups depends on bytes and seconds. Over slow links, sums cost
 * more than the bubble of four stages; with the small limit, the vocabulary's
 * table must be divided. */
static void test_groups(void **state)
{
    (void)state;
    write_text("a.yml", GROUPS(4, "accumulation_steps: 8\n"));
    write_profile(0.1);
    assert_int_equal(chosen("memory_limit=1G", 4), 1);
    assert_true(group_rate("memory_limit=2200K", 1) == 0.0);
    assert_int_equal(chosen("memory_limit=2200K", 4), 2);
    write_profile(1.0);
    assert_int_equal(chosen("memory_limit=1G", 4), 2);
    write_profile(100.0);
    assert_int_equal(chosen("memory_limit=1G", 4), 4);
    /* Groups of 4 cannot share 2 heads. */
    write_text("a.yml", GROUPS(2, "accumulation_steps: 8\n"));
    assert_int_equal(chosen("memory_limit=1G", 2), 2);
}

/* Stages, replicas and members together use all ranks. */
static void test_groups_and_replicas(void **state)
{
    static const char *const none[2] = { NULL, NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_profile(100.0);
    write_text("a.yml", GROUPS(4, "accumulation_steps: 4\nreplicas: auto\n"));
    assert_true(plans(none, NULL, &c, &line, &err));
    assert_int_equal(vp_config_n_ranks(&c), 4);
    free(line);
    vp_config_release(&c);
    write_text("a.yml", GROUPS(4, "accumulation_steps: 1\n"
                                  "replicas: [2, 2, 2, 2]\n"));
    assert_true(plans(none, NULL, &c, &line, &err));
    assert_int_equal(vp_config_n_ranks(&c), 8);
    assert_true(c.mp_size > 1);
    for (int s = 0; s < c.stages; s++)
        assert_int_equal(c.replicas.at[s], 2);
    free(line);
    vp_config_release(&c);
    write_text("a.yml", GROUPS(4, "accumulation_steps: 4\n"
                                  "replicas: [1, 2, 2, 1]\n"));
    assert_false(plans(none, NULL, &c, &line, &err));
    assert_string_equal(
        err.text, "a.yml:12: key 'mp_size' is auto, but replicas (a.yml:16) "
                  "differ, and the number of stages is not known yet; give all "
                  "stages the same number, or set replicas: auto");
    vp_config_release(&c);
}

/* With a given mp_size, the search for replicas keeps the number of ranks: 4
 * stages of groups of 2. */
static void test_replicas_of_groups(void **state)
{
    static const char *const two[2] = { "mp_size=2", NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_profile(100.0);
    write_text("a.yml", GROUPS(4, "accumulation_steps: 4\nreplicas: auto\n"));
    assert_true(plans(two, NULL, &c, &line, &err));
    assert_int_equal(c.mp_size, 2);
    assert_int_equal(vp_config_n_ranks(&c), 8);
    free(line);
    vp_config_release(&c);
}

/* A resumed run keeps the size of its groups, with its plan or a new one. It is
 * chosen again if it does not divide a new number of ranks. */
static void test_groups_are_kept(void **state)
{
    static const char *const none[2] = { NULL, NULL };
    static const char *const anew[2] = { "auto_plan=again", NULL };
    static const char *const three[2] = { "stages=3", NULL };
    static const char *const pair[2] = { "stages=2", NULL };
    struct vp_config c;
    struct vp_err err;
    char *line;

    (void)state;
    write_profile(0.1);
    write_text("a.yml", GROUPS(4, "accumulation_steps: 8\n")); /* 1 is best */
    mkdir("run", 0777);
    mkdir("run/checkpoints", 0777);
    write_text("run/plan.json", "{\"partition\": [2, 3], \"tensor_parallel\": "
                                "2, \"accumulation_steps\": 8}\n");
    write_text("run/config.yml",
               "model_type: bert\nlayers: 2\nhidden: 32\nheads: 4\n"
               "seq_length: 16\naccumulation_steps: 8\nstages: 2\n"
               "mp_size: 2\npartition: plan.json\n");
    assert_true(plans(none, "run", &c, &line, &err));
    assert_string_equal(line, "plan: run/plan.json is kept");
    assert_int_equal(c.mp_size, 2);
    assert_int_equal(c.stages, 2);
    free(line);
    vp_config_release(&c);
    assert_true(plans(anew, "run", &c, &line, &err));
    assert_int_equal(c.mp_size, 2);
    assert_int_equal(c.stages, 2);
    free(line);
    vp_config_release(&c);
    assert_true(plans(pair, "run", &c, &line, &err));
    assert_int_equal(c.mp_size, 2);
    assert_int_equal(c.stages, 1);
    free(line);
    vp_config_release(&c);
    assert_true(plans(three, "run", &c, &line, &err));
    assert_int_equal(c.mp_size, 1);
    assert_int_equal(c.stages, 3);
    free(line);
    vp_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_replaces),
        cmocka_unit_test(test_partition_wins),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_auto_needs_a_search),
        cmocka_unit_test(test_numbers_are_kept),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_groups_and_replicas),
        cmocka_unit_test(test_replicas_of_groups),
        cmocka_unit_test(test_groups_are_kept),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
