/* Three saved steps, and the newest that can be opened, for tests of
 * checkpoints. */
#ifndef VP_TESTS_LIB_CKPT_STEPS_H
#define VP_TESTS_LIB_CKPT_STEPS_H

#include "lib/ckptlib.h"

#include <stdint.h>

/* Opens and checks the newest checkpoint. Returns its step. */
int64_t newest_turn(struct notes *notes);

/* Saves steps 10, 20 and 30 with the states of turns 1, 2 and 3. */
void save_three(void);

/* Returns the path of `name` in the folder of checkpoints. */
const char *in_store(const char *name);

#endif
