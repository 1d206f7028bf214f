/* Whether ranks that share a GPU leave it idle, by the trace of a run. */
#ifndef VP_BENCH_GAPS_H
#define VP_BENCH_GAPS_H

#include "trace/trace.h"

/* Prints the share of the window in which no rank had an action running, and
 * the longest gap between two: `most_us` at most, or false. A synchronous
 * update waits for the norms of all ranks, which the host puts together: gaps
 * before one are told apart. */
bool gaps_print(const struct vp_trace *trace, double most_us);

#endif
