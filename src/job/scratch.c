/* Makes and removes temporary folders, and removes those of killed jobs. */
#include "job/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK "lock"

enum { N_PLACES = 2, MAX_DEPTH = 32, MAX_TRIES = 16 };

/* ---- Removing ----------------------------------------------------------- */

/* Removes all entries of the folder but the lock, which has to be the last one.
 * Symbolic links are removed, not followed. Closes `fd`. */
static void empty_folder(int fd, int depth)
{
    DIR *folder = fdopendir(fd);
    const struct dirent *entry;

    if (!folder) {
        close(fd);
        return;
    }
    while ((entry = readdir(folder))) {
        const char *name = entry->d_name;
        int below;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (depth == 0 && strcmp(name, LOCK) == 0))
            continue;
        below = depth == MAX_DEPTH
                    ? -1
                    : openat(dirfd(folder), name,
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            empty_folder(below, depth + 1);
        unlinkat(dirfd(folder), name, below >= 0 ? AT_REMOVEDIR : 0);
    }
    closedir(folder);
}

static void remove_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int again;

    if (fd < 0)
        return;
    again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (again >= 0)
        empty_folder(again, 0);
    unlinkat(fd, LOCK, 0);
    close(fd);
    rmdir(path);
}

/* ---- Folders of killed jobs --------------------------------------------- */

/* Returns true if owner and mode are those that vp_scratch_make() gives a
 * folder. */
static bool is_ours(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 07777) == 0700;
}

/* Removes the folder if no process holds its lock. A folder without a lock is
 * being made: rmdir() removes it only if it is empty, and its process, if it
 * lives, makes another one. */
static void remove_if_left(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int lock;

    if (fd < 0)
        return;
    if (is_ours(fd)) {
        lock = openat(fd, LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (lock < 0 && errno == ENOENT)
            rmdir(path);
        else if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
            remove_folder(path);
        if (lock >= 0)
            close(lock);
    }
    close(fd);
}

static void remove_left(const char *place)
{
    DIR *folder = opendir(place);
    const struct dirent *entry;
    char start[32], path[512];
    int n = snprintf(start, sizeof(start), "vpipe-%u-", (unsigned)geteuid());

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (strncmp(entry->d_name, start, (size_t)n) != 0 ||
            strlen(entry->d_name) != (size_t)n + 6)
            continue;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", place,
                             entry->d_name) < sizeof(path))
            remove_if_left(path);
    }
    closedir(folder);
}

/* ---- Making ------------------------------------------------------------- */

/* Lists the parent folders for this kind, best first; NULL: not available. */
static void list_places(enum vp_scratch_place place, const char *out[N_PLACES])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    /* These characters separate the parts of an address (address.h). */
    if (runtime && (runtime[0] != '/' || strpbrk(runtime, ":, \n")))
        runtime = NULL;
    out[0] = place == VP_SCRATCH_SOCKET   ? runtime
             : place == VP_SCRATCH_MEMORY ? "/dev/shm"
                                          : NULL;
    out[1] = "/tmp";
}

/* Locks a new folder. Returns false if another job removed it before it was
 * locked. */
static bool lock_folder(struct vp_scratch *scratch)
{
    char path[sizeof(scratch->path) + 8];
    struct stat st;

    snprintf(path, sizeof(path), "%s/" LOCK, scratch->path);
    scratch->lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (scratch->lock < 0)
        return false;
    if (flock(scratch->lock, LOCK_EX | LOCK_NB) == 0 &&
        fstat(scratch->lock, &st) == 0 && st.st_nlink > 0)
        return true;
    close(scratch->lock);
    return false;
}

static bool make_folder(const char *place, struct vp_scratch *out)
{
    const size_t n_bytes = sizeof(out->path);

    for (int i = 0; i < MAX_TRIES; i++) {
        if ((size_t)snprintf(out->path, n_bytes, "%s/vpipe-%u-XXXXXX", place,
                             (unsigned)geteuid()) >= n_bytes) {
            errno = ENAMETOOLONG;
            return false;
        }
        if (!mkdtemp(out->path))
            return false;
        if (lock_folder(out))
            return true;
        rmdir(out->path);
    }
    return false;
}

enum vp_status vp_scratch_make(enum vp_scratch_place place,
                               struct vp_scratch *out, struct vp_err *err)
{
    const char *places[N_PLACES];

    for (int kind = VP_SCRATCH_SOCKET; kind <= VP_SCRATCH_FILES; kind++) {
        list_places((enum vp_scratch_place)kind, places);
        if (places[0])
            remove_left(places[0]);
    }
    remove_left("/tmp");
    list_places(place, places);
    for (int i = 0; i < N_PLACES; i++)
        if (places[i] && make_folder(places[i], out))
            return VP_OK;
    *out = (struct vp_scratch){ .path = "" };
    return vp_err_set(err, VP_ERR_IO,
                      "/tmp: no folder can be made there (%s); make room, or "
                      "allow this user to write there",
                      strerror(errno));
}

void vp_scratch_remove(struct vp_scratch *scratch)
{
    if (!scratch->path[0])
        return;
    remove_folder(scratch->path);
    vp_scratch_forget(scratch);
}

void vp_scratch_forget(struct vp_scratch *scratch)
{
    if (scratch->path[0])
        close(scratch->lock);
    *scratch = (struct vp_scratch){ .path = "" };
}
