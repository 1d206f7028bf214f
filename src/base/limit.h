/* Limits of time that count only while this process runs.
 *
 * A job can be frozen and continued: Ctrl-Z and fg, SIGSTOP and SIGCONT, a
 * cgroup freezer, a suspended machine. A process does not see that it was
 * frozen, only that its clock jumps. Whatever waits therefore looks at its limit
 * at least once in a heartbeat, and a job clock sums the time between looks:
 *
 *   up to 2 heartbeats between two looks   counts
 *   more                                   counts as 2 heartbeats: the process
 *                                          got no core for a moment
 *   more than VP_GAP_NS                    a gap: the process was frozen. Every
 *                                          limit starts anew, because the
 *                                          processes of a job are not continued
 *                                          at the same moment
 *
 * The clock below is CLOCK_MONOTONIC: it does not jump when the time of day is
 * set. While a machine is suspended it stands still, so that a suspended job
 * loses no time. CLOCK_BOOTTIME would count that time, as one more gap. */
#ifndef VP_BASE_LIMIT_H
#define VP_BASE_LIMIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { VP_HEARTBEAT_MS = 200 };
#define VP_GAP_NS INT64_C(1000000000)

/* ---- The job clock ------------------------------------------------------ */

/* One thread ticks it. All zero: the first tick starts it. */
struct vp_job_clock {
    int64_t ns;         /* counted */
    int64_t seen_ns;    /* vp_clock_ns() at the last tick; 0: none yet */
    int64_t resumed_ns; /* vp_clock_ns() at the end of the last gap; 0: none */
};

/* Counts the time up to `now_ns`, which is of vp_clock_ns(). Returns true after
 * a gap: what is measured with this clock should start anew. */
bool vp_job_clock_tick(struct vp_job_clock *clock, int64_t now_ns);

/* ---- Limits ------------------------------------------------------------- */

/* How long a wait may last. Passed by value: each wait counts for itself. */
struct vp_limit {
    int64_t length_ns;
    struct vp_job_clock clock;
};

/* Does not wait: a look. */
#define VP_LIMIT_NOW ((struct vp_limit){ .length_ns = 0 })
/* For waits that something else ends. */
#define VP_LIMIT_NEVER ((struct vp_limit){ .length_ns = INT64_MAX })

/* Starts now. */
struct vp_limit vp_limit_ms(int64_t ms);
void vp_limit_restart(struct vp_limit *limit);
/* A look. To be called at least once in VP_HEARTBEAT_MS while it is waited. */
bool vp_limit_is_over(struct vp_limit *limit);
/* The same at `now_ns` of vp_clock_ns(). */
bool vp_limit_is_over_at(struct vp_limit *limit, int64_t now_ns);
/* Nanoseconds until the limit, by the last look. */
int64_t vp_limit_left_ns(const struct vp_limit *limit);
/* When to look again: half a heartbeat from now, or at the limit. For
 * pthread_cond_timedwait() of a condition that vp_limit_cond_init() made. */
struct timespec vp_limit_next_look(const struct vp_limit *limit);
/* Its timed waits use CLOCK_MONOTONIC. Returns 0, or an error number. */
int vp_limit_cond_init(pthread_cond_t *cond);

#endif
