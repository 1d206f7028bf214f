/* Reading of safetensors files: headers, checksums, tensors. */
#include "ckpt/io.h"
#include "ckpt/safetensors.h"
#include "ckpt/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

struct vp_st_file {
    char *path;
    struct stat info; /* at the time of opening, to detect changes */
    struct vp_st_header header;
};

static enum vp_status io_fail(int rc, struct vp_err *err)
{
    if (rc == VP_IO_SHORT)
        return vp_err_set(err, VP_ERR_INVALID,
                          "is cut short; it was changed while being read");
    return vp_err_set(err, VP_ERR_IO, "cannot be read (%s)", vp_io_reason(rc));
}

/* O_NONBLOCK keeps open() from blocking on a FIFO; it has no effect on
 * files. */
static enum vp_status open_file(const char *path, int *fd_out,
                                struct stat *info_out, struct vp_err *err)
{
    int fd = -1;
    int rc = vp_io_open(path, O_RDONLY | O_NONBLOCK, &fd);

    if (rc != 0)
        return vp_err_set(err,
                          vp_io_is_missing(rc) ? VP_ERR_INVALID : VP_ERR_IO,
                          "cannot be opened (%s)", vp_io_reason(rc));
    if (fstat(fd, info_out) != 0 || !S_ISREG(info_out->st_mode)) {
        vp_io_close(fd);
        return vp_err_set(err, VP_ERR_INVALID, "is not a file");
    }
    *fd_out = fd;
    return VP_OK;
}

/* Opens the file again. Returns VP_ERR_INVALID if it is not the same. */
static enum vp_status open_again(const struct vp_st_file *file, int *fd_out,
                                 struct vp_err *err)
{
    const struct stat *was = &file->info;
    struct stat now = { 0 };

    VP_TRY(open_file(file->path, fd_out, &now, err));
    if (now.st_dev == was->st_dev && now.st_ino == was->st_ino &&
        now.st_size == was->st_size &&
        now.st_mtim.tv_sec == was->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
        return VP_OK;
    vp_io_close(*fd_out);
    return vp_err_set(err, VP_ERR_INVALID,
                      "was changed or replaced since it was opened");
}

static enum vp_status read_header(int fd, int64_t file_bytes,
                                  struct vp_st_header *out, struct vp_err *err)
{
    unsigned char first[8], *head;
    enum vp_status st;
    int64_t n_head;
    int rc;

    if (file_bytes < 8)
        return vp_err_set(err, VP_ERR_INVALID,
                          "has %lld bytes; it is cut short or not a "
                          "safetensors file",
                          (long long)file_bytes);
    rc = vp_io_read(fd, first, sizeof(first), 0);
    if (rc != 0)
        return io_fail(rc, err);
    VP_TRY(vp_st_head_bytes(first, file_bytes, &n_head, err));
    head = malloc((size_t)n_head);
    if (!head)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    rc = vp_io_read(fd, head, (size_t)n_head, 0);
    if (rc == 0)
        st = vp_st_parse(head, (size_t)n_head, file_bytes, out, err);
    else
        st = io_fail(rc, err);
    free(head);
    return st;
}

static enum vp_status hash_file(int fd, int64_t n_bytes, XXH3_state_t *hash,
                                struct vp_err *err)
{
    unsigned char *chunk = malloc(VP_IO_CHUNK);
    int rc = 0;

    if (!chunk)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    for (int64_t at = 0; at < n_bytes && rc == 0; at += VP_IO_CHUNK) {
        int64_t rest = n_bytes - at;
        size_t n = rest < VP_IO_CHUNK ? (size_t)rest : VP_IO_CHUNK;

        rc = vp_io_read(fd, chunk, n, at);
        if (rc == 0)
            XXH3_64bits_update(hash, chunk, n);
    }
    free(chunk);
    return rc == 0 ? VP_OK : io_fail(rc, err);
}

static enum vp_status check_seal(int fd, int64_t n_bytes,
                                 const struct vp_st_seal *seal,
                                 struct vp_err *err)
{
    XXH3_state_t *hash;
    enum vp_status st;
    uint64_t sum;

    if (n_bytes != seal->n_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "has %lld bytes instead of %lld; it was cut or "
                          "changed",
                          (long long)n_bytes, (long long)seal->n_bytes);
    hash = XXH3_createState();
    if (!hash)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    XXH3_64bits_reset(hash);
    st = hash_file(fd, n_bytes, hash, err);
    sum = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    if (st == VP_OK && sum != seal->checksum)
        st = vp_err_set(err, VP_ERR_INVALID, "checksum differs");
    return st;
}

static enum vp_status open_path(struct vp_st_file *file,
                                const struct vp_st_seal *seal,
                                struct vp_err *err)
{
    enum vp_status st = VP_OK;
    int fd = -1;

    VP_TRY(open_file(file->path, &fd, &file->info, err));
    if (seal)
        st = check_seal(fd, file->info.st_size, seal, err);
    if (st == VP_OK)
        st = read_header(fd, file->info.st_size, &file->header, err);
    vp_io_close(fd);
    return st;
}

enum vp_status vp_st_open(const char *path, const struct vp_st_seal *seal,
                          struct vp_st_file **out, struct vp_err *err)
{
    struct vp_st_file *file = calloc(1, sizeof(*file));
    enum vp_status st = VP_ERR_NOMEM;

    if (file)
        file->path = strdup(path);
    if (file && file->path)
        st = open_path(file, seal, err);
    else
        vp_err_set(err, st, "out of memory");
    if (st != VP_OK) {
        vp_st_close(file);
        return vp_text_in_file(path, st, err);
    }
    *out = file;
    return VP_OK;
}

enum vp_status vp_st_verify(const struct vp_st_file *file,
                            const struct vp_st_seal *seal, struct vp_err *err)
{
    enum vp_status st;
    int fd = -1;

    st = open_again(file, &fd, err);
    if (st == VP_OK) {
        st = check_seal(fd, file->info.st_size, seal, err);
        vp_io_close(fd);
    }
    return vp_text_in_file(file->path, st, err);
}

void vp_st_close(struct vp_st_file *file)
{
    if (!file)
        return;
    vp_st_header_release(&file->header);
    free(file->path);
    free(file);
}

const char *vp_st_path(const struct vp_st_file *file)
{
    return file->path;
}

const struct vp_st_header *vp_st_header(const struct vp_st_file *file)
{
    return &file->header;
}

enum vp_status vp_st_read(const struct vp_st_file *file,
                          const struct vp_st_tensor *tensor, void *buf,
                          struct vp_err *err)
{
    return vp_st_read_part(file, tensor, 0, tensor->n_bytes, buf, err);
}

enum vp_status vp_st_read_part(const struct vp_st_file *file,
                               const struct vp_st_tensor *tensor, int64_t at,
                               int64_t n_bytes, void *buf, struct vp_err *err)
{
    enum vp_status st;
    int fd = -1;
    int rc;

    VP_BUG_ON(at < 0 || n_bytes < 0 || at > tensor->n_bytes - n_bytes);
    st = open_again(file, &fd, err);
    if (st == VP_OK) {
        rc = vp_io_read(fd, buf, (size_t)n_bytes, tensor->offset + at);
        vp_io_close(fd);
        if (rc != 0)
            st = io_fail(rc, err);
    }
    if (st != VP_OK)
        vp_err_prefix(err, "tensor %.200s", tensor->name);
    return vp_text_in_file(file->path, st, err);
}
