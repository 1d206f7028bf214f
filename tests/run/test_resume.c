/* Runs that are stopped in every way and go on: the losses must be those of the
 * run that was never stopped, or the file at fault is named. Every run is a
 * process of its own. VP_FULL=1 tries every call and many more moments. */
#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "ckpt/search.h"
#include "config/load.h"
#include "model/model.h"
#include "run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { STOPPED = 77, MAX_SETS = 12 };

static char root[64];

static bool full(void)
{
    const char *text = getenv("VP_FULL");

    return text && text[0] == '1';
}

/* ---- Faults ------------------------------------------------------------- */

/* Shared with the children. */
static struct shared {
    atomic_int n_calls; /* made so far, by all threads */
    int at;             /* the call at which something happens; 0: never */
    int error;          /* 0: the process ends there, else the call fails */
    char notices[4096];
    char error_text[1024];
    int64_t resumed;
    int n_synced; /* fsync() of metrics.jsonl ... */
    int n_early;  /* ... before the checkpoint of its last step had its name */
} * shared;

/* True if the call is to fail. */
static bool strike(void)
{
    if (++shared->n_calls != shared->at)
        return false;
    if (shared->error == 0)
        _exit(STOPPED);
    errno = shared->error;
    return true;
}

/* Opening a file whose path contains this fails; NULL: none. */
static const char *unreadable;

static int io_open(const char *path, int flags, mode_t mode)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY;

    if (unreadable && !writes && strstr(path, unreadable)) {
        errno = EIO;
        return -1;
    }

    return writes && strike() ? -1 : vp_io_system.open(path, flags, mode);
}

static ssize_t io_write(int fd, const void *buf, size_t n)
{
    return strike() ? -1 : vp_io_system.write(fd, buf, n);
}

static int io_fsync(int fd)
{
    return strike() ? -1 : vp_io_system.fsync(fd);
}

static int io_close(int fd)
{
    int st = vp_io_system.close(fd);

    return strike() ? -1 : st;
}

static int io_mkdir(const char *path, mode_t mode)
{
    return strike() ? -1 : vp_io_system.mkdir(path, mode);
}

static int io_rename(const char *from, const char *to)
{
    return strike() ? -1 : vp_io_system.rename(from, to);
}

static int io_unlink(const char *path)
{
    return strike() ? -1 : vp_io_system.unlink(path);
}

static int io_rmdir(const char *path)
{
    return strike() ? -1 : vp_io_system.rmdir(path);
}

/* What happens in the child that takes a lock, before it has it; NULL: nothing. */
static void (*before_lock)(void);

int __wrap_flock(int fd, int operation);
int __real_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    void (*fn)(void) = before_lock;

    before_lock = NULL;
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

/* ---- Runs --------------------------------------------------------------- */

struct job {
    const char *sets[MAX_SETS];
    int n_sets;
    const char *output, *resume; /* names under root */
    int64_t max_steps;
    int strike_at, strike_error;
    int kill_ms;            /* SIGKILL after so long; 0: never */
    int64_t remove_at;      /* the run folder is removed at this step */
    const char *unreadable; /* see above */
    void (*before_lock)(void);
};

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", root, name);
    return path[turn];
}

static void keep_notice(void *ctx, const char *line)
{
    size_t used = strlen(shared->notices);

    (void)ctx;
    snprintf(shared->notices + used, sizeof(shared->notices) - used, "%s\n",
             line);
}

static void keep_start(void *ctx, const struct vp_run_summary *summary)
{
    (void)ctx;
    shared->resumed = summary->resumed;
}

static int64_t remove_at;

static void keep_step(void *ctx, const struct vp_step_report *report)
{
    (void)ctx;
    if (report->step == remove_at)
        vp_io_remove(path_of("run"));
}

/* The line of a step is in the file that is synced before the name is there. */
static void note_sync(int fd)
{
    char link[64], path[300], name[64];
    ssize_t n;
    struct stat info;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (!shared || n < 0)
        return;
    path[n] = '\0';
    if (!strstr(path, "/metrics.jsonl") || strstr(path, ".tmp"))
        return;
    shared->n_synced++;
    snprintf(name, sizeof(name), "run/checkpoints/step-%d",
             2 * shared->n_synced);
    if (stat(path_of(name), &info) != 0)
        shared->n_early++;
}

