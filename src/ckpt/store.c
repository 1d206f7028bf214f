/* Names in the folder of checkpoints, and which of them to keep, restore, set
 * aside or remove. */
#include "ckpt/store.h"

#include "ckpt/io.h"
#include "ckpt/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* ---- Names -------------------------------------------------------------- */

/* Kinds of entries, in the order in which those of one step are tried. */
enum kind {
    KIND_COMPLETE,
    KIND_OLD,
    KIND_TMP,
    KIND_TRASH,
    KIND_ASIDE, /* its suffix ends with a number */
    KIND_COUNT
};

static const char *const suffix[KIND_COUNT] = { "", ".old", ".tmp", ".trash",
                                                ".aside-" };
enum { MAX_ASIDE = 999999 };

enum entry_state {
    ENTRY_UNKNOWN, /* not checked, not readable now, or of another version */
    ENTRY_BROKEN,
    ENTRY_COMPLETE,
};

struct entry {
    int64_t step;
    enum kind kind;
    int number;             /* KIND_ASIDE: from 1 */
    enum entry_state state; /* set by look_at_entries() */
};

static void entry_name(const struct entry *entry, char *name, size_t n)
{
    int used = snprintf(name, n, "step-%lld%s", (long long)entry->step,
                        suffix[entry->kind]);

    if (entry->kind == KIND_ASIDE)
        snprintf(name + used, n - (size_t)used, "%d", entry->number);
}

/* Returns false for names that vpipe does not make; such files are never
 * changed. */
static bool parse_name(const char *name, struct entry *out)
{
    struct vp_ckpt_entry again;
    long long step = -1;
    int number = 0;

    if (sscanf(name, "step-%18lld.aside-%6d", &step, &number) < 1 || step < 0)
        return false;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct entry entry = { .step = step,
                               .kind = (enum kind)kind,
                               .number = number };

        entry_name(&entry, again.name, sizeof(again.name));
        if (strcmp(again.name, name) == 0) {
            *out = entry;
            return true;
        }
    }
    return false;
}

static int compare_newest(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->step != y->step)
        return x->step > y->step ? -1 : 1;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    return x->number - y->number;
}

static enum vp_status out_of_memory(const char *folder, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
}

static enum vp_status fail(const char *folder, const char *what, int rc,
                           struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_IO, "%s: cannot be %s (%s)", folder, what,
                      vp_io_reason(rc));
}

static enum vp_status fail_read(const char *folder, int rc, struct vp_err *err)
{
    fail(folder, "read", rc, err);
    if (rc == EMFILE || rc == ENFILE)
        vp_err_suffix(err, "; %s", vp_write_remedy(rc));
    return VP_ERR_IO;
}

static enum vp_status fail_write(const char *folder, const char *what, int rc,
                                 struct vp_err *err)
{
    fail(folder, what, rc, err);
    if (err)
        vp_err_suffix(err, "; %s", vp_write_remedy(rc));
    return VP_ERR_IO;
}

static enum vp_status scan_open(DIR *dir, const char *folder,
                                struct entry **out, int *n_out,
                                struct vp_err *err)
{
    struct entry *list = NULL, entry;
    int n = 0, capacity = 0;

    for (;;) {
        struct dirent *found;

        errno = 0;
        found = readdir(dir);
        if (!found && errno != 0) {
            int rc = errno;

            free(list);
            return fail_read(folder, rc, err);
        }
        if (!found)
            break;
        if (!parse_name(found->d_name, &entry))
            continue;
        if (n == capacity) {
            struct entry *more;

            capacity = capacity ? 2 * capacity : 16;
            more = realloc(list, (size_t)capacity * sizeof(*list));
            if (!more) {
                free(list);
                return out_of_memory(folder, err);
            }
            list = more;
        }
        list[n++] = entry;
    }
    if (n > 0)
        qsort(list, (size_t)n, sizeof(*list), compare_newest);
    *out = list;
    *n_out = n;
    return VP_OK;
}

/* Lists all entries with names of vpipe, newest first. The caller frees the
 * list. */
static enum vp_status scan(const char *folder, struct entry **out, int *n_out,
                           struct vp_err *err)
{
    DIR *dir = opendir(folder);
    enum vp_status st;

    if (!dir && vp_io_is_missing(errno)) {
        *out = NULL;
        *n_out = 0;
        return VP_OK;
    }
    if (!dir)
        return fail_read(folder, errno, err);
    st = scan_open(dir, folder, out, n_out, err);
    closedir(dir);
    return st;
}

