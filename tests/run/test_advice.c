/* Each remedy that a message about too little memory names is enough, and no
 * smaller change would be. */
#include "config/load.h"
#include "lib/slow.h"
#include "run/advice.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Dry runs ----------------------------------------------------------- */

#define TINY                                                           \
    "hidden: 32\nheads: 4\nvocab: 64\nseq_length: 32\npositions: 32\n" \
    "device: cpu\nthreads_per_stage: 1\ntotal_steps: 4\n"
#define BERT "model_type: bert\nlayers: 4\nbatch_size: 16\n" TINY
#define GPT2 "model_type: gpt2\nlayers: 4\nbatch_size: 16\n" TINY
#define PAIRS "model_type: translation\nlayers: 2\nbatch_size: 512\n" TINY

/* Bytes of the largest stage and of each stage, and the notice of a dry run. */
struct seen {
    int64_t peak;
    int64_t bytes[VP_MAX_STAGES];
    int n_stages;
    char notice[512];
};

static void on_start(void *ctx, const struct vp_run_summary *summary)
{
    struct seen *seen = ctx;

    seen->n_stages = summary->n_stages;
    for (int s = 0; s < summary->n_stages; s++) {
        seen->bytes[s] = summary->stages[s].memory->total;
        if (seen->bytes[s] > seen->peak)
            seen->peak = seen->bytes[s];
    }
}

static void on_notice(void *ctx, const char *line)
{
    struct seen *seen = ctx;

    snprintf(seen->notice, sizeof(seen->notice), "%s", line);
}

/* Runs `yaml` without training. `sets` are those of vp_config_parse(), ended by
 * NULL. A plan that is impossible counts as refused. */
static enum vp_status dry_run(const char *yaml, const char *const *sets,
                              struct seen *seen, struct vp_err *err)
{
    struct vp_run_options options = { .dry_run = true };
    struct vp_run_events events = { .ctx = seen,
                                    .on_start = on_start,
                                    .on_notice = on_notice };
    struct vp_config config;
    enum vp_status st;
    int n = 0;

    while (sets[n])
        n++;
    *seen = (struct seen){ .peak = 0 };
    *err = (struct vp_err){ .text = "" };
    st = vp_config_parse("a.yml", yaml, strlen(yaml), sets, n, &config, err);
    if (st == VP_OK)
        st = vp_run_train(&config, &options, &events, err);
    vp_config_release(&config);
    return st;
}

static int64_t peak_of(const char *yaml)
{
    const char *const none[] = { NULL };
    struct seen seen;
    struct vp_err err;

    if (dry_run(yaml, none, &seen, &err) != VP_OK)
        fail_msg("%s", err.text);
    return seen.peak;
}

/* ---- Remedies for a memory limit ---------------------------------------- */

static bool fits(const char *yaml, const char *limit, const char *key,
                 double value)
{
    char set[64];
    const char *const sets[] = { limit, set, NULL };
    struct seen seen;
    struct vp_err err;

    snprintf(set, sizeof(set), "%s=%.12g", key, value);
    return dry_run(yaml, sets, &seen, &err) == VP_OK;
}

/* Returns the value that the remedy gives for `key`, or 0 if it does not name
 * the key. */
static double named(const char *message, const char *key)
{
    const char *remedy = strrchr(message, ';'), *found;

    assert_non_null(remedy);
    found = strstr(remedy, key);
    return found ? strtod(found + strlen(key) + 1, NULL) : 0.0;
}

/* Checks that each of `values` before the named one is refused and that the
 * named one is accepted. */
static void check_key(const char *yaml, const char *limit, const char *message,
                      const char *key, const double *values, int n)
{
    double value = named(message, key);
    bool seen = false;

    for (int i = 0; i < n && !seen; i++) {
        bool taken = fits(yaml, limit, key, values[i]);

        seen = value == values[i];
        if (taken != seen)
            fail_msg("%s\n%s %g %s", message, key, values[i],
                     taken ? "fits" : "does not fit");
    }
    assert_true(seen == (value > 0.0));
}

/* Removes the proposal to use `vpipe plan` from the end of a message. Returns
 * true if there was one; it must name the file and `set`. */
static bool cut_plan(char *message, const char *set)
{
    char *found = strstr(message, "; or train with a plan that fits: ");
    char want[160];

    if (!found)
        return false;
    snprintf(want, sizeof(want),
             "; or train with a plan that fits: vpipe plan a.yml --set %s "
             "--out plan.json",
             set);
    assert_string_equal(found, want);
    *found = '\0';
    return true;
}

