/* The supervisor's listening socket, and the connections whose peers have not
 * proved yet that they are ranks of the job (handshake.h). If all ranks are on
 * this machine, it is a local socket in a folder that only this user can enter,
 * otherwise TCP.
 *
 * The number of unknown connections is limited, and they cannot keep a rank
 * out: when all places are taken, the oldest one is closed. A rank that is
 * closed this way connects again. */
#ifndef VP_JOB_LISTENER_H
#define VP_JOB_LISTENER_H

#include "job/message.h"

struct vp_listener_config {
    int n_ranks;
    bool local;            /* all ranks are on this machine */
    bool contained;        /* ... in containers that may not see its files */
    const char *interface; /* network interface; NULL: all */
};

struct vp_listener;

enum vp_status vp_listener_open(const struct vp_listener_config *config,
                                struct vp_listener **out, struct vp_err *err);
/* Closes all and removes the socket's folder. NULL is legal. */
void vp_listener_close(struct vp_listener *listener);
/* Called after fork() in the process that does not listen: closes and frees
 * all, but leaves the socket's folder to the other process. */
void vp_listener_forget(struct vp_listener *listener);

/* Returns the address and token for ranks as a text of address.h. */
const char *vp_listener_address(const struct vp_listener *listener);
/* Returns a descriptor that poll() reports as readable when vp_listener_serve()
 * has something to do. */
int vp_listener_fd(const struct vp_listener *listener);
/* Accepts connections, continues their handshakes, and closes those that take
 * longer than five seconds. Never blocks. Call it several times a second. */
void vp_listener_serve(struct vp_listener *listener);

/* Hands out a connection whose handshake is done. Returns false if there is
 * none. hello_out->pid is the one that the kernel reports, for a local socket.
 * The caller owns `*fd_out`, which is non-blocking. */
bool vp_listener_take(struct vp_listener *listener, int *fd_out,
                      struct vp_hello *hello_out);

#endif
