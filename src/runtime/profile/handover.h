/* Measures the latency of a message between two ranks of a process. */
#ifndef VP_RUNTIME_PROFILE_HANDOVER_H
#define VP_RUNTIME_PROFILE_HANDOVER_H

#include "base/status.h"

/* Returns the median of the seconds from posting a message until the waiting
 * rank continues. Nothing is copied. */
enum vp_status vp_handover_measure(double *seconds_out);

#endif
