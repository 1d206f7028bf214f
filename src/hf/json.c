/* Reading of small JSON files. */
#include "hf/json.h"

#include "base/path.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void vp_hf_one_line(struct vp_err *err)
{
    for (char *c = err ? err->text : NULL; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = ' ';
}

enum vp_status vp_hf_json_parse(const char *bytes, size_t n_bytes, json_t **out,
                                struct vp_err *err)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, &error);

    if (!root) {
        enum vp_status st = json_error_code(&error) == json_error_out_of_memory
                                ? VP_ERR_NOMEM
                                : VP_ERR_INVALID;

        vp_err_set(err, st, "line %d, column %d: %s; it must be valid JSON",
                   error.line, error.column, error.text);
        vp_hf_one_line(err);
        return st;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return vp_err_set(err, VP_ERR_INVALID, "is not a JSON object");
    }
    *out = root;
    return VP_OK;
}

/* Reads a whole file. The caller frees the bytes. */
static enum vp_status read_bytes(const char *path, size_t max_bytes, char **out,
                                 size_t *n_out, struct vp_err *err)
{
    struct stat info;
    FILE *file;
    char *bytes;
    size_t n;

    if (vp_path_is_special(path))
        return vp_err_set(err, VP_ERR_INVALID, "is not a file");
    file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        int error = file ? EISDIR : errno;

        if (file)
            fclose(file);
        return vp_err_set(err, error == ENOENT ? VP_ERR_INVALID : VP_ERR_IO,
                          "cannot be opened (%s)", strerror(error));
    }
    if ((uintmax_t)info.st_size > max_bytes) {
        fclose(file);
        return vp_err_set(err, VP_ERR_INVALID,
                          "has %lld bytes; at most %zu are possible",
                          (long long)info.st_size, max_bytes);
    }
    bytes = malloc((size_t)info.st_size + 1);
    n = bytes ? fread(bytes, 1, (size_t)info.st_size, file) : 0;
    fclose(file);
    if (!bytes)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    *out = bytes;
    *n_out = n;
    return VP_OK;
}

enum vp_status vp_hf_json_read(const char *path, size_t max_bytes, json_t **out,
                               struct vp_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    enum vp_status st = read_bytes(path, max_bytes, &bytes, &n, err);

    if (st == VP_OK)
        st = vp_hf_json_parse(bytes, n, out, err);
    free(bytes);
    if (st != VP_OK)
        vp_err_prefix(err, "%.3000s", path);
    return st;
}
