/* The phase of a job that this process is in, and how long it may stay there
 * without progress. The thread that runs the job sets it; any thread reads. */
#ifndef VP_JOB_JOB_PHASE_H
#define VP_JOB_JOB_PHASE_H

#include <stdint.h>

enum vp_job_phase {
    VP_JOB_PHASE_START, /* before VP_JOB_PHASE_JOIN */
    VP_JOB_PHASE_JOIN,
    VP_JOB_PHASE_DATA,
    VP_JOB_PHASE_RESUME,
    VP_JOB_PHASE_PLAN,
    VP_JOB_PHASE_FOLDER,
    VP_JOB_PHASE_TRAIN, /* actions have limits of their own */
    VP_JOB_PHASE_SAVE,  /* after the last step; other ranks wait or are done */
    VP_JOB_PHASE_COUNT
};

/* Environment variable for tests: seconds instead of 60 and 300 below. */
#define VP_JOB_PHASE_VARIABLE "VPIPE_LEAST_SECONDS"

/* Returns one word, for messages between processes. */
const char *vp_job_phase_name(enum vp_job_phase phase);
/* Returns what the process is doing, for users: "reading data". */
const char *vp_job_phase_phrase(enum vp_job_phase phase);

/* Returns the nanoseconds that a process may be in the phase without progress:
 * `limit_ns`, which is watchdog_seconds, and at least a minute, because disks
 * and networks wake up; at least five for VP_JOB_PHASE_SAVE, because fsync() of
 * all that a run wrote is one call. INT64_MAX: no limit. */
int64_t vp_job_phase_limit_ns(enum vp_job_phase phase, int64_t limit_ns);

enum { VP_JOB_PHASE_BYTES = 300 };

/* `about`: the file or folder at work; copied; NULL: none. */
void vp_job_phase_set(enum vp_job_phase phase, const char *about);
/* `about` may be NULL. */
enum vp_job_phase vp_job_phase_get(char about[VP_JOB_PHASE_BYTES]);

#endif