/* Sets a memory limit of `bytes` and checks the remedy of the message. Sets
 * `helped` if a remedy was named. */
static void check_limit(const char *yaml, int64_t bytes, bool *helped)
{
    static const double batches[] = { 8, 4, 2, 1 };
    static const double tokens[] = { 256, 128, 64, 32 };
    static const double ratios[] = { 0.25, 0.5, 0.75, 1 };
    static const double stages[] = { 2, 4, 8 }, more[] = { 4, 8 };
    bool two = strstr(yaml, "stages: 2");
    char limit[64];
    const char *const sets[] = { limit, NULL };
    struct seen seen;
    struct vp_err err;

    snprintf(limit, sizeof(limit), "memory_limit=%lld", (long long)bytes);
    assert_int_equal(dry_run(yaml, sets, &seen, &err), VP_ERR_INVALID);
    cut_plan(err.text, limit);
    assert_non_null(strstr(err.text, "memory_limit is "));
    *helped = strstr(err.text, "; use ");
    if (strstr(err.text, " with recompute_ratio 1")) {
        char set[64];
        const char *const both[] = { limit, set, "recompute_ratio=1", NULL };

        snprintf(set, sizeof(set), "batch_size=%g",
                 named(err.text, "batch_size"));
        assert_int_equal(dry_run(yaml, both, &seen, &err), VP_OK);
        return;
    }
    check_key(yaml, limit, err.text, "batch_size",
              strstr(yaml, "translation") ? tokens : batches, 4);
    check_key(yaml, limit, err.text, "recompute_ratio", ratios, 4);
    if (!strstr(yaml, "partition"))
        check_key(yaml, limit, err.text, "stages", two ? more : stages,
                  two ? 2 : 3);
    else
        assert_true(named(err.text, "stages") == 0.0);
}

static void test_remedies(void **state)
{
    static const char *const yamls[] = {
        BERT,
        GPT2,
        PAIRS,
        BERT "stages: 2\n",
        BERT "stages: 2\nsync_mode: asp\n",
        GPT2 "stages: 2\nschedule: gpipe\naccumulation_steps: 8\n"
             "recompute_ratio: 0.25\n",
        BERT "partition: [3, 3, 3]\nsync_mode: asp\n",
        BERT "partition: [5, 4]\nrecompute_ratio: [1, 0]\n",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(yamls); i++) {
        int64_t peak = peak_of(yamls[i]);
        bool helped;

        check_limit(yamls[i], peak - 1, &helped);
        assert_true(helped);
        for (int64_t part = 15; part > 1; part -= SLOW ? 8 : 4)
            check_limit(yamls[i], peak * part / 16, &helped);
        check_limit(yamls[i], 1024, &helped);
        assert_false(helped);
    }
}

