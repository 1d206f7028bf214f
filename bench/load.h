/* What actions cost at two loads of the machine: one rank at work, and all. */
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

/* Two runs of `spec`: steps of one minibatch, where one rank computes at a time
 * and the others wait; and steps of many, of which only the part counts in
 * which all ranks are at work. Costs are linear in the number of ranks that
 * compute; those of one rank and of all ranks follow from the two. B contains W
 * unless the schedule splits them. */
void load_measure(const struct lab_spec *spec, struct load_costs *out);

/* The time of a schedule under these costs. */
double load_simulate(const struct vp_schedule *schedule,
                     const struct load_costs *costs);

#endif
