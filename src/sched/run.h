/* Runs all lists together, action by action. The proof (run.c) takes the
 * actions in any order. So does the simulator (run_clock.c), unless ranks share
 * a device or a copy engine: then it takes them in order of time
 * (run_turns.c). */
#ifndef VP_SCHED_RUN_H
#define VP_SCHED_RUN_H

#include "sched/internal.h"

/* Progress of one node. */
struct vp_node_progress {
    int done[VP_ACTION_KIND_COUNT]; /* next own index or round */
    int n_arrived;                  /* rounds whose REDUCE was reached */
    double arrived[2];              /* time of that, per round mod 2 */
    double reduced;                 /* end of the last REDUCE */
    /* Per own index from range.begin: arrival times of the activations and
     * gradients that it sent, ends of its last kind, ends of its copies to and
     * from the host. */
    double *act, *grad, *freed;
    double *out, *in;
};

struct vp_run {
    const struct vp_schedule *schedule;
    const struct vp_nodes *nodes;
    const struct vp_sched_costs *costs; /* NULL: no times */
    struct vp_node_progress *at;        /* per node */
    int *position;                      /* per rank */
    enum vp_action_kind last;           /* vp_schedule_last_kind() */
    struct vp_clock *clock;             /* NULL: no times */
};

/* ---- run.c -------------------------------------------------------------- */

/* Returns the next action of a rank; NULL at the end of its list. */
const struct vp_action *vp_run_next(const struct vp_run *run, int rank);
/* Returns the index of the node of `stage` on `rank`. */
int vp_run_node(const struct vp_run *run, int rank, int stage);
/* Returns the node that an action waits for, or -1 if it may start. In that
 * case raises *since to the earliest start. */
int vp_run_blocker(const struct vp_run *run, const struct vp_action *a,
                   double *since);
/* Notes that a rank has reached its next action `a`: REDUCE waits until all
 * replicas have reached it. */
void vp_run_reach(struct vp_run *run, int rank, const struct vp_action *a);
/* Notes that the next action of a rank has ended. */
void vp_run_advance(struct vp_run *run, int rank);
/* Called if no rank can advance. Returns VP_ERR_INVALID with a line about the
 * ranks that wait for each other. */
enum vp_status vp_run_stuck(const struct vp_run *run, struct vp_err *err);

/* ---- run_clock.c -------------------------------------------------------- */

enum { VP_COPY_OUT, VP_COPY_IN };

struct vp_clock {
    double *ready;   /* per rank: end of its last action */
    double *link;    /* (from, to); one port: (device, 0): end of use */
    double *copy[2]; /* per device: end of use of its copy engines */
    double *times;   /* memory of act, grad, freed, out, in of all nodes */
    struct vp_span *spans;
};

/* Allocates `clock`, whose spans are set, and makes it that of the run. Release
 * also after a failure. */
enum vp_status vp_clock_init(struct vp_run *run, struct vp_clock *clock);
void vp_clock_release(struct vp_clock *clock);
/* Returns the device of a rank. */
int vp_clock_device(const struct vp_run *run, int rank);
/* Returns the duration of an action that runs alone. */
double vp_clock_duration(const struct vp_run *run, const struct vp_action *a);
/* Returns the share by which an action takes longer while all ranks of its
 * device compute: 1 is twice the time. */
double vp_clock_slowdown(const struct vp_run *run, const struct vp_action *a);
/* Sends a message at span->start. Returns the time at which it has left the
 * link. Sets `span` to the time for which the sender is busy with it. */
double vp_clock_send(struct vp_run *run, int rank, const struct vp_action *a,
                     struct vp_span *span);
/* Begins the copy of a SWAP_OUT or SWAP_IN at `time`. */
void vp_clock_swap(struct vp_run *run, int rank, const struct vp_action *a,
                   double time);
/* Returns the end of the copy that a SWAP_FREE or SWAP_READY waits for. */
double vp_clock_swapped(const struct vp_run *run, const struct vp_action *a);
/* Returns the place of the arrival time of the message that `a` sends. */
double *vp_clock_arrival(struct vp_run *run, int rank,
                         const struct vp_action *a);
/* Notes the span of a rank's next action, before vp_run_advance(). */
void vp_clock_note(struct vp_run *run, int rank, const struct vp_action *a,
                   struct vp_span span);
/* Computes and notes the span of a rank's next action, which may start from
 * `since` on. */
void vp_clock_take(struct vp_run *run, int rank, const struct vp_action *a,
                   double since);

/* ---- run_turns.c -------------------------------------------------------- */

/* Returns true if ranks share a device or a copy engine, so that the order of
 * time matters. */
bool vp_turns_needed(const struct vp_run *run);
enum vp_status vp_turns_run(struct vp_run *run, struct vp_err *err);

#endif
