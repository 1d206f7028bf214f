/* Joins the processes of a job and reports to its supervisor. */
#include "job/member.h"

#include "base/limit.h"
#include "config/hosts.h"
#include "job/supervisor.h"

#include <stdlib.h>
#include <time.h>

enum { END_MS = 5000 }; /* limit for the supervisor to end a failed process */

static enum vp_status start_heartbeat(const struct vp_member_config *config,
                                      const char *address,
                                      struct vp_member *member,
                                      struct vp_err *err)
{
    struct vp_heartbeat_config heartbeat = {
        .address = address,
        .rank = config->self.index,
        .n_ranks = config->self.n,
        .host = vp_host_of(config->config, config->self.index),
        .watchdog_seconds = config->config->watchdog_seconds,
        .stop = config->stop,
        .on_stop = config->on_stop,
        .on_end = config->on_end,
    };

    return vp_heartbeat_start(&heartbeat, &member->heartbeat, err);
}

/* The supervisor's address is in the environment if vpipe started the ranks.
 * Otherwise the first process starts a supervisor and sends its address to the
 * others. */
enum vp_status vp_member_join(const struct vp_member_config *config,
                              struct vp_member *out, struct vp_err *err)
{
    const char *given = getenv(VP_SUPERVISOR_VARIABLE);
    char address[512] = "";
    enum vp_status st;

    *out = (struct vp_member){ .world = NULL };
    vp_job_phase_set(VP_JOB_PHASE_JOIN, NULL);
    if (given)
        VP_TRY(start_heartbeat(config, given, out, err));
    if (config->self.n == 1)
        return VP_OK;
    if (!given && config->self.index == 0)
        VP_TRY(config->start_supervisor(config->config, address,
                                        sizeof(address), err));
    VP_TRY(vp_processes_join(&config->self, config->config, &out->world, err));
    if (given)
        return VP_OK;
    st = vp_world_share(out->world, address, sizeof(address), VP_LIMIT_NEVER);
    if (st != VP_OK)
        return vp_err_set(err, st,
                          "the first process did not send the address of the "
                          "supervisor; see the messages of that process");
    return start_heartbeat(config, address, out, err);
}

bool vp_member_is_one(const struct vp_processes *self)
{
    return self->n > 1 || getenv(VP_SUPERVISOR_VARIABLE);
}

bool vp_member_report(struct vp_member *member, enum vp_status status,
                      const struct vp_err *err)
{
    if (!member->heartbeat)
        return false;
    if (status == VP_OK)
        return vp_heartbeat_report_end(member->heartbeat, VP_WORD_DONE, VP_OK,
                                       NULL);
    if (status == VP_ERR_INTERRUPTED)
        return vp_heartbeat_report_end(member->heartbeat, VP_WORD_INTERRUPTED,
                                       VP_OK, NULL);
    member->failed = true;
    /* An error without a text is that of another process. */
    return vp_heartbeat_report_end(member->heartbeat, VP_WORD_FAILED,
                                   err->text[0] ? status : VP_ERR_ABORTED,
                                   err->text);
}

/* mpirun kills the job when a failed process exits, and output of other
 * processes may be lost then. So a failed process waits until the supervisor
 * has printed its report and ends the process. */
void vp_member_leave(struct vp_member *member)
{
    const struct timespec pause = { .tv_nsec = 50000000 };
    struct vp_limit limit = vp_limit_ms(END_MS);

    while (member->failed && !vp_limit_is_over(&limit))
        nanosleep(&pause, NULL);
    vp_world_free(member->world);
    vp_heartbeat_free(member->heartbeat);
    *member = (struct vp_member){ .world = NULL };
}
