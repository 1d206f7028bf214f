/* Schedules with one random error: copies in which the order, a field or a size
 * is changed. */
#ifndef VP_TESTS_LIB_SCHED_MUTANTS_H
#define VP_TESTS_LIB_SCHED_MUTANTS_H

#include "lib/schedlib.h"

#include <stdint.h>

/* A schedule whose lists can be changed. */
struct mutant {
    struct vp_schedule schedule;
    int capacity;
};

struct mutant mutant_copy(const struct vp_schedule *from);

void mutant_release(struct mutant *m);

/* Swaps neighbours, moves, deletes or duplicates an action, or gives it to
 * another rank. */
void mutate_order(struct mutant *m, uint32_t *counter);

/* Changes one field of one action. */
void mutate_field(struct mutant *m, uint32_t *counter);

/* Changes one size of one stage, which stays at least one, or a flag. */
void mutate_size(struct mutant *m, uint32_t *counter);

#endif
