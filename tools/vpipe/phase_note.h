/* Says on a terminal what a run does before its first step, if that takes long. */
#ifndef VP_TOOLS_PHASE_NOTE_H
#define VP_TOOLS_PHASE_NOTE_H

#include <stdio.h>

struct phase_note;

/* A thread writes one line to `out` for each phase (job/job_phase.h) that has
 * lasted a second. NULL, and no lines, if it cannot be started. */
struct phase_note *phase_note_start(FILE *out);
/* NULL is fine. */
void phase_note_stop(struct phase_note *note);

#endif
