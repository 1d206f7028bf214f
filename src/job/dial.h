/* A rank's way to its supervisor: connects, and does the rank's part of the
 * handshake. */
#ifndef VP_JOB_DIAL_H
#define VP_JOB_DIAL_H

#include "job/message.h"

/* `address`: text of address.h. Tries again for up to `limit_ms`: the supervisor
 * may be busy, or may have closed this connection to accept another one. Gives
 * up at once if no process listens at a local socket: the supervisor is gone.
 * The caller owns the non-blocking `fd_out`. */
enum vp_status vp_dial(const char *address, const struct vp_hello *hello,
                       int64_t limit_ms, int *fd_out, struct vp_err *err);

#endif
