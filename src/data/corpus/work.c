/* The temporary folder of a data set that is being written. */
#include "data/corpus/work.h"

#include "data/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static enum vp_status join(const char *folder, const char *name,
                           char out[PATH_MAX], struct vp_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s/%s: the path is too long; give a shorter one", folder,
                      name);
}

enum vp_status vp_work_path(const struct vp_work *work, const char *file,
                            char out[PATH_MAX], struct vp_err *err)
{
    return join(work->path, file, out, err);
}

enum vp_status vp_work_check_space(const char *path, int64_t n_bytes,
                                   struct vp_err *err)
{
    struct statvfs disk;

    if (n_bytes == 0 || statvfs(path, &disk) != 0 ||
        (uint64_t)disk.f_bavail * disk.f_frsize >= (uint64_t)n_bytes)
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_IO,
        "%s: needs %lld MiB, but the disk has %lld MiB left; "
        "free some, or write elsewhere",
        path, (long long)(n_bytes >> 20),
        (long long)((uint64_t)disk.f_bavail * disk.f_frsize >> 20));
}

/* ---- Opening ------------------------------------------------------------ */

static void empty_folder(const char *path)
{
    struct vp_names names = { 0 };
    char file[PATH_MAX];

    if (vp_names_read(path, &names, NULL) == VP_OK)
        for (size_t i = 0; i < names.n; i++)
            if (join(path, names.name[i], file, NULL) == VP_OK)
                unlink(file);
    vp_names_release(&names);
}

static enum vp_status take_lock(struct vp_work *work, struct vp_err *err)
{
    if (mkdir(work->path, 0777) != 0 && errno != EEXIST)
        return vp_err_write(err, work->path, errno);
    work->lock = open(work->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (work->lock < 0)
        return vp_err_write(err, work->path, errno);
    if (flock(work->lock, LOCK_EX | LOCK_NB) != 0) {
        close(work->lock);
        work->lock = -1; /* keep the folder: the other process uses it */
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: another process writes '%s' here; wait for it, "
                          "or choose another name",
                          work->folder, work->name);
    }
    empty_folder(work->path);
    return VP_OK;
}

static enum vp_status refuse_present(const struct vp_work *work,
                                     vp_work_present_fn present,
                                     struct vp_err *err)
{
    struct vp_names names = { 0 };
    size_t n = strlen(work->name);
    enum vp_status st = vp_names_read(work->folder, &names, err);

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        if (strncmp(names.name[i], work->name, n) == 0 &&
            present(names.name[i] + n))
            st = vp_err_set(err, VP_ERR_INVALID,
                            "%s/%s: is there already; remove the shards of "
                            "this name, or choose another name or folder",
                            work->folder, names.name[i]);
    vp_names_release(&names);
    return st;
}

static enum vp_status prepare(struct vp_work *work, vp_work_present_fn present,
                              struct vp_err *err)
{
    if (mkdir(work->folder, 0777) == 0)
        work->created_folder = true;
    else if (errno != EEXIST)
        return vp_err_write(err, work->folder, errno);
    VP_TRY(refuse_present(work, present, err));
    return take_lock(work, err);
}

enum vp_status vp_work_open(const char *folder, const char *name,
                            vp_work_present_fn present, struct vp_work *out,
                            struct vp_err *err)
{
    enum vp_status st;

    *out = (struct vp_work){ .lock = -1 };
    if (snprintf(out->folder, sizeof(out->folder), "%s", folder) >=
            (int)sizeof(out->folder) ||
        snprintf(out->name, sizeof(out->name), "%s", name) >=
            (int)sizeof(out->name) ||
        snprintf(out->path, sizeof(out->path), "%s/.%s.partial", folder,
                 name) >= (int)sizeof(out->path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s/%s: the path is too long; give a shorter one",
                          folder, name);
    st = prepare(out, present, err);
    if (st != VP_OK)
        vp_work_abandon(out);
    return st;
}

/* ---- The end ------------------------------------------------------------ */

void vp_work_abandon(struct vp_work *work)
{
    if (work->lock >= 0) {
        empty_folder(work->path);
        rmdir(work->path);
        close(work->lock);
        work->lock = -1;
    }
    if (work->created_folder)
        rmdir(work->folder);
}

static enum vp_status move(const struct vp_work *work, const char *name,
                           struct vp_err *err)
{
    char from[PATH_MAX], to[PATH_MAX];

    VP_TRY(join(work->path, name, from, err));
    VP_TRY(join(work->folder, name, to, err));
    return rename(from, to) == 0 ? VP_OK : vp_err_write(err, to, errno);
}

/* Removes the files that were already renamed: those from names[first] on. */
static void take_back(const struct vp_work *work, const struct vp_names *names,
                      size_t first)
{
    char path[PATH_MAX];

    for (size_t i = first; i < names->n; i++)
        if (join(work->folder, names->name[i], path, NULL) == VP_OK)
            unlink(path);
}

enum vp_status vp_work_publish(struct vp_work *work, const char *last,
                               struct vp_err *err)
{
    struct vp_names names = { 0 };
    enum vp_status st = vp_names_read(work->path, &names, err);
    size_t i = names.n;

    while (st == VP_OK && i > 0) {
        i--;
        if (!last || strcmp(names.name[i], last) != 0)
            st = move(work, names.name[i], err);
    }
    if (st == VP_OK && last)
        st = move(work, last, err);
    if (st != VP_OK)
        take_back(work, &names, i);
    vp_names_release(&names);
    if (st != VP_OK) {
        vp_work_abandon(work);
        return st;
    }
    rmdir(work->path);
    close(work->lock);
    work->lock = -1;
    return VP_OK;
}
