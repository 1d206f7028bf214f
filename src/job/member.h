/* A member: one of the processes of a job, with its connections to the other
 * processes and to the supervisor. */
#ifndef VP_JOB_MEMBER_H
#define VP_JOB_MEMBER_H

#include "job/heartbeat.h"
#include "job/processes.h"

struct vp_member_config {
    const struct vp_config *config;
    struct vp_processes self;
    /* See vp_heartbeat_config. */
    const volatile sig_atomic_t *stop;
    void (*on_stop)(void *ctx);
    void (*on_end)(void *ctx, const char *why);
    /* Called in the first process if the job has no supervisor yet: starts one
     * and writes its address. */
    enum vp_status (*start_supervisor)(const struct vp_config *config,
                                       char *address, size_t n_bytes,
                                       struct vp_err *err);
};

struct vp_member {
    struct vp_world *world;         /* NULL: this process is alone */
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
    bool failed; /* reported to the supervisor, which ends all ranks */
};

/* True if this process was started as a part of a job, which may have no other
 * process. */
bool vp_member_is_one(const struct vp_processes *self);
/* Connects to the supervisor and to the other processes. In a process that is
 * alone, `out` is all zero. After a failure `out` may hold connections: call
 * vp_member_leave(). */
enum vp_status vp_member_join(const struct vp_member_config *config,
                              struct vp_member *out, struct vp_err *err);
/* Reports to the supervisor how this process ended. After an error the
 * supervisor may end the process. Returns true if the supervisor has
 * acknowledged the report: it prints the error. Returns false if there is no
 * supervisor, or no receipt within five seconds: the caller prints the
 * error. */
bool vp_member_report(struct vp_member *member, enum vp_status status,
                      const struct vp_err *err);
/* Closes the connections. After a reported failure, waits first for the
 * supervisor to end this process, up to five seconds. */
void vp_member_leave(struct vp_member *member);

#endif
