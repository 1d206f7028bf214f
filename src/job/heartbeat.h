/* The heartbeat of a rank: a thread that reports the rank's state to the
 * supervisor every VP_HEARTBEAT_MS and receives the supervisor's requests. It
 * does not depend on the rank's own threads, so silence means that the process
 * is stopped or that its host cannot be reached. */
#ifndef VP_JOB_HEARTBEAT_H
#define VP_JOB_HEARTBEAT_H

#include "job/message.h"

#include <signal.h>

struct vp_heartbeat_config {
    const char *address;  /* text of address.h */
    int rank, n_ranks;    /* in the user's numbering */
    const char *host;     /* name in the configuration; NULL: its own name */
    int watchdog_seconds; /* after this the supervisor's host counts as gone */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    void *ctx;
    /* Called by the thread when the supervisor requests a checkpoint and the
     * end of the run. May be called more than once. */
    void (*on_stop)(void *ctx);
    /* Called by the thread when the supervisor requests the end at once, or is
     * gone. The process must exit. `why` is one line. */
    void (*on_end)(void *ctx, const char *why);
};

struct vp_heartbeat;

/* Connects, does the handshake and starts the thread. Copies `config` and
 * borrows its pointers. */
enum vp_status vp_heartbeat_start(const struct vp_heartbeat_config *config,
                                  struct vp_heartbeat **out,
                                  struct vp_err *err);
/* Reports the actions in `blackbox` from now on. It must stay mapped until the
 * process exits. */
void vp_heartbeat_show(struct vp_heartbeat *heartbeat,
                       const struct vp_blackbox *blackbox);
/* Reports the run folder, which holds the blackbox's file. Later calls have no
 * effect. */
void vp_heartbeat_set_folder(struct vp_heartbeat *heartbeat,
                             const char *folder);
/* Reports how the rank ended, and waits up to five seconds for the supervisor's
 * receipt. `line`: the error message of a failure. Later calls send nothing.
 * Returns true if the receipt has come. */
bool vp_heartbeat_report_end(struct vp_heartbeat *heartbeat, enum vp_word word,
                             enum vp_status status, const char *line);
/* Ends the thread and closes the connection. `heartbeat` may be NULL here and
 * in the three functions above. */
void vp_heartbeat_free(struct vp_heartbeat *heartbeat);

#endif
