/* An evaluation changes no training loss, its own loss is the mean over all
 * labels, and metrics.jsonl records it. */
#include "config/load.h"
#include "lib/removelib.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SETS = 12, MAX_STEPS = 512 };

static char root[64];

/* ---- Runs and their events ---------------------------------------------- */

/* Reported steps, at index step - 1, and evaluations. */
struct heard {
    struct vp_step_report steps[MAX_STEPS];
    int n_steps;
    int64_t eval_steps[MAX_STEPS];
    double eval_losses[MAX_STEPS];
    int n_evals;
};

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", root, name);
    return path[turn];
}

static void (*on_step)(const struct vp_step_report *report); /* may be NULL */

static void hear_step(void *ctx, const struct vp_step_report *report)
{
    struct heard *heard = ctx;

    if (on_step)
        on_step(report);
    assert_true(report->step <= MAX_STEPS);
    heard->steps[report->step - 1] = *report;
    heard->n_steps++;
}

static void hear_eval(void *ctx, int64_t step, int64_t n_batches, double loss)
{
    struct heard *heard = ctx;

    (void)n_batches;
    assert_true(heard->n_evals < MAX_STEPS);
    heard->eval_steps[heard->n_evals] = step;
    heard->eval_losses[heard->n_evals++] = loss;
}

static void (*on_end)(void *ctx, const struct vp_run_result *result);

/* Trains with the settings of `base` and `more`, which both end with NULL. */
static void run(const char *output, const char *resume, int64_t max_steps,
                const char *const *base, const char *const *more,
                struct heard *heard)
{
    static const char text[] =
        "model_type: bert\nvocab: 64\nhidden: 16\nlayers: 2\nheads: 2\n"
        "ffn: 32\npositions: 16\ndropout: 0.1\ntie_embeddings: false\n"
        "synthetic_data: true\nseq_length: 16\nbatch_size: 2\n"
        "optimizer: adamw\nlearning_rate: 0.01\ntotal_steps: 24\n"
        "eval_batches: 2\nthreads_per_stage: 1\n";
    struct vp_run_options options = { .output = output,
                                      .resume = resume,
                                      .max_steps = max_steps };
    struct vp_run_events events = { .ctx = heard,
                                    .on_step = hear_step,
                                    .on_eval = hear_eval,
                                    .on_end = on_end };
    const char *sets[2 * MAX_SETS];
    struct vp_config config;
    struct vp_err err = { .text = "" };
    int n_sets = 0;

