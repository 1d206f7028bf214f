/* libvpipe trains, saves, resumes and runs trained models through its public
 * header alone, and changes no state of its caller: locale, signals, streams,
 * threads. */
#include "lib/apilib.h"

#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Functions of OpenMP, which the compute library below libvpipe uses. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int n);

enum { N = 12 };

/* ---- Names -------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(vpipe_version(), VPIPE_VERSION);
    assert_string_equal(vpipe_status_name(VPIPE_OK), "ok");
    assert_string_equal(vpipe_status_name(VPIPE_FAILED), "failed");
    assert_string_equal(vpipe_status_name(VPIPE_CALLBACK), "callback");
    assert_string_equal(vpipe_status_name((enum vpipe_status)99), "unknown");
}

/* ---- Training ----------------------------------------------------------- */

/* A model that a callback builds from operators has the losses of the named
 * model, bit for bit, in one stage and in two; and the loss falls. */
static void test_custom_is_named(void **state)
{
    double custom[N], two[N], named_losses[N];
    struct vpipe_config *config = named_config("1");

    (void)state;
    assert_ok(vpipe_config_set_data(config, fill_counting, NULL, 100, 3,
                                    &last_error));
    losses_of(config, N, named_losses);
    losses_of(custom_config("1"), N, custom);
    losses_of(custom_config("2"), N, two);
    assert_same_losses(custom, named_losses, N);
    assert_same_losses(two, named_losses, N);
    assert_true(two[0] > 3.6 && two[0] < 3.8); /* log(40) = 3.69 */
    assert_true(two[N - 1] < 3.4);
}

struct seen {
    double loss[N];
    int64_t last;
};

static int see(void *ctx, const struct vpipe_step *step)
{
    struct seen *seen = ctx;

    assert_int_equal(step->step, seen->last + 1);
    assert_int_equal(step->n_steps, 24);
    assert_int_equal(step->minibatch, 2 * step->step);
    assert_true(step->lr > 0.0 && step->grad_norm > 0.0 &&
                step->seconds > 0.0 && step->tokens_per_second > 0.0 &&
                step->bubble >= 0.0);
    seen->last = step->step;
    if (step->step <= N)
        seen->loss[step->step - 1] = step->loss;
    return 0;
}

/* The callback gets the same losses as the array, and two calls give the losses
 * of one. */
static void test_calls(void **state)
{
    struct vpipe_config *config = custom_config("2");
    struct vpipe_trainer *trainer = start(config, NULL, NULL);
    struct seen seen = { .last = 0 };
    double whole[N], all[24];

    (void)state;
    vpipe_config_free(config);
    losses_of(custom_config("2"), N, whole);
    assert_ok(vpipe_trainer_run(trainer, 3, see, &seen, &last_error));
    assert_int_equal(vpipe_trainer_step(trainer), 3);
    assert_ok(vpipe_trainer_run(trainer, 9, see, &seen, &last_error));
    assert_int_equal(vpipe_trainer_step(trainer), 12);
    assert_same_losses(seen.loss, whole, N);

    assert_refused(VPIPE_INVALID, "12 of 24 are left",
                   vpipe_trainer_run(trainer, 13, NULL, NULL, &last_error));
    assert_refused(VPIPE_INVALID, "12 of 24",
                   vpipe_trainer_run_losses(trainer, 13, all, &last_error));
    assert_refused(VPIPE_INVALID, "1 or more",
                   vpipe_trainer_run_losses(trainer, 0, all, &last_error));
    assert_refused(VPIPE_INVALID, "-1 steps",
                   vpipe_trainer_run(trainer, -1, NULL, NULL, &last_error));
    assert_ok(vpipe_trainer_run(trainer, 0, NULL, NULL, &last_error));
    assert_int_equal(vpipe_trainer_step(trainer), 24);
    vpipe_trainer_free(trainer);
}

static int stop_at_5(void *ctx, const struct vpipe_step *step)
{
    *(int64_t *)ctx = step->step;
    return step->step >= 5;
}

/* If a callback asks to stop, the call ends after the steps that stages have
 * begun; the trainer can continue. */
