/* One of the processes of a job: its links to the others and to whoever looks
 * after all of them. */
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
    /* Called in the first process if nobody looks after the job yet: starts
     * somebody, and says where. */
    enum vp_status (*hire)(const struct vp_config *config, char *address,
                           size_t n_bytes, struct vp_err *err);
};

struct vp_member {
    struct vp_world *world;         /* NULL: this process is alone */
    struct vp_heartbeat *heartbeat; /* NULL: nobody looks after it */
    bool failed; /* the supervisor reports, and tells all to end */
};

/* Was this process started as a part of a job? Perhaps its only one. */
bool vp_member_is_one(const struct vp_processes *self);
/* Joins the others. Empty, and fine, in a process that is alone. */
enum vp_status vp_member_join(const struct vp_member_config *config,
                              struct vp_member *out, struct vp_err *err);
/* Says how it ended, and leaves; after an error this may be the end of the
 * process. True if somebody heard it, and will speak of it. */
bool vp_member_say(struct vp_member *member, enum vp_status status,
                   const struct vp_err *err);
void vp_member_leave(struct vp_member *member);

#endif
