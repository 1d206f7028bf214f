/* The data of a run. Ranks of the first stage read it; other processes know
 * only its size and description. */
#ifndef VP_RUN_SAMPLES_H
#define VP_RUN_SAMPLES_H

#include "comm/comm.h"
#include "config/config.h"
#include "data/data.h"
#include "run/missing.h"
#include "run/notice.h"

#include <signal.h>

struct vp_samples_config {
    const struct vp_config *config;
    struct vp_world *world;     /* NULL: one process */
    const struct vp_dims *dims; /* borrowed */
    int n_dims;
    struct vp_missing *missing; /* NULL: missing data is an error */
    bool no_data;               /* use stand-ins even if the data is here */
    bool eval_only;             /* open no training data */
    bool evaluates; /* open evaluation data, if any, even if eval_every is 0 */
    /* From the caller, see struct vp_run_options; NULL: the configuration's
     * data. */
    const struct vp_data_maker *train_maker, *eval_maker;
    bool whole;                        /* see struct vp_data_config */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    vp_notice_fn notice;
    void *ctx;
};

struct vp_samples {
    struct vp_data *train; /* NULL: eval_only */
    struct vp_data *eval;  /* NULL: the run does not evaluate */
    bool agreed;           /* all processes know of the failure to open */
};

/* To be called by all processes of the world. To be closed also after a
 * failure. A process that reads files calls `notice` with the lines of
 * vp_data_notice(). Missing data is replaced by stand-ins with no batches and a
 * loss of NAN. */
enum vp_status vp_samples_open(const struct vp_samples_config *config,
                               struct vp_samples *out, struct vp_err *err);
void vp_samples_close(struct vp_samples *samples);

#endif
