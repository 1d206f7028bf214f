/* LD_PRELOAD library that makes the file system misbehave for one rank of a job.
 * Environment variables select the faults. The value of the first ones is a text;
 * a call is affected if its path contains the text.
 *
 *   BADFILES_HIDE   readdir() does not return names that contain it
 *   BADFILES_FAIL   open() fails with EIO
 *   BADFILES_HANG   open() and fopen() do not return
 *   BADFILES_HANG_READ, BADFILES_HANG_WRITE, BADFILES_HANG_SYNC
 *                   pread(), write(), fsync() do not return
 *   BADFILES_FLIP   the last bit that pread() returns is wrong
 *   BADFILES_EXIT_MS  exit() takes this number of milliseconds longer
 *   BADFILES_RANK   only in this rank of Open MPI [in all processes]
 *   BADFILES_TIMES  number of calls that hang, counted from the first [all]
 *   BADFILES_MS     calls that hang return normally after this time [never] */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Copies of the variables, made at the start. A later getenv() may crash if
 * MPI_Init() changes the environment in another thread. */
enum { MAX_VARIABLES = 32 };
static char *variables[MAX_VARIABLES]; /* "NAME=text"; NULL: end */

__attribute__((constructor)) static void copy_variables(void)
{
    int n = 0;

    for (char **at = environ; *at && n < MAX_VARIABLES - 1; at++)
        if (strncmp(*at, "BADFILES_", 9) == 0 ||
            strncmp(*at, "OMPI_COMM_WORLD_RANK=", 21) == 0)
            variables[n++] = strdup(*at);
}

static const char *variable_text(const char *name)
{
    size_t n = strlen(name);

    for (char **at = variables; *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at + n + 1;
    return NULL;
}

static int is_here(void)
{
    const char *want = variable_text("BADFILES_RANK");
    const char *rank = variable_text("OMPI_COMM_WORLD_RANK");

    return !want || (rank && strcmp(want, rank) == 0);
}

static int concerns(const char *variable, const char *path)
{
    const char *text = variable_text(variable);

    return text && *text && strstr(path, text) != NULL && is_here();
}

static long number_of(const char *variable)
{
    const char *text = variable_text(variable);

    return text ? strtol(text, NULL, 10) : 0;
}

static void hang(const char *variable, const char *path)
{
    static atomic_long n_calls;
    long ms = number_of("BADFILES_MS"), times = number_of("BADFILES_TIMES");
    const struct timespec time = { .tv_sec = ms / 1000,
                                   .tv_nsec = ms % 1000 * 1000000 };

    if (!concerns(variable, path) ||
        (times > 0 && atomic_fetch_add(&n_calls, 1) >= times))
        return;
    if (ms > 0)
        nanosleep(&time, NULL);
    while (ms == 0)
        pause();
}

static void find_path(int fd, char path[4096])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
}

/* Returns the function with this name in the next library, usually libc. */
static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static int open_by(const char *name, const char *path, int flags, mode_t mode)
{
    int (*real)(const char *, int, ...);
    void *found = next(name);

    memcpy(&real, &found, sizeof(real));
    hang("BADFILES_HANG", path);
    if (concerns("BADFILES_FAIL", path)) {
        errno = EIO;
        return -1;
    }
    return real(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = va_arg(args, mode_t);
    va_end(args);
    return open_by("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = va_arg(args, mode_t);
    va_end(args);
    return open_by("open64", path, flags, mode);
}

static FILE *fopen_by(const char *name, const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    void *found = next(name);

    memcpy(&real, &found, sizeof(real));
    hang("BADFILES_HANG", path);
    return real(path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return fopen_by("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return fopen_by("fopen64", path, mode);
}

struct dirent *readdir(DIR *dir)
{
    struct dirent *(*real)(DIR *);
    void *found = next("readdir");
    struct dirent *entry;

    memcpy(&real, &found, sizeof(real));
    do
        entry = real(dir);
    while (entry && concerns("BADFILES_HIDE", entry->d_name));
    return entry;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    void *found = next("pread");
    char path[4096];
    ssize_t got;

    memcpy(&real, &found, sizeof(real));
    find_path(fd, path);
    hang("BADFILES_HANG_READ", path);
    got = real(fd, buf, n, at);
    if (got > 0 && concerns("BADFILES_FLIP", path))
        ((unsigned char *)buf)[got - 1] ^= 1;
    return got;
}

ssize_t write(int fd, const void *buf, size_t n)
{
    ssize_t (*real)(int, const void *, size_t);
    void *found = next("write");
    char path[4096];

    memcpy(&real, &found, sizeof(real));
    find_path(fd, path);
    hang("BADFILES_HANG_WRITE", path);
    return real(fd, buf, n);
}

int fsync(int fd)
{
    int (*real)(int);
    void *found = next("fsync");
    char path[4096];

    memcpy(&real, &found, sizeof(real));
    find_path(fd, path);
    hang("BADFILES_HANG_SYNC", path);
    return real(fd);
}

__attribute__((destructor)) static void exit_slowly(void)
{
    const char *ms = variable_text("BADFILES_EXIT_MS");
    long n = ms ? strtol(ms, NULL, 10) : 0;
    struct timespec rest = { .tv_sec = n / 1000,
                             .tv_nsec = n % 1000 * 1000000 };

    if (!is_here())
        return;
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}
