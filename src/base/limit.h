/* Time limits that count only while this process runs.
 *
 * A job can be frozen and continued: Ctrl-Z and fg, SIGSTOP and SIGCONT, a
 * cgroup freezer, a suspended machine. The process notices only that its clock
 * jumps. Every wait therefore checks its limit at least once per heartbeat, and
 * a job clock sums the time between two checks:
 *
 *   up to 2 heartbeats    counts in full
 *   more                  counts as 2 heartbeats: the process got no core for a
 *                         moment
 *   more than VP_GAP_NS   a gap: the process was frozen. Every limit restarts,
 *                         because the processes of a job are not continued at
 *                         the same moment
 *
 * The clock is CLOCK_MONOTONIC: setting the time of day does not change it, and
 * it stops while the machine is suspended. CLOCK_BOOTTIME would count a suspend
 * as one more gap. */
#ifndef VP_BASE_LIMIT_H
#define VP_BASE_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { VP_HEARTBEAT_MS = 200 };
#define VP_GAP_NS INT64_C(1000000000)

/* ---- The job clock ------------------------------------------------------ */

/* Used by one thread. Initialise to zero; the first tick starts it. */
struct vp_job_clock {
    int64_t ns;         /* time counted so far */
    int64_t seen_ns;    /* vp_clock_ns() at the last tick; 0: none yet */
    int64_t resumed_ns; /* vp_clock_ns() at the end of the last gap; 0: none */
};

/* Counts the time up to `now_ns`, a value of vp_clock_ns(). Returns true after
 * a gap: the caller should restart its limits. */
bool vp_job_clock_tick(struct vp_job_clock *clock, int64_t now_ns);

/* ---- Limits ------------------------------------------------------------- */

/* The time limit of a wait. Passed by value, so that each wait counts on its
 * own. */
struct vp_limit {
    int64_t length_ns;
    struct vp_job_clock clock;
};

/* Over at once: the call checks without waiting. */
#define VP_LIMIT_NOW ((struct vp_limit){ .length_ns = 0 })
/* Never over: for waits that end for another reason, such as an abort. */
#define VP_LIMIT_NEVER ((struct vp_limit){ .length_ns = INT64_MAX })

/* Returns a limit of `ms` milliseconds that starts now. */
struct vp_limit vp_limit_ms(int64_t ms);
void vp_limit_restart(struct vp_limit *limit);
/* Counts the time since the last check. Returns true if the limit is over. A
 * wait calls it at least once per VP_HEARTBEAT_MS. */
bool vp_limit_is_over(struct vp_limit *limit);
/* The same at `now_ns`, a value of vp_clock_ns(). */
bool vp_limit_is_over_at(struct vp_limit *limit, int64_t now_ns);
/* Returns the nanoseconds that were left at the last check. */
int64_t vp_limit_left_ns(const struct vp_limit *limit);
/* Returns the time of the next check: half a heartbeat from now, or the end of
 * the limit if that is earlier. For pthread_cond_timedwait() on a condition of
 * vp_limit_cond_init(). */
struct timespec vp_limit_next_look(const struct vp_limit *limit);
/* Initialises a condition whose timed waits use CLOCK_MONOTONIC. Returns 0 or
 * an errno value. */
int vp_limit_cond_init(pthread_cond_t *cond);

#endif
