/* One operator with all its tensors, for tests of kernels.
 *
 *   struct op_spec spec = { .kind = VP_OP_LINEAR, .batch = 2, .q_len = 5,
 *                           .cols = 7, .n_out = 3, .bias = true };
 *   struct one_op t;
 *
 *   one_op_init(&t, &spec, &vp_cpu_ref_f64, sizeof(double), 1, NULL);
 *   one_op_run(&t, VP_PHASE_F);
 *   ... t.args.out, read with one_op_get() ...
 *   one_op_release(&t);
 *
 * Inputs, parameters and the output's gradient hold random numbers that are
 * exact in float, so a float and a double instance of one spec and seed get the
 * same problem. Tensors that a kernel has to write start as NaN. */
#ifndef VP_TESTS_LIB_ONE_OP_H
#define VP_TESTS_LIB_ONE_OP_H

#include "backend/cpu/kernel.h"
#include "base/memory.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "graph/opdef.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PAD_ID = 1, N_TYPES = 3, MAX_OWNED = 24 };

/* The operator to build. A field that the operator does not use stays 0. */
struct op_spec {
    const char *name;
    enum vp_op_kind kind;
    int64_t batch, q_len; /* rows of in0 = batch * q_len */
    int64_t k_len;        /* attention: > 0 = a second input of k_len keys;
                             cached attention: positions of a line */
    int64_t n_lines;      /* cached attention */
    int64_t cols;         /* columns of in0; embed, attention: columns of out */
    int64_t n_out;        /* linear: N; embed: vocabulary; gather: rows */
    int heads;
    enum vp_act act;
    bool bias;             /* linear */
    bool causal, mask;     /* attention */
    bool positions, types; /* embed */
    bool constant;         /* embed: the positions are not trained */
    bool pad;              /* embed: PAD_ID is padding */
    bool at;               /* embed: positions are given */
    bool cache;            /* the graph has a cache and no loss: forward only */
    bool weights;          /* cross_entropy */
    float p;               /* dropout, attention */
    float smoothing;       /* cross_entropy */
    float scale;           /* embed, scale */
    enum vp_dtype dtype;   /* type of the graph, not of numbers here */
};

struct one_op {
    struct op_spec spec;
    struct vp_graph graph;
    struct vp_graph plain; /* the same with F32 values, for CPU kernels */
    struct vp_mb mb;
    struct vp_kargs args;
    const struct vp_cpu_kernels *kernels;
    size_t real; /* bytes of a number: 4 or 8 */
    int64_t n_in[VP_MAX_IN], n_par[VP_MAX_PARAM], n_aux[VP_MAX_AUX], n_out;
    void *owned[MAX_OWNED];
    int n_owned;
};

/* ---- Numbers ------------------------------------------------------------ */

/* Element `i` of a random tensor: uniform in (-1.5, 1.5), exact in float. */
double test_number(uint64_t seed, uint32_t stream, int64_t i);

double one_op_get(const struct one_op *t, const void *tensor, int64_t i);

/* Writes any tensor of `t`, also those that kernels see as const. */
void one_op_set(const struct one_op *t, const void *tensor, int64_t i,
                double value);

void one_op_fill(const struct one_op *t, const void *tensor, int64_t n,
                 uint64_t seed, uint32_t stream);

/* ---- The graph ---------------------------------------------------------- */

/* Adds a float matrix, as if an earlier operator had made it. */
vp_val test_matrix(struct vp_graph *graph, const char *name, int64_t rows,
                   int64_t cols);

vp_val test_ints(struct vp_graph *graph, const char *name, int64_t rows);

vp_par test_param(struct vp_graph *graph, const char *name, int64_t rows,
                  int64_t cols);

/* ---- The tensors -------------------------------------------------------- */

/* Allocates memory aligned as on the backend, but not rounded up in size, so
 * that sanitizers detect overruns. */
void *one_op_alloc(struct one_op *t, size_t n_bytes);

/* `real` is the size of a number in `kernels`. `pool` may be NULL for reference
 * kernels and must outlive `t`. `t` must not move afterwards. */
void one_op_init(struct one_op *t, const struct op_spec *spec,
                 const struct vp_cpu_kernels *kernels, size_t real,
                 uint64_t seed, struct vp_pool *pool);

void one_op_release(struct one_op *t);

/* Returns the kernel of a phase, NULL if there is none. */
vp_cpu_kernel_fn one_op_kernel(const struct one_op *t, enum vp_phase phase);

/* Runs a phase. Returns false if the operator has no kernel for it. */
bool one_op_run(struct one_op *t, enum vp_phase phase);

/* Returns element `i` that every gradient has before one_op_train(t, true). */
double test_base_number(int64_t i);

/* Runs F, B and W as one minibatch. Gradients are written or, with `add`, added
 * to the base numbers. */
void one_op_train(struct one_op *t, bool add);

/* Returns the largest |a - b| relative to the largest |b|; infinity if any
 * number is not finite. The tensors are `a` of `ta` and `b` of `tb`, which may
 * differ in type. */
double test_distance(const struct one_op *ta, const void *a,
                     const struct one_op *tb, const void *b, int64_t n);

#endif
