/* Sets of recomputed operators for tests: those of a ratio, and random ones. */
#ifndef VP_TESTS_LIB_RECOMPUTE_SETS_H
#define VP_TESTS_LIB_RECOMPUTE_SETS_H

#include "graph/program.h"
#include "graph/recompute.h"

#include <stdint.h>

enum { MAX_SETS = 128 };

/* Fills `sets` with the operators that `ratio` recomputes, the last ones of the
 * stage, and makes `spec` use them. */
void set_tail(const struct vp_graph *graph, double ratio,
              struct vp_stage_spec *spec, uint64_t sets[MAX_SETS]);

/* Fills in a random set for each block of the model, with bits from `next`: no
 * operator, all, single ones, all but one, and others. */
void random_sets(const struct vp_graph *graph, uint64_t (*next)(void),
                 uint64_t sets[MAX_SETS]);

#endif
