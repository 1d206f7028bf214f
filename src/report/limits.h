/* Finds what limits a run: attributes the time of its ranks to causes, from its
 * trace and its plan. Shares are fractions of the ranks' time in the window of
 * the trace.
 *
 * Idle time is attributed by comparing three durations of a step with the same
 * work:
 *   the schedule with equal stages     minus the work: filling and draining
 *   the schedule with measured stages  what it adds: imbalance
 *   the measured step                  what it adds: messages, shared cores,
 *                                      waits for swapped values */
#ifndef VP_REPORT_LIMITS_H
#define VP_REPORT_LIMITS_H

#include "plan/plan.h"
#include "trace/trace.h"

enum { VP_MAX_FINDINGS = 8 };

/* Mean seconds on a rank of the stage. */
struct vp_stage_work {
    double f, r, b, w; /* actions of a minibatch */
    double update;     /* an update, with the all-reduce of gradients */
    double swap_wait;  /* waits of a minibatch for swapped activations */
    int64_t n_mb;      /* forwards in the window, on all its ranks */
    int n_replicas;    /* ranks that share its minibatches */
    int n_blocks;      /* 0: unknown */
};

/* The inputs of vp_limits_find() and vp_findings_make(). */
struct vp_limit_facts {
    const struct vp_plan *plan;   /* NULL: unknown */
    const struct vp_trace *trace; /* NULL: none */
    int64_t memory_limit;         /* bytes per stage; 0: none */
    const double *stage_bytes;    /* memory of stages; NULL: unknown */
    int n_stage_bytes;
    double bubble; /* measured bubble of the run; NAN: unknown */
};

struct vp_finding {
    double share;     /* share of the ranks' time that it costs */
    char title[160];  /* a sentence that names the cause */
    char text[640];   /* the numbers behind it */
    char remedy[320]; /* recommended change; "": none */
};

struct vp_limits {
    int n_stages;
    struct vp_stage_work stages[VP_MAX_STAGES];
    bool known; /* the shares below are valid; they add up to 1 */
    double compute, recompute, update, evaluation;
    double fill, imbalance, swap, rest;
    int slowest;          /* stage; -1: none */
    double slowest_ratio; /* its work divided by the mean of the others */
    double theory; /* bubble of the schedule with equal stages; NAN: unknown */
    int enough_mb; /* minibatches for a bubble of 10 %; 0: unknown */
    struct vp_finding findings[VP_MAX_FINDINGS]; /* see vp_findings_make() */
    int n_findings;
};

/* Sets all fields but the findings, which report/findings.h sets. */
void vp_limits_find(const struct vp_limit_facts *facts, struct vp_limits *out);

/* Returns the seconds of a minibatch on one rank of the stage, divided by its
 * replicas. */
double vp_stage_work_seconds(const struct vp_stage_work *work);

#endif
