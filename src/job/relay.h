/* A thread that copies a pipe to a file descriptor and keeps the first write
 * error. Needed because mpirun silently drops output that it cannot write. */
#ifndef VP_JOB_RELAY_H
#define VP_JOB_RELAY_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>

struct vp_relay;

enum { VP_RELAY_HELD = 4096 };

/* Starts to copy to the descriptor `to`, which must stay open. If `to` is a
 * pipe, the caller handles or ignores SIGPIPE. With `hold`, the first
 * VP_RELAY_HELD - 1 bytes are kept back until vp_relay_release(), and later
 * ones are dropped. */
enum vp_status vp_relay_start(int to, bool hold, struct vp_relay **out,
                              struct vp_err *err);
void vp_relay_release(struct vp_relay *relay);
/* Returns the write end of the pipe, which is closed on exec. */
int vp_relay_input(const struct vp_relay *relay);
/* Copies the rest of the pipe, ends the thread and frees. All writers should
 * have exited: bytes written later are lost. Waits without a limit for a reader
 * of `to` that pauses, but only two seconds once `*stop` is above 1. Writes the
 * bytes that were never released to `held_out` as a string; it may be NULL.
 * Returns VP_OK if `relay` is NULL, VP_ERR_END if the reader has closed the
 * pipe, and VP_ERR_IO with a text after any other error. */
enum vp_status vp_relay_finish(struct vp_relay *relay,
                               const volatile sig_atomic_t *stop,
                               char held_out[VP_RELAY_HELD],
                               struct vp_err *err);

#endif