    memset(heard, 0, sizeof(*heard));
    while (base && *base)
        sets[n_sets++] = *base++;
    while (more && *more)
        sets[n_sets++] = *more++;
    if (vp_config_parse("test.yml", text, sizeof(text) - 1, sets, n_sets,
                        &config, &err) != VP_OK ||
        vp_run_train(&config, &options, &events, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_config_release(&config);
}

/* ---- Evaluations change no training loss -------------------------------- */

struct neutral_case {
    const char *sets[MAX_SETS];
    int n_updates;    /* expected updates of stage 0 */
    int64_t evals[8]; /* expected steps with eval_every=5 */
};

/* An evaluation waits until all ranks end a round: every 6 minibatches with 2,
 * 1 and 3 replicas, every 3 with three stages of macrobatch. */
static const struct neutral_case neutral_cases[] = {
    { { "stages=4", "sync_mode=asp" }, 24, { 5, 10, 15, 20 } },
    { { "stages=3", "sync_mode=asp", "replicas=[2,1,3]" },
      12,
      { 6, 12, 18, 24 } },
    { { "stages=3", "sync_mode=asp", "macrobatch=true" },
      8,
      { 6, 12, 15, 21 } },
    { { "stages=3", "sync_mode=asp", "macrobatch=true", "replicas=[1,2,1]" },
      6,
      { 8, 12, 16, 20 } },
    { { "stages=2", "sync_mode=bsp", "accumulation_steps=2" },
      24,
      { 5, 10, 15, 20 } },
};

/* Checks that steps from `first` on have the same loss and gradient norm. */
static void assert_same_steps(const struct heard *have,
                              const struct heard *want, int first)
{
    for (int i = first; i < 24; i++) {
        if (have->steps[i].loss != want->steps[i].loss)
            fail_msg("loss of step %d is %.17g, not %.17g", i + 1,
                     have->steps[i].loss, want->steps[i].loss);
        assert_true(have->steps[i].grad_norm == want->steps[i].grad_norm);
    }
}

static void assert_evals(const struct heard *heard, const int64_t *want)
{
    int n = 0;

    while (n < 8 && want[n] > 0) {
        assert_true(n < heard->n_evals);
        assert_int_equal(heard->eval_steps[n], want[n]);
        n++;
    }
    assert_int_equal(heard->n_evals, n);
}

static void evaluations_change_no_loss(void **state)
{
    static const char *const without[] = { "eval_every=0", NULL };
    static const char *const with[] = { "eval_every=5", NULL };
    static struct heard want, have;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(neutral_cases); i++) {
        const struct neutral_case *c = &neutral_cases[i];
        char name[32];

        snprintf(name, sizeof(name), "neutral%zu", i);
        run(path_of(name), NULL, 0, c->sets, without, &want);
        assert_int_equal(want.n_evals, 0);
        snprintf(name, sizeof(name), "neutral%zu-eval", i);
        run(path_of(name), NULL, 0, c->sets, with, &have);
        assert_int_equal(have.n_steps, 24);
        assert_same_steps(&have, &want, 0);
        assert_evals(&have, c->evals);
    }
}

static int n_updates; /* expected updates of stage 0 */

static void hear_end(void *ctx, const struct vp_run_result *result)
{
    (void)ctx;
    for (int r = 0; r < result->trace->n_ranks; r++) {
        const struct vp_trace_rank *rank = &result->trace->ranks[r];
        int last = -1, n = 0;

        for (int i = 0; i < rank->n_events; i++) {
            const struct vp_trace_event *event = &rank->events[i];

            if (event->kind != VP_ACTION_UPDATE)
                continue;
            if (n++ > 0)
                assert_int_equal(event->mb, last + 1);
            last = event->mb;
        }
        assert_true(n > 1);
        if (r == 0)
            assert_int_equal(last, n_updates - 1);
    }
}

/* The updates in a trace are numbered without a restart after an evaluation. */
static void evaluations_restart_no_numbers(void **state)
{
    static const char *const with[] = { "eval_every=5", NULL };
    static struct heard heard;

    (void)state;
    on_end = hear_end;
    for (size_t i = 0; i < VP_COUNT_OF(neutral_cases); i++) {
        char name[32];

        snprintf(name, sizeof(name), "numbers%zu", i);
        n_updates = neutral_cases[i].n_updates;
        run(path_of(name), NULL, 0, neutral_cases[i].sets, with, &heard);
    }
    on_end = NULL;
}

/* ---- The timeline of a resumed run -------------------------------------- */

enum { LIVE_STEPS = 48 };

/* The folder of the resumed run, and the numbers of minibatches and updates of
 * stage 0 before it. */
static const char *live_folder;
static int live_first, live_updates;
static int live_last; /* last minibatch in the timeline, until the end */
static int n_live;    /* steps at which a timeline existed */

/* Checks that minibatches and updates are numbered from the end of the first
 * part on. */
static void check_live(const struct vp_trace *trace)
{
    int first = INT32_MAX;

    assert_int_equal(vp_trace_minibatches(trace).first, live_first);
    for (int r = 0; r < trace->n_ranks; r++)
        for (int i = 0; i < trace->ranks[r].n_events; i++) {
            const struct vp_trace_event *event = &trace->ranks[r].events[i];

            if (event->kind == VP_ACTION_UPDATE && event->stage == 0 &&
                event->mb < first)
                first = event->mb;
            else if (event->kind == VP_ACTION_F && !event->eval)
                assert_true(event->mb >= live_first);
        }
    assert_int_equal(first, live_updates);
}

/* Reads the timeline at a step, or at the end if `report` is NULL. */
static void read_live(const struct vp_step_report *report)
{
    struct vp_err err = { .text = "" };
    struct vp_trace trace;
    char path[300];

    snprintf(path, sizeof(path), "%s/trace.json", live_folder);
    if (access(path, F_OK) != 0) {
        assert_int_equal(n_live, 0);
        return;
    }
    if (vp_trace_read_chrome(path, &trace, &err) != VP_OK)
        fail_msg("%s", err.text);
    check_live(&trace);
    if (report && n_live == 0)
        live_last = vp_trace_minibatches(&trace).last;
    assert_true((vp_trace_minibatches(&trace).last == live_last) == !!report);
    vp_trace_release(&trace);
    snprintf(path, sizeof(path), "%s/timeline.svg", live_folder);
    assert_int_equal(access(path, F_OK), 0);
    n_live++;
}

static void check_end(void *ctx, const struct vp_run_result *result)
{
    (void)ctx;
    (void)result;
    assert_true(n_live > 0);
    read_live(NULL);
}

/* A run that is resumed in its folder first has no timeline, then one of its
 * own minibatches. Drawing it needs an empty pipe, which changes no loss. */
static void check_resumed(const char *name, const char *const *sets,
                          int64_t step, int64_t n_steps)
{
    static const char *const more[] = { "total_steps=48", NULL };
    static struct heard want, have;
    char whole[40];

    snprintf(whole, sizeof(whole), "%s-whole", name);
    run(path_of(whole), NULL, n_steps, sets, more, &want);
    run(path_of(name), NULL, step, sets, more, &have);
    live_folder = path_of(name);
    n_live = 0;
    on_step = read_live;
    on_end = check_end;
    run(NULL, live_folder, n_steps, sets, more, &have);
    on_step = NULL;
    on_end = NULL;
    assert_int_equal(have.n_steps, n_steps - step);
    assert_true(n_live < n_steps - step); /* there was none at the first step */
    for (int64_t i = step; i < n_steps; i++)
        assert_true(have.steps[i].loss == want.steps[i].loss);
}

static void a_resumed_run_is_drawn(void **state)
{
    static const char *const groups[] = { "stages=2", "sync_mode=bsp",
                                          "accumulation_steps=200", NULL };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(neutral_cases); i++) {
        const struct neutral_case *c = &neutral_cases[i];
        const char *sets[MAX_SETS + 2] = { "eval_every=5" };
        int64_t step = c->evals[1];
        char name[32];

        for (int k = 0; c->sets[k]; k++)
            sets[k + 1] = c->sets[k];
        live_first = (int)step * (i == 4 ? 2 : 1);
        live_updates = (int)(c->n_updates * step / 24);
        snprintf(name, sizeof(name), "live%zu", i);
        check_resumed(name, sets, step, LIVE_STEPS);
    }
    /* A timeline is also drawn in a run without evaluations. */
    live_first = 400;
    live_updates = 2;
    check_resumed("stopped", groups, 2, 6);
}

