/* What this process is about, set by the thread that runs a job, and how long it
 * may go without progress. Any thread reads it. */
#ifndef VP_JOB_DUTY_H
#define VP_JOB_DUTY_H

#include <stdint.h>

enum vp_duty {
    VP_DUTY_START, /* before the first one below */
    VP_DUTY_JOIN,
    VP_DUTY_DATA,
    VP_DUTY_RESUME,
    VP_DUTY_PLAN,
    VP_DUTY_FOLDER,
    VP_DUTY_TRAIN, /* actions have limits of their own */
    VP_DUTY_SAVE,  /* after the last step; other ranks wait or are done */
    VP_DUTY_COUNT
};

/* For tests: seconds instead of the least limits below, 60 and 300. */
#define VP_DUTY_VARIABLE "VPIPE_LEAST_SECONDS"

/* One word, for messages; a phrase, for users: "reading data". */
const char *vp_duty_name(enum vp_duty duty);
const char *vp_duty_phrase(enum vp_duty duty);

/* Nanoseconds that a process may have the duty without progress: `limit_ns`,
 * which is watchdog_seconds, and at least a minute: disks and networks wake up.
 * At the end at least five: fsync() of what a run wrote is one call.
 * INT64_MAX: no limit. */
int64_t vp_duty_limit_ns(enum vp_duty duty, int64_t limit_ns);

enum { VP_DUTY_BYTES = 300 };

/* `about`: the file or folder that it is about; copied; NULL: none. */
void vp_duty_set(enum vp_duty duty, const char *about);
/* `about` may be NULL. */
enum vp_duty vp_duty_get(char about[VP_DUTY_BYTES]);

#endif
