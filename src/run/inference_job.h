/* A group of processes that run a trained model together, with one rank each.
 * Stage s is on rank s. Rank 0 is the lead: only it has the data or the texts,
 * and it receives the logits. */
#ifndef VP_RUN_INFERENCE_JOB_H
#define VP_RUN_INFERENCE_JOB_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"
#include "run/model_source.h"

#include <signal.h>

struct vp_inference_job {
    struct vp_world *world;            /* NULL: one process */
    struct vp_heartbeat *heartbeat;    /* NULL: no supervisor */
    const volatile sig_atomic_t *stop; /* set by a signal; NULL: never */
    bool told;   /* the lead has sent its request to the others */
    bool agreed; /* all processes know of the failure */
};

/* Returns true if this process is the lead, or the only one. `job` may be
 * NULL. */
bool vp_inference_job_is_lead(const struct vp_inference_job *job);

/* Refuses keys that a trained model cannot be run with: replicas and, with
 * several processes, a first stage that is not on rank 0. */
enum vp_status vp_inference_check(const struct vp_config *config,
                                  struct vp_err *err);

/* To be called by all processes before anything else: checks that they have the
 * same plan and the same checkpoint. */
enum vp_status vp_inference_agree(const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  struct vp_inference_job *job,
                                  struct vp_err *err);
/* To be called after a failure in this process, with its status and message:
 * reports it to the other processes, unless they know of it already. */
void vp_inference_give_up(struct vp_inference_job *job, enum vp_status status,
                          struct vp_err *err);

#endif
