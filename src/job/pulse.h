/* A rank's thread that tells the supervisor several times a second how the rank
 * is, and hears what it is asked for. It beats whatever the rank itself does:
 * silence means that the process is stopped, or its host cut off. */
#ifndef VP_JOB_PULSE_H
#define VP_JOB_PULSE_H

#include "job/message.h"

#include <signal.h>

struct vp_pulse_config {
    const char *address;  /* as the supervisor says it */
    int rank, n_ranks;    /* the user's numbers */
    const char *host;     /* as the user calls it; NULL: its own name */
    int watchdog_seconds; /* the longest silence of the supervisor's host */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    void *ctx;
    /* Called by the thread. The supervisor asks for a checkpoint and the end;
     * it may ask more than once. */
    void (*on_stop)(void *ctx);
    /* The supervisor wants the end at once, or is gone: the process must end.
     * `why` is a line. */
    void (*on_end)(void *ctx, const char *why);
};

struct vp_pulse;

/* Connects, says hello and starts the thread. Borrows what the configuration
 * points to. */
enum vp_status vp_pulse_start(const struct vp_pulse_config *config,
                              struct vp_pulse **out, struct vp_err *err);
/* What the rank does, from now on: its box, which is never unmapped. */
void vp_pulse_show(struct vp_pulse *pulse, const struct vp_box *box);
/* Where the box is kept in a file; once. */
void vp_pulse_set_folder(struct vp_pulse *pulse, const char *folder);
/* The last word; waits a moment until it was heard. `line` of a failure. */
void vp_pulse_say(struct vp_pulse *pulse, enum vp_word word,
                  enum vp_status status, const char *line);
/* Ends the thread. NULL is fine, in all of these. */
void vp_pulse_free(struct vp_pulse *pulse);

#endif
