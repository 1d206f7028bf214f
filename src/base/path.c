#include "base/path.h"

#include <fcntl.h>
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
    fcntl(fd, F_SETFL, append ? O_APPEND : 0); /* writing may wait */
    file = fdopen(fd, append ? "a" : "w");
    if (!file)
        close(fd);
    return file;
}
