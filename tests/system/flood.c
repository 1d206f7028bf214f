/* flood PROGRAM TEXT SECONDS: connects to the supervisor of a job without its token.
 * Finds the process of PROGRAM that supervises the ranks of the job whose command
 * line contains TEXT, and connects to the socket on which it listens again and
 * again, with up to 200 connections at a time; every second connection sends
 * meaningless bytes. Prints the number of connections. Ends after SECONDS, or when
 * the job ends. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 200 };

struct door {
    int pid;
    int port;                   /* on 127.0.0.1 or any address; 0: none */
    struct sockaddr_un address; /* local socket, if port is 0 */
};

/* ---- The supervisor's process ------------------------------------------- */

static bool runs(int pid, const char *program)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return strcmp(path, program) == 0;
}

/* True if a file of /proc, whose parts end with 0 bytes, contains `text`. */
static bool has_text(int pid, const char *file, const char *text)
{
    static char bytes[1 << 17];
    char path[64];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    f = fopen(path, "r");
    if (!f)
        return false;
    n = fread(bytes, 1, sizeof(bytes) - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        bytes[i] = bytes[i] ? bytes[i] : ' ';
    bytes[n] = '\0';
    return strstr(bytes, text) != NULL;
}

static int parent_of(int pid)
{
    char path[64];
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    fclose(f);
    return parent;
}

/* The supervisor is the process that the user started, or a child of rank 0. */
static bool is_supervisor(int pid, const char *program, const char *text)
{
    return runs(pid, program) && has_text(pid, "cmdline", text) &&
           (!has_text(pid, "environ", "OMPI_COMM_WORLD_RANK=") ||
            runs(parent_of(pid), program));
}

/* ---- The supervisor's socket -------------------------------------------- */

static bool find_port(unsigned long inode, struct door *door)
{
    unsigned long number;
    unsigned port, state;
    char line[512];
    FILE *f = fopen("/proc/net/tcp", "r");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line,
                   " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu",
                   &port, &state, &number) == 3 &&
            state == 0x0A && number == inode)
            door->port = (int)port;
    if (f)
        fclose(f);
    return door->port > 0;
}

static bool find_path(unsigned long inode, struct door *door)
{
    char line[512], path[512];
    unsigned long number;
    unsigned flags;
    bool found = false;
    FILE *f = fopen("/proc/net/unix", "r");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%*x: %*x %*x %x %*x %*x %lu %511s", &flags, &number,
                   path) == 3 &&
            flags & 0x10000 && number == inode &&
            strlen(path) < sizeof(door->address.sun_path)) {
            door->address.sun_family = AF_UNIX;
            memcpy(door->address.sun_path, path, strlen(path) + 1);
            found = true;
        }
    if (f)
        fclose(f);
    return found;
}

static bool find_socket(int pid, struct door *door)
{
    char folder[64], name[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
    dir = opendir(folder);
    while (dir && !found && (entry = readdir(dir))) {
        unsigned long inode;
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, name,
                               sizeof(name) - 1);

        if (n < 0)
            continue;
        name[n] = '\0';
        found = sscanf(name, "socket:[%lu]", &inode) == 1 &&
                (find_port(inode, door) || find_path(inode, door));
    }
    if (dir)
        closedir(dir);
    door->pid = pid;
    return found;
}

static bool find_door(const char *program, const char *text, struct door *door)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    while (dir && !found && (entry = readdir(dir)))
        if (isdigit((unsigned char)entry->d_name[0])) {
            int pid = (int)strtol(entry->d_name, NULL, 10);

            found = is_supervisor(pid, program, text) && find_socket(pid, door);
        }
    if (dir)
        closedir(dir);
    return found;
}

/* ---- Flooding ----------------------------------------------------------- */

static int connect_to(const struct door *door)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)door->port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(door->port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK,
                    0);
    int rc;

    if (fd < 0)
        return -1;
    if (door->port)
        rc = connect(fd, (const struct sockaddr *)&in, sizeof(in));
    else
        rc = connect(fd, (const struct sockaddr *)&door->address,
                     sizeof(door->address));
    if (rc == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static void flood(const struct door *door, const char *program, time_t end)
{
    static const char noise[] = "hello 0 0 0 0 0 0\nbeat train 0 0\n\377\376";
    const struct timespec pause = { .tv_nsec = 1000000 };
    int fds[MOST], n_made = 0;

    for (int i = 0; i < MOST; i++)
        fds[i] = -1;
    while (time(NULL) < end && runs(door->pid, program)) {
        int *fd = &fds[n_made % MOST];

        if (*fd >= 0)
            close(*fd);
        *fd = connect_to(door);
        if (*fd >= 0 && n_made % 2)
            send(*fd, noise, sizeof(noise), MSG_NOSIGNAL);
        n_made += *fd >= 0;
        nanosleep(&pause, NULL);
    }
    printf("%d connections\n", n_made);
}

int main(int argc, char **argv)
{
    const struct timespec pause = { .tv_nsec = 2000000 };
    struct door door = { 0 };
    time_t end;

    if (argc != 4) {
        fputs("usage: flood PROGRAM TEXT SECONDS\n", stderr);
        return 2;
    }
    end = time(NULL) + strtol(argv[3], NULL, 10);
    while (time(NULL) < end && !find_door(argv[1], argv[2], &door))
        nanosleep(&pause, NULL);
    flood(&door, argv[1], end);
    return 0;
}
