/* A member: one of the processes of a job, with its links to the others and to
 * the supervisor. */
#ifndef VP_JOB_MEMBER_H
#define VP_JOB_MEMBER_H

#include "job/heartbeat.h"
#include "job/processes.h"

struct vp_member_config {
    const struct vp_config *config;
    struct vp_processes self;
    const volatile sig_atomic_t *stop;
    /* As those of vp_heartbeat_config. */
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
    bool failed; /* the supervisor reports it, and ends all ranks */
};

/* True if this process was started as a part of a job, which may have no other
 * process. */
bool vp_member_is_one(const struct vp_processes *self);
/* Joins the others. In a process that is alone, `out` is all zero. */
enum vp_status vp_member_join(const struct vp_member_config *config,
                              struct vp_member *out, struct vp_err *err);
/* Reports to the supervisor how this process ended; after an error the
 * supervisor may end the process. True if there is a supervisor: it prints the
 * error. */
bool vp_member_report(struct vp_member *member, enum vp_status status,
                      const struct vp_err *err);
void vp_member_leave(struct vp_member *member);

#endif
