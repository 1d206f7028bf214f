/* Random cuts, swapped shares and runs for tests of pipelines, and
 * run_part(), which runs some of the tests: VP_TEST_PART=2/3,
 * VP_TEST_FILTER=name. */
#ifndef VP_TESTS_LIB_PIPELINELIB_H
#define VP_TESTS_LIB_PIPELINELIB_H

#include "base/rng.h"
#include "lib/slow.h"
#include "lib/trainlib.h"

#include <stddef.h>
#include <stdint.h>

/* ---- Cuts --------------------------------------------------------------- */

extern uint32_t pipeline_draws;

int pipeline_draw(int n);

void random_partition(int *partition, int n_stages, int n_blocks);

int n_blocks_of(const struct setup *setup);

/* ---- Swap --------------------------------------------------------------- */

/* Which stages swap how much, and how late copies are made. */
struct swap {
    double ratios[VP_MAX_STAGES];
    int buffers[VP_MAX_STAGES];
};

void random_swap(struct setup *setup, struct swap *swap);

/* ---- Stopping ----------------------------------------------------------- */

/* Trains `n` steps or until asked to stop; the hash of the weights. */
uint64_t train_until(const struct setup *setup, int64_t n, vp_step_fn fn,
                     int64_t *n_done);

/* ---- Replicas in synchronous training ----------------------------------- */

/* With VP_TEST_PART=2/5 every fifth case from the second on, so that several
 * processes share the work; with VP_TEST_FILTER the cases of a pattern. */
int run_part(const struct CMUnitTest *tests, size_t n);

#endif
