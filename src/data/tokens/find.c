/* Token files of a file or folder, divided by split. */
#include "data/tokens/find.h"

#include "data/names.h"
#include "data/split_name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

void vp_token_files_beside(const char *path, const char *ending, char *out,
                           size_t n_bytes)
{
    snprintf(out, n_bytes, "%.*s%s", (int)strlen(path) - 4, path, ending);
}

static bool has_beside(const char *path, const char *ending)
{
    char other[PATH_MAX];

    vp_token_files_beside(path, ending, other, sizeof(other));
    return access(other, F_OK) == 0;
}

/* Returns true for an .idx if `indexed`, otherwise for a .bin without an
 * .idx. */
static bool is_wanted(const char *path, bool indexed)
{
    if (indexed)
        return ends_in(path, ".idx");
    return ends_in(path, ".bin") && !has_beside(path, ".idx");
}

static enum vp_status add_path(struct vp_token_files *files, const char *path,
                               struct vp_err *err)
{
    if (files->n == files->capacity) {
        int capacity = files->capacity ? 2 * files->capacity : 16;
        char **grown = realloc(files->path, (size_t)capacity * sizeof(*grown));

        if (!grown)
            return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
        files->path = grown;
        files->capacity = capacity;
    }
    files->path[files->n] = strdup(path);
    if (!files->path[files->n])
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    files->n++;
    return VP_OK;
}

void vp_token_files_release(struct vp_token_files *files)
{
    for (int i = 0; i < files->n; i++)
        free(files->path[i]);
    free(files->path);
    *files = (struct vp_token_files){ 0 };
}

static enum vp_status fail_none(const struct vp_data_config *config,
                                bool indexed, struct vp_err *err)
{
    bool eval = config->split == VP_DATA_EVAL;

    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: no token files for %s (*.%s, by their names%s%s); "
                      "%s",
                      config->path, eval ? "evaluation" : "training",
                      indexed ? "idx" : "bin",
                      config->valid_split ? ", valid_split " : "",
                      config->valid_split ? config->valid_split : "",
                      config->valid_split
                          ? "change valid_split, or set data_dir to such files"
                          : "set data_dir to such files");
}

/* Adds a file of the folder to `files` (training) or `valid`, or counts it as
 * skipped. */
static enum vp_status sort_name(const struct vp_data_config *config,
                                const char *name, bool indexed,
                                struct vp_token_files *files,
                                struct vp_token_files *valid,
                                struct vp_err *err)
{
    char path[PATH_MAX];
    enum vp_split_name split = vp_split_by_name(name, config->valid_split);

    if (snprintf(path, sizeof(path), "%s/%s", config->path, name) >=
        (int)sizeof(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s/%s: the path is too long; set data_dir to a "
                          "shorter one",
                          config->path, name);
    if (is_wanted(path, indexed) && split == VP_NAME_TRAIN)
        return add_path(files, path, err);
    if (is_wanted(path, indexed) && split == VP_NAME_VALID)
        return add_path(valid, path, err);
    /* A .bin is used together with its index. */
    if (!(indexed && ends_in(path, ".bin") && has_beside(path, ".idx")))
        vp_skipped_add(&files->skipped, name);
    return VP_OK;
}

static enum vp_status find_in_folder(const struct vp_data_config *config,
                                     bool indexed, struct vp_token_files *files,
                                     struct vp_err *err)
{
    struct vp_names names = { 0 };
    struct vp_token_files valid = { 0 }, unused;
    enum vp_status st = vp_names_read(config->path, &names, err);

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        st = sort_name(config, names.name[i], indexed, files, &valid, err);
    files->is_split = valid.n > 0;
    if (config->split == VP_DATA_EVAL && valid.n > 0) {
        unused = *files;
        valid.skipped = files->skipped;
        valid.is_split = true;
        *files = valid;
        valid = unused;
    } else if (config->split == VP_DATA_EVAL && config->valid_split) {
        st = st == VP_OK ? fail_none(config, indexed, err) : st;
    }
    vp_token_files_release(&valid);
    vp_names_release(&names);
    if (st == VP_OK && files->n == 0)
        st = fail_none(config, indexed, err);
    return st;
}

enum vp_status vp_token_files_find(const struct vp_data_config *config,
                                   bool indexed, struct vp_token_files *files,
                                   struct vp_err *err)
{
    struct stat info;
    char path[PATH_MAX];

    *files = (struct vp_token_files){ 0 };
    if (stat(config->path, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %s; set data_dir to token files", config->path,
                          strerror(errno));
    if (S_ISDIR(info.st_mode))
        return find_in_folder(config, indexed, files, err);
    if (!indexed || !ends_in(config->path, ".bin"))
        return add_path(files, config->path, err);
    vp_token_files_beside(config->path, ".idx", path, sizeof(path));
    return add_path(files, path, err);
}
