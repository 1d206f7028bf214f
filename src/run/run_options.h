/* How a run is started, beside its configuration. */
#ifndef VP_RUN_RUN_OPTIONS_H
#define VP_RUN_RUN_OPTIONS_H

#include "comm/comm.h"
#include "data/data_config.h"
#include "job/heartbeat.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_run_options {
    const char *output; /* run folder; NULL: <log_directory>/<time>, or that of
                           `resume`, which may also be named here */
    const char *resume; /* a run folder, or a checkpoint; NULL: start anew */
    int64_t max_steps;  /* stop after this many steps; 0: no limit */
    bool dry_run;       /* validate and report; touch nothing */
    /* Of a dry run: plan for a machine that is not here. What this one lacks is
     * named in the summary, and not an error; memory_limit still is. */
    bool elsewhere;
    bool no_data; /* and open no data: memory does not depend on it */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    /* Of several processes, which all run the same; NULL: this one alone. Not
     * used on a dry run. */
    struct vp_world *world;
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
    /* Which plan auto_plan chose and why, for the user and the log; NULL: the
     * plan is the configuration's own. */
    const char *plan_line;
    /* Of a run that its caller drives (run/session.h): without `output` nothing is
     * written, and evaluations may be asked for whatever eval_every is. */
    bool driven;
    /* Batches of the caller's, in place of the configuration's data. `eval_maker`
     * may be NULL: no evaluation. Both NULL: the configuration's. Borrowed. */
    const struct vp_data_maker *train_maker, *eval_maker;
    char *const *argv; /* after "vpipe", for command_history.log */
    int argc;          /* 0: none */
};

#endif
