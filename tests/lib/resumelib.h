/* Runs that are processes of their own, whose calls of the file system fail
 * or end the process, and comparisons of what they leave behind. */
#ifndef VP_TESTS_LIB_RESUMELIB_H
#define VP_TESTS_LIB_RESUMELIB_H

#include <stdatomic.h>
#include <stdint.h>

enum { STOPPED = 77, MAX_SETS = 12 };

extern char resume_root[64];

/* ---- Faults ------------------------------------------------------------- */

/* Shared with the children. */
extern struct job_shared {
    atomic_int n_calls; /* made so far, by all threads */
    int at;             /* the call at which something happens; 0: never */
    int error;          /* 0: the process ends there, else the call fails */
    char notices[4096];
    char error_text[1024];
    int64_t resumed;
    int n_synced; /* fsync() of metrics.jsonl ... */
    int n_early;  /* ... before the checkpoint of its last step had its name */
} * job_shared;

/* What happens in the child that takes a lock, before it has it; NULL: nothing. */
extern void (*job_before_lock)(void);

/* ---- Runs --------------------------------------------------------------- */

struct job {
    const char *sets[MAX_SETS];
    int n_sets;
    const char *output, *resume; /* names under root */
    int64_t max_steps;
    int strike_at, strike_error;
    int kill_ms;       /* SIGKILL after so long; 0: never */
    int64_t remove_at; /* the run folder is removed at this step */
    const char *
        unreadable; /* a part of the paths of files that cannot be opened for reading */
    void (*before_lock)(void);
};

const char *path_in_root(const char *name);

/* In the process that is to be the run. */
_Noreturn void run_child(const struct job *job);

/* The exit status; -1 if it was killed. */
int run_job(const struct job *job);

void must_run_job(const struct job *job);

/* ---- Results ------------------------------------------------------------ */

/* Steps, losses, norms and evaluations; not times. */
char *trace_of(const char *name);

void assert_same_trace(const char *name, const char *want);

int64_t newest_step(const char *name);

void forget(const char *name);

/* ---- Stopped at a call -------------------------------------------------- */

extern const struct job sync_job;

extern const struct job stream_job;

/* ---- The folder --------------------------------------------------------- */

int make_root_folder(void **state);

int remove_root_folder(void **state);

#endif
