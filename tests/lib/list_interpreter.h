/* Runs the lists of stages by symbolic execution.
 *
 * Every tensor is replaced by a hash of the expression that made it. An oracle
 * differentiates the whole graph literally; the interpreter runs the lowered
 * lists of one or more stages call by call over shadow memory, in cells of 256
 * bytes. If a buffer is overwritten too early, a value not recomputed, a copy
 * forgotten, or a sum taken in another order, some weight gradient gets another
 * hash. */
#ifndef VP_TESTS_LIB_LIST_INTERPRETER_H
#define VP_TESTS_LIB_LIST_INTERPRETER_H

#include "base/rng.h"
#include "graph/opdef.h"
#include "graph/program.h"
#include "lib/recompute_sets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_VALUES = 512, MAX_PARAMS = 256, CELL = VP_TENSOR_ALIGN };

/* ---- Random graphs ------------------------------------------------------ */

int rand_below(int n);

/* Random bits for random_sets(). */
uint64_t rand_bits(void);

enum { BATCH = 2, LEN = 3, ROWS = BATCH * LEN, HIDDEN = 8 };

vp_par weight(struct vp_graph *g, int64_t rows, int64_t cols);

/* Builds blocks that end with a residual add, with skip edges to any earlier
 * block. */
void random_graph(struct vp_graph *g, int n_blocks, bool tied);

/* ---- The oracle: hashes of the whole graph ------------------------------ */

/* Hashes of all values and of all weight gradients. */
struct facts {
    uint64_t value[MAX_VALUES];
    uint64_t dpar[MAX_PARAMS];
};

extern const unsigned bit_in[3];

extern const unsigned bit_aux[2];

void oracle(const struct vp_graph *g, struct facts *facts);

/* ---- The interpreter ---------------------------------------------------- */

/* Returns true if B writes the result of call `i` again, to the same place. */
bool is_written_again(const struct vp_program *p, enum vp_list list, int i);

size_t some_scratch(const void *ctx, const struct vp_graph *graph,
                    const struct vp_op *op, enum vp_phase phase);

enum { MAX_STAGES = 8 };

/* Recomputed operators: a set per block of the model, or a ratio for each
 * stage. */
struct recompute {
    double ratio;
    const uint64_t *sets; /* NULL: the ratio decides */
};

/* Lowers the graph in `n_stages` stages at random cuts, runs them, and checks
 * that the loss and all weight gradients have the hashes of `want`. */
void check_one(const struct vp_graph *g, const struct facts *want, int n_stages,
               const struct vp_stage_spec *like,
               const struct recompute *recompute);

#endif
