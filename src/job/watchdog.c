/* The watchdog thread: compares the progress of this process with the limit of
 * its phase. */
#include "job/watchdog.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/strbuf.h"
#include "job/vitals.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct vp_watchdog {
    int64_t limits_ns[VP_JOB_PHASE_COUNT];
    void (*on_hang)(const char *line);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit; /* guarded by lock */
};

static void report(const struct vp_watchdog *watchdog, enum vp_job_phase phase,
                   const struct vp_vitals *vitals, int64_t ns)
{
    struct vp_strbuf line = VP_STRBUF_INIT;

    vp_strbuf_addf(&line, "no progress for %.1f s: ", (double)ns * 1e-9);
    vp_vitals_add(&line, phase, vitals);
    vp_strbuf_adds(&line, vitals->wait_ms > 0
                              ? "; look at what the other ranks do"
                              : "; check that disk, or raise watchdog_seconds");
    watchdog->on_hang(vp_strbuf_text(&line));
    vp_strbuf_release(&line);
}

/* Returns the limit for the phase. A process that waits for other ranks gets a
 * quarter more, so that the rank that all wait for ends first and names the
 * file in which it hangs. */
static int64_t find_limit(const struct vp_watchdog *watchdog,
                          enum vp_job_phase phase, bool waits)
{
    int64_t limit = watchdog->limits_ns[phase];

    return waits && limit < INT64_MAX ? limit + limit / 4 : limit;
}

/* Checks once. A wait for other processes is measured by wait_ms, because it
 * may use a core all the time, which vp_pace_note() takes for progress. */
static void look(const struct vp_watchdog *watchdog, struct vp_job_clock *clock,
                 struct vp_pace *pace)
{
    int64_t now = vp_clock_ns(), limit, ns;
    bool resumed = vp_job_clock_tick(clock, now);
    struct vp_vitals vitals = vp_vitals_read(now, clock->resumed_ns);
    enum vp_job_phase phase = vp_job_phase_get(NULL);

    vp_pace_note(pace, phase, &vitals, clock->ns);
    if (resumed)
        pace->moved_ns = clock->ns;
    limit = find_limit(watchdog, phase, vitals.wait_ms > 0);
    ns = vitals.wait_ms > 0 ? vitals.wait_ms * 1000000
                            : clock->ns - pace->moved_ns;
    if (ns >= limit)
        report(watchdog, phase, &vitals, ns);
}

static void *thread_main(void *arg)
{
    struct vp_watchdog *watchdog = arg;
    struct vp_job_clock clock = { .seen_ns = vp_clock_ns() };
    struct vp_pace pace = { .phase = VP_JOB_PHASE_COUNT };

    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->quit) {
        struct timespec at = vp_clock_after(VP_HEARTBEAT_MS);

        look(watchdog, &clock, &pace);
        pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &at);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

enum vp_status vp_watchdog_start(int watchdog_seconds,
                                 void (*on_hang)(const char *line),
                                 struct vp_watchdog **out, struct vp_err *err)
{
    struct vp_watchdog *watchdog = calloc(1, sizeof(*watchdog));

    if (!watchdog || vp_limit_cond_init(&watchdog->changed) != 0)
        goto err_free;
    /* Not in the thread: vp_job_phase_limit_ns() calls getenv(), and MPI_Init()
     * may change the environment at the same time. */
    for (int i = 0; i < VP_JOB_PHASE_COUNT; i++)
        watchdog->limits_ns[i] = vp_job_phase_limit_ns(
            (enum vp_job_phase)i, watchdog_seconds * INT64_C(1000000000));
    watchdog->on_hang = on_hang;
    pthread_mutex_init(&watchdog->lock, NULL);
    if (pthread_create(&watchdog->thread, NULL, thread_main, watchdog) != 0)
        goto err_release;
    *out = watchdog;
    return VP_OK;

err_release:
    pthread_mutex_destroy(&watchdog->lock);
    pthread_cond_destroy(&watchdog->changed);
err_free:
    free(watchdog);
    return vp_err_set(err, VP_ERR_NOMEM, "starting the watchdog failed");
}

void vp_watchdog_stop(struct vp_watchdog *watchdog)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->quit = true;
    pthread_cond_broadcast(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    pthread_join(watchdog->thread, NULL);
    pthread_mutex_destroy(&watchdog->lock);
    pthread_cond_destroy(&watchdog->changed);
    free(watchdog);
}
