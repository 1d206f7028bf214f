/* Copies what arrives in a pipe to a file descriptor, on its own thread, and
 * keeps the first error: mpirun drops what it cannot write without a word.
 * Private to launch. */
#ifndef VP_LAUNCH_RELAY_H
#define VP_LAUNCH_RELAY_H

#include "base/status.h"

#include <signal.h>

struct vp_relay;

/* Starts to copy to `to`, which must stay open. If that is a pipe, the caller
 * handles or ignores SIGPIPE. */
enum vp_status vp_relay_start(int to, struct vp_relay **out,
                              struct vp_err *err);
/* The pipe's end for writing; closed on exec. */
int vp_relay_input(const struct vp_relay *relay);
/* Copies the rest of what is in the pipe, stops and frees. All writers should
 * have exited: what they write later is lost. A reader of `to` that pauses is
 * waited for, as a program that prints does; not longer than two seconds once
 * `*stop` is above 1. NULL is fine: VP_OK. Returns VP_ERR_IO, with a text, if
 * anything could not be written. */
enum vp_status vp_relay_finish(struct vp_relay *relay,
                               const volatile sig_atomic_t *stop,
                               struct vp_err *err);

#endif
