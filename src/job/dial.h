/* Connects a rank to its supervisor and does the rank's part of the
 * handshake. */
#ifndef VP_JOB_DIAL_H
#define VP_JOB_DIAL_H

#include "job/message.h"

/* Connects to `address`, a text of address.h, and sends `hello`. Repeats failed
 * attempts for up to `limit_ms`: the supervisor may be busy, or may have closed
 * this connection to accept another one. Gives up at once if no process listens
 * at a local socket, because the supervisor is gone. The caller owns `*fd_out`,
 * which is non-blocking. */
enum vp_status vp_dial(const char *address, const struct vp_hello *hello,
                       int64_t limit_ms, int *fd_out, struct vp_err *err);

#endif
