/* The file of measured choices: one line per entry, key, tab, value. */
#include "backend/tuned.h"

#include "base/file.h"
#include "base/path.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 1024, FILE_BYTES = VP_FILE_MAX_BYTES / 2 };

bool vp_tuned_path(const char *name, char *out, size_t n_bytes)
{
    char folder[PATH_MAX];
    int n;

    if (!vp_path_cache("tuned", folder, sizeof(folder)))
        return false;
    n = snprintf(out, n_bytes, "%s/%s", folder, name);
    return n > 0 && (size_t)n < n_bytes;
}

bool vp_tuned_find(const char *path, const char *key, char *value_out,
                   size_t n_bytes)
{
    size_t n_key = strlen(key), n_text;
    bool found = false;
    char *text;

    if (access(path, R_OK) != 0 ||
        vp_file_read(path, "text", &text, &n_text, NULL) != VP_OK)
        return false;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *value = line + n_key + 1;

        *end = '\0';
        if (strncmp(line, key, n_key) != 0 || line[n_key] != '\t')
            continue;
        found = (size_t)(end - value) < n_bytes;
        if (found)
            snprintf(value_out, n_bytes, "%s", value);
    }
    free(text);
    return found;
}

static void make_folders(const char *path)
{
    char folder[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
        mkdir(folder, 0777); /* a failure shows when the file is opened */
    }
}

/* A line is one write() in append mode, so lines of several processes do not
 * mix. */
void vp_tuned_add(const char *path, const char *key, const char *value)
{
    char line[LINE_BYTES];
    int n = snprintf(line, sizeof(line), "%s\t%s\n", key, value);
    struct stat info;
    int file, flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC;

    if (n < 0 || (size_t)n >= sizeof(line))
        return;
    make_folders(path);
    if (stat(path, &info) == 0 && info.st_size > FILE_BYTES)
        flags |= O_TRUNC;
    file = open(path, flags, 0666);
    if (file < 0)
        return;
    (void)!write(file, line, (size_t)n);
    close(file);
}
