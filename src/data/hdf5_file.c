/* All calls of libhdf5: opening shards, checking types and shapes, reading
 * rows. */
#include "data/hdf5_file.h"

#include "base/blocking.h"
#include "base/path.h"
#include "data/hdf5_bytes.h"
#include "data/hdf5_check.h"

#include <hdf5.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PRED = 1 << 16 };
#define MAX_ROWS (INT64_C(1) << 40)

const char *const vp_shard_sets[VP_SHARD_SETS] = {
    [VP_SHARD_IDS] = "input_ids",
    [VP_SHARD_MASK] = "input_mask",
    [VP_SHARD_TYPES] = "segment_ids",
    [VP_SHARD_POSITIONS] = "masked_lm_positions",
    [VP_SHARD_LABELS] = "masked_lm_ids",
};

/* ---- Messages ----------------------------------------------------------- */

/* Saved setting of libhdf5's error printing, which is off between quiet_begin()
 * and quiet_end(). The setting belongs to the thread. */
struct quiet {
    H5E_auto2_t print;
    void *ctx;
    bool is_set;
};

static void quiet_begin(struct quiet *quiet)
{
    quiet->is_set = H5Eget_auto2(H5E_DEFAULT, &quiet->print, &quiet->ctx) >= 0;
    if (quiet->is_set)
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void quiet_end(const struct quiet *quiet)
{
    if (quiet->is_set)
        H5Eset_auto2(H5E_DEFAULT, quiet->print, quiet->ctx);
}

struct cause {
    char text[160];
};

/* The first entry of the error stack is the most specific. */
static herr_t take_cause(unsigned n, const H5E_error2_t *error, void *ctx)
{
    struct cause *cause = ctx;

    if (n == 0 && error->desc)
        snprintf(cause->text, sizeof(cause->text), "%s", error->desc);
    return 0;
}

/* Reports the failure of the last libhdf5 call with libhdf5's reason. name: the
 * data set, or NULL. */
static enum vp_status fail_library(const struct vp_shard *shard,
                                   const char *name, struct vp_err *err)
{
    struct cause cause = { "unknown reason" };

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, &cause);
    for (char *c = cause.text; *c; c++)
        *c = *c < ' ' || *c > '~' ? ' ' : *c;
    return vp_err_set(err, VP_ERR_IO,
                      "%s: %s%scannot be read (%s); " VP_H5_ANEW, shard->path,
                      name ? name : "", name ? ": " : "", cause.text);
}

static enum vp_status fail_errno(const struct vp_shard *shard,
                                 struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_IO,
                      "%s: cannot be read: %s; change its permissions or put "
                      "it back",
                      shard->path, strerror(errno));
}

/* ---- Files -------------------------------------------------------------- */

static enum vp_status open_file(const struct vp_shard *shard, hid_t *file_out,
                                struct vp_err *err)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    enum vp_status st = VP_OK;
    herr_t rc;

    if (access < 0)
        return fail_library(shard, NULL, err);
    /* Closing the file then closes all objects that were opened in it. */
    rc = H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
    /* The file is only read, and some network file systems have no locks. */
    if (rc >= 0)
        rc = H5Pset_file_locking(access, false, true);
#endif
    if (rc >= 0 && shard->image)
        rc = H5Pset_fapl_core(access, 1 << 16, false);
    if (rc >= 0 && shard->image)
        rc = H5Pset_file_image(access, (void *)(uintptr_t)shard->image,
                               shard->n_image);
    if (rc >= 0) {
        int call = vp_blocking_begin(VP_BLOCKING_FILE, "opening", shard->path,
                                     -1);

        file = H5Fopen(shard->path, H5F_ACC_RDONLY, access);
        vp_blocking_end(call);
    }
    if (file < 0)
        st = fail_library(shard, NULL, err);
    H5Pclose(access);
    *file_out = file;
    return st;
}

/* Checks the structure of the file before libhdf5 opens it. */
static enum vp_status check_bytes(struct vp_shard *shard, struct vp_err *err)
{
    struct vp_h5_bytes bytes = { .path = shard->path,
                                 .fd = -1,
                                 .image = shard->image,
                                 .n_bytes = shard->n_image };
    struct stat info;
    enum vp_status st;
    int call;