static _Noreturn void child(const struct job *job)
{
    struct vp_io io = vp_io_system;
    struct vp_run_options options = {
        .output = job->output ? path_of(job->output) : NULL,
        .resume = job->resume ? path_of(job->resume) : NULL,
        .max_steps = job->max_steps,
    };
    struct vp_run_events events = { .on_notice = keep_notice,
                                    .on_warning = keep_notice,
                                    .on_step = keep_step,
                                    .on_start = keep_start };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    io.open = io_open;
    io.write = io_write;
    io.fsync = io_fsync;
    io.close = io_close;
    io.mkdir = io_mkdir;
    io.rename = io_rename;
    io.unlink = io_unlink;
    io.rmdir = io_rmdir;
    vp_io_swap(&io);
    unreadable = job->unreadable;
    remove_at = job->remove_at;
    before_lock = job->before_lock;
    st = vp_config_load(path_of("config.yml"), job->sets, job->n_sets, &config,
                        &err);
    if (st == VP_OK)
        st = vp_run_train(&config, &options, &events, &err);
    snprintf(shared->error_text, sizeof(shared->error_text), "%.1000s",
             err.text);
    _exit(st == VP_OK ? 0 : 1);
}

/* The exit status; -1 if it was killed. */
static int run(const struct job *job)
{
    int status;
    pid_t pid;

    memset(shared, 0, sizeof(*shared));
    shared->at = job->strike_at;
    shared->error = job->strike_error;
    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(job);
    if (job->kill_ms > 0) {
        usleep((useconds_t)job->kill_ms * 1000);
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_run(const struct job *job)
{
    if (run(job) != 0)
        fail_msg("%s", shared->error_text);
}

/* ---- Results ------------------------------------------------------------ */

/* Steps, losses, norms and evaluations; not times. */
static char *trace_of(const char *name)
{
    char file[300], *text, *line = NULL;
    size_t n_text = 0, n_line = 0;
    FILE *out = open_memstream(&text, &n_text), *in;

    snprintf(file, sizeof(file), "%s/metrics.jsonl", path_of(name));
    in = fopen(file, "r");
    assert_non_null(in);
    while (getline(&line, &n_line, in) >= 0) {
        char *end = strstr(line, ", \"samples_per_second\"");

        if (end)
            snprintf(end, 2, "\n");
        if (!strstr(line, "\"event\": \"forecast\""))
            fputs(line, out);
    }
    free(line);
    fclose(in);
    fclose(out);
    return text;
}

static void assert_same_trace(const char *name, const char *want)
{
    char *have = trace_of(name);

    assert_string_equal(have, want);
    free(have);
}

static int64_t newest(const char *name)
{
    char folder[300];
    struct vp_ckpt_entry *list = NULL;
    struct vp_err err = { .text = "" };
    int n = 0;
    int64_t step;

    snprintf(folder, sizeof(folder), "%s/checkpoints", path_of(name));
    assert_int_equal(vp_ckpt_list(folder, &list, &n, &err), VP_OK);
    step = n > 0 ? list[0].step : -1;
    free(list);
    return step;
}

static void forget(const char *name)
{
    assert_int_equal(vp_io_remove(path_of(name)), 0);
}

/* A run that was stopped somehow goes on to the same end. */
static void check_goes_on(const struct job *job, const char *want)
{
    int64_t step = newest(job->output);
    struct job rest = *job;

    rest.strike_at = rest.kill_ms = 0;
    rest.resume = job->output;
    rest.output = NULL;
    if (step < 0) { /* too early for any checkpoint: refused, not begun anew */
        assert_int_equal(run(&rest), 1);
        return;
    }
    must_run(&rest);
    assert_int_equal(shared->resumed, step);
    assert_same_trace(job->output, want);
}

/* ---- Stopped at a call -------------------------------------------------- */

static const struct job sync_job = {
    .sets = { "stages=2", "accumulation_steps=2" }, .n_sets = 2, .output = "run"
};
static const struct job stream_job = { .sets = { "stages=3", "sync_mode=asp" },
                                       .n_sets = 2,
                                       .output = "run" };

static void check_every_call(const struct job *base, int error)
{
    struct job job = *base;
    int n_calls, step = full() ? 1 : 11;
    char *want;

    must_run(&job);
    n_calls = shared->n_calls;
    want = trace_of("run");
    assert_true(n_calls > 40);
    for (int at = 1; at <= n_calls; at += step) {
        forget("run");
        job.strike_at = at;
        job.strike_error = error;
        if (error == 0) {
            /* Threads interleave: there may be a few calls less. */
            int status = run(&job);

            assert_true(status == STOPPED || (status == 0 && at > n_calls - 8));
        } else {
            run(&job); /* fails, or does without */
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

/* ---- Killed ------------------------------------------------------------- */

static void killed_at_any_moment(void **state)
{
    int n = full() ? 300 : 24;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job job = i ? stream_job : sync_job;
        char *want;

        must_run(&job);
        want = trace_of("run");
        forget("run");
        for (int k = 0; k < n / 2; k++) {
            job.kill_ms = 20 + k * 7919 % 180;
            run(&job);
            if (access(path_of("run"), F_OK) == 0)
                check_goes_on(&job, want);
            forget("run");
        }
        free(want);
    }
}

/* ---- Damaged ------------------------------------------------------------ */

static char *file_in(const char *step, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/run/checkpoints/%s/%s", root, step, name);
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

        must_run(&job);
        want = trace_of("run");
        damage(how, "step-8");
        rest.output = NULL;
        rest.resume = "run";
        must_run(&rest);
        assert_int_equal(shared->resumed, 6);
        assert_non_null(strstr(shared->notices, "step-8"));
        assert_same_trace("run", want);
        /* With all of them broken, nothing starts. */
        damage(how, "step-8");
        damage(how, "step-6");
        damage(how, "step-4");
        assert_int_equal(run(&rest), 1);
        assert_non_null(strstr(shared->error_text, "step-8"));
        free(want);
        forget("run");
    }
}

/* ---- What is newer ------------------------------------------------------ */

/* A run of eight steps whose newest checkpoint cannot be read for now. */
static void unreadable_checkpoints_stop_the_run(void **state)
{
    static const char *const files[] = { "step-8/block-0001", "step-8/manif" };
    struct job job = sync_job, rest = sync_job;

    (void)state;
    must_run(&job);
    rest.output = NULL;
    rest.resume = "run";
    for (size_t i = 0; i < VP_COUNT_OF(files); i++) {
        rest.unreadable = files[i];
        assert_int_equal(run(&rest), 1);
        assert_non_null(strstr(shared->error_text, files[i]));
        assert_non_null(strstr(shared->error_text, "--resume "));
        assert_non_null(strstr(shared->error_text, "run/checkpoints/step-6"));
        assert_int_equal(newest("run"), 8);
    }
    rest.unreadable = NULL;
    must_run(&rest);
    assert_int_equal(shared->resumed, 8);
    forget("run");
}

static bool log_says(const char *text)
{
    char *line = NULL;
    size_t n = 0;
    bool found = false;
    FILE *f = fopen(path_of("run/output.log.0"), "r");

    assert_non_null(f);
    while (getline(&line, &n, f) >= 0)
        found |= strstr(line, text) != NULL;
    free(line);
    fclose(f);
    return found;
}

/* The remedy that the message names: the newer one is set aside, and is there
 * until the run has a checkpoint of its own. */
static void an_older_one_may_be_named(void **state)
{
    struct job job = sync_job, rest = sync_job, idle;
    char *want;

    (void)state;
    must_run(&job);
    want = trace_of("run");
    damage(0, "step-8");
    rest.output = NULL;
    rest.resume = "run/checkpoints/step-6";
    idle = rest;
    idle.max_steps = 6; /* nothing is left to do, and to save */
    must_run(&idle);
    assert_int_equal(access(file_in("step-8.aside-1", "manifest.json"), F_OK),
                     0);
    rest.resume = "run";
    must_run(&rest);
    assert_int_equal(shared->resumed, 6);
    assert_non_null(strstr(shared->notices, "step-8.aside-1: was not used"));
    assert_true(log_says("step-8.aside-1: was not used"));
    assert_int_not_equal(access(file_in("step-8.aside-1", ""), F_OK), 0);
    assert_int_equal(newest("run"), 8);
    assert_same_trace("run", want);
    free(want);
    forget("run");
}

static void a_fallback_is_logged(void **state)
{
    struct job job = sync_job, rest = sync_job;

    (void)state;
    must_run(&job);
    damage(3, "step-8");
    rest.output = NULL;
    rest.resume = "run";
    must_run(&rest);
    assert_true(log_says("step-8/block-0002.safetensors: has "));
    assert_true(log_says("; using step 6"));
    forget("run");
}

/* Another run of this folder ends between the call and the lock. */
static void finish_the_run(void)
{
    struct job rest = sync_job;
    pid_t pid = fork();
    int status;

    rest.resume = "run";
    rest.output = NULL;
    if (pid == 0)
        child(&rest);
    waitpid(pid, &status, 0);
}

static void the_lock_comes_first(void **state)
{
    struct job part = sync_job, rest = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run(&part);
    rest.output = NULL;
    rest.resume = "run";
    rest.before_lock = finish_the_run;
    must_run(&rest);
    assert_int_equal(shared->resumed, 8);
    assert_int_equal(newest("run"), 8);
    forget("run");
}

static void a_removed_folder_is_no_success(void **state)
{
    struct job job = sync_job;

    (void)state;
    for (job.remove_at = 7; job.remove_at <= 8; job.remove_at++) {
        assert_int_equal(run(&job), 1);
        vp_io_remove(path_of("run"));
    }
}

static void metrics_reach_the_disk_first(void **state)
{
    struct job job = sync_job;

    (void)state;
    must_run(&job);
    assert_int_equal(shared->n_synced, 4);
    assert_int_equal(shared->n_early, 4);
    forget("run");
}

/* ---- Forged manifests --------------------------------------------------- */

/* Gives a fact of a checkpoint another value, under a right checksum. */
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

        must_run(&job);
        forge("step-8", cases[i].key, cases[i].value);
        rest = job;
        rest.output = NULL;
        rest.resume = "run";
        if (run(&rest) != 1 || !strstr(shared->error_text, "; "))
            fail_msg("%s: %s is taken, or not refused well: %s", cases[i].key,
                     cases[i].value, shared->error_text);
        assert_int_equal(newest("run"), 8);
        forget("run");
    }
}

/* ---- Other pipelines ---------------------------------------------------- */

static void any_number_of_stages_goes_on(void **state)
{
    static const struct {
        const char *stages, *schedule;
    } others[] = {
        { "stages=1", "schedule=zb-h1" },
        { "stages=2", "schedule=gpipe" },
        { "stages=3", "schedule=zb-h1" },
        { "stages=8", "schedule=gpipe" },
        { "stages=2", "schedule=zb-h2" },
        { "stages=2", "schedule=zb-v" },
        { "stages=2", "schedule=v-half" },
        { "stages=2", "schedule=v-min" },
        { "stages=2", "schedule=v-auto" },
        { "stages=2", "schedule=dualpipe-v" },
        { "stages=2", "schedule=auto" },
    };
    struct job job = { .sets = { "stages=4", "layers=4",
                                 "accumulation_steps=2" },
                       .n_sets = 3,
                       .output = "run" };
    char *want;

    (void)state;
    must_run(&job);
    want = trace_of("run");
    forget("run");
    for (size_t i = 0; i < VP_COUNT_OF(others); i++) {
        struct job part = job, rest = job;

        part.max_steps = 5;
        must_run(&part);
        rest.sets[0] = others[i].stages;
        rest.sets[rest.n_sets++] = others[i].schedule;
        rest.resume = "run";
        rest.output = NULL;
        must_run(&rest);
        assert_int_equal(shared->resumed, 5);
        assert_same_trace("run", want);
        forget("run");
    }
    free(want);
}

/* ---- Loss scales -------------------------------------------------------- */

/* What a list of the newest checkpoint says of its blocks. */
static void check_facts(const char *key, int a, int b, int c)
{
    char folder[300], text[64], *list = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };

    snprintf(folder, sizeof(folder), "%s/checkpoints", path_of("run"));
    assert_int_equal(vp_ckpt_open_newest(folder, NULL, NULL, &ckpt, &err),
                     VP_OK);
    assert_int_equal(vp_facts_json(vp_ckpt_facts(ckpt), key, &list, &err),
                     VP_OK);
    snprintf(text, sizeof(text), "[%d,%d,%d]", a, b, c);
    assert_string_equal(list, text);
    free(list);
    vp_ckpt_close(ckpt);
}

