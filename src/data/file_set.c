/* Files that are read at random offsets, with up to N_OPEN kept open. */
#include "data/file_set.h"

#include "base/blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_OPEN = 16 };

struct entry {
    char *path;
    int64_t n_bytes;
    struct timespec changed;
};

/* A place for a file that is kept open. */
struct descriptor {
    int file; /* -1: none */
    int fd;
    int n_users;   /* threads that are reading from it */
    uint64_t used; /* `clock` at the last use */
};

struct vp_file_set {
    struct entry *entry;
    int n, capacity;

    pthread_mutex_t lock; /* guards the fields below */
    struct descriptor held[N_OPEN];
    uint64_t clock;
};

struct vp_file_set *vp_file_set_create(void)
{
    struct vp_file_set *set = calloc(1, sizeof(*set));

    if (!set)
        return NULL;
    pthread_mutex_init(&set->lock, NULL);
    for (int i = 0; i < N_OPEN; i++)
        set->held[i].file = -1;
    return set;
}

void vp_file_set_free(struct vp_file_set *set)
{
    if (!set)
        return;
    for (int i = 0; i < N_OPEN; i++)
        if (set->held[i].file >= 0)
            close(set->held[i].fd);
    for (int i = 0; i < set->n; i++)
        free(set->entry[i].path);
    free(set->entry);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

const char *vp_file_set_path(const struct vp_file_set *set, int file)
{
    return set->entry[file].path;
}

int64_t vp_file_set_bytes(const struct vp_file_set *set, int file)
{
    return set->entry[file].n_bytes;
}

static enum vp_status fail_errno(const char *path, int error,
                                 struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_IO,
                      "%s: cannot be read: %s; change its permissions or set "
                      "data_dir to readable files",
                      path, strerror(error));
}

enum vp_status vp_file_set_add(struct vp_file_set *set, const char *path,
                               int *file_out, struct vp_err *err)
{
    struct stat info;
    struct entry *entry;

    if (stat(path, &info) != 0)
        return fail_errno(path, errno, err);
    if (!S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not a regular file; set data_dir to files, "
                          "or to a folder of files",
                          path);
    if (set->n == set->capacity) {
        int capacity = set->capacity ? 2 * set->capacity : 16;

        entry = realloc(set->entry, (size_t)capacity * sizeof(*entry));
        if (!entry)
            return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
        set->entry = entry;
        set->capacity = capacity;
    }
    entry = &set->entry[set->n];
    *entry = (struct entry){ strdup(path), (int64_t)info.st_size,
                             info.st_mtim };
    if (!entry->path)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    *file_out = set->n++;
    return VP_OK;
}

/* ---- Open files --------------------------------------------------------- */

static enum vp_status open_entry(const struct entry *entry, int *fd_out,
                                 struct vp_err *err)
{
    int call = vp_blocking_begin(VP_BLOCKING_FILE, "opening", entry->path, -1);
    int fd = open(entry->path, O_RDONLY | O_CLOEXEC);
    struct stat info = { .st_size = -1 };
    bool is_open = fd >= 0 && fstat(fd, &info) == 0;
    int error = errno;

    vp_blocking_end(call);
    if (is_open && (int64_t)info.st_size == entry->n_bytes &&
        info.st_mtim.tv_sec == entry->changed.tv_sec &&
        info.st_mtim.tv_nsec == entry->changed.tv_nsec) {
        *fd_out = fd;
        return VP_OK;
    }
    if (fd >= 0)
        close(fd);
    if (!is_open)
        return fail_errno(entry->path, error, err);
    return vp_err_set(err, VP_ERR_IO,
                      "%s: changed since the start of the run; start the run "
                      "anew, and leave its data as it is",
                      entry->path);
}

/* Returns the place of an open file, or else the least recently used place that
 * no thread reads from. NULL if all are in use. The caller holds `lock`. */
static struct descriptor *find_place(struct vp_file_set *set, int file)
{
    struct descriptor *oldest = NULL;

    for (int i = 0; i < N_OPEN; i++) {
        struct descriptor *place = &set->held[i];

        if (place->file == file)
            return place;
        if (place->n_users == 0 && (!oldest || place->used < oldest->used))
            oldest = place;
    }
    return oldest;
}

/* Opens the file in `place`, in place of another one. The caller holds
 * `lock`. */
static enum vp_status open_place(struct vp_file_set *set, int file,
                                 struct descriptor *place, struct vp_err *err)
{
    if (place->file == file)
        return VP_OK;
    if (place->file >= 0)
        close(place->fd);
    place->file = -1;
    VP_TRY(open_entry(&set->entry[file], &place->fd, err));
    place->file = file;
    return VP_OK;
}

/* Gets a descriptor; release it with put_fd(). *place_out NULL: all places are
 * in use, and the descriptor was opened for this caller only. */
static enum vp_status get_fd(struct vp_file_set *set, int file, int *fd_out,
                             struct descriptor **place_out, struct vp_err *err)
{
    struct descriptor *place;
    enum vp_status st = VP_OK;

    pthread_mutex_lock(&set->lock);
    place = find_place(set, file);
    if (place)
        st = open_place(set, file, place, err);
    if (place && st == VP_OK) {
        place->n_users++;
        place->used = ++set->clock;
        *fd_out = place->fd;
    }
    pthread_mutex_unlock(&set->lock);
    *place_out = place;
    return place ? st : open_entry(&set->entry[file], fd_out, err);
}

static void put_fd(struct vp_file_set *set, int fd, struct descriptor *place)
{
    if (!place) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&set->lock);
    place->n_users--;
    pthread_mutex_unlock(&set->lock);
}

/* ---- Reading ------------------------------------------------------------ */

static enum vp_status read_whole(const struct entry *entry, int fd,
                                 int64_t offset, int64_t n, char *out,
                                 struct vp_err *err)
{
    while (n > 0) {
        ssize_t n_read = pread(fd, out, (size_t)n, (off_t)offset);

        if (n_read < 0 && errno == EINTR)
            continue;
        if (n_read < 0)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: offset %lld: cannot be read: %s; check the "
                              "disk, or copy the file anew",
                              entry->path, (long long)offset, strerror(errno));
        if (n_read == 0)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: offset %lld: the file ends here; it had "
                              "%lld bytes at the start of the run; copy it "
                              "anew, and leave it as it is",
                              entry->path, (long long)offset,
                              (long long)entry->n_bytes);
        out += n_read;
        offset += n_read;
        n -= n_read;
    }
    return VP_OK;
}

enum vp_status vp_file_set_read(struct vp_file_set *set, int file,
                                int64_t offset, int64_t n, void *out,
                                struct vp_err *err)
{
    struct descriptor *place;
    enum vp_status st;
    int fd = -1, call;

    VP_TRY(get_fd(set, file, &fd, &place, err));
    call = vp_blocking_begin(VP_BLOCKING_FILE, "reading", set->entry[file].path,
                             -1);
    st = read_whole(&set->entry[file], fd, offset, n, out, err);
    vp_blocking_end(call);
    put_fd(set, fd, place);
    return st;
}

void vp_file_set_ahead(struct vp_file_set *set, int file, int64_t offset,
                       int64_t n)
{
    struct descriptor *place;
    int fd = -1;

    if (get_fd(set, file, &fd, &place, NULL) != VP_OK)
        return;
    (void)posix_fadvise(fd, (off_t)offset, (off_t)n, POSIX_FADV_WILLNEED);
    put_fd(set, fd, place);
}
