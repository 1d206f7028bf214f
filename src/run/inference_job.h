/* Processes that run a trained model together, one rank in each. Stage s is on rank
 * s, and rank 0 leads: it alone has the data or the texts and takes the logits. */
#ifndef VP_RUN_INFERENCE_JOB_H
#define VP_RUN_INFERENCE_JOB_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"
#include "run/model_source.h"

#include <signal.h>

struct vp_inference_job {
    struct vp_world *world;            /* NULL: there is one process */
    struct vp_heartbeat *heartbeat;    /* NULL: no supervisor */
    const volatile sig_atomic_t *stop; /* set by a signal; NULL: never */
    bool told;   /* the lead has told the others what it opens */
    bool agreed; /* all processes know of the failure */
};

/* Returns true if this process leads, or is alone. `job` may be NULL. */
bool vp_inference_job_is_lead(const struct vp_inference_job *job);

/* Refuses what a trained model cannot be run with: replicas, and of processes
 * another order of ranks than that of stages. */
enum vp_status vp_inference_check(const struct vp_config *config,
                                  struct vp_err *err);

/* All processes come here before anything else: they must have the same plan and
 * the same checkpoint. */
enum vp_status vp_inference_agree(const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  struct vp_inference_job *job,
                                  struct vp_err *err);
/* Called in each process after a failure, with its status and message: lets the
 * other processes know of it, if they do not yet. */
void vp_inference_give_up(struct vp_inference_job *job, enum vp_status status,
                          struct vp_err *err);

#endif
