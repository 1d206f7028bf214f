/* Finds the shard files of a folder by their names. */
#include "base/blocking.h"
#include "data/hdf5.h"
#include "data/hdf5_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool has_shard_suffix(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && (strcmp(dot, ".hdf5") == 0 || strcmp(dot, ".h5") == 0);
}

static bool is_shard_name(const char *name)
{
    return name[0] != '.' && has_shard_suffix(name);
}

static int is_training(const struct dirent *entry)
{
    return is_shard_name(entry->d_name) && strstr(entry->d_name, "training");
}

static int is_test(const struct dirent *entry)
{
    return is_shard_name(entry->d_name) && strstr(entry->d_name, "test") &&
           !strstr(entry->d_name, "training");
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

struct names {
    struct dirent **entry;
    int n; /* -1: the folder cannot be read */
};

static struct names find_names(const char *path,
                               int (*is_wanted)(const struct dirent *))
{
    struct names names = { NULL, 0 };

    names.n = scandir(path, &names.entry, is_wanted, compare_names);
    return names;
}

static void free_names(struct names *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->entry[i]);
    free(names->entry);
}

static bool is_hdf5_file(const char *path)
{
    int call = vp_blocking_begin(VP_BLOCKING_FILE, "opening", path, -1);
    FILE *file = fopen(path, "rb");
    char head[8] = "";
    bool is_one;

    is_one = file && fread(head, 1, sizeof(head), file) == sizeof(head) &&
             memcmp(head, "\211HDF\r\n\032\n", sizeof(head)) == 0;
    if (file)
        fclose(file);
    vp_blocking_end(call);
    return is_one;
}

bool vp_hdf5_is_at(const char *path)
{
    struct names names;
    struct stat info;

    if (!path || stat(path, &info) != 0)
        return false;
    /* By suffix too: a damaged shard must not be read as text. */
    if (S_ISREG(info.st_mode))
        return has_shard_suffix(path) || is_hdf5_file(path);
    names = find_names(path, is_training);
    free_names(&names);
    return names.n > 0;
}

bool vp_shards_skipped(const char *path, struct vp_skipped *skipped)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    struct stat info;

    *skipped = (struct vp_skipped){ 0 };
    if (!dir)
        return false;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || is_training(entry) || is_test(entry))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 &&
            S_ISDIR(info.st_mode))
            vp_skipped_add_kind(skipped, "folders");
        else
            vp_skipped_add(skipped, entry->d_name);
    }
    closedir(dir);
    return skipped->n_files > 0;
}

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

/* Allocates `n` shards; add_shard() fills them. */
static enum vp_status reserve(struct vp_shards *shards, int n, const char *path,
                              struct vp_err *err)
{
    shards->shard = calloc((size_t)n, sizeof(*shards->shard));
    return shards->shard ? VP_OK : fail_memory(path, err);
}

/* name: of a file in the folder `path`; NULL: `path` is the shard itself. */
static enum vp_status add_shard(struct vp_shards *shards, const char *path,
                                const char *name, struct vp_err *err)
{
    size_t n = strlen(path) + (name ? strlen(name) : 0) + 2;
    char *whole = malloc(n);

    if (!whole)
        return fail_memory(path, err);
    snprintf(whole, n, "%s%s%s", path, name ? "/" : "", name ? name : "");
    shards->shard[shards->n++].path = whole;
    return VP_OK;
}

static enum vp_status add_names(struct vp_shards *shards, const char *path,
                                const struct names *names, struct vp_err *err)
{
    if (names->n < 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read: %s; change its permissions",
                          path, strerror(errno));
    if (names->n == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no shard is here; set data_dir to a folder with "
                          "files *training*.hdf5 or *training*.h5",
                          path);
    VP_TRY(reserve(shards, names->n, path, err));
    for (int i = 0; i < names->n; i++)
        VP_TRY(add_shard(shards, path, names->entry[i]->d_name, err));
    return VP_OK;
}

enum vp_status vp_shards_find(const char *path, enum vp_data_split split,
                              struct vp_shards *shards, struct vp_err *err)
{
    struct names names;
    struct stat info;
    enum vp_status st;

    *shards = (struct vp_shards){ 0 };
    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %s; set data_dir to a folder of shards", path,
                          strerror(errno));
    if (!S_ISDIR(info.st_mode)) {
        VP_TRY(reserve(shards, 1, path, err));
        return add_shard(shards, path, NULL, err);
    }
    names = find_names(path, is_test);
    shards->is_split = names.n > 0;
    if (split == VP_DATA_TRAIN || !shards->is_split) {
        free_names(&names);
        names = find_names(path, is_training);
    }
    st = add_names(shards, path, &names, err);
    free_names(&names);
    return st;
}

enum vp_status vp_shards_from_image(const void *image, size_t n_image,
                                    struct vp_shards *shards,
                                    struct vp_err *err)
{
    *shards = (struct vp_shards){ 0 };
    VP_TRY(reserve(shards, 1, "image", err));
    VP_TRY(add_shard(shards, "image", NULL, err));
    shards->shard[0].image = image;
    shards->shard[0].n_image = n_image;
    return VP_OK;
}

void vp_shards_release(struct vp_shards *shards)
{
    for (int i = 0; i < shards->n; i++)
        free(shards->shard[i].path);
    free(shards->shard);
    *shards = (struct vp_shards){ 0 };
}
