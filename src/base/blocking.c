/* The registry is a fixed table under one lock: registering a call allocates
 * nothing. */
#include "base/blocking.h"

#include "base/clock.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_CALLS = 64, /* calls at once; further ones are not registered */
    PATH_BYTES = 256
};

struct entry {
    bool used;
    enum vp_blocking_kind kind;
    const char *what;
    char path[PATH_BYTES]; /* the end of a longer path; "": that of `fd` */
    int fd;
    int64_t since_ns;
};

/* Guards `entries` and `n_ended`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[MAX_CALLS];
static int64_t n_ended;

/* Keeps the end of a path that is too long: it has the name of the file. */
static void copy_path(char out[PATH_BYTES], const char *path)
{
    size_t n = strlen(path), skipped = n < PATH_BYTES ? 0 : n - PATH_BYTES + 1;

    memcpy(out, path + skipped, n - skipped + 1);
}

int vp_blocking_begin(enum vp_blocking_kind kind, const char *what,
                      const char *path, int fd)
{
    int i = 0;

    pthread_mutex_lock(&lock);
    while (i < MAX_CALLS && entries[i].used)
        i++;
    if (i < MAX_CALLS) {
        struct entry *entry = &entries[i];

        entry->used = true;
        entry->kind = kind;
        entry->what = what;
        entry->fd = fd;
        entry->since_ns = vp_clock_ns();
        copy_path(entry->path, path ? path : "");
    }
    pthread_mutex_unlock(&lock);
    return i;
}

void vp_blocking_end(int call)
{
    pthread_mutex_lock(&lock);
    if (call == MAX_CALLS || entries[call].kind == VP_BLOCKING_FILE)
        n_ended++;
    if (call < MAX_CALLS)
        entries[call].used = false;
    pthread_mutex_unlock(&lock);
}

int64_t vp_blocking_count(void)
{
    int64_t n;

    pthread_mutex_lock(&lock);
    n = n_ended;
    pthread_mutex_unlock(&lock);
    return n;
}

static void find_path(struct entry *entry)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", entry->fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    copy_path(entry->path, path);
}

bool vp_blocking_longest(enum vp_blocking_kind kind, struct vp_blocking *out)
{
    struct entry longest = { .used = false };

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_CALLS; i++)
        if (entries[i].used && entries[i].kind == kind &&
            (!longest.used || entries[i].since_ns < longest.since_ns))
            longest = entries[i];
    pthread_mutex_unlock(&lock);
    if (!longest.used)
        return false;
    out->since_ns = longest.since_ns;
    if (!longest.path[0] && longest.fd >= 0)
        find_path(&longest);
    snprintf(out->text, sizeof(out->text), "%.40s%s%s", longest.what,
             longest.path[0] ? " " : "", longest.path);
    return true;
}
