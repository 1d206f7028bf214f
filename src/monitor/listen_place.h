/* Parses [HOST:]PORT, the address that the dashboard listens on, and opens the
 * socket. */
#ifndef VP_MONITOR_LISTEN_PLACE_H
#define VP_MONITOR_LISTEN_PLACE_H

#include "base/status.h"

struct vp_listen_place {
    char host[256];
    int port; /* 0: any free port */
};

/* Parses "8080" (on loopback), "host:8080" or "[::1]:8080". */
enum vp_status vp_listen_place_parse(const char *text,
                                     struct vp_listen_place *out,
                                     struct vp_err *err);
/* Opens a non-blocking socket that listens on `place`, and sets place->port to
 * the actual port if it was 0. The caller closes the socket. */
enum vp_status vp_listen_place_open(struct vp_listen_place *place, int *fd_out,
                                    struct vp_err *err);

#endif
