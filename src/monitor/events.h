/* Converts lines of metrics.jsonl to server-sent events. A client is only a
 * position in the file, so slow clients need no memory. */
#ifndef VP_MONITOR_EVENTS_H
#define VP_MONITOR_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the whole lines from byte `*at` of the file `fd` on as events, at most
 * 16 KiB of lines at once, and advances `*at`. The id of an event is the
 * position after its line. `capacity` must be larger than 16 KiB plus 64 bytes.
 * Returns the bytes written; -1 if the next line is longer than 16 KiB or
 * cannot be read. */
ptrdiff_t vp_events_of_lines(int fd, int64_t *at, char *out, size_t capacity);

#endif
