/* Runs that are stopped, killed or meet a failing disk are resumed with the
 * losses of a run without interruption, or name the file at fault. VP_FULL=1
 * tries every call and many more moments. */
#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "lib/resumelib.h"

#include <errno.h>
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

static bool full(void)
{
    const char *text = getenv("VP_FULL");

    return text && text[0] == '1';
}

/* ---- Wrapped calls ------------------------------------------------------ */

int __wrap_flock(int fd, int operation);

int __real_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    void (*fn)(void) = job_before_lock;

    job_before_lock = NULL;
    if (fn)
        fn();
    return __real_flock(fd, operation);
}

static void note_sync(int fd);

int __wrap_fsync(int fd);

int __real_fsync(int fd);

int __wrap_fsync(int fd)
{
    note_sync(fd);
    return __real_fsync(fd);
}

/* ---- Order of writes ---------------------------------------------------- */

/* Counts syncs of metrics.jsonl, and those that come before the checkpoint of
 * the same step has its name. */
static void note_sync(int fd)
{
    char link[64], path[300], name[64];
    ssize_t n;
    struct stat info;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (!job_shared || n < 0)
        return;
    path[n] = '\0';
    if (!strstr(path, "/metrics.jsonl") || strstr(path, ".tmp"))
        return;
    job_shared->n_synced++;
    snprintf(name, sizeof(name), "run/checkpoints/step-%d",
             2 * job_shared->n_synced);
    if (stat(path_in_root(name), &info) != 0)
        job_shared->n_early++;
}

/* ---- Resuming ----------------------------------------------------------- */

/* Resumes a run that was stopped, and checks that its losses are those of
 * `want`. */
static void check_goes_on(const struct job *job, const char *want)
{
    int64_t step = newest_step(job->output);
    struct job rest = *job;

    rest.strike_at = rest.kill_ms = 0;
    rest.resume = job->output;
    rest.output = NULL;
    if (step < 0) { /* no checkpoint yet: refused, not started anew */
        assert_int_equal(run_job(&rest), 1);
        return;
    }
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, step);
    assert_same_trace(job->output, want);
}

/* ---- Stopped at a call -------------------------------------------------- */

static void check_every_call(const struct job *base, int error)
{
    struct job job = *base;
    int n_calls, step = full() ? 1 : 11;
    char *want;

    must_run_job(&job);
    n_calls = job_shared->n_calls;
    want = trace_of("run");
    assert_true(n_calls > 40);
    for (int at = 1; at <= n_calls; at += step) {
        forget("run");
        job.strike_at = at;
        job.strike_error = error;
        if (error == 0) {
            /* Threads interleave: a run may make a few calls less. */
            int status = run_job(&job);

            assert_true(status == STOPPED || (status == 0 && at > n_calls - 8));
        } else {
            run_job(&job); /* the run fails or tolerates the error */
        }
        check_goes_on(&job, want);
    }
    free(want);
    forget("run");
}

static void stopped_at_a_call(void **state)
{
    (void)state;
    check_every_call(&sync_job, 0);
    check_every_call(&stream_job, 0);
}

static void disk_full_at_a_call(void **state)
{
    (void)state;
    check_every_call(&sync_job, ENOSPC);
    if (full())
        check_every_call(&stream_job, EIO);
}

/* ---- Killed at any time ------------------------------------------------- */

static void killed_at_any_moment(void **state)
{
    int n = full() ? 300 : 24;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job job = i ? stream_job : sync_job;
        char *want;

        must_run_job(&job);
        want = trace_of("run");
        forget("run");
        for (int k = 0; k < n / 2; k++) {
            job.kill_ms = 20 + k * 7919 % 180;
            run_job(&job);
            if (access(path_in_root("run"), F_OK) == 0)
                check_goes_on(&job, want);
            forget("run");
        }
        free(want);
    }
}

/* ---- Damaged checkpoints ------------------------------------------------ */

