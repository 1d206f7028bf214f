/* Copies what arrives in a pipe to a file descriptor, on its own thread, and
 * keeps the first error: mpirun drops what it cannot write without a word. */
#ifndef VP_JOB_RELAY_H
#define VP_JOB_RELAY_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>

struct vp_relay;

enum { VP_RELAY_HELD = 4096 };

/* Starts to copy to `to`, which must stay open. If that is a pipe, the caller
 * handles or ignores SIGPIPE. With `hold`, what arrives is kept back until
 * vp_relay_release(), as far as it fits VP_RELAY_HELD. */
enum vp_status vp_relay_start(int to, bool hold, struct vp_relay **out,
                              struct vp_err *err);
void vp_relay_release(struct vp_relay *relay);
/* The pipe's end for writing; closed on exec. */
int vp_relay_input(const struct vp_relay *relay);
/* Copies the rest of what is in the pipe, stops and frees. All writers should
 * have exited: what they write later is lost. A reader of `to` that pauses is
 * waited for, as a program that prints does; not longer than two seconds once
 * `*stop` is above 1. NULL is fine: VP_OK. Returns VP_ERR_END if the reader has
 * closed the pipe, and VP_ERR_IO, with a text, if anything else could not be
 * written. `held_out` gets what was never released, as a text; may be NULL. */
enum vp_status vp_relay_finish(struct vp_relay *relay,
                               const volatile sig_atomic_t *stop,
                               char held_out[VP_RELAY_HELD],
                               struct vp_err *err);

#endif
