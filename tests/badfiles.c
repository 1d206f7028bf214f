/* LD_PRELOAD for one rank of a job: a file system that misbehaves. Variables of
 * the environment say how; each names a text that paths are searched for.
 *
 *   BADFILES_HIDE   readdir() does not return names that contain it
 *   BADFILES_FAIL   open() gives EIO
 *   BADFILES_HANG   open() does not return
 *   BADFILES_FLIP   what pread() returns has a wrong last bit */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int concerns(const char *variable, const char *path)
{
    const char *text = getenv(variable);

    return text && *text && strstr(path, text) != NULL;
}

/* Of the function of this name that comes after ours. */
static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static int open_by(const char *name, const char *path, int flags, mode_t mode)
{
    int (*real)(const char *, int, ...);
    void *found = next(name);

    memcpy(&real, &found, sizeof(real));
    while (concerns("BADFILES_HANG", path))
        pause();
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
    char link[64], path[4096];
    ssize_t got, length;

    memcpy(&real, &found, sizeof(real));
    got = real(fd, buf, n, at);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    if (got > 0 && concerns("BADFILES_FLIP", path))
        ((unsigned char *)buf)[got - 1] ^= 1;
    return got;
}
