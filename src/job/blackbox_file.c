/* Maps a rank's blackbox to a file, and keeps the rank alive if that file is
 * truncated under the mapping. */
#include "job/blackbox_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void make_path(const char *folder, int rank, char *out, size_t n)
{
    snprintf(out, n, "%s/actions.%d", folder, rank);
}

struct vp_blackbox *vp_blackbox_map(void)
{
    void *at = mmap(NULL, sizeof(struct vp_blackbox), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

/* ---- Truncated files ---------------------------------------------------- */

/* A blackbox that is mapped to a file. Never freed, because a blackbox is never
 * unmapped. */
struct kept {
    struct vp_blackbox *blackbox;
    atomic_bool lost; /* anonymous memory has replaced the file */
    struct kept *next;
};

static _Atomic(struct kept *) all_kept;
static struct sigaction old_action; /* for SIGBUS */

static bool is_in(const struct vp_blackbox *blackbox, const void *address)
{
    uintptr_t at = (uintptr_t)address, first = (uintptr_t)blackbox;

    return at >= first && at < first + sizeof(*blackbox);
}

/* Maps anonymous memory in place of the file. If two threads fault in the same
 * blackbox, the second repeats its access until the first has mapped memory. */
static bool replace_file(struct kept *kept)
{
    if (atomic_exchange(&kept->lost, true))
        return true;
    return mmap(kept->blackbox, sizeof(*kept->blackbox), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == (void *)kept->blackbox;
}

/* Handles SIGBUS, which the kernel raises for a mapped page whose file was
 * truncated or has an I/O error. The rank continues with a blackbox without a
 * file. Faults elsewhere go to the previous handler. Makes only system calls,
 * to be async-signal-safe. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int error = errno;

    for (struct kept *kept = atomic_load(&all_kept); kept; kept = kept->next)
        if (is_in(kept->blackbox, info->si_addr) && replace_file(kept)) {
            errno = error;
            return;
        }
    if (old_action.sa_flags & SA_SIGINFO)
        old_action.sa_sigaction(number, info, context);
    else if (old_action.sa_handler != SIG_DFL &&
             old_action.sa_handler != SIG_IGN)
        old_action.sa_handler(number);
    else
        sigaction(SIGBUS, &old_action, NULL); /* the access faults again */
    errno = error;
}

static void catch_bus_errors(void)
{
    struct sigaction action = { .sa_sigaction = on_bus_error,
                                .sa_flags = SA_SIGINFO };

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &old_action);
}

static bool protect(struct vp_blackbox *blackbox)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct kept *kept = malloc(sizeof(*kept));

    if (!kept)
        return false;
    *kept = (struct kept){ .blackbox = blackbox,
                           .next = atomic_load(&all_kept) };
    while (!atomic_compare_exchange_weak(&all_kept, &kept->next, kept))
        ;
    return pthread_once(&once, catch_bus_errors) == 0;
}

/* ---- Keeping and reading ------------------------------------------------ */

/* MAP_FIXED replaces the memory by the file at the same address. An existing
 * file is unlinked, not truncated: another rank may have mapped it. */
enum vp_status vp_blackbox_file_keep(struct vp_blackbox *blackbox,
                                     const char *folder, int rank,
                                     struct vp_err *err)
{
    const ssize_t n = sizeof(*blackbox);
    char path[1024 + 32];
    bool kept;
    int fd;

    make_path(folder, rank, path, sizeof(path));
    unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    kept = fd >= 0 && write(fd, blackbox, sizeof(*blackbox)) == n &&
           protect(blackbox) &&
           mmap(blackbox, sizeof(*blackbox), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED, fd, 0) == blackbox;
    if (!kept)
        vp_err_write(err, path, errno);
    if (fd >= 0)
        close(fd);
    return kept ? VP_OK : VP_ERR_IO;
}

bool vp_blackbox_file_read(const char *folder, int rank,
                           struct vp_blackbox *out)
{
    char path[1024 + 32];
    ssize_t n;
    int fd;

    make_path(folder, rank, path, sizeof(path));
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, out, sizeof(*out));
    close(fd);
    return n == (ssize_t)sizeof(*out);
}
