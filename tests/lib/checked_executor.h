/* An executor that checks every step. It runs the lists of a schedule action by
 * action, with the ranks in random order. Its buffers, slots and weight rings
 * remember their contents, and it fails at the first action that reads or
 * overwrites a wrong value. It shares no code with the validator, so that the
 * two can be compared.
 *
 * Only for drained schedules that start at the beginning of a segment. */
#ifndef VP_TESTS_LIB_CHECKED_EXECUTOR_H
#define VP_TESTS_LIB_CHECKED_EXECUTOR_H

#include "base/rng.h"
#include "sched/schedule.h"

#include <stdint.h>

enum cx_result { CX_DONE, CX_WAIT, CX_FAIL, CX_HANG };

/* Runs one random order of the ranks. Returns CX_DONE, CX_FAIL or CX_HANG, with
 * the reason in `why`. */
enum cx_result cx_run(const struct vp_schedule *schedule, uint32_t seed,
                      const char **why);

#endif
