/* All lists together, action by action. The proof (run.c) takes the actions in
 * any order; so does the simulator (run_clock.c) unless ranks share something,
 * and then in order of time (run_turns.c). */
#ifndef VP_SCHED_RUN_H
#define VP_SCHED_RUN_H

#include "sched/internal.h"

/* What happened at one node. */
struct vp_node_progress {
    int done[VP_ACTION_KIND_COUNT]; /* next own index or round */
    int n_arrived;                  /* rounds whose REDUCE was reached */
    double arrived[2];              /* when, per round mod 2 */
    double reduced;                 /* end of the last REDUCE */
    double *act, *grad, *freed;     /* per own index from range.begin: arrival
                                       of what was sent, end of last_kind */
    double *out, *in;               /* likewise: ends of swapping */
};

struct vp_run {
    const struct vp_schedule *schedule;
    const struct vp_nodes *nodes;
    const struct vp_sched_costs *costs; /* NULL: no times */
    struct vp_node_progress *at;        /* per node */
    int *position;                      /* per rank */
    enum vp_action_kind last;
    struct vp_clock *clock; /* NULL: no times */
};

/* ---- run.c -------------------------------------------------------------- */

/* NULL at the end of the list. */
const struct vp_action *vp_run_next(const struct vp_run *run, int rank);
int vp_run_node(const struct vp_run *run, int rank, int stage);
/* The node that keeps an action from starting, or -1; then `since` is the time
 * from which it may. */
int vp_run_blocker(const struct vp_run *run, const struct vp_action *a,
                   double *since);
/* A rank has come to its next action; REDUCE of the replicas waits for that. */
void vp_run_reach(struct vp_run *run, int rank, const struct vp_action *a);
/* The next action of a rank is over. */
void vp_run_advance(struct vp_run *run, int rank);
/* VP_ERR_INVALID with a line about the circle of ranks that wait. */
enum vp_status vp_run_stuck(const struct vp_run *run, struct vp_err *err);

/* ---- run_clock.c -------------------------------------------------------- */

enum { VP_COPY_OUT, VP_COPY_IN };

struct vp_clock {
    double *ready;   /* per rank: end of its last action */
    double *link;    /* (from, to); one port: (device, 0): end of use */
    double *copy[2]; /* per device: end of use of its copy engines */
    double *times;   /* of all nodes' act, grad, freed, out, in */
    struct vp_span *spans;
};

/* Makes `clock`, whose spans are set, the run's. */
enum vp_status vp_clock_init(struct vp_run *run, struct vp_clock *clock);
void vp_clock_release(struct vp_clock *clock);
int vp_clock_device(const struct vp_run *run, int rank);
/* Of an action that runs alone. */
double vp_clock_duration(const struct vp_run *run, const struct vp_action *a);
/* How much longer it takes while all ranks of its device compute: 0 is no
 * longer, 1 is twice as long. */
double vp_clock_slowdown(const struct vp_run *run, const struct vp_action *a);
/* Puts a message on its way at span->start. Returns the time when it has left
 * the link; `span` is how long the sender is busy with it. */
double vp_clock_send(struct vp_run *run, int rank, const struct vp_action *a,
                     struct vp_span *span);
/* Begins the copy of a SWAP_OUT or SWAP_IN at `time`. */
void vp_clock_swap(struct vp_run *run, int rank, const struct vp_action *a,
                   double time);
/* When the copy is made that a SWAP_FREE or SWAP_READY waits for. */
double vp_clock_swapped(const struct vp_run *run, const struct vp_action *a);
/* Where the arrival of what `a` sends is kept. */
double *vp_clock_arrival(struct vp_run *run, int rank,
                         const struct vp_action *a);
/* Notes the span of a rank's next action, before vp_run_advance(). */
void vp_clock_note(struct vp_run *run, int rank, const struct vp_action *a,
                   struct vp_span span);
/* The whole of a rank's next action, which may start from `since` on. */
void vp_clock_take(struct vp_run *run, int rank, const struct vp_action *a,
                   double since);

/* ---- run_turns.c -------------------------------------------------------- */

/* Whether ranks share something, so that the order of time matters. */
bool vp_turns_needed(const struct vp_run *run);
enum vp_status vp_turns_run(struct vp_run *run, struct vp_err *err);

#endif
