/* Options of a run beside its configuration. */
#ifndef VP_RUN_RUN_OPTIONS_H
#define VP_RUN_RUN_OPTIONS_H

#include "comm/comm.h"
#include "data/data_config.h"
#include "job/heartbeat.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_run_options {
    /* Run folder. NULL: <log_directory>/<time>, or the folder of `resume`,
     * which may also be named here. */
    const char *output;
    const char *resume; /* a run folder, or a checkpoint; NULL: a new run */
    int64_t max_steps;  /* stop after this many steps; 0: no limit */
    bool dry_run;       /* validate and report; write nothing */
    /* Dry run only: plan for another machine. Resources that this one lacks are
     * named in the summary, and are no errors; memory_limit still applies. */
    bool elsewhere;
    bool no_data; /* with `elsewhere`: open no data, as memory is the same */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    /* Several processes, which all run the same configuration; NULL: one. Not
     * used in a dry run. */
    struct vp_world *world;
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
    /* Plan that auto_plan chose and the reason, for the user and the log; NULL:
     * the configuration's own plan. */
    const char *plan_line;
    /* The caller drives the run (run/session.h): without `output` nothing is
     * written, and evaluations are possible even if eval_every is 0. */
    bool driven;
    /* Batches from callbacks of the caller, in place of the configuration's
     * data. `eval_maker` NULL: no evaluation. Both NULL: the configuration's
     * data. Borrowed. */
    const struct vp_data_maker *train_maker, *eval_maker;
    char *const *argv; /* arguments after "vpipe", for command_history.log */
    int argc;          /* 0: none */
};

#endif
