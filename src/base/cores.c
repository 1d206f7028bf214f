/* Reads CPU time from the process clock and scheduling delay from /proc. */
#include "base/cores.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The file holds "RAN DELAYED SLICES"; the first two are nanoseconds. */
static int64_t delayed_of(const char *thread)
{
    char path[64], text[128] = "";
    const char *second;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/schedstat", thread);
    file = fopen(path, "re");
    if (!file)
        return 0;
    second = fgets(text, sizeof(text), file) ? strchr(text, ' ') : NULL;
    fclose(file);
    return second ? strtoll(second, NULL, 10) : 0;
}

struct vp_cores vp_cores_read(void)
{
    struct vp_cores out = { 0, 0 };
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    struct timespec ran;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ran) == 0)
        out.ran_ns = (int64_t)ran.tv_sec * 1000000000 + ran.tv_nsec;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            out.delayed_ns += delayed_of(entry->d_name);
    if (folder)
        closedir(folder);
    return out;
}

bool vp_cores_starved(const struct vp_cores *before, const struct vp_cores *now,
                      int64_t ns)
{
    int64_t ran = now->ran_ns - before->ran_ns;
    int64_t delayed = now->delayed_ns - before->delayed_ns;

    return ns >= VP_CORES_EVIDENCE_NS && delayed > ns / 2 && delayed > 2 * ran;
}
