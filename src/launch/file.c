#include "launch/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static enum vp_status read_bytes(FILE *file, const char *path, const char *what,
                                 char *bytes, size_t *n_bytes_out,
                                 struct vp_err *err)
{
    size_t n = fread(bytes, 1, VP_FILE_MAX_BYTES + 1, file);

    if (ferror(file))
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read: %s; give a %s file", path,
                          strerror(errno), what);
    if (n > VP_FILE_MAX_BYTES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is larger than %d kB; give a configuration, not "
                          "data",
                          path, VP_FILE_MAX_BYTES / 1024);
    *n_bytes_out = n;
    return VP_OK;
}

enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err)
{
    enum vp_status st = VP_ERR_NOMEM;
    FILE *file = fopen(path, "rb");
    char *bytes;

    if (!file)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be opened: %s; check the path", path,
                          strerror(errno));
    bytes = malloc(VP_FILE_MAX_BYTES + 1);
    if (!bytes) {
        vp_err_set(err, st, "%s: out of memory; close other programs", path);
        goto close_file;
    }
    st = read_bytes(file, path, what, bytes, n_bytes_out, err);
    if (st == VP_OK)
        *bytes_out = bytes;
    else
        free(bytes);
close_file:
    fclose(file);
    return st;
}

FILE *vp_file_open(const char *folder, const char *name, const char *mode,
                   struct vp_err *err)
{
    char path[1024 + 64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, mode);
    if (!file)
        vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s)", path,
                   strerror(errno));
    return file;
}

enum vp_status vp_file_close(const char *folder, const char *name, FILE *file,
                             struct vp_err *err)
{
    bool failed = ferror(file);

    failed |= fclose(file) != 0;
    if (failed)
        return vp_err_set(err, VP_ERR_IO, "%s/%s: cannot be written (%s); %s",
                          folder, name, strerror(errno),
                          vp_write_remedy(errno));
    return VP_OK;
}
