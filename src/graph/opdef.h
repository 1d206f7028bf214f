/* The operator table: one row per operator, with the facts that lowering needs.
 * docs/extend/add-an-operator.md lists the files that a new operator touches. */
#ifndef VP_GRAPH_OPDEF_H
#define VP_GRAPH_OPDEF_H

#include "graph/graph.h"

/* Which tensors a backward kernel reads, besides the output's gradient. */
enum vp_need {
    VP_NEED_IN0 = 1 << 0,
    VP_NEED_IN1 = 1 << 1,
    VP_NEED_IN2 = 1 << 2,
    VP_NEED_OUT = 1 << 3,
    VP_NEED_AUX0 = 1 << 4,
    VP_NEED_AUX1 = 1 << 5,
};

struct vp_op_def {
    const char *name;
    /* Checks the inputs and sets the shape of `out` and `aux`. */
    enum vp_status (*shape)(struct vp_graph *graph, struct vp_op *op);
    /* Optional: see vp_op_flops(). NULL: no matrix product, so 0. */
    double (*flops)(const struct vp_graph *graph, const struct vp_op *op,
                    enum vp_phase phase);
    unsigned needs_b, needs_w; /* enum vp_need of the B and the W kernel */
    unsigned grad_in;          /* VP_NEED_IN*: inputs that get a gradient */
    bool has_b, has_w;         /* a kernel exists for the phase */
    bool passes_grad;          /* din = dout for every input: no B kernel */
    bool b_overwrites_in0;     /* B may write din0 over in0: not read later */
    bool b_recomputes_out;     /* see vp_op_can_recompute_out() */
    bool runs_alone;           /* F and B never run together with other calls */
    /* Without keep_gathered, out is never kept: an F call before each W call
     * that reads it computes it again; so do R or B if they need it. */
    bool made_again;
};

extern const struct vp_op_def vp_op_defs[VP_OP_KIND_COUNT];

/* Returns true for a linear with an activation: its B kernel writes `dz`, the
 * gradient of the activation's input, which its W kernel reads instead of
 * dout. */
bool vp_op_has_dz(const struct vp_op *op);

/* Returns true if B computes only this member's term of the gradient of in0, so
 * that lowering appends a group_copy, which sums the terms over the group.
 * False if in0 is a gathered value: the B of its all_gather sums them. */
bool vp_op_sums_gradient(const struct vp_graph *graph, const struct vp_op *op);

/* Returns true if the B kernel can write `out` again, to recomputed_out, from
 * aux0 and its other operands: then `out` need not be kept for W kernels that
 * read it. A linear can if it has an activation. */
bool vp_op_can_recompute_out(const struct vp_op *op);

#endif
