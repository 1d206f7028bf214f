/* Refuses devices and very large files before it reads them. */
#include "text/token_file.h"

#include "base/nearest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum vp_status read_all(int fd, const char *path, char *bytes, size_t n,
                               struct vp_err *err)
{
    size_t used = 0;

    while (used < n) {
        ssize_t k = read(fd, bytes + used, n - used);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: cannot be read: %s; check the file", path,
                              k < 0 ? strerror(errno) : "it became shorter");
        used += (size_t)k;
    }
    bytes[n] = '\0';
    return VP_OK;
}

static enum vp_status read_open(int fd, const char *path, char **bytes_out,
                                size_t *n_bytes_out, struct vp_err *err)
{
    enum vp_status st;
    struct stat info;
    char *bytes;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not a regular file; give a tokenizer's "
                          "folder or file",
                          path);
    if (info.st_size > VP_TOKEN_FILE_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is larger than %d MiB; give a tokenizer, not "
                          "data",
                          path, VP_TOKEN_FILE_MAX >> 20);
    bytes = malloc((size_t)info.st_size + 1);
    if (!bytes)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs", path);
    st = read_all(fd, path, bytes, (size_t)info.st_size, err);
    if (st != VP_OK) {
        free(bytes);
        return st;
    }
    *bytes_out = bytes;
    *n_bytes_out = (size_t)info.st_size;
    return VP_OK;
}

enum vp_status vp_token_file_read(const char *path, char **bytes_out,
                                  size_t *n_bytes_out, struct vp_err *err)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error = errno;
    char remedy[VP_PATH_REMEDY_BYTES];
    enum vp_status st;

    if (fd < 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be opened: %s; %s", path,
                          strerror(error),
                          vp_path_remedy(path, "check the path", remedy));
    st = read_open(fd, path, bytes_out, n_bytes_out, err);
    close(fd);
    return st;
}

enum vp_status vp_token_file_json(const char *path, json_t **out,
                                  struct vp_err *err)
{
    json_error_t error;
    json_t *json;
    char *bytes = NULL;
    size_t n = 0;

    VP_TRY(vp_token_file_read(path, &bytes, &n, err));
    json = json_loadb(bytes, n, JSON_ALLOW_NUL, &error);
    free(bytes);
    if (!json)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d:%d: not JSON: %s; check commas, quotes and "
                          "brackets near this place",
                          path, error.line, error.column, error.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is no object; write {\"key\": ...}", path);
    }
    *out = json;
    return VP_OK;
}