static void check_fact(const char *key, int want)
{
    check_facts(key, want, want, want);
}

/* ---- Counts of blocks --------------------------------------------------- */

/* Blocks of stages that were updated less often than others go on in one stage,
 * each with its own count, and stop and go on again without a change. */
static void blocks_keep_their_counts(void **state)
{
    struct job part = { .sets = { "partition=[2, 1]", "sync_mode=asp",
                                  "replicas=[2, 1]" },
                        .n_sets = 3,
                        .output = "run",
                        .max_steps = 4 };
    struct job rest = { .sets = { "partition=[3]", "sync_mode=asp" },
                        .n_sets = 2,
                        .resume = "run" };
    char *want;

    (void)state;
    must_run(&part);
    check_facts("updates", 2, 2, 4);
    must_run(&rest);
    check_facts("updates", 6, 6, 8);
    want = trace_of("run");
    forget("run");

    must_run(&part);
    rest.max_steps = 6;
    must_run(&rest);
    check_facts("updates", 4, 4, 6);
    rest.max_steps = 0;
    must_run(&rest);
    check_facts("updates", 6, 6, 8);
    assert_same_trace("run", want);
    forget("run");
    free(want);
}

/* The row of good updates goes on under any number of stages. */
static void a_scale_goes_on(void **state)
{
    static const char *const rest_sets[] = { "stages=1", "stages=3" };
    struct job job = { .sets = { "stages=2", "accumulation_steps=2",
                                 "loss_scale=dynamic" },
                       .n_sets = 3,
                       .output = "run" };
    char *want;

    (void)state;
    must_run(&job);
    want = trace_of("run");
    assert_non_null(strstr(want, ", \"loss_scale\": 65536, \"skipped\": 0\n"));
    check_fact("in_a_row", 8);
    forget("run");
    for (size_t i = 0; i < VP_COUNT_OF(rest_sets); i++) {
        struct job part = job, rest = job;

        part.max_steps = 5;
        must_run(&part);
        check_fact("in_a_row", 5);
        rest.sets[0] = rest_sets[i];
        rest.resume = "run";
        rest.output = NULL;
        must_run(&rest);
        assert_same_trace("run", want);
        check_fact("in_a_row", 8);
        check_fact("skipped", 0);
        forget("run");
    }
    free(want);
}