/* A run that is resumed from the checkpoint of an evaluation's step, written
 * during the run or at its end, has the same losses as the run that was not
 * stopped. The evaluation of that step is repeated with the same loss. */
static void a_run_resumes_at_an_evaluation(void **state)
{
    static const char *const with[] = { "eval_every=5", "checkpoint_every=5",
                                        "keep_checkpoints=9", NULL };
    static const char *const without[] = { "eval_every=0", NULL };
    static struct heard want, have;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(neutral_cases); i++) {
        const struct neutral_case *c = &neutral_cases[i];
        int64_t step = c->evals[1];
        char whole[32], part[32], from[64];

        snprintf(whole, sizeof(whole), "whole%zu", i);
        snprintf(part, sizeof(part), "part%zu", i);
        run(path_of(whole), NULL, 0, c->sets, with, &want);
        snprintf(from, sizeof(from), "whole%zu/checkpoints/step-%lld", i,
                 (long long)step);
        snprintf(part, sizeof(part), "middle%zu", i);
        run(path_of(part), path_of(from), 0, c->sets, with, &have);
        assert_int_equal(have.n_steps, 24 - step);
        assert_same_steps(&have, &want, (int)step);
        assert_evals(&have, c->evals + 1);
        for (int k = 0; k < have.n_evals; k++)
            assert_true(have.eval_losses[k] == want.eval_losses[k + 1]);
        snprintf(part, sizeof(part), "bare%zu", i);
        run(path_of(part), path_of(from), 0, c->sets, without, &have);
        assert_same_steps(&have, &want, (int)step);
        snprintf(part, sizeof(part), "end%zu", i);
        run(path_of(part), NULL, step, c->sets, with, &have);
        run(NULL, path_of(part), 0, c->sets, with, &have);
        assert_same_steps(&have, &want, (int)step);
        assert_evals(&have, c->evals + 1);
    }
}

