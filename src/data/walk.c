/* Selects the text files below a path and reads or lists them. */
#include "data/walk.h"

#include "data/foreign.h"
#include "data/names.h"
#include "data/unreadable.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const vp_text_extensions = ".c .h .md .txt .py .sh .cmake .yml "
                                       ".jsonl .ndjson";

bool vp_text_has_extension(const char *name, const char *extensions)
{
    const char *dot = name + vp_text_stem(name), *at = extensions;
    size_t n = 0;

    while (dot > name && n == 0)
        n = *--dot == '.' ? (size_t)(name + vp_text_stem(name) - dot) : 0;
    /* A word of the list, not a part of one: ".m" is not ".md". */
    for (; n > 0 && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == n && memcmp(at, dot, n) == 0)
            return true;
    return false;
}

/* ---- Files of token ids ------------------------------------------------- */

static bool holds_tokens(const struct vp_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (vp_foreign_is_tokens(names->name[i]))
            return true;
    return false;
}

/* `beside`: all names in the folder of the file. */
static enum vp_status refuse_tokens(const char *path, const char *name,
                                    const struct vp_names *beside,
                                    struct vp_err *err)
{
    const char *what;

    if (vp_foreign_is_tokens(name))
        what = "a file of token ids, as nanoGPT, Megatron-LM and fairseq write "
               "them, not text";
    else if (vp_foreign_is_dictionary(name) && holds_tokens(beside))
        what = "a dictionary of fairseq beside its files of token ids, not "
               "text";
    else
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is by its name %s; set data_dir to the folder that "
                      "holds it, or move the file out of data_dir",
                      path, what);
}

/* ---- Folders ------------------------------------------------------------ */

struct walk {
    struct vp_text *text;
    bool replace;
    struct vp_names *paths; /* NULL: the files are read */
};

static enum vp_status add_path(struct vp_names *paths, const char *path,
                               struct vp_err *err)
{
    size_t capacity = 2 * paths->capacity + 16;
    char *copy = strdup(path), **names = paths->name;

    if (paths->n == paths->capacity && copy) {
        names = realloc(paths->name, capacity * sizeof(*names));
        if (names) {
            paths->name = names;
            paths->capacity = capacity;
        }
    }
    if (!copy || !names) {
        free(copy);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    paths->name[paths->n++] = copy;
    return VP_OK;
}

static enum vp_status take_file(const struct walk *walk, const char *path,
                                int64_t expect, struct vp_err *err)
{
    if (!walk->paths)
        return vp_text_append(walk->text, path, expect, walk->replace, err);
    walk->text->n_files++;
    return add_path(walk->paths, path, err);
}

static enum vp_status read_folder(const struct walk *walk, const char *path,
                                  struct vp_err *err);

static enum vp_status read_path(const struct walk *walk, const char *path,
                                const char *name, const struct vp_names *beside,
                                struct vp_err *err)
{
    struct vp_skipped *skipped = &walk->text->skipped;
    struct stat info;

    if (lstat(path, &info) != 0)
        return vp_text_fail_errno(path, err);
    if (S_ISDIR(info.st_mode) && strncmp(name, "build", 5) != 0)
        return read_folder(walk, path, err);
    if (S_ISREG(info.st_mode)) {
        VP_TRY(refuse_tokens(path, name, beside, err));
        if (vp_text_has_extension(name, vp_text_extensions))
            return take_file(walk, path, (int64_t)info.st_size, err);
        vp_skipped_add(skipped, name);
        return VP_OK;
    }
    vp_skipped_add_kind(skipped, S_ISDIR(info.st_mode)   ? "folders build*"
                                 : S_ISLNK(info.st_mode) ? "symbolic links"
                                                         : "special files");
    return VP_OK;
}

static enum vp_status read_entry(const struct walk *walk, const char *folder,
                                 const char *name,
                                 const struct vp_names *beside,
                                 struct vp_err *err)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    enum vp_status st;

    if (!path)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    snprintf(path, n, "%s/%s", folder, name);
    st = read_path(walk, path, name, beside, err);
    free(path);
    return st;
}

static enum vp_status read_folder(const struct walk *walk, const char *path,
                                  struct vp_err *err)
{
    struct vp_names names = { NULL, 0, 0 };
    enum vp_status st = vp_names_read(path, &names, err);

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        st = read_entry(walk, path, names.name[i], &names, err);
    vp_names_release(&names);
    return st;
}

/* Reads the file that data_dir itself names. */
static enum vp_status read_single(const struct walk *walk, const char *path,
                                  int64_t expect, struct vp_err *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    struct vp_names names = { NULL, 0, 0 };
    char *folder = NULL;
    enum vp_status st;

    if (vp_foreign_is_dictionary(name))
        folder = slash ? strndup(path, (size_t)(slash - path + 1))
                       : strdup(".");
    /* Ignore errors: a file may be readable in a folder that is not. */
    if (folder)
        (void)vp_names_read(folder, &names, NULL);
    st = refuse_tokens(path, name, &names, err);
    vp_names_release(&names);
    free(folder);
    VP_TRY(st);
    return take_file(walk, path, expect, err);
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status check_any(const char *path, const struct vp_text *text,
                                struct vp_err *err)
{
    char kinds[256];

    if (text->n_files == 0) {
        vp_skipped_print(&text->skipped, kinds, sizeof(kinds));
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no text files here%s%s%s, and no shards named "
                          "*training*.hdf5 directly in it; set data_dir to a "
                          "folder with shards or with files that end in %s, or "
                          "to one text file of any name",
                          path, kinds[0] ? " (not taken: " : "", kinds,
                          kinds[0] ? ")" : "", vp_text_extensions);
    }
    if (text->n_bytes == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the text is empty; set data_dir to files with "
                          "text",
                          path);
    return VP_OK;
}

enum vp_status vp_text_read(const char *path, bool replace,
                            struct vp_text *text, struct vp_err *err)
{
    return vp_text_read_key(path, replace, NULL, text, err);
}

static enum vp_status walk_path(const struct walk *walk, const char *path,
                                struct vp_err *err)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %s; set data_dir to a text file or a folder of "
                          "text files",
                          path, strerror(errno));
    if (S_ISREG(info.st_mode))
        return read_single(walk, path, (int64_t)info.st_size, err);
    if (S_ISDIR(info.st_mode))
        return read_folder(walk, path, err);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: neither a file nor a folder; set data_dir to a "
                      "text file or a folder of text files",
                      path);
}

enum vp_status vp_text_read_key(const char *path, bool replace,
                                const char *json_key, struct vp_text *text,
                                struct vp_err *err)
{
    struct walk walk = { .text = text, .replace = replace };

    *text = (struct vp_text){ .json_key = json_key };
    VP_TRY(walk_path(&walk, path, err));
    return check_any(path, text, err);
}

enum vp_status vp_text_list(const char *path, struct vp_names *paths,
                            struct vp_err *err)
{
    struct vp_text none = { .n_bytes = 1 }; /* passes check_any() */
    struct walk walk = { .text = &none, .paths = paths };

    VP_TRY(walk_path(&walk, path, err));
    return check_any(path, &none, err);
}
