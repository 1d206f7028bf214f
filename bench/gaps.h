/* Finds times in which ranks that share a GPU leave it idle, from the trace of
 * a run. */
#ifndef VP_BENCH_GAPS_H
#define VP_BENCH_GAPS_H

#include "trace/trace.h"

/* Prints the share of the time in which no rank had an action running, and the
 * longest gap between two actions. Returns true if that is at most `most_us`
 * microseconds. Gaps before a synchronous update are counted separately: it
 * waits for the norms of all ranks, which the host adds. */
bool gaps_print(const struct vp_trace *trace, double most_us);

#endif
