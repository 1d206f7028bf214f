/* The operator table: one row per operator has what lowering needs to know.
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
    /* NULL means 0. */
    double (*flops)(const struct vp_graph *graph, const struct vp_op *op,
                    enum vp_phase phase);
    unsigned needs_b, needs_w; /* enum vp_need of the B and the W kernel */
    unsigned grad_in;          /* VP_NEED_IN*: inputs that get a gradient */
    bool has_b, has_w;         /* a kernel exists for the phase */
    bool passes_grad;          /* din = dout for every input: no B kernel */
    bool b_overwrites_in0; /* B writes din0 over in0 (nobody else needs it) */
    bool b_recomputes_out; /* see vp_op_can_recompute_out() */
};

extern const struct vp_op_def vp_op_defs[VP_OP_KIND_COUNT];

/* True for a linear with an activation: its B kernel writes the gradient of
 * the pre-activation (`dz`), which its W kernel reads instead of dout. */
bool vp_op_has_dz(const struct vp_op *op);

/* True where B makes a member's part of the gradient of in0, and the gradient is the
 * sum of these over the group: lowering adds group_copy behind B. */
bool vp_op_sums_gradient(const struct vp_graph *graph, const struct vp_op *op);

/* True where the B kernel can write `out` once more (`again`), from aux0 and
 * whatever else it reads: W kernels that read `out` then need not find it kept.
 * A linear does so if it has an activation. */
bool vp_op_can_recompute_out(const struct vp_op *op);

#endif