static char *file_in(const char *step, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/run/checkpoints/%s/%s", resume_root, step,
             name);
    return path;
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+");
    int c;

    assert_non_null(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

static void damage(int how, const char *step)
{
    struct stat st;

    switch (how) {
    case 0:
        flip(file_in(step, "block-0001.safetensors"), -1);
        break;
    case 1:
        flip(file_in(step, "block-0000.safetensors"), 20);
        break;
    case 2:
        flip(file_in(step, "manifest.json"), 40);
        break;
    case 3:
        assert_int_equal(stat(file_in(step, "block-0002.safetensors"), &st), 0);
        assert_int_equal(
            truncate(file_in(step, "block-0002.safetensors"), st.st_size / 2),
            0);
        break;
    case 4:
        assert_int_equal(unlink(file_in(step, "block-0001.safetensors")), 0);
        break;
    default:
        assert_int_equal(unlink(file_in(step, "manifest.json")), 0);
        break;
    }
}

static void damaged_checkpoints_are_passed_over(void **state)
{
    (void)state;
    for (int how = 0; how < 6; how++) {
        struct job job = sync_job, rest = sync_job;
        char *want;

        must_run_job(&job);
        want = trace_of("run");
        damage(how, "step-8");
        rest.output = NULL;
        rest.resume = "run";
        must_run_job(&rest);
        assert_int_equal(job_shared->resumed, 6);
        assert_non_null(strstr(job_shared->notices, "step-8"));
        assert_same_trace("run", want);
        /* A run with only damaged checkpoints is not resumed. */
        damage(how, "step-8");
        damage(how, "step-6");
        damage(how, "step-4");
        assert_int_equal(run_job(&rest), 1);
        assert_non_null(strstr(job_shared->error_text, "step-8"));
        free(want);
        forget("run");
    }
}

/* ---- Unreadable and newer checkpoints ----------------------------------- */

/* The newest checkpoint of a run of eight steps cannot be read: the run is not
 * resumed from an older one without the user's order. */
static void unreadable_checkpoints_stop_the_run(void **state)
{
    static const char *const files[] = { "step-8/block-0001", "step-8/manif" };
    struct job job = sync_job, rest = sync_job;

    (void)state;
    must_run_job(&job);
    rest.output = NULL;
    rest.resume = "run";
    for (size_t i = 0; i < VP_COUNT_OF(files); i++) {
        rest.unreadable = files[i];
        assert_int_equal(run_job(&rest), 1);
        assert_non_null(strstr(job_shared->error_text, files[i]));
        assert_non_null(strstr(job_shared->error_text, "--resume "));
        assert_non_null(
            strstr(job_shared->error_text, "run/checkpoints/step-6"));
        assert_int_equal(newest_step("run"), 8);
    }
    rest.unreadable = NULL;
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 8);
    forget("run");
}

static bool log_says(const char *text)
{
    char *line = NULL;
    size_t n = 0;
    bool found = false;
    FILE *f = fopen(path_in_root("run/output.log.0"), "r");

    assert_non_null(f);
    while (getline(&line, &n, f) >= 0)
        found |= strstr(line, text) != NULL;
    free(line);
    fclose(f);
    return found;
}

/* The message proposes to name an older checkpoint. Doing so sets the newer one
 * aside until the resumed run has a checkpoint of its own. */
static void an_older_one_may_be_named(void **state)
{
    struct job job = sync_job, rest = sync_job, idle;
    char *want;

    (void)state;
    must_run_job(&job);
    want = trace_of("run");
    damage(0, "step-8");
    rest.output = NULL;
    rest.resume = "run/checkpoints/step-6";
    idle = rest;
    idle.max_steps = 6; /* no step is left, and no checkpoint to save */
    must_run_job(&idle);
    assert_int_equal(access(file_in("step-8.aside-1", "manifest.json"), F_OK),
                     0);
    rest.resume = "run";
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 6);
    assert_non_null(
        strstr(job_shared->notices, "step-8.aside-1: was not used"));
    assert_true(log_says("step-8.aside-1: was not used"));
    assert_int_not_equal(access(file_in("step-8.aside-1", ""), F_OK), 0);
    assert_int_equal(newest_step("run"), 8);
    assert_same_trace("run", want);
    free(want);
    forget("run");
}

static void a_fallback_is_logged(void **state)
{
    struct job job = sync_job, rest = sync_job;

    (void)state;
    must_run_job(&job);
    damage(3, "step-8");
    rest.output = NULL;
    rest.resume = "run";
    must_run_job(&rest);
    assert_true(log_says("step-8/block-0002.safetensors: has "));
    assert_true(log_says("; using step 6"));
    forget("run");
}

/* Finishes the run in another process, between the start of the resumed one and
 * its lock. */
