/* Reading and sorting of the names in a folder. */
#include "data/names.h"

#include "data/unreadable.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void vp_names_release(struct vp_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
}

static bool names_add(struct vp_names *names, const char *name)
{
    if (names->n == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 64;
        char **grown = realloc(names->name, capacity * sizeof(*grown));

        if (!grown)
            return false;
        names->name = grown;
        names->capacity = capacity;
    }
    names->name[names->n] = strdup(name);
    return names->name[names->n] && ++names->n;
}

enum vp_status vp_names_read(const char *path, struct vp_names *names,
                             struct vp_err *err)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    enum vp_status st = VP_OK;

    if (!dir)
        return vp_text_fail_errno(path, err);
    while (st == VP_OK && (errno = 0, entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && !names_add(names, entry->d_name))
            st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    if (st == VP_OK && errno != 0)
        st = vp_text_fail_errno(path, err);
    closedir(dir);
    if (st == VP_OK && names->n > 0)
        qsort(names->name, names->n, sizeof(*names->name), compare_names);
    return st;
}