/* ---- Files -------------------------------------------------------------- */

static void check_as_published(const struct vp_ckpt *ckpt, const char *name,
                               const struct vp_graph *graph, vp_par par)
{
    const struct vp_param *param = &graph->params[par];
    int64_t rows = param->rows, cols = param->cols;
    struct vp_st_tensor shape = { .type = VP_ST_F32,
                                  .n_dims = 2,
                                  .dims = { cols, rows } };
    float want[48 * 64], got[48 * 64];
    struct vp_err err = { .text = "" };

    assert_in_range(rows * cols, 1, VP_COUNT_OF(want));
    vp_param_init(graph, par, 1, want);
    if (vp_ckpt_read(ckpt, name, &shape, got, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < rows * cols; i++)
        assert_true(got[i] == want[i % rows * cols + i / rows]);
}

/* Hugging Face's GPT-2 keeps the weights of its layers as [in, out]. Nothing is
 * learnt here, so files hold the initial values. */
static void gpt2_is_saved_as_published(void **state)
{
    static const struct vp_dims dims = { 2, 16, 0, 0 };
    static const struct job job = {
        .sets = { "model_type=gpt2", "stages=2", "accumulation_steps=1",
                  "learning_rate=1e-30", "weight_decay=0" },
        .n_sets = 5,
        .output = "run",
        .max_steps = 2,
    };
    const struct vp_model *model = vp_model_find("gpt2");
    struct vp_model_config sizes = model->sizes[0].config;
    struct vp_graph graph;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    char folder[300];
    int n = 0;

    (void)state;
    must_run(&job);
    snprintf(folder, sizeof(folder), "%s/checkpoints", path_of("run"));
    assert_int_equal(vp_ckpt_open_newest(folder, NULL, NULL, &ckpt, &err),
                     VP_OK);
    sizes.vocab = 64;
    sizes.hidden = 16;
    sizes.layers = 1;
    sizes.heads = 2;
    sizes.ffn = 64;
    sizes.positions = 16;
    sizes.tie_embeddings = false;
    if (vp_model_build(model, &sizes, &dims, &graph, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < graph.n_params; i++) {
        const char *name = graph.params[i].part[0].name;

        if (!strstr(name, ".c_") || !strstr(name, ".weight"))
            continue;
        check_as_published(ckpt, name, &graph, i);
        n++;
    }
    assert_int_equal(n, 4); /* attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj */
    vp_graph_release(&graph);
    vp_ckpt_close(ckpt);
    forget("run");
}

/* Weights, moments and older versions are turned back, too. */
static void gpt2_goes_on(void **state)
{
    static const char *const modes[] = { "sync_mode=bsp", "sync_mode=asp" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(modes); i++) {
        struct job job = { .sets = { "model_type=gpt2", "stages=3", modes[i] },
                           .n_sets = 3,
                           .output = "run" };
        struct job rest = job;
        char *want;

        must_run(&job);
        want = trace_of("run");
        forget("run");
        job.max_steps = 5;
        must_run(&job);
        rest.resume = "run";
        rest.output = NULL;
        must_run(&rest);
        assert_int_equal(shared->resumed, 5);
        assert_same_trace("run", want);
        forget("run");
        free(want);
    }
}

static void other_depths_are_said(void **state)
{
    struct job part = stream_job, rest = stream_job;

    (void)state;
    part.max_steps = 6;
    must_run(&part);
    rest.sets[rest.n_sets++] = "warmup_depths=[4, 3, 2]";
    rest.resume = "run";
    rest.output = "more";
    must_run(&rest);
    assert_non_null(strstr(shared->notices, "other depths"));
    forget("run");
    forget("more");
}

static void what_changes_is_said(void **state)
{
    struct job part = sync_job, rest = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run(&part);
    rest.resume = "run";
    rest.output = "same";
    must_run(&rest);
    assert_string_equal(shared->notices, "");
    rest.sets[rest.n_sets++] = "learning_rate=0.5";
    rest.sets[rest.n_sets++] = "total_steps=6";
    rest.output = "more";
    must_run(&rest);
    assert_string_equal(shared->notices, "learning_rate is 0.5, was 0.01, "
                                         "total_steps is 6, was 8\n");
    forget("more");
    rest = sync_job;
    rest.resume = "run";
    rest.output = "more";
    rest.sets[rest.n_sets++] = "text_key=body";
    rest.sets[rest.n_sets++] = "document_end=7";
    must_run(&rest);
    assert_string_equal(shared->notices,
                        "document_end is 7, was -1, "
                        "text_key is \"body\", was \"text\"\n");
    forget("run");
    forget("same");
    forget("more");
}

static void what_must_not_change_is_refused(void **state)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        { "hidden=32", "hidden is 32" },
        { "batch_size=3", "batch_size is 3" },
        { "seed=2", "seed is 2" },
        { "optimizer=sgd", "optimizer is sgd" },
    };
    struct job part = sync_job;

    (void)state;
    part.max_steps = 4;
    must_run(&part);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct job rest = sync_job;

        rest.sets[rest.n_sets++] = cases[i].set;
        rest.resume = "run";
        rest.output = NULL;
        assert_int_equal(run(&rest), 1);
        if (!strstr(shared->error_text, cases[i].message))
            fail_msg("wanted '%s' in: %s", cases[i].message,
                     shared->error_text);
    }
    part = stream_job;
    part.resume = "run";
    part.output = NULL;
    assert_int_equal(run(&part), 1);
    assert_non_null(strstr(shared->error_text, "sync_mode is asp"));
    forget("run");
}

