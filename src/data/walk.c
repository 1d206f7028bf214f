#include "data/walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Names that end in one of these are text. */
#define EXTENSIONS ".c .h .md .txt .py .sh .cmake .yml"

static bool is_text_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *at = EXTENSIONS;
    size_t n = dot ? strlen(dot) : 0;

    /* A word of the list, not a part of one: ".m" is not ".md". */
    for (; n > 0 && (at = strstr(at, dot)) != NULL; at += n) {
        if (at[n] == ' ' || at[n] == '\0')
            return true;
    }
    return false;
}

static enum vp_status fail_errno(struct vp_err *err, const char *path)
{
    return vp_err_set(err, VP_ERR_IO,
                      "%s: cannot be read: %s; change its permissions or set "
                      "data_dir to a readable file or folder",
                      path, strerror(errno));
}

static enum vp_status reserve(struct vp_text *text, int64_t more,
                              const char *path, struct vp_err *err)
{
    int64_t room = text->room ? text->room : 1 << 16;
    unsigned char *bytes;

    if (more > VP_TEXT_MAX_BYTES - text->n_bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: exceeds the limit of %lld MiB of text in all; "
                          "set data_dir to a smaller file or folder",
                          path, (long long)(VP_TEXT_MAX_BYTES >> 20));
    while (room < text->n_bytes + more)
        room *= 2;
    if (room == text->room)
        return VP_OK;
    bytes = realloc(text->bytes, (size_t)room);
    if (!bytes)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: no memory for %lld bytes of text; set data_dir "
                          "to a smaller file or folder",
                          path, (long long)room);
    text->bytes = bytes;
    text->room = room;
    return VP_OK;
}

/* Appends what `file` holds. `expect` is its size as last seen; a file that
 * grows meanwhile is read to its new end. */
static enum vp_status append_stream(FILE *file, int64_t expect,
                                    const char *path, struct vp_text *text,
                                    struct vp_err *err)
{
    int64_t start = text->n_bytes;
    size_t n;

    /* One byte more than expected, so that the end is seen at once. */
    VP_TRY(reserve(text, expect + 1, path, err));
    while ((n = fread(text->bytes + text->n_bytes, 1,
                      (size_t)(text->room - text->n_bytes), file)) > 0) {
        text->n_bytes += (int64_t)n;
        VP_TRY(reserve(text, 1, path, err));
    }
    if (ferror(file))
        return fail_errno(err, path);
    if (text->n_bytes > start && text->bytes[text->n_bytes - 1] != '\n')
        text->bytes[text->n_bytes++] = '\n';
    text->n_files++;
    return VP_OK;
}

static enum vp_status read_file(const char *path, int64_t expect,
                                struct vp_text *text, struct vp_err *err)
{
    FILE *file = fopen(path, "rb");
    enum vp_status st;

    if (!file)
        return fail_errno(err, path);
    st = append_stream(file, expect, path, text, err);
    fclose(file);
    return st;
}

struct names {
    char **name;
    size_t n, room;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_release(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
}

static bool names_add(struct names *names, const char *name)
{
    if (names->n == names->room) {
        size_t room = names->room ? 2 * names->room : 64;
        char **grown = realloc(names->name, room * sizeof(*grown));

        if (!grown)
            return false;
        names->name = grown;
        names->room = room;
    }
    names->name[names->n] = strdup(name);
    return names->name[names->n] && ++names->n;
}

/* The entries of a folder that are not hidden, sorted: readdir's order differs
 * between file systems. */
static enum vp_status names_read(const char *path, struct names *names,
                                 struct vp_err *err)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    enum vp_status st = VP_OK;

    if (!dir)
        return fail_errno(err, path);
    while (st == VP_OK && (errno = 0, entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && !names_add(names, entry->d_name))
            st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    if (st == VP_OK && errno != 0)
        st = fail_errno(err, path);
    closedir(dir);
    if (st == VP_OK && names->n > 0)
        qsort(names->name, names->n, sizeof(*names->name), compare_names);
    return st;
}

static enum vp_status read_folder(const char *path, struct vp_text *text,
                                  struct vp_err *err);

static enum vp_status read_path(const char *path, const char *name,
                                struct vp_text *text, struct vp_err *err)
{
    struct stat info;

    if (lstat(path, &info) != 0)
        return fail_errno(err, path);
    if (S_ISDIR(info.st_mode) && strncmp(name, "build", 5) != 0)
        return read_folder(path, text, err);
    if (S_ISREG(info.st_mode) && is_text_name(name))
        return read_file(path, (int64_t)info.st_size, text, err);
    return VP_OK;
}

static enum vp_status read_entry(const char *folder, const char *name,
                                 struct vp_text *text, struct vp_err *err)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = malloc(room);
    enum vp_status st;

    if (!path)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    snprintf(path, room, "%s/%s", folder, name);
    st = read_path(path, name, text, err);
    free(path);
    return st;
}

static enum vp_status read_folder(const char *path, struct vp_text *text,
                                  struct vp_err *err)
{
    struct names names = { NULL, 0, 0 };
    enum vp_status st = names_read(path, &names, err);

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        st = read_entry(path, names.name[i], text, err);
    names_release(&names);
    return st;
}

enum vp_status vp_text_read(const char *path, struct vp_text *text,
                            struct vp_err *err)
{
    struct stat info;

    *text = (struct vp_text){ 0 };
    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %s; set data_dir to a text file or a folder of "
                          "text files",
                          path, strerror(errno));
    if (S_ISREG(info.st_mode))
        VP_TRY(read_file(path, (int64_t)info.st_size, text, err));
    else if (S_ISDIR(info.st_mode))
        VP_TRY(read_folder(path, text, err));
    else
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: neither a file nor a folder; set data_dir to a "
                          "text file or a folder of text files",
                          path);
    if (text->n_files == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no text files here, and no shards named "
                          "*training*.hdf5; set data_dir to a folder with "
                          "shards or with files that end in %s",
                          path, EXTENSIONS);
    if (text->n_bytes == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the text is empty; set data_dir to files with "
                          "text",
                          path);
    return VP_OK;
}

void vp_text_release(struct vp_text *text)
{
    free(text->bytes);
    *text = (struct vp_text){ 0 };
}