static void test_stop(void **state)
{
    struct vpipe_config *config = custom_config("2");
    struct vpipe_trainer *trainer;
    int64_t last = 0, then;

    (void)state;
    set(config, "total_steps", "5000");
    trainer = start(config, NULL, NULL);
    vpipe_config_free(config);
    assert_ok(vpipe_trainer_run(trainer, 0, stop_at_5, &last, &last_error));
    assert_true(last >= 5 && last < 5000);
    assert_int_equal(vpipe_trainer_step(trainer), last);
    then = last;
    assert_ok(vpipe_trainer_run(trainer, 1, stop_at_5, &last, &last_error));
    assert_int_equal(last, then + 1);
    vpipe_trainer_free(trainer);
}

/* An evaluation does not change training, and uses held-out batches. */
static void test_evaluate(void **state)
{
    struct vpipe_config *config = custom_config("2");
    struct vpipe_trainer *trainer = start(config, NULL, NULL);
    double whole[N], losses[N], first, one, last;

    (void)state;
    losses_of(custom_config("1"), N, whole);
    assert_ok(vpipe_trainer_evaluate(trainer, 0, &first, &last_error));
    assert_true(first > 3.6 && first < 3.8); /* log(40) = 3.69 */
    assert_ok(vpipe_trainer_run_losses(trainer, 6, losses, &last_error));
    assert_ok(vpipe_trainer_evaluate(trainer, 1, &one, &last_error));
    assert_ok(vpipe_trainer_run_losses(trainer, 6, losses + 6, &last_error));
    assert_ok(vpipe_trainer_evaluate(trainer, 0, &last, &last_error));
    assert_same_losses(losses, whole, N);
    assert_true(last < one && one < first);
    assert_refused(VPIPE_INVALID, "negative",
                   vpipe_trainer_evaluate(trainer, -1, &last, &last_error));
    vpipe_trainer_free(trainer);

    assert_ok(
        vpipe_config_set_data(config, fill_counting, NULL, 9, 0, &last_error));
    trainer = start(config, NULL, NULL);
    assert_refused(VPIPE_INVALID, "no batches to evaluate",
                   vpipe_trainer_evaluate(trainer, 0, &last, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
}

static void note_line(void *ctx, const char *line)
{
    char *all = ctx;

    snprintf(all + strlen(all), 2000 - strlen(all), "%s\n", line);
}

/* A trainer that gets the plan of another one has the same losses. */
static void test_plan(void **state)
{
    struct vpipe_config *config = custom_config("3");
    struct vpipe_trainer *trainer = start(config, NULL, NULL);
    char *plan = strdup(vpipe_trainer_plan(trainer));
    double of_stages[4], of_plan[4];
    char lines[2000] = "";

    (void)state;
    assert_ok(vpipe_trainer_run_losses(trainer, 4, of_stages, &last_error));
    assert_non_null(strstr(vpipe_trainer_config(trainer), "stages: 3"));
    assert_non_null(
        strstr(vpipe_trainer_config(trainer), "model_type: custom"));
    assert_null(strstr(vpipe_trainer_config(trainer), "hidden"));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
    assert_non_null(strstr(plan, "\"partition\": [2, 2, 2]"));

    config = custom_config(NULL);
    vpipe_config_set_log(config, note_line, lines);
    assert_ok(vpipe_config_set_plan(config, plan, &last_error));
    trainer = start(config, NULL, NULL);
    assert_non_null(strstr(vpipe_trainer_plan(trainer), "[2, 2, 2]"));
    assert_ok(vpipe_trainer_run_losses(trainer, 4, of_plan, &last_error));
    assert_same_losses(of_plan, of_stages, 4);
    vpipe_trainer_free(trainer);
    assert_ok(
        vpipe_config_set_plan(config, "{\"partition\": [9]}", &last_error));
    assert_int_equal(
        vpipe_trainer_create(config, NULL, NULL, &trainer, &last_error),
        VPIPE_INVALID);
    vpipe_config_free(config);
    free(plan);
}

/* ---- Checkpoints -------------------------------------------------------- */

static void test_save_and_resume(void **state)
{
    struct vpipe_config *config = custom_config("2");
    struct vpipe_trainer *trainer = start(config, NULL, NULL);
    double whole[N], losses[N];
    float a[VOCAB * HIDDEN], b[VOCAB * HIDDEN];
    const char *name = "transformer.wte.weight";
    char folder[128];

    (void)state;
    snprintf(folder, sizeof(folder), "%s", below_root("saved"));
    losses_of(custom_config("2"), N, whole);
    assert_refused(VPIPE_INVALID, "no folder",
                   vpipe_trainer_save(trainer, NULL, &last_error));
    assert_ok(vpipe_trainer_run_losses(trainer, 4, losses, &last_error));
    assert_ok(vpipe_trainer_save(trainer, folder, &last_error));
    assert_ok(vpipe_trainer_run_losses(trainer, 2, losses + 4, &last_error));
    assert_ok(vpipe_trainer_save(trainer, folder, &last_error));
    assert_ok(
        vpipe_trainer_weights(trainer, name, a, VOCAB * HIDDEN, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);

    config = custom_config("3"); /* another partition */
    trainer = start(config, NULL, folder);
    assert_int_equal(vpipe_trainer_step(trainer), 6);
    assert_ok(
        vpipe_trainer_weights(trainer, name, b, VOCAB * HIDDEN, &last_error));
    assert_memory_equal(a, b, sizeof(a));
    assert_ok(vpipe_trainer_run_losses(trainer, 6, losses + 6, &last_error));
    assert_same_losses(losses, whole, N);
    assert_refused(VPIPE_INVALID, "of another run",
                   vpipe_trainer_save(trainer, folder, &last_error));
    assert_refused(VPIPE_INVALID, "no parameter 'x'",
                   vpipe_trainer_weights(trainer, "x", a, 1, &last_error));
    assert_refused(VPIPE_INVALID, "room for 3",
                   vpipe_trainer_weights(trainer, name, a, 3, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
}

/* ---- Runs and trained models -------------------------------------------- */

/* Makes a run folder with a named model, trained on a generated language. */
static void make_run(const char *folder, double *losses)
{
    struct vpipe_config *config = named_config("2");
    struct vpipe_trainer *trainer;

    set(config, "eval_every", "12");
    trainer = start(config, folder, NULL);
    assert_ok(vpipe_trainer_run_losses(trainer, 24, losses, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
}

static void test_run(void **state)
{
    double losses[24], eval[1];
    const double *column;
    struct vpipe_run *run = NULL;
    size_t n = 0;

    (void)state;
    make_run(below_root("run"), losses);
    assert_ok(vpipe_run_open(below_root("run"), &run, &last_error));
    column = vpipe_run_metric(run, "loss", &n);
    assert_int_equal(n, 24);
    assert_same_losses(column, losses, 24);
    column = vpipe_run_metric(run, "step", &n);
    for (size_t i = 0; i < n; i++)
        assert_true(column[i] == (double)(i + 1));
    column = vpipe_run_metric(run, "eval_step", &n);
    assert_int_equal(n, 2);
    assert_true(column[0] == 12.0 && column[1] == 24.0);
    column = vpipe_run_metric(run, "eval_loss", &n);
    assert_true(n == 2 && column[1] < column[0]);
    eval[0] = column[1];
    assert_null(vpipe_run_metric(run, "colour", &n));
    assert_non_null(strstr(vpipe_run_config(run), "model_type: gpt2"));
    assert_non_null(strstr(vpipe_run_plan(run), "\"partition\": [3, 3]"));
    vpipe_run_free(run);
    assert_true(isfinite(eval[0]));
    assert_refused(VPIPE_INVALID, "is no run",
                   vpipe_run_open(root, &run, &last_error));
}

/* A run generates the same ids in one stage, in two, and after an export to
 * Hugging Face folders. */
static void test_model(void **state)
{
    static const int32_t prompt[] = { 4, 5, 6 };
    struct vpipe_sampling sampling = VPIPE_SAMPLING;
    struct vpipe_model *model = NULL;
    struct vpipe_score score, again;
    int32_t ids[8], other[8];
    double losses[24];
    size_t n = 0, m = 0;

    (void)state;
    make_run(below_root("trained"), losses);
    assert_ok(vpipe_model_open(below_root("trained"), &model, &last_error));
    assert_ok(
        vpipe_model_generate(model, prompt, 3, NULL, 4, ids, &n, &last_error));
    assert_int_equal(n, 4);
    assert_ok(vpipe_model_evaluate(model, &score, &last_error));
    assert_true(score.loss > 0.0 && score.accuracy > 0.0 &&
                score.accuracy < 1.0 && score.n_labels >= 8.0);
    assert_ok(vpipe_model_set(model, "stages", "2", &last_error));
    assert_non_null(
        strstr(vpipe_model_config(model, &last_error), "stages: 2"));
    assert_ok(vpipe_model_generate(model, prompt, 3, NULL, 8, other, &m,
                                   &last_error));
    assert_int_equal(m, 6); /* 8 positions, and one id after them */
    assert_memory_equal(ids, other, 4 * sizeof(*ids));
    assert_ok(vpipe_model_evaluate(model, &again, &last_error));
    assert_memory_equal(&score, &again, sizeof(score));
    sampling.end_id = other[2];
    assert_ok(vpipe_model_generate(model, prompt, 3, &sampling, 8, other, &m,
                                   &last_error));
    assert_true(m <= 3 && other[m - 1] == sampling.end_id);
    sampling.temperature = -1.0;
    assert_refused(VPIPE_INVALID, "temperature",
                   vpipe_model_generate(model, prompt, 3, &sampling, 4, other,
                                        &m, &last_error));
    vpipe_model_free(model);

    assert_ok(
        vpipe_export(below_root("trained"), below_root("hf"), &last_error));
    assert_ok(vpipe_model_open(below_root("hf"), &model, &last_error));
    assert_ok(vpipe_model_generate(model, prompt, 3, NULL, 4, other, &m,
                                   &last_error));
    assert_memory_equal(ids, other, 4 * sizeof(*ids));
    vpipe_model_free(model);
    assert_ok(
        vpipe_import(below_root("hf"), below_root("imported"), &last_error));
    assert_ok(vpipe_model_open(below_root("imported"), &model, &last_error));
    assert_ok(vpipe_model_generate(model, prompt, 3, NULL, 4, other, &m,
                                   &last_error));
    assert_memory_equal(ids, other, 4 * sizeof(*ids));
    vpipe_model_free(model);
    assert_int_equal(
        vpipe_export(below_root("hf2"), below_root("x"), &last_error),
        VPIPE_INVALID);
    assert_int_equal(
        vpipe_import(below_root("run2"), below_root("y"), &last_error),
        VPIPE_INVALID);
}

/* ---- State of the caller ------------------------------------------------ */

static bool forked;

static void note_fork(void)
{
    forked = true;
}

static void read_handlers(struct sigaction *out)
{
    for (int i = 1; i < 32; i++)
        sigaction(i, NULL, &out[i]);
}

/* The library does not change the thread's rounding mode, flush-to-zero mode
 * and exception flags, the locale, OpenMP, signal handlers, processes and both
 * standard streams. The results do not depend on them. */
static void test_state_of_thread(void **state)
{
    struct sigaction before[32], after[32];
    double plain[4], odd[4], loss;
    struct vpipe_config *config;
    struct vpipe_trainer *trainer;
    FILE *spool = tmpfile();
    int out = dup(1), err = dup(2);
    locale_t locale;
    struct stat printed;

    (void)state;
    losses_of(custom_config("2"), 4, plain);
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    read_handlers(before);
    pthread_atfork(note_fork, NULL, NULL);
    locale = uselocale(newlocale(LC_ALL_MASK, "POSIX", (locale_t)0));
    (void)locale;
    locale = uselocale((locale_t)0);
    omp_set_num_threads(3);
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero: DAZ and FTZ */
    unsigned csr = _mm_getcsr();
#endif
    fflush(NULL);
    dup2(fileno(spool), 1);
    dup2(fileno(spool), 2);

    config = custom_config("2");
    trainer = start(config, below_root("quiet"), NULL);
    assert_ok(vpipe_trainer_run_losses(trainer, 4, odd, &last_error));
    assert_ok(vpipe_trainer_evaluate(trainer, 0, &loss, &last_error));
    assert_ok(vpipe_trainer_save(trainer, NULL, &last_error));
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);

    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
#if defined(__x86_64__)
    assert_int_equal(_mm_getcsr(), csr);
    _mm_setcsr(csr & ~0x8040u);
#endif
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_int_equal(omp_get_max_threads(), 3);
    assert_ptr_equal(uselocale((locale_t)0), locale);
    freelocale(uselocale(LC_GLOBAL_LOCALE));
    read_handlers(after);
    for (int i = 1; i < 32; i++) {
        assert_ptr_equal(before[i].sa_sigaction, after[i].sa_sigaction);
        assert_int_equal(before[i].sa_flags, after[i].sa_flags);
    }
    assert_false(forked);
    assert_int_equal(fstat(fileno(spool), &printed), 0);
    assert_int_equal(printed.st_size, 0);
    assert_same_losses(plain, odd, 4);
    fclose(spool);
    close(out);
    close(err);
}

/* auto_plan measures the machine with the settings of compute threads and leaves
 * those of the caller's thread unchanged. The plan changes no loss. */
static void test_auto_plan(void **state)
{
    struct vpipe_config *config = custom_config("2");
    struct vpipe_trainer *trainer;
    double plain[4], planned[4];
    char lines[2000] = "";
#if defined(__x86_64__)
    unsigned csr = _mm_getcsr();
#endif

    (void)state;
    losses_of(custom_config("2"), 4, plain);
    setenv("XDG_CACHE_HOME", root, 1);
    set(config, "auto_plan", "true");
    vpipe_config_set_log(config, note_line, lines);
    omp_set_num_threads(3);
    trainer = start(config, NULL, NULL);
    assert_non_null(strstr(lines, "plan: "));
    assert_int_equal(omp_get_max_threads(), 3);
#if defined(__x86_64__)
    assert_int_equal(_mm_getcsr(), csr);
#endif
    assert_ok(vpipe_trainer_run_losses(trainer, 4, planned, &last_error));
    assert_same_losses(plain, planned, 4);
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
}

struct job {
    const char *stages;
    double losses[N];
    enum vpipe_status status;
};

/* Runs in a second thread; cmocka's checks work only in the main thread. */
static void *train_one(void *arg)
{
    struct job *job = arg;
    struct vpipe_config *config = NULL;
    struct vpipe_trainer *trainer = NULL;
    const struct vpipe_shape shape = { .batch = BATCH, .seq = SEQ };
    static const char *const keys[][2] = { { "accumulation_steps", "2" },
                                           { "threads_per_stage", "1" },
                                           { "learning_rate", "0.01" },
                                           { "total_steps", "24" } };

    job->status = vpipe_config_create(&config, NULL);
    if (job->status == VPIPE_OK)
        job->status = vpipe_config_set(config, "stages", job->stages, NULL);
    for (int i = 0; i < 4 && job->status == VPIPE_OK; i++)
        job->status = vpipe_config_set(config, keys[i][0], keys[i][1], NULL);
    if (job->status == VPIPE_OK)
        job->status = vpipe_config_set_model(config, &shape, build_gpt2, NULL,
                                             NULL);
    if (job->status == VPIPE_OK)
        job->status = vpipe_config_set_data(config, fill_counting, NULL, 100, 3,
                                            NULL);
    if (job->status == VPIPE_OK)
        job->status = vpipe_trainer_create(config, NULL, NULL, &trainer, NULL);
    if (job->status == VPIPE_OK)
        job->status = vpipe_trainer_run_losses(trainer, N, job->losses, NULL);
    vpipe_trainer_free(trainer);
    vpipe_config_free(config);
    return NULL;
}

/* Two trainers at the same time have the losses of one alone. */
static void test_two_trainers(void **state)
{
    struct job jobs[2] = { { .stages = "2" }, { .stages = "3" } };
    pthread_t threads[2];
    double alone[N];

    (void)state;
    losses_of(custom_config("1"), N, alone);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_one, &jobs[i]),
                         0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(jobs[i].status, VPIPE_OK);
        assert_same_losses(jobs[i].losses, alone, N);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_custom_is_named),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_evaluate),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_save_and_resume),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_state_of_thread),
        cmocka_unit_test(test_auto_plan),
        cmocka_unit_test(test_two_trainers),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
