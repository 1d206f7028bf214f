/* Sets of recomputed operators for tests: the tail that a ratio means, and
 * random ones. */
#ifndef VP_TESTS_LIB_RECOMPUTE_SETS_H
#define VP_TESTS_LIB_RECOMPUTE_SETS_H

#include "graph/program.h"
#include "graph/recompute.h"

#include <stdint.h>

enum { MAX_SETS = 128 };

/* Fills `sets` with the tail of the spec's blocks, and lets the spec use it. */
void set_tail(const struct vp_graph *graph, double ratio,
              struct vp_stage_spec *spec, uint64_t sets[MAX_SETS]);

/* A set per block of the model, by 64 bits from `next`; of every kind: nothing,
 * everything, single operators, holes of any size. */
void random_sets(const struct vp_graph *graph, uint64_t (*next)(void),
                 uint64_t sets[MAX_SETS]);

#endif
