/* Declarations shared by the files of the schedule `auto`.
 *
 * A plan gives every rank a word: the order of its actions. A letter is an
 * action (F, R, B or W) of a stage without its minibatch, because the actions
 * of a kind come in minibatch order: the i-th F of a stage is that of minibatch
 * i. A word is legal if every minibatch has its F, R (if the stage recomputes),
 * B and W in this order, if each R follows the B before, and if the slots that
 * it needs fit into the rank's memory. All plans of a problem have the same
 * letters in another order.
 *
 * Times of a plan are those of the simulator without shared devices and copy
 * engines, and with rings that never run out of buffers. */
#ifndef VP_SCHED_AUTO_H
#define VP_SCHED_AUTO_H

#include "sched/internal.h"

enum { VP_AUTO_F, VP_AUTO_R, VP_AUTO_B, VP_AUTO_W, VP_AUTO_KINDS };

/* letter = VP_AUTO_KINDS * stage + kind */
typedef uint16_t vp_letter;

static inline int vp_letter_stage(vp_letter letter)
{
    return letter / VP_AUTO_KINDS;
}

static inline int vp_letter_kind(vp_letter letter)
{
    return letter % VP_AUTO_KINDS;
}

/* ---- The problem (auto_problem.c) --------------------------------------- */

struct vp_auto_stage {
    int rank;
    bool recompute;
    double cost[VP_AUTO_KINDS];
    double weight; /* memory of a slot */
    /* Its messages: index of their link (-1: they stay on the rank), time on
     * the link, and delay until they arrive after that. */
    int act_link, grad_link;
    double act, grad;
    double act_delay, grad_delay;
    double f_head, b_head; /* earliest start of F and B of minibatch 0 */
};

struct vp_auto_problem {
    const struct vp_schedule *schedule; /* placement; lists are not read */
    const struct vp_sched_costs *costs;
    const double *limit; /* per rank; NULL: none */
    bool in_use;         /* see struct vp_sched_limits */
    const int *swap;     /* see struct vp_sched_config */
    bool fused;          /* W is part of B: it takes no time of its own, and a
                            slot is free after B */
    int n_ranks, n_stages, n_mb;
    struct vp_auto_stage *stages;
    int n_letters; /* length of all words together */
    int *first;    /* per rank: begin of its word; [n_ranks] is n_letters */
    double *tail;  /* per rank: reduction and update after the last letter */
    double after;  /* with a global norm: the longest update, which begins when
                      all ranks have reduced */
    bool send_blocks;
    double period; /* work of the busiest rank for one minibatch */
    double bound;  /* lower bound of the makespan */
};

/* config->costs must not be NULL. Fails with VP_ERR_INVALID if one minibatch
 * does not fit into the memory of a rank. Borrows `schedule` and the arrays of
 * `config`. Release also after a failure. */
enum vp_status vp_auto_problem_init(struct vp_auto_problem *problem,
                                    const struct vp_sched_config *config,
                                    const struct vp_schedule *schedule,
                                    struct vp_err *err);
void vp_auto_problem_release(struct vp_auto_problem *problem);

/* Returns the kind after which a minibatch gives its slot back. */
static inline int vp_auto_last_kind(const struct vp_auto_problem *problem)
{
    return problem->fused ? VP_AUTO_B : VP_AUTO_W;
}

/* Returns true if n_slots[stage] slots per stage fit into the rank's memory. */
bool vp_auto_fits(const struct vp_auto_problem *problem, int rank,
                  const int *n_slots);
/* Returns true if a rank's word is legal. `scratch`: VP_AUTO_SCRATCH ints per
 * stage. */
enum { VP_AUTO_SCRATCH = VP_AUTO_KINDS + 1 };
bool vp_auto_is_legal(const struct vp_auto_problem *problem,
                      const vp_letter *letters, int rank, int *scratch);

/* ---- Times (auto_time.c) ------------------------------------------------ */

/* By position in the words, unless said otherwise. */
struct vp_auto_times {
    double *start, *end;
    int *mb;
    int *where; /* letter * n_mb + minibatch: position */
    double makespan;
    double score; /* makespan, and a little of all ranks' ends */
    /* Scratch. */
    double *arrival; /* activations, then gradients: stage * n_mb + mb */
    double *link;
    double *clock; /* per rank */
    int *next;     /* per rank: position */
    int *count;    /* per letter */
    int *blocked;  /* per rank: the arrival that it waits for, or -1 */
    int *stack;
};

enum vp_status vp_auto_times_init(struct vp_auto_times *times,
                                  const struct vp_auto_problem *problem);
void vp_auto_times_release(struct vp_auto_times *times);

/* Sets the times of a plan: each action starts as early as the words allow.
 * Returns false if the plan deadlocks. */
bool vp_auto_time(const struct vp_auto_problem *problem,
                  const vp_letter *letters, struct vp_auto_times *times);

/* ---- List scheduling (auto_greedy.c) ------------------------------------ */

/* An idle rank takes the action with the earliest due time among those that may
 * start. It stays idle instead if an action with an earlier due time will
 * become possible soon: within `patience` times the length of the action that
 * it could take now. */
struct vp_auto_rule {
    const double *due; /* letter * n_mb + minibatch */
    const int *slots;  /* per stage: minibatches that it may keep; NULL: limited
                          by the rank's memory only */
    double patience;
};

struct vp_auto_board; /* scratch */

enum vp_status vp_auto_board_create(const struct vp_auto_problem *problem,
                                    struct vp_auto_board **out);
void vp_auto_board_free(struct vp_auto_board *board);

/* Writes the words of all ranks by `rule`. */
void vp_auto_write(const struct vp_auto_problem *problem,
                   struct vp_auto_board *board, const struct vp_auto_rule *rule,
                   vp_letter *letters_out);

/* ---- Search (auto_search.c) --------------------------------------------- */

/* The shortest plan so far. */
struct vp_auto_best {
    vp_letter *letters;
    double makespan, score;
    bool found;
};

/* Copies `letters`, whose times are in `times`, to `best` if they are
 * shorter. */
void vp_auto_keep(const struct vp_auto_problem *problem,
                  const vp_letter *letters, const struct vp_auto_times *times,
                  struct vp_auto_best *best);

/* Improves `best`, which may hold a plan to begin with. The same problem gives
 * the same plan on every machine that computes doubles alike. */
enum vp_status vp_auto_search(const struct vp_auto_problem *problem,
                              struct vp_auto_best *best);

#endif
