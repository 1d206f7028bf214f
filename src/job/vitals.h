/* The vitals of a process: file operations, core time, and waits for other
 * processes. The heartbeat sends them, and the watchdog reads them. */
#ifndef VP_JOB_VITALS_H
#define VP_JOB_VITALS_H

#include "base/status.h"
#include "base/strbuf.h"
#include "job/job_phase.h"

#include <stdbool.h>

enum { VP_VITALS_TEXT = 320 };

struct vp_vitals {
    int64_t n_calls;            /* file operations that have ended */
    int64_t ran_ms, delayed_ms; /* see struct vp_cores */
    int64_t call_ms; /* time in the longest current file operation; 0: none */
    int64_t wait_ms; /* time of the wait for other processes; 0: none */
    /* The longest file operation, else the file of the phase; "": unknown. */
    char text[VP_VITALS_TEXT];
};

/* Returns the vitals of this process. `now_ns`: vp_clock_ns(). Time before
 * `resumed_ns` does not count; see struct vp_job_clock. */
struct vp_vitals vp_vitals_read(int64_t now_ns, int64_t resumed_ns);

/* ---- Progress ----------------------------------------------------------- */

/* The last progress of a process: its phase changed, a file operation ended, it
 * used a core for a second, or it waited for other ranks. */
struct vp_pace {
    enum vp_job_phase phase;
    int64_t n_calls, ran_ms; /* at moved_ns */
    int64_t moved_ns;        /* time of the last progress */
};

/* Updates `pace`. `now_ns` is of any one clock of the caller. */
void vp_pace_note(struct vp_pace *pace, enum vp_job_phase phase,
                  const struct vp_vitals *vitals, int64_t now_ns);
/* Appends text such as "reading data, opening /data/part-1.hdf5 for 61.2 s". */
void vp_vitals_add(struct vp_strbuf *out, enum vp_job_phase phase,
                   const struct vp_vitals *vitals);

#endif
