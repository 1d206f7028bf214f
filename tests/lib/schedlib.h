/* Makes, validates, simulates and prints schedules in tests. */
#ifndef VP_TESTS_LIB_SCHEDLIB_H
#define VP_TESTS_LIB_SCHEDLIB_H

#include "base/rng.h"
#include "sched/schedule.h"

#include <stdint.h>

extern const struct vp_stage_costs unit_costs;

uint32_t random_below(uint32_t *counter, int n);

struct vp_schedule make(const struct vp_sched_config *config);

void assert_valid(const struct vp_schedule *schedule);

/* Simulates with equal costs for every stage. */
struct vp_timing simulate(const struct vp_schedule *schedule,
                          struct vp_stage_costs cost);

char *print(const struct vp_schedule *schedule, int flags);

/* Returns the number of slots of a rank, over its stages. */
int slots_of(const struct vp_schedule *schedule, int rank);

/* Writes F, B and W of all ranks as letters, in lower case for the second stage
 * of a rank: "FFBWBW FBFBWW". */
void write_letters(const struct vp_schedule *schedule, char *out);

#endif