static void test_messages(void **state)
{
    static const struct {
        const char *yaml, *limit, *want; /* end of the message */
        bool planned;                    /* a plan that fits is proposed */
    } cases[] = {
        { GPT2, "memory_limit=1K",
          "memory_limit is 1 KiB; no batch_size or recompute_ratio makes it "
          "fit: raise memory_limit",
          false },
        /* With one minibatch in flight, recomputation saves nothing. */
        { GPT2, "memory_limit=2M", "; use batch_size 4", false },
        { GPT2 "partition: [5, 5]\nrecompute: false\n", "memory_limit=4M",
          "; use batch_size 8 or recompute true with recompute_ratio 0.25",
          true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *const sets[] = { cases[i].limit, NULL };
        struct seen seen;
        struct vp_err err;
        size_t n = strlen(cases[i].want);

        assert_int_equal(dry_run(cases[i].yaml, sets, &seen, &err),
                         VP_ERR_INVALID);
        assert_int_equal(cut_plan(err.text, cases[i].limit), cases[i].planned);
        if (strlen(err.text) < n ||
            strcmp(err.text + strlen(err.text) - n, cases[i].want) != 0)
            fail_msg("%s", err.text);
    }
}

/* ---- Remedies for a trainer --------------------------------------------- */

/* Returns the remedy that `fn` adds for a trainer that was refused with the
 * text "why". */
static const char *advise(const char *yaml,
                          void (*fn)(const struct vp_config *config,
                                     const struct vp_train_config *train,
                                     struct vp_err *err),
                          size_t limit, const struct vp_loader *loader)
{
    static struct vp_err err;
    struct vp_config config;
    struct vp_train_config train = {
        .backend = &vp_backend_cpu,
        .backend_config = { .n_threads = 1 },
        .memory_limit = limit,
        .loader = loader,
    };

    err = (struct vp_err){ .text = "" };
    if (vp_config_parse("a.yml", yaml, strlen(yaml), NULL, 0, &config, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    train.optim = config.optim;
    vp_err_set(&err, VP_OK, "why");
    fn(&config, &train, &err);
    vp_config_release(&config);
    return err.text;
}

/* A resumed run keeps its batch_size, so a smaller one is not proposed. */
static void test_resumed(void **state)
{
    const struct vp_loader loader = { .ctx = NULL };

    (void)state;
    assert_string_equal(
        advise(BERT "partition: [5, 4]\n", vp_advice_remedy, 3 << 20, NULL),
        "why; use batch_size 8 or recompute_ratio 1");
    assert_string_equal(
        advise(BERT "partition: [5, 4]\n", vp_advice_remedy, 3 << 20, &loader),
        "why; use recompute_ratio 1");
    assert_string_equal(
        advise(BERT "partition: [5, 4]\n", vp_advice_less, 0, &loader),
        "why; use a larger recompute_ratio");
}

/* A plan that fits was refused for another reason, which stays unchanged. */
static void test_other_reasons(void **state)
{
    (void)state;
    assert_string_equal(advise(BERT, vp_advice_remedy, 0, NULL), "why");
    assert_string_equal(advise(BERT, vp_advice_remedy, 1 << 30, NULL), "why");
}

/* If the host has too little memory for swapped activations, a smaller
 * swap_ratio is proposed. */
static void test_swapped(void **state)
{
    const char *remedy = "why";
    double batch = 1024, swap;

    (void)state;
    for (; strcmp(remedy, "why") == 0 && batch < 1 << 24; batch *= 1.05) {
        char yaml[512];

        snprintf(yaml, sizeof(yaml),
                 "model_type: bert\nlayers: 4\npartition: [5, 4]\n"
                 "schedule: gpipe\nswap_ratio: 1\nbatch_size: %d\n" TINY,
                 (int)batch);
        remedy = advise(yaml, vp_advice_remedy, 0, NULL);
    }
    swap = named(remedy, "swap_ratio");
    if (!strstr(remedy, "; use swap_ratio ") || swap >= 1.0)
        fail_msg("batch_size %d: %s", (int)batch, remedy);
}

/* A host that has memory for each of three equal stages but not for all of
 * them: more machines are proposed. */
static void test_more_machines(void **state)
{
    const char *remedy = "why";
    long batch = 1024;

    (void)state;
    for (; strcmp(remedy, "why") == 0 && batch < 1 << 24; batch *= 2) {
        char yaml[512];

        snprintf(yaml, sizeof(yaml),
                 "%spartition: [3, 3, 3]\nschedule: gpipe\n",
                 "model_type: bert\nlayers: 4\n" TINY);
        snprintf(yaml + strlen(yaml), sizeof(yaml) - strlen(yaml),
                 "batch_size: %ld\n", batch);
        remedy = advise(yaml, vp_advice_remedy, 0, NULL);
    }
    if (!strstr(remedy, "; use batch_size ") ||
        !strstr(remedy, " or more machines"))
        fail_msg("batch_size %ld: %s", batch / 2, remedy);
}

/* ---- Recomputed sets of a plan ------------------------------------------ */

/* A plan names the operators to recompute. A remedy that names a ratio says
 * that it replaces the plan's list. */
static void test_sets(void **state)
{
    static char path[] = "/tmp/vpipe_advice_XXXXXX";
    static const char plan[] = "{\"partition\": [5, 4], \"recompute_ratio\": "
                               "[1, 1], \"recompute\": [[0], [], [], [], [], "
                               "[], [], [], []]}";
    static const char remedy[] = "why; use batch_size 8 or recompute_ratio 1 "
                                 "in place of the plan's recompute";
    const char *const none[] = { NULL };
    struct seen seen;
    struct vp_err err;
    char yaml[512];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, plan, strlen(plan)), strlen(plan));
    close(fd);
    snprintf(yaml, sizeof(yaml), BERT "partition: %s\n", path);
    assert_string_equal(advise(yaml, vp_advice_remedy, 3 << 20, NULL), remedy);
    assert_non_null(strstr(advise(yaml, vp_advice_less, 0, NULL),
                           "a larger recompute_ratio in place of the plan's "
                           "recompute"));
    /* The plan's ratio is not used, because sets have priority; there is no
     * notice about it. */
    assert_int_equal(dry_run(yaml, none, &seen, &err), VP_OK);
    assert_string_equal(seen.notice, "");
    unlink(path);
}

/* The memory of the device is not known, so the remedies have no numbers. */
static void test_full_device(void **state)
{
    (void)state;
    /* With one minibatch in flight, recomputation saves nothing. */
    assert_string_equal(advise(GPT2, vp_advice_less, 0, NULL),
                        "why; use a smaller batch_size or more stages");
    /* With 1f1b more stages have more minibatches in flight; with gpipe all of
     * them are in flight anyway. */
    assert_string_equal(advise(BERT "stages: 2\n", vp_advice_less, 0, NULL),
                        "why; use a smaller batch_size or a larger "
                        "recompute_ratio");
    assert_string_equal(
        advise(BERT "stages: 2\nschedule: gpipe\n", vp_advice_less, 0, NULL),
        "why; use a smaller batch_size, a larger "
        "recompute_ratio or more stages");
    /* The vocabulary takes nearly all bytes. */
    assert_string_equal(advise("model_type: bert\nlayers: 1\nhidden: 32\n"
                               "heads: 4\nvocab: 1000000\nbatch_size: 1\n"
                               "seq_length: 8\nmax_pred: 1\npartition: [3]\n",
                               vp_advice_less, 0, NULL),
                        "why; use a device with more memory");
}

/* ---- Notices about recomputation ---------------------------------------- */

/* Checks that the notice names `n_named` stages, and only stages that
 * recomputation does not make smaller. */
static void check_notice(const char *yaml, const char *ratios, int n_named)
{
    const char *const with[] = { ratios, NULL };
    const char *const without[] = { "recompute_ratio=0", NULL };
    struct seen a, b;
    struct vp_err err;
    int n = 0;

    assert_int_equal(dry_run(yaml, without, &b, &err), VP_OK);
    assert_string_equal(b.notice, "");
    assert_int_equal(dry_run(yaml, with, &a, &err), VP_OK);
    for (int s = 0; s < a.n_stages; s++) {
        char name[32];
        bool told;

        snprintf(name, sizeof(name), " stage %d (", s);
        told = strstr(a.notice, name);
        n += told;
        /* Stages with ratio 0 are not named. */
        if (told && a.bytes[s] < b.bytes[s])
            fail_msg("%s: stage %d saves %lld bytes", a.notice, s,
                     (long long)(b.bytes[s] - a.bytes[s]));
    }
    if (n != n_named)
        fail_msg("%s: '%s'", ratios, a.notice);
    assert_true((n > 0) == (a.notice[0] != '\0'));
}

static void test_ratios(void **state)
{
    static const char yaml[] = BERT "partition: [3, 3, 3]\n";
    const char *const all[] = { "recompute_ratio=1", NULL };
    const char *const little[] = { "recompute_ratio=[0.1, 0.05, 0]", NULL };
    struct seen seen;
    struct vp_err err;

    (void)state;
    check_notice(yaml, "recompute_ratio=1", 1);
    check_notice(yaml, "recompute_ratio=[1, 1, 0]", 0);
    check_notice(yaml, "recompute_ratio=[0, 0, 0.5]", 1);
    check_notice(yaml, "recompute_ratio=0.1", 3);
    check_notice(BERT, "recompute_ratio=1", 1);
    check_notice(BERT "partition: [5, 4]\nschedule: gpipe\n",
                 "recompute_ratio=1", 0);

    assert_int_equal(dry_run(yaml, all, &seen, &err), VP_OK);
    assert_string_equal(seen.notice,
                        "--set: key 'recompute_ratio' saves no memory on stage "
                        "2 (one minibatch in flight); set it to 0 there");
    assert_int_equal(dry_run(yaml, little, &seen, &err), VP_OK);
    assert_string_equal(seen.notice,
                        "--set: key 'recompute_ratio' saves no memory on stage "
                        "0 (1 of 15 lines), stage 1 (0 of 15 lines); set it to "
                        "0 there");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remedies), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_resumed),  cmocka_unit_test(test_other_reasons),
        cmocka_unit_test(test_swapped),  cmocka_unit_test(test_more_machines),
        cmocka_unit_test(test_sets),     cmocka_unit_test(test_full_device),
        cmocka_unit_test(test_ratios),
    };

    return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