/* ---- The mean of a held-out loss ---------------------------------------- */

/* Copies the last line that begins with `start` from the log of the last of
 * `n_ranks` ranks. */
static void last_line(const char *folder, int n_ranks, const char *start,
                      char *out, size_t n_out)
{
    char path[300], line[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/output.log.%d", folder, n_ranks - 1);
    f = fopen(path, "r");
    assert_non_null(f);
    out[0] = '\0';
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, start, strlen(start)) == 0)
            snprintf(out, n_out, "%s", line);
    fclose(f);
    assert_true(out[0] != '\0');
}

/* All held-out samples give the same loss up to rounding, and the same number
 * of right guesses, at any batch size. 64 and 300 do not divide the number of
 * samples, 1638. */
static void batch_size_changes_no_held_out_loss(void **state)
{
    static const char *const tasks[][3] = {
        { "model_type=bert", "max_pred=4", NULL },
        { "model_type=gpt2", NULL },
        { "model_type=translation", NULL },
    };
    static const int sizes[] = { 1, 3, 7, 64, 300 };
    static struct heard heard;

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(tasks); t++) {
        char want[160], have[160];
        double loss = 0.0;

        for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
            char size[32], name[32];
            const char *const more[] = { "forward_only=true", size, NULL };

            snprintf(size, sizeof(size), "batch_size=%d",
                     t == 2 ? 16 * sizes[i] : sizes[i]);
            snprintf(name, sizeof(name), "size%zu-%zu", t, i);
            run(path_of(name), NULL, 0, tasks[t], more, &heard);
            assert_int_equal(heard.n_evals, 1);
            last_line(path_of(name), 1, " * Prec@1 ", have, sizeof(have));
            if (i == 0) {
                loss = heard.eval_losses[0];
                memcpy(want, have, sizeof(want));
            }
            if (!(fabs(heard.eval_losses[0] / loss - 1.0) <= 1e-6))
                fail_msg("%s: %s: %.17g, not %.17g", tasks[t][0], size,
                         heard.eval_losses[0], loss);
            assert_string_equal(have, want);
        }
    }
}

/* The held-out loss has the same bits for every partition, schedule and number
 * of threads. */
static void cuts_change_no_held_out_loss(void **state)
{
    static const char *const ways[][5] = {
        { "stages=1", "threads_per_stage=2" },
        { "stages=2", "sync_mode=bsp", "schedule=gpipe" },
        { "stages=4", "sync_mode=asp" },
        { "stages=3", "sync_mode=asp", "replicas=[2,1,3]" },
        { "stages=2", "sync_mode=bsp", "schedule=interleaved", "chunks=2" },
        { "stages=2", "sync_mode=bsp", "schedule=zb-v", "chunks=2" },
        { "stages=2", "sync_mode=bsp", "schedule=v-half", "chunks=2" },
        { "stages=2", "sync_mode=bsp", "schedule=v-auto", "schedule_memory=3" },
        { "stages=2", "sync_mode=bsp", "schedule=dualpipe-v", "chunks=2" },
        { "stages=2", "sync_mode=bsp", "schedule=auto", "chunks=1" },
        { "stages=2", "sync_mode=bsp", "schedule=auto", "chunks=2" },
    };
    static const char *const more[] = { "forward_only=true", "batch_size=7",
                                        NULL };
    static struct heard want, have;
    static const char *const none[] = { NULL };

    (void)state;
    run(NULL, NULL, 0, none, more, &want);
    assert_true(want.eval_losses[0] > 1.0);
    for (size_t i = 0; i < VP_COUNT_OF(ways); i++) {
        run(NULL, NULL, 0, ways[i], more, &have);
        assert_true(have.eval_losses[0] == want.eval_losses[0]);
    }
}

/* ---- Minibatches without labels ----------------------------------------- */

/* About one in eight samples of this data has no label; some samples are held
 * out. */
#define SHARDS "data_dir=" VP_SOURCE_DIR "/tests/golden/hdf5/nvidia"

