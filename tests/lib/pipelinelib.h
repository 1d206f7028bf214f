/* Random partitions, swap settings and runs for tests of pipelines. */
#ifndef VP_TESTS_LIB_PIPELINELIB_H
#define VP_TESTS_LIB_PIPELINELIB_H

#include "base/rng.h"
#include "lib/slow.h"
#include "lib/trainlib.h"

#include <stddef.h>
#include <stdint.h>

/* ---- Random partitions -------------------------------------------------- */

extern uint32_t pipeline_draws;

int pipeline_draw(int n);

void random_partition(int *partition, int n_stages, int n_blocks);

int n_blocks_of(const struct setup *setup);

/* ---- Swap --------------------------------------------------------------- */

/* The share that each stage swaps, and its number of buffers. */
struct swap {
    double ratios[VP_MAX_STAGES];
    int buffers[VP_MAX_STAGES];
};

void random_swap(struct setup *setup, struct swap *swap);

/* ---- Runs that stop early ----------------------------------------------- */

/* Trains `n` steps, or until `fn` returns false. Returns the hash of the
 * weights. */
uint64_t train_until(const struct setup *setup, int64_t n, vp_step_fn fn,
                     int64_t *n_done);

#endif
