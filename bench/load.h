/* Costs of actions at two loads of the machine: one rank at work, and all
 * ranks. */
#ifndef VP_BENCH_LOAD_H
#define VP_BENCH_LOAD_H

#include "lab.h"

struct load_costs {
    struct vp_stage_costs alone[VP_MAX_STAGES]; /* one rank computes */
    struct vp_stage_costs busy[VP_MAX_STAGES];  /* all ranks compute */
    double latency; /* from the end of an action to the start of its reader on
                       another rank */
    /* Mean number of ranks that computed during an action, in the two runs that
     * the costs are from. */
    double load[2];
};

/* Measures two runs of `spec`: steps of one minibatch, where one rank computes
 * at a time; and whole steps, where the number of computing ranks varies. The
 * cost of an action is a line over the number of computing ranks, fitted to all
 * of its times. B includes W unless the schedule splits them. */
void load_measure(const struct lab_spec *spec, struct load_costs *out);

/* Returns the simulated seconds of a schedule with these costs. */
double load_simulate(const struct vp_schedule *schedule,
                     const struct load_costs *costs);

#endif
