#include "job/duty.h"

#include "base/value.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_START = 60, LEAST_SAVE = 300 }; /* seconds */

static const struct {
    const char *name, *phrase;
} duties[VP_DUTY_COUNT] = {
    [VP_DUTY_START] = { "start", "starting" },
    [VP_DUTY_JOIN] = { "join", "joining the other ranks" },
    [VP_DUTY_DATA] = { "data", "reading data" },
    [VP_DUTY_RESUME] = { "resume", "reading a checkpoint" },
    [VP_DUTY_PLAN] = { "plan", "making plans and buffers" },
    [VP_DUTY_FOLDER] = { "folder", "making the run folder" },
    [VP_DUTY_TRAIN] = { "train", "between two actions" },
    [VP_DUTY_SAVE] = { "save", "saving" },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for both */
static enum vp_duty duty_now;
static char about_now[VP_DUTY_BYTES];

const char *vp_duty_name(enum vp_duty duty)
{
    return duties[duty].name;
}

const char *vp_duty_phrase(enum vp_duty duty)
{
    return duties[duty].phrase;
}

int64_t vp_duty_limit_ns(enum vp_duty duty, int64_t limit_ns)
{
    const char *text = getenv(VP_DUTY_VARIABLE);
    int64_t least = duty == VP_DUTY_SAVE ? LEAST_SAVE : LEAST_START;
    int64_t seconds;

    if (duty == VP_DUTY_TRAIN)
        return INT64_MAX;
    if (text && vp_text_to_i64(text, &seconds) && seconds > 0 &&
        seconds < least)
        least = seconds;
    least *= 1000000000;
    return limit_ns > least ? limit_ns : least;
}

void vp_duty_set(enum vp_duty duty, const char *about)
{
    pthread_mutex_lock(&lock);
    duty_now = duty;
    snprintf(about_now, sizeof(about_now), "%s", about ? about : "");
    pthread_mutex_unlock(&lock);
}

enum vp_duty vp_duty_get(char about[VP_DUTY_BYTES])
{
    enum vp_duty duty;

    pthread_mutex_lock(&lock);
    duty = duty_now;
    if (about)
        snprintf(about, VP_DUTY_BYTES, "%s", about_now);
    pthread_mutex_unlock(&lock);
    return duty;
}