/* ---- The folder --------------------------------------------------------- */

/* A run of four steps, with checkpoints of steps 2 and 4. */
static void make_run(void)
{
    struct job job = sync_job;

    job.max_steps = 4;
    must_run(&job);
}

/* Goes on from `resume`, which must be refused with this text. */
static void refuse(const char *resume, const char *text)
{
    struct job job = sync_job;

    job.resume = resume;
    job.output = NULL;
    assert_int_equal(run(&job), 1);
    if (!strstr(shared->error_text, text))
        fail_msg("wanted '%s' in: %s", text, shared->error_text);
}

static void a_folder_has_one_run(void **state)
{
    struct job job = sync_job;

    (void)state;
    job.max_steps = 2;
    must_run(&job);
    assert_int_equal(run(&job), 1);
    assert_non_null(strstr(shared->error_text, "--resume"));
    assert_int_equal(newest("run"), 2);
    /* Checkpoints alone are a run, too. */
    assert_int_equal(unlink(path_of("run/metrics.jsonl")), 0);
    assert_int_equal(run(&job), 1);
    assert_int_equal(newest("run"), 2);
    forget("run");
}

/* Every folder can be used again, or be gone on with, or says what to do. */
static void a_run_that_ended_early(void **state)
{
    struct job job = sync_job, killed = sync_job;

    (void)state;
    killed.strike_at = 1; /* as it makes the folder of checkpoints */
    assert_int_equal(run(&killed), STOPPED);
    refuse("run", "/run holds no checkpoint: the run ended before its first "
                  "step; start it anew with --output ");
    must_run(&job);
    assert_int_equal(newest("run"), 8);
    /* Steps, and no checkpoint. */
    forget("run/checkpoints");
    assert_int_equal(run(&job), 1);
    assert_non_null(strstr(shared->error_text,
                           "/run holds a run already, without a checkpoint; "
                           "choose another --output, or remove it"));
    refuse("run", "/run holds no checkpoint: the run ended before its first; "
                  "start anew with another --output, and set checkpoint_every");
    forget("run");
}

