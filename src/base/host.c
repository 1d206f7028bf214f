/* Reads memory limits from /proc, control groups and getrlimit(). */
#include "base/host.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

/* Writes the rest of the first line of a file that begins with `start`. Returns
 * false if there is no such line, or if its rest does not fit. */
static bool find_line(const char *path, const char *start, char *out,
                      size_t n_bytes)
{
    FILE *file = fopen(path, "r");
    size_t n = strlen(start);
    bool found = false;
    char *line = NULL;
    size_t n_line = 0;

    if (!file)
        return false;
    while (!found && getline(&line, &n_line, file) > 0)
        if (strncmp(line, start, n) == 0) {
            line[strcspn(line, "\n")] = '\0';
            found = strlen(line + n) < n_bytes;
            if (found)
                memcpy(out, line + n, strlen(line + n) + 1);
        }
    free(line);
    fclose(file);
    return found;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the bytes of a line such as "MemAvailable:  123 kB"; 0 if absent. */
static size_t kernel_bytes(const char *path, const char *start)
{
    char text[64];

    return find_line(path, start, text, sizeof(text))
               ? 1024 * (size_t)strtoull(text, NULL, 10)
               : 0;
}

/* Returns memory.max of one control group; SIZE_MAX if it is "max" or if there
 * is no such file. */
static size_t group_limit(const char *root, const char *group)
{
    char path[MAX_PATH], text[64];

    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/memory.max", root, group);
    if (!find_line(path, "", text, sizeof(text)) || text[0] < '0' ||
        text[0] > '9')
        return SIZE_MAX;
    return (size_t)strtoull(text, NULL, 10);
}

/* Returns the smallest limit of the process's group and of its ancestors. */
static size_t groups_limit(const char *root)
{
    char path[MAX_PATH], group[MAX_PATH - 64];
    size_t limit;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (!find_line(path, "0::", group, sizeof(group)))
        group[0] = '\0';
    limit = group_limit(root, group);
    for (char *end = strrchr(group, '/'); end; end = strrchr(group, '/')) {
        *end = '\0';
        limit = least(limit, group_limit(root, group));
    }
    return limit;
}

size_t vp_host_memory(const char *root)
{
    char path[MAX_PATH];
    size_t available;

    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    available = kernel_bytes(path, "MemAvailable:");
    if (available == 0)
        return SIZE_MAX;
    return least(available + kernel_bytes(path, "SwapFree:"),
                 groups_limit(root));
}

/* Returns what is left of the limit of `resource` after `used` bytes. */
static size_t limit_left(int resource, size_t used)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 0;
}

size_t vp_host_address_space(const char *root)
{
    char path[MAX_PATH];

    snprintf(path, sizeof(path), "%s/proc/self/status", root);
    return least(limit_left(RLIMIT_AS, kernel_bytes(path, "VmSize:")),
                 limit_left(RLIMIT_DATA, kernel_bytes(path, "VmData:")));
}

void vp_host_share_arenas(void)
{
    if (vp_host_address_space("") < SIZE_MAX)
        mallopt(M_ARENA_MAX, VP_HOST_ARENAS);
}

bool vp_program_path(char *out, size_t n_bytes)
{
    ssize_t n = readlink("/proc/self/exe", out, n_bytes);
    const char *given = (const char *)getauxval(AT_EXECFN);
    char *full;
    bool fits;

    if (n > 0 && (size_t)n < n_bytes) {
        out[n] = '\0';
        return true;
    }
    full = n < 0 && given ? realpath(given, NULL) : NULL;
    fits = full && strlen(full) < n_bytes;
    if (fits)
        snprintf(out, n_bytes, "%s", full);
    free(full);
    return fits;
}
