/* A process that this one starts: by an argument vector, never by a shell. */
#ifndef VP_JOB_PROCESS_H
#define VP_JOB_PROCESS_H

#include "base/status.h"

#include <stdbool.h>
#include <sys/types.h>

struct vp_process {
    pid_t pid; /* also of its group; 0: there is none */
    bool ended;
    int status; /* of waitpid(), once it has ended */
};

/* Starts argv[0], looked for in PATH, in a group of its own. `argv` ends with
 * NULL. Its standard output and error are the descriptors `output_fd` and
 * `error_fd`; -1: those of this process. */
enum vp_status vp_process_start(char *const *argv, int output_fd, int error_fd,
                                struct vp_process *out, struct vp_err *err);
/* Runs argv[0] likewise, for at most `timeout_ms`, and keeps the start of what
 * it writes to its standard output as a text. Its status is not looked at. */
enum vp_status vp_process_output(char *const *argv, int timeout_ms, char *out,
                                 size_t n_bytes, struct vp_err *err);
/* Whether it has ended; never waits. */
bool vp_process_has_ended(struct vp_process *process);
/* Waits so long for its end; whether it came. */
bool vp_process_wait(struct vp_process *process, int timeout_ms);
/* Asks its group to end, waits so long, then makes it. */
void vp_process_end(struct vp_process *process, int timeout_ms);

/* From now on, what processes that this one started leave behind is this one's
 * to end... */
void vp_process_adopt(void);
/* ... and is ended, with all other children, for as long as that. */
void vp_process_end_orphans(int timeout_ms);

/* Whether a thread of the process is ready to run: on a core, or waiting for
 * one. False if it is stopped, sleeps, or is not there. */
bool vp_process_is_ready(pid_t pid);

/* The path of a program in PATH; false if there is none. */
bool vp_program_find(const char *name, char *out, size_t n_bytes);

#endif
