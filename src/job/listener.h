/* The supervisor's listening socket, and the connections to it whose peer has
 * not proved yet that it is a rank of the job (handshake.h). A local socket in a
 * folder that only this user can enter, where all ranks are on this machine;
 * else TCP.
 *
 * Unknown connections have places of their own, so that no number of them keeps
 * a rank out: when all are taken, the oldest is closed, and a rank that was
 * closed tries again. */
#ifndef VP_JOB_LISTENER_H
#define VP_JOB_LISTENER_H

#include "job/message.h"

struct vp_listener_config {
    int n_ranks;
    bool local;            /* all ranks are on this machine */
    bool contained;        /* ... in containers, which may not see its files */
    const char *interface; /* of the network; NULL: all */
};

struct vp_listener;

enum vp_status vp_listener_open(const struct vp_listener_config *config,
                                struct vp_listener **out, struct vp_err *err);
/* Removes the socket, too. NULL is legal. */
void vp_listener_close(struct vp_listener *listener);
/* Closes it in this process, after fork(), and leaves the socket to the other
 * one. */
void vp_listener_forget(struct vp_listener *listener);

/* For ranks: where to connect, with the token (address.h). */
const char *vp_listener_address(const struct vp_listener *listener);
/* Readable (poll) when vp_listener_serve() has something to do. */
int vp_listener_fd(const struct vp_listener *listener);
/* Accepts connections, carries on with their handshakes, and closes those that
 * take longer than five seconds. Never waits. To be called several times a
 * second. */
void vp_listener_serve(struct vp_listener *listener);

/* Takes a connection whose handshake is done out of the listener; false if
 * there is none. The pid of `hello_out` is the kernel's where it tells one.
 * The caller owns the non-blocking `fd_out`. */
bool vp_listener_take(struct vp_listener *listener, int *fd_out,
                      struct vp_hello *hello_out);

#endif
