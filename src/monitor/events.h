/* metrics.jsonl as server-sent events: its whole lines from a place on. A reader
 * is only its place in the file, so however slow it is, nothing is kept for it. */
#ifndef VP_MONITOR_EVENTS_H
#define VP_MONITOR_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* Writes events of the lines that begin at `*at` of the file `fd`, as many as fit,
 * and moves `*at` behind them; the id of an event is the place behind its line.
 * Returns the bytes written; -1 if the next line does not fit `capacity` at
 * all, or cannot be read. */
ptrdiff_t vp_events_of_lines(int fd, int64_t *at, char *out, size_t capacity);

#endif
