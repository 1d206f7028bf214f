/* What limits a run: where the time of its ranks goes, and why, from its trace and
 * its plan. Shares are parts of the ranks' time in the window of the trace.
 *
 * Time that ranks do not compute is put down to causes by comparing three times of
 * a step, all with the same work: the schedule with equal stages (the rest of it is
 * what filling and draining the pipeline costs), the schedule with the stages'
 * measured times (what is added is imbalance), and the measured one (what is added
 * is lost beside the schedule: messages, shared cores, swapped values). */
#ifndef VP_REPORT_LIMITS_H
#define VP_REPORT_LIMITS_H

#include "plan/plan.h"
#include "trace/trace.h"

enum { VP_MAX_FINDINGS = 8 };

/* Mean seconds on a rank of the stage. */
struct vp_stage_work {
    double f, r, b, w; /* of a minibatch */
    double update;     /* of an update, with the sum of gradients */
    double swap_wait;  /* of a minibatch, for swapped values */
    int64_t n_mb;      /* forwards in the window, of all its ranks */
    int n_replicas;    /* ranks, of which each takes its share of minibatches */
    int n_blocks;      /* 0: not known */
};

/* What the findings are made from. */
struct vp_limit_facts {
    const struct vp_plan *plan;   /* NULL: not known */
    const struct vp_trace *trace; /* NULL: there is none */
    int64_t memory_limit;         /* bytes of a stage; 0: none */
    const double *stage_bytes;    /* NULL: not known */
    int n_stage_bytes;
    double bubble; /* of the run, measured; NAN: not known */
};

struct vp_finding {
    double share;     /* of the ranks' time that it costs */
    char title[160];  /* a sentence that names the cause */
    char text[640];   /* with numbers */
    char remedy[320]; /* what would change it */
};

struct vp_limits {
    int n_stages;
    struct vp_stage_work stages[VP_MAX_STAGES];
    bool known; /* the shares below are; they add up to 1 */
    double compute, recompute, update, evaluation;
    double fill, imbalance, swap, rest;
    int slowest;          /* stage; -1: none */
    double slowest_ratio; /* its work, over the mean of the others */
    double
        theory; /* bubble of the schedule with equal stages; NAN: not known */
    int enough_mb; /* minibatches for a bubble below 10 %; 0: not known */
    struct vp_finding findings[VP_MAX_FINDINGS]; /* see vp_findings_make() */
    int n_findings;
};

/* Fills all but the findings: see report/findings.h. */
void vp_limits_find(const struct vp_limit_facts *facts, struct vp_limits *out);

/* Seconds of a minibatch on one rank of the stage, divided by its replicas. */
double vp_stage_work_seconds(const struct vp_stage_work *work);

#endif