static const char *const unlabelled[] = { SHARDS,
                                          "synthetic_data=false",
                                          "vocab=200",
                                          "layers=1",
                                          "batch_size=1",
                                          "max_pred=4",
                                          "dropout=0.0",
                                          "optimizer=sgd",
                                          "learning_rate=1e-30",
                                          "sync_mode=bsp",
                                          NULL };

static int count_in(const char *folder, const char *name, const char *text)
{
    char path[300];
    static char all[1 << 18];
    int n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "r");
    assert_non_null(f);
    memset(all, 0, sizeof(all));
    assert_true(fread(all, 1, sizeof(all) - 1, f) < sizeof(all) - 1);
    fclose(f);
    for (const char *at = all; (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

/* The learning rate is so small that no weight changes, so groups of 2 see the
 * same losses as single minibatches. The loss of a group is the mean over its
 * minibatches with labels; its gradient is divided by the number of all
 * minibatches. */
static void a_loss_is_of_what_has_labels(void **state)
{
    static const char *const single[] = { "accumulation_steps=1",
                                          "total_steps=400", "seed=2", NULL };
    static const char *const pairs[] = { "accumulation_steps=2",
                                         "total_steps=200", "seed=2", NULL };
    static struct heard one, two;
    int n_null = 0, n_half = 0;

    (void)state;
    run(path_of("single"), NULL, 0, unlabelled, single, &one);
    run(path_of("pairs"), NULL, 0, unlabelled, pairs, &two);
    for (int i = 0; i < 200; i++) {
        const struct vp_step_report *a = &one.steps[2 * i], *b = a + 1;
        const struct vp_step_report *both = &two.steps[i];
        bool has_a = isfinite(a->loss), has_b = isfinite(b->loss);

        if (has_a && has_b) {
            assert_true(both->loss == 0.5 * a->loss + 0.5 * b->loss);
        } else if (has_a || has_b) {
            assert_true(both->loss == (has_a ? a->loss : b->loss));
            assert_true(both->grad_norm ==
                        0.5 * (has_a ? a->grad_norm : b->grad_norm));
            n_half++;
        } else {
            assert_true(isnan(both->loss) && both->grad_norm == 0.0);
            n_null++;
        }
    }
    assert_true(n_null == 5 && n_half > 9);
    assert_int_equal(
        count_in(path_of("pairs"), "metrics.jsonl", "\"loss\": null, "),
        n_null);
    assert_int_equal(count_in(path_of("pairs"), "metrics.jsonl", "nan"), 0);
    assert_int_equal(count_in(path_of("pairs"), "output.log.0", "nan"), 0);
}

/* Tries seeds until the first evaluated sample has no label. */
static void an_evaluation_without_labels_has_no_loss(void **state)
{
    static struct heard heard;
    char name[32], seed[32];
    const char *const more[] = { "forward_only=true", "num_minibatches=1", seed,
                                 NULL };
    int k = 0;

    (void)state;
    do {
        snprintf(name, sizeof(name), "seed%d", ++k);
        snprintf(seed, sizeof(seed), "seed=%d", k);
        run(path_of(name), NULL, 0, unlabelled, more, &heard);
        assert_int_equal(heard.n_evals, 1);
        assert_int_equal(count_in(path_of(name), "output.log.0", " * Prec@1 "),
                         isfinite(heard.eval_losses[0]));
    } while (isfinite(heard.eval_losses[0]) && k < 100);
    assert_true(isnan(heard.eval_losses[0]));
    assert_int_equal(count_in(path_of(name), "metrics.jsonl",
                              "{\"step\": 0, \"eval_loss\": null, "
                              "\"event\": \"eval\"}\n"),
                     1);
    assert_int_equal(count_in(path_of(name), "output.log.0", "Loss: - (-)"), 1);
    assert_int_equal(count_in(path_of(name), "output.log.0", "nan"), 0);
}

/* ---- Set-up ------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-eval-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_change_no_loss),
        cmocka_unit_test(evaluations_restart_no_numbers),
        cmocka_unit_test(a_run_resumes_at_an_evaluation),
        cmocka_unit_test(a_resumed_run_is_drawn),
        cmocka_unit_test(batch_size_changes_no_held_out_loss),
        cmocka_unit_test(cuts_change_no_held_out_loss),
        cmocka_unit_test(a_loss_is_of_what_has_labels),
        cmocka_unit_test(an_evaluation_without_labels_has_no_loss),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
