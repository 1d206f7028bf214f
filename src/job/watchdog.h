/* Ends a process that makes no progress before the first step or after the last
 * one, where no supervisor sees it: a thread that looks at what the process
 * itself says of its phase (job_phase.h) and its calls (base/blocking.h). */
#ifndef VP_JOB_WATCHDOG_H
#define VP_JOB_WATCHDOG_H

#include "base/status.h"

struct vp_watchdog;

/* `on_hang` gets one line; it is called once, by the thread, and must end the
 * process: the thread that hangs cannot be woken. */
enum vp_status vp_watchdog_start(int watchdog_seconds,
                                 void (*on_hang)(const char *line),
                                 struct vp_watchdog **out, struct vp_err *err);
/* NULL is fine. */
void vp_watchdog_stop(struct vp_watchdog *watchdog);

#endif
