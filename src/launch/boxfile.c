#include "launch/boxfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void make_path(const char *folder, int rank, char *out, size_t n)
{
    snprintf(out, n, "%s/actions.%d", folder, rank);
}

enum vp_status vp_boxfile_create(const char *folder, int rank,
                                 struct vp_box **out, struct vp_err *err)
{
    char path[1024 + 32];
    void *at = MAP_FAILED;
    int fd;

    make_path(folder, rank, path, sizeof(path));
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0 && ftruncate(fd, sizeof(struct vp_box)) == 0)
        at = mmap(NULL, sizeof(struct vp_box), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        vp_err_set(err, VP_ERR_IO,
                   "%s: cannot be written (%s); the run folder must be on a "
                   "file system that all hosts share",
                   path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return VP_ERR_IO;
    *out = at;
    return VP_OK;
}

void vp_boxfile_clear(const char *folder, int n_ranks)
{
    char path[1024 + 32];

    for (int r = 0; r < n_ranks; r++) {
        make_path(folder, r, path, sizeof(path));
        unlink(path);
    }
}

bool vp_boxfile_read(const char *folder, int rank, struct vp_box *out)
{
    char path[1024 + 32];
    ssize_t n;
    int fd;

    make_path(folder, rank, path, sizeof(path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, out, sizeof(*out));
    close(fd);
    return n == (ssize_t)sizeof(*out);
}
