/* The process at the other end of a connection. */
#ifndef VP_JOB_PEER_H
#define VP_JOB_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns false if `fd` is a local socket (AF_UNIX) whose peer belongs to
 * another user. Returns true for all other sockets, which do not carry this
 * information. */
bool vp_peer_is_allowed(int fd);

/* Returns the pid of the peer as this process sees it. Returns 0 if the peer
 * must not be signalled from here: it is on another machine or in another pid
 * namespace. For a local socket the kernel reports the pid and `claimed` is
 * ignored. For TCP, returns `claimed` if that process of this machine holds the
 * other end. */
pid_t vp_peer_pid(int fd, pid_t claimed);

#endif
