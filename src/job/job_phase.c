/* The phase of this process, its names, and its time limits. */
#include "job/job_phase.h"

#include "base/value.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_START = 60, LEAST_SAVE = 300 }; /* shortest limits, seconds */

static const struct {
    const char *name, *phrase;
} phases[VP_JOB_PHASE_COUNT] = {
    [VP_JOB_PHASE_START] = { "start", "starting" },
    [VP_JOB_PHASE_JOIN] = { "join", "joining the other ranks" },
    [VP_JOB_PHASE_DATA] = { "data", "reading data" },
    [VP_JOB_PHASE_RESUME] = { "resume", "reading a checkpoint" },
    [VP_JOB_PHASE_PLAN] = { "plan", "making plans and buffers" },
    [VP_JOB_PHASE_FOLDER] = { "folder", "making the run folder" },
    [VP_JOB_PHASE_TRAIN] = { "train", "between two actions" },
    [VP_JOB_PHASE_SAVE] = { "save", "saving" },
};

/* Guards phase_now and about_now. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum vp_job_phase phase_now;
static char about_now[VP_JOB_PHASE_BYTES];

const char *vp_job_phase_name(enum vp_job_phase phase)
{
    return phases[phase].name;
}

const char *vp_job_phase_phrase(enum vp_job_phase phase)
{
    return phases[phase].phrase;
}

int64_t vp_job_phase_limit_ns(enum vp_job_phase phase, int64_t limit_ns)
{
    const char *text = getenv(VP_JOB_PHASE_VARIABLE);
    int64_t least = phase == VP_JOB_PHASE_SAVE ? LEAST_SAVE : LEAST_START;
    int64_t seconds;

    if (phase == VP_JOB_PHASE_TRAIN)
        return INT64_MAX;
    if (text && vp_text_to_i64(text, &seconds) && seconds > 0 &&
        seconds < least)
        least = seconds;
    least *= 1000000000;
    return limit_ns > least ? limit_ns : least;
}

void vp_job_phase_set(enum vp_job_phase phase, const char *about)
{
    pthread_mutex_lock(&lock);
    phase_now = phase;
    snprintf(about_now, sizeof(about_now), "%s", about ? about : "");
    pthread_mutex_unlock(&lock);
}

enum vp_job_phase vp_job_phase_get(char about[VP_JOB_PHASE_BYTES])
{
    enum vp_job_phase phase;

    pthread_mutex_lock(&lock);
    phase = phase_now;
    if (about)
        snprintf(about, VP_JOB_PHASE_BYTES, "%s", about_now);
    pthread_mutex_unlock(&lock);
    return phase;
}
