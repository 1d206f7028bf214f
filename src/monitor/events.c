/* Reads a chunk of metrics.jsonl and turns its whole lines into events. */
#include "monitor/events.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK = 16 * 1024,
    MOST_EXTRA = 64 /* bytes of an event beside its line */
};

ptrdiff_t vp_events_of_lines(int fd, int64_t *at, char *out, size_t capacity)
{
    char bytes[CHUNK];
    ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)*at);
    size_t used = 0, begin = 0;

    if (n < 0)
        return -1;
    while (begin < (size_t)n) {
        const char *line = bytes + begin;
        const char *end = memchr(line, '\n', (size_t)n - begin);
        size_t length = end ? (size_t)(end - line) : 0;

        if (!end && begin == 0 && n == CHUNK)
            return -1;
        if (!end || used + length + MOST_EXTRA > capacity)
            break;
        used += (size_t)snprintf(
            out + used, capacity - used, "id: %lld\ndata: %.*s\n\n",
            (long long)(*at + (int64_t)length + 1), (int)length, line);
        begin += length + 1;
        *at += (int64_t)length + 1;
    }
    return (ptrdiff_t)used;
}
