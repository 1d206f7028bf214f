/* Prints the phases of a run before its first step if they take long. */
#include "phase_note.h"

#include "base/clock.h"
#include "base/limit.h"
#include "job/job_phase.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LOOK_MS = 100, LONG_MS = 1000 };

struct phase_note {
    FILE *out;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit; /* guarded by lock */
};

/* Prints a line if the phase has lasted LONG_MS. Returns false when training
 * has begun, which prints its own lines. */
static bool look(const struct phase_note *note, enum vp_job_phase *phase,
                 int64_t *since_ns)
{
    char about[VP_JOB_PHASE_BYTES];
    enum vp_job_phase now = vp_job_phase_get(about);

    if (now != *phase) {
        *phase = now;
        *since_ns = vp_clock_ns();
    } else if (*since_ns > 0 &&
               vp_clock_ns() - *since_ns > LONG_MS * INT64_C(1000000)) {
        *since_ns = 0; /* printed */
        fprintf(note->out, "start     %s%s%s ...\n", vp_job_phase_phrase(now),
                about[0] ? " " : "", about);
        fflush(note->out);
    }
    return now < VP_JOB_PHASE_TRAIN;
}

static void *thread_main(void *arg)
{
    struct phase_note *note = arg;
    enum vp_job_phase phase = VP_JOB_PHASE_COUNT;
    int64_t since_ns = 0;

    pthread_mutex_lock(&note->lock);
    while (!note->quit && look(note, &phase, &since_ns)) {
        struct timespec at = vp_clock_after(LOOK_MS);

        pthread_cond_timedwait(&note->changed, &note->lock, &at);
    }
    pthread_mutex_unlock(&note->lock);
    return NULL;
}

struct phase_note *phase_note_start(FILE *out)
{
    struct phase_note *note = calloc(1, sizeof(*note));

    if (!note || vp_limit_cond_init(&note->changed) != 0)
        goto err_free;
    note->out = out;
    pthread_mutex_init(&note->lock, NULL);
    if (pthread_create(&note->thread, NULL, thread_main, note) == 0)
        return note;
    pthread_mutex_destroy(&note->lock);
    pthread_cond_destroy(&note->changed);
err_free:
    free(note);
    return NULL;
}

void phase_note_stop(struct phase_note *note)
{
    if (!note)
        return;
    pthread_mutex_lock(&note->lock);
    note->quit = true;
    pthread_cond_broadcast(&note->changed);
    pthread_mutex_unlock(&note->lock);
    pthread_join(note->thread, NULL);
    pthread_mutex_destroy(&note->lock);
    pthread_cond_destroy(&note->changed);
    free(note);
}
