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

struct vp_box *vp_box_map(void)
{
    void *at = mmap(NULL, sizeof(struct vp_box), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

/* The file takes the place of the memory, at the same address. */
enum vp_status vp_boxfile_keep(struct vp_box *box, const char *folder, int rank,
                               struct vp_err *err)
{
    const ssize_t n = sizeof(*box);
    char path[1024 + 32];
    bool kept;
    int fd;

    make_path(folder, rank, path, sizeof(path));
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    kept = fd >= 0 && write(fd, box, sizeof(*box)) == n &&
           mmap(box, sizeof(*box), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED, fd, 0) == box;
    if (!kept)
        vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s)", path,
                   strerror(errno));
    if (fd >= 0)
        close(fd);
    return kept ? VP_OK : VP_ERR_IO;
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