static int path_of(const char *folder, const struct entry *entry,
                   char path[VP_IO_PATH_MAX])
{
    char name[48];

    entry_name(entry, name, sizeof(name));
    return vp_io_join(path, folder, name);
}

static int entry_path(const char *folder, int64_t step, enum kind kind,
                      char path[VP_IO_PATH_MAX])
{
    const struct entry entry = { .step = step, .kind = kind };

    return path_of(folder, &entry, path);
}

static bool is_usable(const struct entry *entry)
{
    return entry->kind == KIND_COMPLETE || entry->kind == KIND_OLD;
}

static bool is_aside(const struct entry *entry)
{
    return entry->kind == KIND_ASIDE;
}

static enum vp_status list_those(const char *folder,
                                 bool (*belongs)(const struct entry *entry),
                                 struct vp_ckpt_entry **out, int *n_out,
                                 struct vp_err *err)
{
    struct vp_ckpt_entry *list;
    struct entry *all = NULL;
    int n_all = 0, n = 0;

    VP_TRY(scan(folder, &all, &n_all, err));
    list = calloc((size_t)n_all + 1, sizeof(*list));
    if (!list) {
        free(all);
        return out_of_memory(folder, err);
    }
    for (int i = 0; i < n_all; i++) {
        if (!belongs(&all[i]))
            continue;
        list[n].step = all[i].step;
        entry_name(&all[i], list[n].name, sizeof(list[n].name));
        n++;
    }
    free(all);
    *out = list;
    *n_out = n;
    return VP_OK;
}

enum vp_status vp_ckpt_list(const char *folder, struct vp_ckpt_entry **out,
                            int *n_out, struct vp_err *err)
{
    return list_those(folder, is_usable, out, n_out, err);
}

enum vp_status vp_ckpt_list_aside(const char *folder,
                                  struct vp_ckpt_entry **out, int *n_out,
                                  struct vp_err *err)
{
    return list_those(folder, is_aside, out, n_out, err);
}

/* ---- Removing ----------------------------------------------------------- */

static int discard(const char *folder, const struct entry *entry)
{
    char path[VP_IO_PATH_MAX], trash[VP_IO_PATH_MAX];
    int rc = path_of(folder, entry, path);

    if (rc == 0)
        rc = entry_path(folder, entry->step, KIND_TRASH, trash);
    return rc != 0 ? rc : vp_io_discard(folder, path, trash);
}

static enum vp_status remove_entry(const char *folder, const struct entry *e,
                                   struct vp_err *err)
{
    char name[48];
    int rc = discard(folder, e);

    if (rc == 0)
        return VP_OK;
    entry_name(e, name, sizeof(name));
    return vp_err_set(err, VP_ERR_IO,
                      "%s/%s: cannot be removed (%s); remove it by hand",
                      folder, name, vp_io_reason(rc));
}

/* ---- Starting ----------------------------------------------------------- */

/* Restores step-<n>.old if step-<n> does not exist, otherwise removes it. */
static int settle_old(const char *folder, const struct entry *entry)
{
    char path[VP_IO_PATH_MAX], old[VP_IO_PATH_MAX];
    struct stat info;
    int rc = entry_path(folder, entry->step, KIND_COMPLETE, path);

    if (rc == 0)
        rc = path_of(folder, entry, old);
    if (rc != 0)
        return rc;
    if (lstat(path, &info) == 0)
        return discard(folder, entry);
    return vp_io_rename(old, path);
}

static int clear(const char *folder, const struct entry *entry)
{
    char path[VP_IO_PATH_MAX];
    int rc;

    if (entry->kind == KIND_COMPLETE || entry->kind == KIND_ASIDE)
        return 0;
    if (entry->kind == KIND_OLD)
        return settle_old(folder, entry);
    rc = path_of(folder, entry, path);
    return rc != 0 ? rc : vp_io_remove(path);
}

static int make_folder(const char *folder)
{
    struct stat info;
    int rc = vp_io_mkdir(folder);

    if (rc == EEXIST)
        return stat(folder, &info) == 0 && S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    return rc != 0 ? rc : vp_io_sync_parent(folder);
}

enum vp_status vp_ckpt_prepare(const char *folder, struct vp_err *err)
{
    struct entry *list = NULL;
    int n = 0;
    int rc = make_folder(folder);