    if (shard->image)
        return vp_h5_check(&bytes, vp_shard_sets, VP_SHARD_SETS, err);
    if (vp_path_is_special(shard->path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not a file; move it out of data_dir",
                          shard->path);
    call = vp_blocking_begin(VP_BLOCKING_FILE, "opening", shard->path, -1);
    bytes.fd = open(shard->path, O_RDONLY | O_CLOEXEC);
    vp_blocking_end(call);
    if (bytes.fd < 0)
        return fail_errno(shard, err);
    if (fstat(bytes.fd, &info) != 0) {
        st = fail_errno(shard, err);
    } else {
        shard->n_bytes = info.st_size;
        shard->changed = info.st_mtim;
        bytes.n_bytes = (uint64_t)info.st_size;
        st = vp_h5_check(&bytes, vp_shard_sets, VP_SHARD_SETS, err);
    }
    close(bytes.fd);
    return st;
}

/* ---- Types and shapes --------------------------------------------------- */

static enum vp_status check_set(const struct vp_shard *shard, const char *name,
                                hid_t file, hsize_t *shape_out,
                                struct vp_err *err)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t space = set < 0 ? -1 : H5Dget_space(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    enum vp_status st = VP_OK;

    if (rank < 0)
        st = fail_library(shard, name, err);
    else if (rank != 2)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: %s: has %d dimensions instead of 2; write one row "
                        "for each sample",
                        shard->path, name, rank);
    else if (H5Sget_simple_extent_dims(space, shape_out, NULL) < 0)
        st = fail_library(shard, name, err);
    if (space >= 0)
        H5Sclose(space);
    if (set >= 0)
        H5Dclose(set);
    return st;
}

/* Reports two data sets whose shapes do not match. */
static enum vp_status fail_shape(const struct vp_shard *shard, int set,
                                 int like, hsize_t (*shape)[2],
                                 struct vp_err *err)
{
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: %s: is %llu x %llu, but %s is %llu x %llu; write "
        "all with one row for each sample",
        shard->path, vp_shard_sets[set], (unsigned long long)shape[set][0],
        (unsigned long long)shape[set][1], vp_shard_sets[like],
        (unsigned long long)shape[like][0], (unsigned long long)shape[like][1]);
}

/* shape: [VP_SHARD_SETS][2] */
static enum vp_status take_shapes(struct vp_shard *shard, hsize_t (*shape)[2],
                                  struct vp_err *err)
{
    for (int k = 0; k < VP_SHARD_SETS; k++) {
        int like = k < VP_SHARD_POSITIONS ? VP_SHARD_IDS : VP_SHARD_POSITIONS;

        if (shape[k][0] != shape[VP_SHARD_IDS][0])
            return fail_shape(shard, k, VP_SHARD_IDS, shape, err);
        if (shape[k][1] != shape[like][1])
            return fail_shape(shard, k, like, shape, err);
    }
    if (shape[VP_SHARD_IDS][0] == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: input_ids: has no rows; move the file out of "
                          "data_dir",
                          shard->path);
    if (shape[VP_SHARD_IDS][1] == 0 || shape[VP_SHARD_LABELS][1] == 0 ||
        shape[VP_SHARD_LABELS][1] > MAX_PRED ||
        shape[VP_SHARD_IDS][0] > MAX_ROWS || shape[VP_SHARD_IDS][1] > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: input_ids: %llu rows of %llu tokens with %llu "
                          "labels cannot be used; " VP_H5_ANEW,
                          shard->path,
                          (unsigned long long)shape[VP_SHARD_IDS][0],
                          (unsigned long long)shape[VP_SHARD_IDS][1],
                          (unsigned long long)shape[VP_SHARD_LABELS][1]);
    shard->n_rows = (int64_t)shape[VP_SHARD_IDS][0];
    shard->seq = (int64_t)shape[VP_SHARD_IDS][1];
    shard->n_pred = (int64_t)shape[VP_SHARD_LABELS][1];
    return VP_OK;
}