static void files_are_no_folders(void **state)
{
    struct job job = sync_job;

    (void)state;
    refuse("config.yml", "/config.yml is no folder; give --resume the folder");
    refuse("nowhere", "/nowhere is no folder; give --resume the folder");
    refuse("", "/ holds no checkpoint; give --resume the folder of a run");
    job.output = "config.yml";
    assert_int_equal(run(&job), 1);
    assert_non_null(strstr(shared->error_text,
                           "/config.yml is a file, not a folder; choose "
                           "another --output or log_directory"));
    job.output = "config.yml/run";
    assert_int_equal(run(&job), 1);
    assert_non_null(strstr(shared->error_text,
                           "/config.yml is a file, not a folder; choose "
                           "another --output or log_directory"));
}

static bool is_there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* What a checkpoint is made of, and nothing else. */
static void assert_untouched(const char *name)
{
    DIR *dir = opendir(path_of(name));
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' &&
            strncmp(entry->d_name, "block-", 6) != 0 &&
            strcmp(entry->d_name, "manifest.json") != 0)
            fail_msg("%s/%s", name, entry->d_name);
    closedir(dir);
}

static void a_checkpoint_goes_on_in_its_run(void **state)
{
    struct job whole = sync_job, rest = sync_job;
    char *want;

    (void)state;
    whole.output = "whole";
    must_run(&whole);
    want = trace_of("whole");
    make_run();
    rest.resume = "run/checkpoints/step-4/";
    rest.output = NULL;
    must_run(&rest);
    assert_int_equal(shared->resumed, 4);
    assert_same_trace("run", want);
    assert_int_equal(newest("run"), 8);
    assert_untouched("run/checkpoints/step-4");
    /* The folder of all checkpoints means the run, too. */
    rest.resume = "run/checkpoints";
    must_run(&rest);
    assert_int_equal(shared->resumed, 8);
    assert_false(is_there("run/checkpoints/metrics.jsonl"));
    free(want);
    forget("whole");
    forget("run");
}

