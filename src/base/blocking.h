/* Calls that may block: which ones the threads of this process are in, and since
 * when, so that a watchdog can name the file that a process hangs in. Any
 * thread. */
#ifndef VP_BASE_BLOCKING_H
#define VP_BASE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

enum vp_blocking_kind {
    VP_BLOCKING_FILE,  /* of the operating system, about a file or folder */
    VP_BLOCKING_PEERS, /* a wait for other processes of the job */
    VP_BLOCKING_KIND_COUNT
};

/* Before the call: `what` is a literal such as "reading"; `path` is copied, or
 * NULL: the path of `fd`, if that is not -1. Returns a number for
 * vp_blocking_end(). Both keep errno. */
int vp_blocking_begin(enum vp_blocking_kind kind, const char *what,
                      const char *path, int fd);
void vp_blocking_end(int call);

enum { VP_BLOCKING_TEXT = 300 };

struct vp_blocking {
    int64_t since_ns;            /* vp_clock_ns() */
    char text[VP_BLOCKING_TEXT]; /* "reading /data/part-1.hdf5" */
};

/* The call of a kind that has lasted longest; false if no thread is in one. */
bool vp_blocking_longest(enum vp_blocking_kind kind, struct vp_blocking *out);
/* Calls of VP_BLOCKING_FILE that have ended so far. A process that reads or writes
 * at length makes progress: its calls move a few MiB each. */
int64_t vp_blocking_count(void);

#endif
