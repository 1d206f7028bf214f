/* Finds the shortest schedule of a small problem by trying all of them: branch
 * and bound over the next actions of ranks. Written independently of the search
 * of `auto`, so that the two can be compared. */
#ifndef VP_TESTS_LIB_EXHAUSTIVE_H
#define VP_TESTS_LIB_EXHAUSTIVE_H

#include "sched/schedule.h"

#include <stdint.h>

enum { EX_RANKS = 3, EX_STAGES = 6, EX_MB = 4 };

/* Costs as in struct vp_stage_costs. Stage s is on rank[s]. */
struct ex_problem {
    int n_ranks, n_stages, n_mb;
    int rank[EX_STAGES];
    bool recompute[EX_STAGES];
    struct vp_stage_costs cost[EX_STAGES];
    double latency;
    double limit[EX_RANKS]; /* slots in use, all of one size */
};

/* Returns the makespan of the shortest schedule, at most `known`; -1 if the
 * search takes more than `most_nodes` nodes. */
double ex_shortest(const struct ex_problem *p, double known,
                   int64_t most_nodes);

#endif
