/* How long a message between two ranks of a process takes to be noticed. */
#ifndef VP_RUNTIME_PROFILE_HANDOVER_H
#define VP_RUNTIME_PROFILE_HANDOVER_H

#include "base/status.h"

/* Seconds from the moment a rank posts a message until a rank that waits for it
 * goes on, median. Nothing is copied. */
enum vp_status vp_handover_measure(double *seconds_out);

#endif
