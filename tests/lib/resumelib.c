#include "lib/resumelib.h"

#include "ckpt/io.h"
#include "ckpt/store.h"
#include "config/load.h"
#include "run/run.h"

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

char resume_root[64];

/* ---- Faults of file operations ------------------------------------------ */

struct job_shared *job_shared;

/* Counts a call. Returns true if it has to fail. */
static bool strike(void)
{
    if (++job_shared->n_calls != job_shared->at)
        return false;
    if (job_shared->error == 0)
        _exit(STOPPED);
    errno = job_shared->error;
    return true;
}

/* Files whose path contains this text cannot be opened for reading; NULL:
 * none. */
static const char *job_unreadable;

static int io_open(const char *path, int flags, mode_t mode)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY;

    if (job_unreadable && !writes && strstr(path, job_unreadable)) {
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

void (*job_before_lock)(void);

/* ---- Runs --------------------------------------------------------------- */

const char *path_in_root(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", resume_root, name);
    return path[turn];
}

static void keep_job_notice(void *ctx, const char *line)
{
    size_t used = strlen(job_shared->notices);

    (void)ctx;
    snprintf(job_shared->notices + used, sizeof(job_shared->notices) - used,
             "%s\n", line);
}

static void keep_start(void *ctx, const struct vp_run_summary *summary)
{
    (void)ctx;
    job_shared->resumed = summary->resumed;
}

static int64_t job_remove_at;

static void keep_job_step(void *ctx, const struct vp_step_report *report)
{
    (void)ctx;
    if (report->step == job_remove_at)
        vp_io_remove(path_in_root("run"));
}

_Noreturn void run_child(const struct job *job)
{
    struct vp_io io = vp_io_system;
    struct vp_run_options options = {
        .output = job->output ? path_in_root(job->output) : NULL,
        .resume = job->resume ? path_in_root(job->resume) : NULL,
        .max_steps = job->max_steps,
    };
    struct vp_run_events events = { .on_notice = keep_job_notice,
                                    .on_warning = keep_job_notice,
                                    .on_step = keep_job_step,
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
    job_unreadable = job->unreadable;
    job_remove_at = job->remove_at;
    job_before_lock = job->before_lock;
    st = vp_config_load(path_in_root("config.yml"), job->sets, job->n_sets,
                        &config, &err);
    if (st == VP_OK)
        st = vp_run_train(&config, &options, &events, &err);
    snprintf(job_shared->error_text, sizeof(job_shared->error_text), "%.1000s",
             err.text);
    _exit(st == VP_OK ? 0 : 1);
}

int run_job(const struct job *job)
{
    int status;
    pid_t pid;

    memset(job_shared, 0, sizeof(*job_shared));
    job_shared->at = job->strike_at;
    job_shared->error = job->strike_error;
    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_child(job);
    if (job->kill_ms > 0) {
        usleep((useconds_t)job->kill_ms * 1000);
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void must_run_job(const struct job *job)
{
    if (run_job(job) != 0)
        fail_msg("%s", job_shared->error_text);
}

/* ---- Results ------------------------------------------------------------ */

char *trace_of(const char *name)
{
    char file[300], *text, *line = NULL;
    size_t n_text = 0, n_line = 0;
    FILE *out = open_memstream(&text, &n_text), *in;

    snprintf(file, sizeof(file), "%s/metrics.jsonl", path_in_root(name));
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

void assert_same_trace(const char *name, const char *want)
{
    char *have = trace_of(name);

    assert_string_equal(have, want);
    free(have);
}

int64_t newest_step(const char *name)
{
    char folder[300];
    struct vp_ckpt_entry *list = NULL;
    struct vp_err err = { .text = "" };
    int n = 0;
    int64_t step;

    snprintf(folder, sizeof(folder), "%s/checkpoints", path_in_root(name));
    assert_int_equal(vp_ckpt_list(folder, &list, &n, &err), VP_OK);
    step = n > 0 ? list[0].step : -1;
    free(list);
    return step;
}

void forget(const char *name)
{
    assert_int_equal(vp_io_remove(path_in_root(name)), 0);
}

/* ---- Jobs of the tests -------------------------------------------------- */

const struct job sync_job = { .sets = { "stages=2", "accumulation_steps=2" },
                              .n_sets = 2,
                              .output = "run" };

const struct job stream_job = { .sets = { "stages=3", "sync_mode=asp" },
                                .n_sets = 2,
                                .output = "run" };

/* ---- The test's folder -------------------------------------------------- */

int make_root_folder(void **state)
{
    FILE *f;

    (void)state;
    snprintf(resume_root, sizeof(resume_root), "/tmp/vpipe-resume-XXXXXX");
    job_shared = mmap(NULL, sizeof(*job_shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job_shared == MAP_FAILED || !mkdtemp(resume_root))
        return -1;
    f = fopen(path_in_root("config.yml"), "w");
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

int remove_root_folder(void **state)
{
    (void)state;
    return vp_io_remove(resume_root);
}
