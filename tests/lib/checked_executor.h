/* An executor that asserts. It runs a schedule's lists step by step, the ranks
 * in random order, with explicit buffers, slots and weight rings that remember
 * what is in them, and fails at the first action that reads or overwrites the
 * wrong thing. It shares no code with the validator: both are compared.
 *
 * For drained schedules from the beginning of a segment. */
#ifndef VP_TESTS_LIB_CHECKED_EXECUTOR_H
#define VP_TESTS_LIB_CHECKED_EXECUTOR_H

#include "base/rng.h"
#include "sched/schedule.h"

#include <stdint.h>

enum cx_result { CX_DONE, CX_WAIT, CX_FAIL, CX_HANG };

/* CX_DONE, CX_FAIL or CX_HANG, for one random interleaving. */
enum cx_result cx_run(const struct vp_schedule *schedule, uint32_t seed,
                      const char **why);

#endif
