/* Starts and ends child processes, and finds programs in PATH. */
#include "job/process.h"

#include "base/limit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END_MS = 1000 }; /* limit for a process that has closed its output */

/* Runs in the child: resets the signal mask, redirects the output and executes
 * `argv`. Writes errno to `report` if that fails. */
static void become(char *const *argv, int output_fd, int error_fd, int report)
{
    sigset_t none;
    int error;

    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if ((output_fd < 0 || dup2(output_fd, STDOUT_FILENO) >= 0) &&
        (error_fd < 0 || dup2(error_fd, STDERR_FILENO) >= 0))
        execvp(argv[0], argv);
    error = errno;
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

enum vp_status vp_process_start(char *const *argv, int output_fd, int error_fd,
                                struct vp_process *out, struct vp_err *err)
{
    int report[2], error = 0;
    ssize_t n;

    *out = (struct vp_process){ 0 };
    if (pipe2(report, O_CLOEXEC) != 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be started (%s)", argv[0],
                          strerror(errno));
    fflush(NULL);
    out->pid = fork();
    if (out->pid == 0)
        become(argv, output_fd, error_fd, report[1]);
    error = out->pid < 0 ? errno : 0;
    close(report[1]);
    do
        n = error ? 0 : read(report[0], &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (error == 0)
        return VP_OK;
    if (out->pid > 0)
        waitpid(out->pid, NULL, 0);
    out->pid = 0;
    return vp_err_set(err, VP_ERR_UNSUPPORTED, "%s: cannot be started (%s)",
                      argv[0], strerror(error));
}

/* Reads up to the end of the file or for `timeout_ms`. Drops bytes that do not
 * fit into `out`. */
static void read_output(int fd, int timeout_ms, char *out, size_t n_bytes)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    struct vp_limit limit = vp_limit_ms(timeout_ms);
    char text[256];
    size_t used = 0;
    ssize_t n = 1;

    while (n > 0 && !vp_limit_is_over(&limit)) {
        if (poll(&polled, 1, 10) < 1)
            continue;
        n = read(fd, text, sizeof(text));
        for (ssize_t i = 0; i < n && used + 1 < n_bytes; i++)
            out[used++] = text[i];
    }
    out[used] = '\0';
}

enum vp_status vp_process_output(char *const *argv, int timeout_ms, char *out,
                                 size_t n_bytes, struct vp_err *err)
{
    struct vp_process process;
    enum vp_status st;
    int output[2];

    if (pipe2(output, O_CLOEXEC) != 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be started (%s)", argv[0],
                          strerror(errno));
    st = vp_process_start(argv, output[1], -1, &process, err);
    close(output[1]);
    if (st == VP_OK) {
        read_output(output[0], timeout_ms, out, n_bytes);
        vp_process_wait(&process, END_MS);
        vp_process_end(&process, END_MS);
    }
    close(output[0]);
    return st;
}

bool vp_process_has_ended(struct vp_process *process)
{
    if (process->pid == 0 || process->ended)
        return true;
    process->ended = waitpid(process->pid, &process->status, WNOHANG) ==
                     process->pid;
    return process->ended;
}

bool vp_process_wait(struct vp_process *process, int timeout_ms)
{
    const struct timespec pause = { .tv_nsec = 5000000 };
    struct vp_limit limit = vp_limit_ms(timeout_ms);

    while (!vp_process_has_ended(process)) {
        if (vp_limit_is_over(&limit))
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void vp_process_end(struct vp_process *process, int timeout_ms)
{
    if (vp_process_has_ended(process))
        return;
    kill(-process->pid, SIGTERM);
    if (vp_process_wait(process, timeout_ms))
        return;
    kill(-process->pid, SIGKILL);
    vp_process_wait(process, timeout_ms);
}

void vp_process_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* Reads the state and the parent of a process or thread from `path`, its file
 * "stat". Returns false if it does not exist. */
static bool read_stat(const char *path, char *state_out, long *parent_out)
{
    FILE *f = fopen(path, "re");
    const char *name_end;
    char text[512];

    if (!f)
        return false;
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    name_end = strrchr(text, ')'); /* "17 (a name) S 16 ..." */
    if (!name_end || strlen(name_end) <= 4)
        return false;
    *state_out = name_end[2];
    *parent_out = strtol(name_end + 4, NULL, 10);
    return true;
}

/* Returns the parent of a process; 0 if there is no such process. */
static long parent_of(const char *pid)
{
    char path[64], state;
    long parent = 0;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    return read_stat(path, &state, &parent) ? parent : 0;
}

bool vp_process_is_ready(pid_t pid)
{
    char path[96], state;
    const struct dirent *entry;
    bool ready = false;
    long parent;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    while (folder && !ready && (entry = readdir(folder))) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid,
                 entry->d_name);
        ready = read_stat(path, &state, &parent) && state == 'R';
    }
    if (folder)
        closedir(folder);
    return ready;
}

/* Sends SIGKILL to all children. Returns the number of those that have not
 * exited yet. */
static int kill_children(void)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    int n = 0;

    while (folder && (entry = readdir(folder))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid <= 0 || parent_of(entry->d_name) != (long)getpid())
            continue;
        kill(pid, SIGKILL);
        n += waitpid(pid, NULL, WNOHANG) != pid;
    }
    if (folder)
        closedir(folder);
    return n;
}

/* Repeats because the children of a killed process become children of this
 * one. */
void vp_process_end_orphans(int timeout_ms)
{
    const struct timespec pause = { .tv_nsec = 10000000 };
    struct vp_limit limit = vp_limit_ms(timeout_ms);

    while (kill_children() > 0 && !vp_limit_is_over(&limit))
        nanosleep(&pause, NULL);
}

bool vp_program_find(const char *name, char *out, size_t n_bytes)
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t n = strcspn(at, ":");

        if (n > 0 && n < PATH_MAX &&
            (size_t)snprintf(out, n_bytes, "%.*s/%s", (int)n, at, name) <
                n_bytes &&
            access(out, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}
