/* Random problems for the schedule `auto`, and a check that its answer is valid,
 * within its memory, and runs. */
#ifndef VP_TESTS_LIB_AUTO_PROBLEMS_H
#define VP_TESTS_LIB_AUTO_PROBLEMS_H

#include "base/rng.h"
#include "lib/slow.h"
#include "sched/schedule.h"

#include <stdint.h>

enum { MAX_P = 8, N_PLACES = 3 };

/* ---- Helpers ------------------------------------------------------------ */

uint32_t auto_draw(uint32_t *counter, uint32_t n);

double between(uint32_t *counter, double low, double high);

double makespan(const struct vp_schedule *schedule,
                const struct vp_sched_costs *costs);

bool fits(const struct vp_schedule *schedule,
          const struct vp_sched_limits *limits);

/* Checks that the schedule is valid, fits into memory, and runs. */
void check_auto(const struct vp_schedule *schedule,
                const struct vp_sched_config *config);

/* ---- Random problems ---------------------------------------------------- */

/* One model, cut into P stages, or into 2 P for two chunks per rank. */
struct random_case {
    int n_ranks, n_mb;
    struct vp_stage_costs whole[MAX_P], half[2 * MAX_P];
    bool recompute[2 * MAX_P];
    double limit[MAX_P], sizes[MAX_P];
    struct vp_sched_costs costs[2];
    struct vp_sched_limits limits[2];
};

void random_problem(struct random_case *c, int n_ranks, int n_mb,
                    uint32_t *counter);

/* `place` is 0 for one stage per rank, 1 for two chunks in turn, 2 for two
 * chunks in a V. */
struct vp_sched_config config_of(const struct random_case *c, int place,
                                 const char *name);

/* ---- Comparison with named schedules ------------------------------------ */

/* Adds costs, also some that the search does not model in its own times: shared
 * devices and copies. */
void random_extras(struct random_case *c, int n, uint32_t *counter);

#endif
