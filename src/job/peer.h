/* The process at the other end of a connection. */
#ifndef VP_JOB_PEER_H
#define VP_JOB_PEER_H

#include <stdbool.h>
#include <sys/types.h>

/* Is it a process of this user? Only a local socket (AF_UNIX) tells; true for
 * any other. */
bool vp_peer_is_allowed(int fd);

/* Its pid, as this process sees it; 0 if it is none that may be signalled from
 * here: on another machine, or behind a pid namespace. The kernel knows the pid
 * of a local socket, and `claimed` is not looked at. By TCP, the process
 * `claimed` must be one of this machine that holds the other end. */
pid_t vp_peer_pid(int fd, pid_t claimed);

#endif
