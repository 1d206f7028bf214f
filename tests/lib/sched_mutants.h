/* Schedules with one thing wrong: copies whose order, fields and sizes change
 * at random, by counter. */
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

/* Order: swap, move, delete, duplicate, to another rank. */
void mutate_order(struct mutant *m, uint32_t *counter);

/* One field of one action. */
void mutate_field(struct mutant *m, uint32_t *counter);

/* One size of one stage; never below one. */
void mutate_size(struct mutant *m, uint32_t *counter);

#endif
