/* The heartbeat of a rank: a thread that reports to the supervisor every
 * VP_HEARTBEAT_MS what the rank is doing, and receives the supervisor's
 * requests. It runs whatever the rank itself does, so silence means that the
 * process is stopped or that its host cannot be reached. */
#ifndef VP_JOB_HEARTBEAT_H
#define VP_JOB_HEARTBEAT_H

#include "job/message.h"

#include <signal.h>

struct vp_heartbeat_config {
    const char *address;  /* text of address.h */
    int rank, n_ranks;    /* the user's numbers */
    const char *host;     /* as the user calls it; NULL: its own name */
    int watchdog_seconds; /* before the supervisor's host counts as gone */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    void *ctx;
    /* Called by the thread when the supervisor asks for a checkpoint and the
     * end of the run; it may ask more than once. */
    void (*on_stop)(void *ctx);
    /* Called by the thread when the supervisor asks for the end at once, or is
     * gone: the process must exit. `why` is one line. */
    void (*on_end)(void *ctx, const char *why);
};

struct vp_heartbeat;

/* Connects, does the handshake and starts the thread. Borrows what `config`
 * points to. */
enum vp_status vp_heartbeat_start(const struct vp_heartbeat_config *config,
                                  struct vp_heartbeat **out,
                                  struct vp_err *err);
/* Reports what `blackbox` says from now on. The blackbox is never unmapped. */
void vp_heartbeat_show(struct vp_heartbeat *heartbeat,
                       const struct vp_blackbox *blackbox);
/* Reports the folder of the blackbox's file. Only the first call counts. */
void vp_heartbeat_set_folder(struct vp_heartbeat *heartbeat,
                             const char *folder);
/* Reports how the rank ended, and waits up to five seconds for the supervisor's
 * receipt. `line`: the error message of a failure. */
void vp_heartbeat_report_end(struct vp_heartbeat *heartbeat, enum vp_word word,
                             enum vp_status status, const char *line);
/* Ends the thread. `heartbeat` may be NULL here and in the three above. */
void vp_heartbeat_free(struct vp_heartbeat *heartbeat);

#endif
