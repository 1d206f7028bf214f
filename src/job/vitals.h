/* The vitals of a process: calls on files, time on a core, waiting. Sent with
 * its heartbeat, and read by a watchdog in the process itself. */
#ifndef VP_JOB_VITALS_H
#define VP_JOB_VITALS_H

#include "base/status.h"
#include "base/strbuf.h"
#include "job/job_phase.h"

#include <stdbool.h>

enum { VP_VITALS_TEXT = 320 };

struct vp_vitals {
    int64_t n_calls;            /* on files, ended so far */
    int64_t ran_ms, delayed_ms; /* see vp_core_time */
    int64_t call_ms;            /* in the longest call on a file; 0: none */
    int64_t wait_ms;            /* for other processes; 0: it does not */
    /* That call, or what the phase works on; "" if neither is known. */
    char text[VP_VITALS_TEXT];
};

/* Of this process at `now_ns` of vp_clock_ns(). Time before `resumed_ns` does
 * not count; see vp_job_clock. */
struct vp_vitals vp_vitals_read(int64_t now_ns, int64_t resumed_ns);

/* ---- Progress ----------------------------------------------------------- */

/* When a process last made progress or waited for other ranks: its phase
 * changed, a call on a file ended, or it used a core for a second. Times are of
 * the caller's clock. */
struct vp_pace {
    enum vp_job_phase phase;
    int64_t n_calls, ran_ms;
    int64_t moved_ns;
};

void vp_pace_note(struct vp_pace *pace, enum vp_job_phase phase,
                  const struct vp_vitals *vitals, int64_t now_ns);
/* Appends "reading data, opening /data/part-1.hdf5 for 61.2 s". */
void vp_vitals_add(struct vp_strbuf *out, enum vp_job_phase phase,
                   const struct vp_vitals *vitals);

#endif