static void newer_checkpoints_are_not_lost(void **state)
{
    struct job rest = sync_job;
    char *before, *after;

    (void)state;
    make_run();
    before = trace_of("run");
    refuse("run/checkpoints/step-2", "/run went on to step 4; to go on from "
                                     "step 2, name another folder: --output");
    assert_same_trace("run", before);
    assert_int_equal(newest("run"), 4);
    assert_untouched("run/checkpoints/step-2");
    rest.resume = "run/checkpoints/step-2";
    rest.output = "other";
    must_run(&rest);
    assert_int_equal(shared->resumed, 2);
    after = trace_of("other");
    assert_non_null(strstr(after, "{\"step\": 3,"));
    assert_null(strstr(after, "{\"step\": 2,"));
    assert_same_trace("run", before);
    assert_int_equal(newest("run"), 4);
    free(before);
    free(after);
    forget("other");
    forget("run");
}

static void a_copied_checkpoint_needs_a_folder(void **state)
{
    struct job rest = sync_job;

    (void)state;
    make_run();
    assert_int_equal(rename(path_of("run/checkpoints/step-4"),
                            path_of("run/checkpoints/best")),
                     0);
    refuse("run/checkpoints/best", "does not have the name it was saved under");
    assert_int_equal(rename(path_of("run/checkpoints/best"), path_of("copy")),
                     0);
    refuse("copy", "/copy is not in the folder of a run; name a folder for the "
                   "run that goes on: --output DIR");
    assert_untouched("copy");
    rest.resume = "copy";
    rest.output = "other";
    must_run(&rest);
    assert_int_equal(shared->resumed, 4);
    assert_untouched("copy");
    /* What is named like a run is none without its configuration. */
    assert_int_equal(mkdir(path_of("backup"), 0777), 0);
    assert_int_equal(mkdir(path_of("backup/checkpoints"), 0777), 0);
    assert_int_equal(
        rename(path_of("copy"), path_of("backup/checkpoints/step-4")), 0);
    refuse("backup/checkpoints/step-4", "is not in the folder of a run");
    forget("backup");
    forget("other");
    forget("run");
}

