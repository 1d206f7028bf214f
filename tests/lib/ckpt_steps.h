/* Three saved steps, and the newest one that opens, for tests of checkpoints. */
#ifndef VP_TESTS_LIB_CKPT_STEPS_H
#define VP_TESTS_LIB_CKPT_STEPS_H

#include "lib/ckptlib.h"

#include <stdint.h>

/* Opens the newest and checks it; returns its step. */
int64_t newest_turn(struct notes *notes);

/* Steps 10, 20, 30 of turns 1, 2, 3. */
void save_three(void);

const char *in_store(const char *name);

#endif