    if (rc != 0)
        return fail_write(folder, "created", rc, err);
    VP_TRY(scan(folder, &list, &n, err));
    for (int i = 0; i < n && rc == 0; i++)
        rc = clear(folder, &list[i]);
    if (rc == 0)
        rc = vp_io_sync_folder(folder);
    free(list);
    if (rc != 0)
        return fail_write(folder, "cleared of unfinished checkpoints", rc, err);
    return VP_OK;
}

/* ---- Keeping ------------------------------------------------------------ */

/* Compares only sizes; checksums are verified when the checkpoint is loaded. */
static enum entry_state check_files(const char *path,
                                    const struct vp_manifest *manifest)
{
    for (int i = 0; i < manifest->n_files; i++) {
        char file[VP_IO_PATH_MAX];
        struct stat info;

        if (vp_io_join(file, path, manifest->files[i].name) != 0)
            return ENTRY_UNKNOWN;
        if (stat(file, &info) != 0)
            return vp_io_is_missing(errno) ? ENTRY_BROKEN : ENTRY_UNKNOWN;
        if (info.st_size != manifest->files[i].seal.n_bytes)
            return ENTRY_BROKEN;
    }
    return ENTRY_COMPLETE;
}

static enum entry_state check_entry(const char *folder,
                                    const struct entry *entry,
                                    double *score_out)
{
    char path[VP_IO_PATH_MAX];
    struct vp_manifest manifest;
    enum entry_state state;
    enum vp_status st;

    if (path_of(folder, entry, path) != 0)
        return ENTRY_UNKNOWN;
    st = vp_manifest_read(path, &manifest, NULL);
    if (st != VP_OK)
        return st == VP_ERR_INVALID ? ENTRY_BROKEN : ENTRY_UNKNOWN;
    if (manifest.step == entry->step)
        state = check_files(path, &manifest);
    else
        state = ENTRY_BROKEN;
    *score_out = manifest.score;
    vp_manifest_release(&manifest);
    return state;
}

struct survey {
    int n_complete;
    int last_kept; /* index of the keep-th complete entry; -1 = fewer */
    int best;      /* index of the entry with the best score; -1 = none */
    double best_score;
};

/* Checks the entries up to `step` and sets their state. The list is sorted from
 * newest to oldest, so `<=` finds the earliest of equal scores. */
static struct survey look_at_entries(const char *folder, struct entry *list,
                                     int n, int64_t step, int keep)
{
    struct survey s = { .last_kept = -1, .best = -1 };

    for (int i = 0; i < n; i++) {
        double score = (double)NAN;

        if (list[i].kind != KIND_COMPLETE || list[i].step > step)
            continue;
        list[i].state = check_entry(folder, &list[i], &score);
        if (list[i].state != ENTRY_COMPLETE)
            continue;
        if (++s.n_complete == keep)
            s.last_kept = i;
        if (isfinite(score) && (s.best < 0 || score <= s.best_score)) {
            s.best = i;
            s.best_score = score;
        }
    }
    return s;
}

enum vp_status vp_ckpt_best(const char *folder, int64_t *step_out,
                            double *score_out, struct vp_err *err)
{
    struct entry *list = NULL;
    struct survey s;
    int n = 0;

    VP_TRY(scan(folder, &list, &n, err));
    s = look_at_entries(folder, list, n, INT64_MAX, 0);
    if (list && s.best >= 0) {
        *step_out = list[s.best].step;
        *score_out = s.best_score;
    }
    free(list);
    if (s.best < 0)
        return vp_err_set(err, VP_ERR_END,
                          "%s: no checkpoint was evaluated; set eval_every",
                          folder);
    return VP_OK;
}

enum vp_status vp_ckpt_prune(const char *folder, int64_t step, int keep,
                             struct vp_err *err)
{
    enum vp_status st = VP_OK;
    struct entry *list = NULL;
    struct survey s;
    int n = 0;

    if (keep <= 0)
        return VP_OK;
    VP_TRY(scan(folder, &list, &n, err));
    s = look_at_entries(folder, list, n, step, keep);
    for (int i = s.last_kept + 1; i < n && s.last_kept >= 0; i++) {
        if (st == VP_OK && list[i].state != ENTRY_UNKNOWN && i != s.best)
            st = remove_entry(folder, &list[i], err);
    }
    free(list);
    return st;
}

/* ---- Setting aside ------------------------------------------------------ */

/* Returns the number of entries before `name`, -1 if `name` is not in the list;
 * all entries if `name` is NULL. */