static enum vp_status check_shard(struct vp_shard *shard, struct vp_err *err)
{
    hsize_t shape[VP_SHARD_SETS][2];
    enum vp_status st = VP_OK;
    hbool_t is_safe = false;
    hid_t file = -1;

    /* Several ranks of a process may read at the same time. */
    if (H5is_library_threadsafe(&is_safe) < 0 || !is_safe)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: this libhdf5 is not thread-safe; install one "
                          "that is, such as Debian's",
                          shard->path);
    VP_TRY(check_bytes(shard, err));
    VP_TRY(open_file(shard, &file, err));
    for (int k = 0; st == VP_OK && k < VP_SHARD_SETS; k++)
        st = check_set(shard, vp_shard_sets[k], file, shape[k], err);
    H5Fclose(file);
    if (st == VP_OK)
        st = take_shapes(shard, shape, err);
    return st;
}

enum vp_status vp_shard_check(struct vp_shard *shard, struct vp_err *err)
{
    struct quiet quiet;
    enum vp_status st;

    quiet_begin(&quiet);
    st = check_shard(shard, err);
    quiet_end(&quiet);
    return st;
}

/* ---- Rows --------------------------------------------------------------- */

static enum vp_status check_unchanged(const struct vp_shard *shard,
                                      struct vp_err *err)
{
    struct stat info;

    if (shard->image)
        return VP_OK;
    if (stat(shard->path, &info) != 0)
        return fail_errno(shard, err);
    if (info.st_size != shard->n_bytes ||
        info.st_mtim.tv_sec != shard->changed.tv_sec ||
        info.st_mtim.tv_nsec != shard->changed.tv_nsec)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: was changed while in use; put the old file back "
                          "and resume",
                          shard->path);
    return VP_OK;
}

enum vp_status vp_shard_open(const struct vp_shard *shard,
                             struct vp_shard_file *file, struct vp_err *err)
{
    struct quiet quiet;
    enum vp_status st;
    hid_t id = -1;

    VP_TRY(check_unchanged(shard, err));
    quiet_begin(&quiet);
    st = open_file(shard, &id, err);
    quiet_end(&quiet);
    *file = (struct vp_shard_file){ shard, id };
    return st;
}

void vp_shard_close(struct vp_shard_file *file)
{
    struct quiet quiet;

    quiet_begin(&quiet);
    H5Fclose((hid_t)file->handle);
    quiet_end(&quiet);
}

static herr_t read_rows(hid_t set, hid_t space, hid_t memory,
                        const hsize_t *start, const hsize_t *count,
                        int32_t *out)
{
    if (set < 0 || space < 0 || memory < 0 ||
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) <
            0)
        return -1;
    return H5Dread(set, H5T_NATIVE_INT32, memory, space, H5P_DEFAULT, out);
}

enum vp_status vp_shard_read(struct vp_shard_file *file, enum vp_shard_set set,
                             int64_t row, int64_t n_rows, int32_t *out,
                             struct vp_err *err)
{
    const struct vp_shard *shard = file->shard;
    hsize_t start[2] = { (hsize_t)row, 0 };
    hsize_t count[2] = { (hsize_t)n_rows,
                         (hsize_t)(set < VP_SHARD_POSITIONS ? shard->seq
                                                            : shard->n_pred) };
    enum vp_status st = VP_OK;
    struct quiet quiet;
    hid_t memory, id, space;
    int call = vp_blocking_begin(VP_BLOCKING_FILE, "reading", shard->path, -1);

    quiet_begin(&quiet);
    memory = H5Screate_simple(2, count, NULL);
    id = H5Dopen2((hid_t)file->handle, vp_shard_sets[set], H5P_DEFAULT);
    space = id < 0 ? -1 : H5Dget_space(id);
    if (read_rows(id, space, memory, start, count, out) < 0)
        st = fail_library(shard, vp_shard_sets[set], err);
    if (space >= 0)
        H5Sclose(space);
    if (id >= 0)
        H5Dclose(id);
    if (memory >= 0)
        H5Sclose(memory);
    quiet_end(&quiet);
    vp_blocking_end(call);
    return st;
}
