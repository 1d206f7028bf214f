/* Prints on a terminal the phases of a run before its first step if they take
 * long. */
#ifndef VP_TOOLS_PHASE_NOTE_H
#define VP_TOOLS_PHASE_NOTE_H

#include <stdio.h>

struct phase_note;

/* Starts a thread that writes one line to `out` for each phase
 * (job/job_phase.h) that has lasted a second. Returns NULL, and prints no
 * lines, if it cannot be started. */
struct phase_note *phase_note_start(FILE *out);
/* NULL is legal. */
void phase_note_stop(struct phase_note *note);

#endif
