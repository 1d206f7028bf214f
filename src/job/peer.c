/* Finds the user and the pid of a connection's peer from the kernel and
 * /proc. */
#include "job/peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Returns false if `fd` is not a local socket. */
static bool read_credentials(int fd, struct ucred *out)
{
    socklen_t n = sizeof(*out), n_family = sizeof(int);
    int family = 0;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &n_family) == 0 &&
           family == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &n) == 0;
}

bool vp_peer_is_allowed(int fd)
{
    struct ucred peer;

    return !read_credentials(fd, &peer) || peer.uid == geteuid();
}

/* ---- TCP ---------------------------------------------------------------- */

/* Writes the two addresses as they stand in the line of /proc/<pid>/net/tcp for
 * the other end of `fd`: "0100007F:1F90 0100007F:D431 ". */
static bool print_ends(int fd, char *out, size_t n_bytes)
{
    struct sockaddr_in here = { 0 }, there = { 0 };
    socklen_t n_here = sizeof(here), n_there = sizeof(there);

    if (getsockname(fd, (struct sockaddr *)&here, &n_here) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &n_there) != 0 ||
        here.sin_family != AF_INET || there.sin_family != AF_INET)
        return false;
    snprintf(out, n_bytes, "%08X:%04X %08X:%04X ",
             (unsigned)there.sin_addr.s_addr, (unsigned)ntohs(there.sin_port),
             (unsigned)here.sin_addr.s_addr, (unsigned)ntohs(here.sin_port));
    return true;
}

/* Finds the inode of the other end in the network namespace of process
 * `pid`. */
static bool find_inode(int fd, pid_t pid, unsigned long *out)
{
    char path[64], ends[64], line[512];
    bool found = false;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/net/tcp", (long)pid);
    if (!print_ends(fd, ends, sizeof(ends)) || !(f = fopen(path, "re")))
        return false;
    while (!found && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, ends);

        /* state, queues, timer, retransmits, uid, timeout, inode */
        found = at && sscanf(at + strlen(ends),
                             "%*x %*x:%*x %*x:%*x %*x %*u %*d %lu", out) == 1;
    }
    fclose(f);
    return found;
}

/* Returns true if process `pid` has the socket open. The kernel allows this
 * check only for processes of the same user, or to root. */
static bool holds_socket(pid_t pid, unsigned long inode)
{
    char path[64], want[64], link[64];
    const struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
    folder = opendir(path);
    if (!folder)
        return false;
    while (!found && (entry = readdir(folder))) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, link,
                               sizeof(link) - 1);

        if (n > 0) {
            link[n] = '\0';
            found = strcmp(link, want) == 0;
        }
    }
    closedir(folder);
    return found;
}

pid_t vp_peer_pid(int fd, pid_t claimed)
{
    unsigned long inode;
    struct ucred peer;

    if (read_credentials(fd, &peer))
        return peer.uid == geteuid() ? peer.pid : 0;
    if (claimed > 1 && find_inode(fd, claimed, &inode) &&
        holds_socket(claimed, inode))
        return claimed;
    return 0;
}
