/* A thread that ends a process without a supervisor if it makes no progress
 * before the first step or after the last one. It reads the phase (job_phase.h)
 * and the blocking calls (base/blocking.h) of the process. */
#ifndef VP_JOB_WATCHDOG_H
#define VP_JOB_WATCHDOG_H

#include "base/status.h"

struct vp_watchdog;

/* The thread calls `on_hang` with one line of text. It must end the process,
 * because the thread that hangs cannot be woken. */
enum vp_status vp_watchdog_start(int watchdog_seconds,
                                 void (*on_hang)(const char *line),
                                 struct vp_watchdog **out, struct vp_err *err);
/* NULL is legal. */
void vp_watchdog_stop(struct vp_watchdog *watchdog);

#endif
