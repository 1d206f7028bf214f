/* A registry of blocking calls that threads of this process are in, with their
 * start times: a watchdog names the file that a process hangs in. All functions
 * may be called from any thread. */
#ifndef VP_BASE_BLOCKING_H
#define VP_BASE_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

enum vp_blocking_kind {
    VP_BLOCKING_FILE,  /* a system call on a file or folder */
    VP_BLOCKING_PEERS, /* a wait for other processes of the job */
    VP_BLOCKING_KIND_COUNT
};

/* Registers a call that is about to start. `what` is a literal such as
 * "reading". `path` is copied; NULL: the path of `fd` is used, unless `fd` is
 * -1. Returns a number for vp_blocking_end(). Both functions preserve errno. */
int vp_blocking_begin(enum vp_blocking_kind kind, const char *what,
                      const char *path, int fd);
void vp_blocking_end(int call);

enum { VP_BLOCKING_TEXT = 300 };

struct vp_blocking {
    int64_t since_ns;            /* vp_clock_ns() */
    char text[VP_BLOCKING_TEXT]; /* "reading /data/part-1.hdf5" */
};

/* Writes the call of `kind` that has lasted longest. Returns false, and writes
 * nothing, if no thread is in such a call. */
bool vp_blocking_longest(enum vp_blocking_kind kind, struct vp_blocking *out);
/* Returns the number of VP_BLOCKING_FILE calls that have ended so far. It grows
 * while a process reads or writes large files, because each call moves a few
 * MiB: a watchdog counts it as progress. */
int64_t vp_blocking_count(void);

#endif
