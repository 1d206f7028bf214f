/* The phase of a job that this process is in, and the time for which it may
 * stay there without progress. The thread that runs the job sets the phase; any
 * thread may read it. */
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
    VP_JOB_PHASE_TRAIN, /* no limit: actions have their own */
    VP_JOB_PHASE_SAVE,  /* after the last step; other ranks wait or are done */
    VP_JOB_PHASE_COUNT
};

/* Environment variable for tests: seconds that replace the one and five minutes
 * of vp_job_phase_limit_ns() if they are fewer. */
#define VP_JOB_PHASE_VARIABLE "VPIPE_LEAST_SECONDS"

/* Returns one word, for messages between processes. */
const char *vp_job_phase_name(enum vp_job_phase phase);
/* Returns the phase as text for users: "reading data". */
const char *vp_job_phase_phrase(enum vp_job_phase phase);

/* Returns the nanoseconds for which a process may be in the phase without
 * progress: `limit_ns`, which is watchdog_seconds, but at least one minute,
 * because disks and networks may have to wake up, and at least five minutes for
 * VP_JOB_PHASE_SAVE, because one fsync() may have to write all data of a run.
 * Returns INT64_MAX for VP_JOB_PHASE_TRAIN: no limit. */
int64_t vp_job_phase_limit_ns(enum vp_job_phase phase, int64_t limit_ns);

enum { VP_JOB_PHASE_BYTES = 300 };

/* `about`: the file or folder that the phase works on; copied; NULL: none. */
void vp_job_phase_set(enum vp_job_phase phase, const char *about);
/* Returns the phase and copies its file or folder to `about`, which may be
 * NULL. */
enum vp_job_phase vp_job_phase_get(char about[VP_JOB_PHASE_BYTES]);

#endif
