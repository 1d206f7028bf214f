/* The data of a run: read by the ranks of the first stage, known to all. */
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
    struct vp_missing *missing; /* NULL: data that is not here is refused */
    bool no_data;               /* stand-ins, also for data that is here */
    bool eval_only;             /* nothing is trained on */
    bool evaluates; /* whatever eval_every is, if data is held out */
    /* The caller's, see struct vp_run_options; NULL: the configuration's data. */
    const struct vp_data_maker *train_maker, *eval_maker;
    bool whole;                        /* see struct vp_data_config */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    vp_notice_fn notice;
    void *ctx;
};

struct vp_samples {
    struct vp_data *train; /* NULL: eval_only */
    struct vp_data *eval;  /* NULL: the run does not evaluate */
    bool agreed;           /* all processes know that opening failed */
};

/* All processes of the world come here. To be closed after a failure, too. A
 * process that reads files calls `notice` with the lines of vp_data_notice().
 * In place of data that is lacking there are stand-ins: no batches, and a loss
 * of NAN. */
enum vp_status vp_samples_open(const struct vp_samples_config *config,
                               struct vp_samples *out, struct vp_err *err);
void vp_samples_close(struct vp_samples *samples);

#endif