static void finish_the_run(void)
{
    struct job rest = sync_job;
    pid_t pid = fork();
    int status;

    rest.resume = "run";
    rest.output = NULL;
    if (pid == 0)
        run_child(&rest);
    waitpid(pid, &status, 0);
}

static void the_lock_comes_first(void **state)
{
    struct job part = sync_job, rest = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run_job(&part);
    rest.output = NULL;
    rest.resume = "run";
    rest.before_lock = finish_the_run;
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 8);
    assert_int_equal(newest_step("run"), 8);
    forget("run");
}

static void a_removed_folder_is_no_success(void **state)
{
    struct job job = sync_job;

    (void)state;
    for (job.remove_at = 7; job.remove_at <= 8; job.remove_at++) {
        assert_int_equal(run_job(&job), 1);
        vp_io_remove(path_in_root("run"));
    }
}

static void metrics_reach_the_disk_first(void **state)
{
    struct job job = sync_job;

    (void)state;
    must_run_job(&job);
    assert_int_equal(job_shared->n_synced, 4);
    assert_int_equal(job_shared->n_early, 4);
    forget("run");
}

/* ---- Forged manifests --------------------------------------------------- */

/* Changes a fact of a checkpoint; the checksum is right. */
static void forge(const char *step, const char *key, const char *value)
{
    struct vp_manifest manifest;
    struct vp_err err = { .text = "" };
    char *text = NULL;
    size_t n = 0;
    FILE *f;

    assert_int_equal(vp_manifest_read(file_in(step, ""), &manifest, &err),
                     VP_OK);
    assert_int_equal(vp_facts_set_json(manifest.facts, key, value), VP_OK);
    assert_int_equal(vp_manifest_format(&manifest, &text, &n, &err), VP_OK);
    f = fopen(file_in(step, "manifest.json"), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    free(text);
    vp_manifest_release(&manifest);
}

static void impossible_facts_are_refused(void **state)
{
    static const struct {
        bool asp;
        const char *key, *value;
    } cases[] = {
        { false, "minibatch", "-1" },
        { false, "minibatch", "9223372036854775807" },
        { false, "minibatch", "15" },
        { false, "minibatch", "\"16\"" },
        { false, "updates", "[8, 8, 7]" },
        { false, "updates", "[8, 8]" },
        { false, "updates", "[8, 8, 8.5]" },
        { false, "updates", "8" },
        { false, "past_versions", "[1, 1, 1]" },
        { false, "past_versions", "[4294967296, 0, 0]" },
        { false, "past_is_cut", "{}" },
        { false, "loss_scale", "-1.0" },
        { false, "loss_scale", "\"big\"" },
        { false, "skipped", "[0, 0, 9]" },
        { false, "in_a_row", "[0, 0, 99999999999]" },
        { false, "config", "{}" },
        { false, "config", "[]" },
        { true, "minibatch", "7" },
        { true, "minibatch", "9" },
        { true, "minibatch", "-1" },
        { true, "updates", "[9, 9, 9]" },
        { true, "updates", "[-1, 8, 8]" },
        { true, "past_versions", "[9, 0, 0]" },
        { true, "past_versions", "[-1, 0, 0]" },
        { true, "past_versions", "[4294967296, 0, 0]" },
        { true, "past_versions", "[4294967297, 1, 1]" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct job job = cases[i].asp ? stream_job : sync_job, rest;

        must_run_job(&job);
        forge("step-8", cases[i].key, cases[i].value);
        rest = job;
        rest.output = NULL;
        rest.resume = "run";
        if (run_job(&rest) != 1 || !strstr(job_shared->error_text, "; "))
            fail_msg("%s: %s is taken, or not refused well: %s", cases[i].key,
                     cases[i].value, job_shared->error_text);
        assert_int_equal(newest_step("run"), 8);
        forget("run");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_a_call),
        cmocka_unit_test(disk_full_at_a_call),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(damaged_checkpoints_are_passed_over),
        cmocka_unit_test(unreadable_checkpoints_stop_the_run),
        cmocka_unit_test(an_older_one_may_be_named),
        cmocka_unit_test(a_fallback_is_logged),
        cmocka_unit_test(the_lock_comes_first),
        cmocka_unit_test(a_removed_folder_is_no_success),
        cmocka_unit_test(metrics_reach_the_disk_first),
        cmocka_unit_test(impossible_facts_are_refused),
    };

    return cmocka_run_group_tests(tests, make_root_folder, remove_root_folder);
}