static int set_up(void **state)
{
    FILE *f;

    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-resume-XXXXXX");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(root))
        return -1;
    f = fopen(path_of("config.yml"), "w");
    if (!f)
        return -1;
    fputs("model_type: bert\nvocab: 64\nhidden: 16\nlayers: 1\nheads: 2\n"
          "positions: 16\nseq_length: 16\nbatch_size: 2\ndropout: 0.1\n"
          "tie_embeddings: false\nsynthetic_data: true\noptimizer: adamw\n"
          "learning_rate: 0.01\ntotal_steps: 8\n"
          "checkpoint_every: 2\neval_every: 4\neval_batches: 2\n"
          "threads_per_stage: 1\n",
          f);
    return fclose(f);
}

static int tear_down(void **state)
{
    (void)state;
    return vp_io_remove(root);
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
        cmocka_unit_test(any_number_of_stages_goes_on),
        cmocka_unit_test(blocks_keep_their_counts),
        cmocka_unit_test(a_scale_goes_on),
        cmocka_unit_test(gpt2_is_saved_as_published),
        cmocka_unit_test(gpt2_goes_on),
        cmocka_unit_test(other_depths_are_said),
        cmocka_unit_test(what_changes_is_said),
        cmocka_unit_test(what_must_not_change_is_refused),
        cmocka_unit_test(a_folder_has_one_run),
        cmocka_unit_test(a_run_that_ended_early),
        cmocka_unit_test(files_are_no_folders),
        cmocka_unit_test(a_checkpoint_goes_on_in_its_run),
        cmocka_unit_test(newer_checkpoints_are_not_lost),
        cmocka_unit_test(a_copied_checkpoint_needs_a_folder),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
