/* Opens files with O_NONBLOCK, so that a FIFO without a reader cannot block. */
#include "base/path.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool vp_path_is_special(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) &&
           !S_ISDIR(info.st_mode);
}

FILE *vp_path_create(const char *path, bool append)
{
    int fd = open(path,
                  O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC |
                      (append ? O_APPEND : O_TRUNC),
                  0666);
    FILE *file;

    if (fd < 0)
        return NULL;
    fcntl(fd, F_SETFL, append ? O_APPEND : 0); /* later writes block */
    file = fdopen(fd, append ? "a" : "w");
    if (!file)
        close(fd);
    return file;
}

bool vp_path_cache(const char *part, char *out, size_t n_bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;

    /* The XDG specification ignores a path that is not absolute. */
    if (cache && cache[0] == '/')
        n = snprintf(out, n_bytes, "%s/vpipe/%s", cache, part);
    else if (home && home[0] == '/')
        n = snprintf(out, n_bytes, "%s/.cache/vpipe/%s", home, part);
    return n > 0 && (size_t)n < n_bytes;
}
