/* Child processes, started by an argument vector and never by a shell. */
#ifndef VP_JOB_PROCESS_H
#define VP_JOB_PROCESS_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

struct vp_process {
    pid_t pid; /* also the id of its process group; 0: there is no process */
    bool ended;
    int status; /* from waitpid(), valid once `ended` is set */
};

/* Starts argv[0], searched in PATH, in a process group of its own. `argv` ends
 * with NULL. Its standard output and error are the descriptors `output_fd` and
 * `error_fd`; -1: those of this process. Fails with VP_ERR_UNSUPPORTED if the
 * program cannot be executed. */
enum vp_status vp_process_start(char *const *argv, int output_fd, int error_fd,
                                struct vp_process *out, struct vp_err *err);
/* Runs argv[0] for up to `timeout_ms` and writes the start of its standard
 * output to `out` as a string. Ignores the exit status. */
enum vp_status vp_process_output(char *const *argv, int timeout_ms, char *out,
                                 size_t n_bytes, struct vp_err *err);
/* Returns true if the process has exited, or if there is none. Never blocks. */
bool vp_process_has_ended(struct vp_process *process);
/* Waits up to `timeout_ms`. Returns true if the process has exited. */
bool vp_process_wait(struct vp_process *process, int timeout_ms);
/* Sends SIGTERM to the process group, waits up to `timeout_ms`, then sends
 * SIGKILL and waits up to `timeout_ms` again. */
void vp_process_end(struct vp_process *process, int timeout_ms);

/* Makes this process the subreaper: orphans among its descendants become its
 * children. */
void vp_process_adopt(void);
/* Sends SIGKILL to all children and to the orphans that they leave, until none
 * is left, for up to `timeout_ms`. */
void vp_process_end_orphans(int timeout_ms);

/* Returns true if a thread of the process runs on a core or waits for one.
 * Returns false if all are stopped or sleep, or if there is no such process. */
bool vp_process_is_ready(pid_t pid);

/* Writes the path of a program in PATH. Returns false if there is none. */
bool vp_program_find(const char *name, char *out, size_t n_bytes);

#endif