static int count_before(const struct entry *list, int n, const char *name)
{
    char at[48];

    for (int i = 0; i < n; i++) {
        entry_name(&list[i], at, sizeof(at));
        if (name && strcmp(at, name) == 0)
            return i;
    }
    return name ? -1 : n;
}

/* Renames `entry` to step-<n>.aside-<k> with the first free number. */
static int set_aside(const char *folder, const struct entry *entry)
{
    struct entry aside = { .step = entry->step, .kind = KIND_ASIDE };
    char from[VP_IO_PATH_MAX], to[VP_IO_PATH_MAX];
    struct stat info;
    int rc = path_of(folder, entry, from);

    do {
        aside.number++;
        if (rc == 0)
            rc = path_of(folder, &aside, to);
    } while (rc == 0 && aside.number < MAX_ASIDE && lstat(to, &info) == 0);
    return rc != 0 ? rc : vp_io_rename(from, to);
}

enum vp_status vp_ckpt_set_aside(const char *folder, const char *name,
                                 struct vp_err *err)
{
    struct entry *list = NULL;
    int n = 0, n_newer, n_moved = 0, rc = 0;

    VP_TRY(scan(folder, &list, &n, err));
    n_newer = count_before(list, n, name);
    for (int i = 0; i < n_newer && rc == 0; i++)
        if (is_usable(&list[i])) {
            rc = set_aside(folder, &list[i]);
            n_moved++;
        }
    if (rc == 0 && n_moved > 0)
        rc = vp_io_sync_folder(folder);
    free(list);
    if (n_newer < 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s/%s: is gone, but the run was to resume from it; "
                          "nothing was changed",
                          folder, name);
    return rc != 0 ? fail_write(folder, "changed", rc, err) : VP_OK;
}

enum vp_status vp_ckpt_drop_aside(const char *folder, struct vp_err *err)
{
    enum vp_status st = VP_OK;
    struct entry *list = NULL;
    int n = 0;

    VP_TRY(scan(folder, &list, &n, err));
    for (int i = 0; i < n && st == VP_OK; i++)
        if (is_aside(&list[i]))
            st = remove_entry(folder, &list[i], err);
    free(list);
    return st;
}

/* ---- Space -------------------------------------------------------------- */

/* Allowance for the manifest and for metadata of the file system. */
enum { SPARE_BYTES = 1 << 20, SPARE_BYTES_PER_FILE = 8192 };

/* Reads the free bytes on the disk of `path`, or of its nearest parent folder
 * that exists. */
static int free_bytes(const char *path, int64_t *out)
{
    char at[VP_IO_PATH_MAX];
    struct statvfs info;
    size_t n = strlen(path);

    if (n >= sizeof(at))
        return ENAMETOOLONG;
    memcpy(at, path, n + 1);
    while (statvfs(n > 0 ? at : ".", &info) != 0) {
        if ((errno != ENOENT && errno != ENOTDIR) || n == 0 ||
            strcmp(at, "/") == 0)
            return errno;
        while (n > 0 && at[n - 1] == '/')
            n--;
        while (n > 0 && at[n - 1] != '/')
            n--;
        at[n] = '\0';
    }
    /* File systems without blocks, such as /proc, do not report free space. */
    *out = info.f_blocks > 0 ? (int64_t)info.f_bavail * (int64_t)info.f_frsize
                             : INT64_MAX;
    return 0;
}

int64_t vp_ckpt_disk_bytes(int64_t n_bytes, int n_files)
{
    return n_bytes + SPARE_BYTES + (int64_t)n_files * SPARE_BYTES_PER_FILE;
}

enum vp_status vp_ckpt_free_bytes(const char *path, int64_t *n_out,
                                  struct vp_err *err)
{
    int rc = free_bytes(path, n_out);

    if (rc != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: the free space of its disk cannot be read (%s)",
                          path, vp_io_reason(rc));
    return VP_OK;
}

enum vp_status vp_ckpt_space(const char *path, int64_t n_bytes,
                             struct vp_err *err)
{
    int64_t n_free = 0;

    VP_TRY(vp_ckpt_free_bytes(path, &n_free, err));
    if (n_free >= n_bytes)
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO,
                      "%s: not enough space: %lld bytes are needed, %lld are "
                      "free; free %lld bytes",
                      path, (long long)n_bytes, (long long)n_free,
                      (long long)(n_bytes - n_free));
}
