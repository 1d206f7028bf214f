/* Runs in processes of their own, whose file operations fail or end the
 * process, and comparisons of the files that they leave. */
#ifndef VP_TESTS_LIB_RESUMELIB_H
#define VP_TESTS_LIB_RESUMELIB_H

#include <stdatomic.h>
#include <stdint.h>

enum { STOPPED = 77, MAX_SETS = 12 };

extern char resume_root[64];

/* ---- Faults of file operations ------------------------------------------ */

/* Memory shared with the child processes. */
extern struct job_shared {
    atomic_int n_calls; /* calls so far, by all threads */
    int at;             /* number of the call that fails; 0: none */
    int error;          /* errno of that call; 0: the process ends there */
    char notices[4096];
    char error_text[1024];
    int64_t resumed;
    int n_synced; /* calls of fsync() on metrics.jsonl */
    int n_early;  /* those before the step's checkpoint had its name */
} * job_shared;

/* Called in the child before it takes its next lock; NULL: not called. */
extern void (*job_before_lock)(void);

/* ---- Runs --------------------------------------------------------------- */

struct job {
    const char *sets[MAX_SETS];
    int n_sets;
    const char *output, *resume; /* names in the test's folder */
    int64_t max_steps;
    int strike_at, strike_error;
    int kill_ms;            /* time until SIGKILL; 0: never */
    int64_t remove_at;      /* step at which the run folder is removed */
    const char *unreadable; /* files with this in their path cannot be read */
    void (*before_lock)(void);
};

const char *path_in_root(const char *name);

/* Runs the job in this process and exits. */
_Noreturn void run_child(const struct job *job);

/* Runs the job in a child process. Returns its exit status, -1 if it was
 * killed. */
int run_job(const struct job *job);

void must_run_job(const struct job *job);

/* ---- Results ------------------------------------------------------------ */

/* Returns the run's metrics without times: steps, losses, norms, evaluations.
 * The caller frees them. */
char *trace_of(const char *name);

void assert_same_trace(const char *name, const char *want);

/* Returns the newest step with a checkpoint, -1 if there is none. */
int64_t newest_step(const char *name);

/* Removes a folder of the test's folder. */
void forget(const char *name);

/* ---- Jobs of the tests -------------------------------------------------- */

extern const struct job sync_job;

extern const struct job stream_job;

/* ---- The test's folder -------------------------------------------------- */

int make_root_folder(void **state);

int remove_root_folder(void **state);

#endif
