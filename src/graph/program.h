/* A stage lowered for one plan: kernel calls with fixed offsets.
 *
 * Every tensor of a call is (space, offset). A space is a base address given
 * at launch, so the same program serves every slot, weight version and
 * boundary buffer, and buffers can be handed over without copying. */
#ifndef VP_GRAPH_PROGRAM_H
#define VP_GRAPH_PROGRAM_H

#include "graph/graph.h"

enum vp_space {
    VP_SPACE_NONE = 0, /* absent */
    VP_SPACE_PARAM,    /* weights; base chosen by version */
    VP_SPACE_GRAD,     /* gradients of the weights */
    VP_SPACE_SLOT, /* kept from F to B (or W), one per minibatch in flight */
    VP_SPACE_WORK, /* lives inside one list; shared by all lists */
    VP_SPACE_RECOMPUTED, /* written by R, read by B; a ring. With one_slot, both
                      are part of SLOT */
    VP_SPACE_SWAPPED, /* written by F, read by R, B and W, and elsewhere in the
                      meantime; two rings */
    VP_SPACE_CACHE,   /* values that persist; one for all programs of a stage */
    VP_SPACE_IN,   /* boundary values from the previous stage, or the batch */
    VP_SPACE_OUT,  /* boundary values for the next stage */
    VP_SPACE_DIN,  /* gradients for the previous stage */
    VP_SPACE_DOUT, /* gradients from the next stage; overwritten by B */
    VP_SPACE_COUNT
};

struct vp_ref {
    enum vp_space space;
    int64_t offset; /* bytes */
};

struct vp_call {
    const struct vp_op *op;
    enum vp_phase phase;
    struct vp_ref in[VP_MAX_IN];
    struct vp_ref out;
    struct vp_ref aux[VP_MAX_AUX];
    struct vp_ref par[VP_MAX_PARAM];
    struct vp_ref dout;
    struct vp_ref din[VP_MAX_IN];
    bool din_add[VP_MAX_IN]; /* add to din instead of writing it */
    struct vp_ref dz;        /* see vp_op_has_dz() */
    struct vp_ref
        recomputed_out; /* B: out once more; see vp_op_can_recompute_out() */
    struct vp_ref dpar[VP_MAX_PARAM];
    struct vp_ref scratch; /* in WORK; as large as the backend asked for */
    bool
        out_stays; /* F: a call of another list, or of phase B or W, reads out */
};

enum vp_list {
    VP_LIST_F, /* forward */
    VP_LIST_R, /* recompute what B needs and F did not keep; empty with
                  recompute_in_b */
    VP_LIST_B, /* input gradients, and the weight gradients that W leaves */
    VP_LIST_W, /* weight gradients of products, when split */
    VP_LIST_COUNT
};

/* A value that crosses a cut between stages, and its place in the message. */
struct vp_boundary_value {
    vp_val value;
    int64_t offset, n_bytes;
};

struct vp_boundary {
    struct vp_boundary_value *entries;
    int n_entries;
    int64_t n_bytes;
};

/* Where a stage's parameters sit in PARAM and GRAD; the same for all buckets.
 * PARAM holds the graph's dtype, GRAD floats. Each block has a piece of its own:
 *
 *   PARAM     | block 4 | block 5    | block 6 |      | constants 4 | 6 |
 *   GRAD      | block 4 | block 5    | block 6 |      | tied 6 |
 *   moments   | block 4 | block 5    | block 6 |
 *             base      base         base      train_bytes
 *
 * A piece holds the block's trained tensors, one after the other, and begins at
 * the same element, its base, in PARAM, in GRAD and in all arrays of the
 * optimizer, which have train_bytes as floats. Where an entry sits within its
 * block's piece does not depend on the other blocks of the stage, so that a block
 * can come or go while the others stay where they are.
 *
 * A parameter tied to an earlier one of the stage uses that one's storage, but
 * keeps a gradient of its own, behind train_bytes: sums over blocks happen in
 * block order. Gradients that are used up within backward have the same place one
 * after the other: see grads.c. */
struct vp_layout_block {
    int64_t base, n;                   /* elements of its piece */
    int64_t constants, constant_bytes; /* in PARAM, bytes */
    /* In GRAD, bytes: of parameters tied to earlier ones of the stage. */
    int64_t tied, tied_bytes;
};

struct vp_layout_entry {
    vp_par par;
    int storage;         /* the entry that holds the weights; its own index
                            unless tied within the stage */
    int64_t offset;      /* in PARAM, bytes */
    int64_t grad_offset; /* in GRAD, bytes; VP_NONE if constant */
    int64_t n_bytes;     /* in PARAM */
};

struct vp_layout {
    struct vp_layout_block *blocks; /* per block of the stage */
    struct vp_layout_entry *entries;
    int n_entries;
    int64_t param_bytes, train_bytes, grad_bytes;
    /* Floats of the parameters with a partial_grad: between lists, WORK has room for
     * their gradients, where the members of a group add them up. */
    int64_t n_partial;
};

struct vp_stage_spec {
    int first_block, n_blocks;
    /* Per block of the stage: bit i is set if operator i of the block is
     * recomputed; see recompute.h. NULL: nothing. A program has a copy. */
    const uint64_t *recompute;
    /* There is no R: B computes each value again when it first reads it, and the
     * bytes serve others once it has. */
    bool recompute_in_b;
    /* Per block of the stage: the base of its piece, see struct vp_layout_block.
     * Pieces must not overlap, and begin at multiples of VP_TENSOR_ALIGN bytes
     * of PARAM. NULL: one after the other. A program has a copy. */
    const int64_t *bases;
    /* W of recomputed operators is a part of W, not of B, and reads what R made.
     * Only with split_w, and without recompute_in_b. */
    bool w_recomputed;
    /* Per block of the stage: operators that any slot of the stage recomputes. W
     * of an operator is a part of the same list for all slots, so that gradients
     * add up in the order of minibatches. NULL: those of `recompute`. A program
     * has a copy. */
    const uint64_t *any_recompute;
    /* Per block of the stage: bit i is set if what operator i makes is swapped,
     * unless it is recomputed. NULL: nothing. Not with one_slot. A program has a
     * copy. */
    const uint64_t *swap;
    bool keep_all; /* nothing that F computed is made again in B */
    /* Rows that were gathered are kept for W, and not gathered again; so they are with
     * keep_all. */
    bool keep_gathered;
    bool split_w;      /* W of products runs as a list of its own */
    bool forward_only; /* evaluation: nothing is kept, only F exists */
    /* Only one minibatch is in flight at a time: nothing runs here between its
     * lists. SLOT then holds what else would be in WORK and RECOMPUTED, and bytes of
     * a kept value serve others once backward has read it. */
    bool one_slot;
    int64_t bundle_bytes; /* replicas: see struct vp_bundle; 0: none */
    int w_linger;         /* calls after a W that a backend may run before it:
                             temporaries of W live until they are done */
    /* Above 0: a gradient is used up within the list that makes it, and its
     * bytes serve others when this number of them was written after it. Not
     * with split_w or bundles. */
    int64_t grad_linger;
};

/* Gradients that replicas add up together, as soon as they are final: a range
 * of GRAD. Bundles cover it without a gap, in ascending order, and follow from
 * the layout alone; when one is final depends on the program. */
struct vp_bundle {
    int64_t begin, end; /* bytes */
    enum vp_list list;  /* B or W: the one that writes it last ... */
    int n_calls;        /* ... and the calls of it that are done then */
};

/* Returns the bytes of scratch that the device needs for one call. */
typedef size_t (*vp_scratch_fn)(const void *ctx, const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase);

struct vp_program;
/* Returns the bytes of host memory through which members of a tensor-parallel group
 * exchange what the program makes. */
typedef size_t (*vp_staging_fn)(const struct vp_program *program);

struct vp_program {
    const struct vp_graph *graph; /* borrowed: must outlive the program */
    struct vp_stage_spec spec;
    struct vp_layout layout;
    struct vp_boundary in, out;   /* in: model inputs for stage 0 */
    struct vp_boundary din, dout; /* gradients of the entries that have one */
    /* Outputs of the graph; last stage only, in SLOT. */
    struct vp_ref loss, logits;
    struct vp_call *calls[VP_LIST_COUNT];
    int n_calls[VP_LIST_COUNT];
    struct vp_bundle *bundles;
    int *bundle_order; /* as they become final */
    int n_bundles;
    int64_t n_bytes[VP_SPACE_COUNT];
    double flops[VP_LIST_COUNT];
    struct vp_arena arena;
};

enum vp_status vp_program_lower(const struct vp_graph *graph,
                                const struct vp_stage_spec *spec,
                                vp_scratch_fn scratch, const void *scratch_ctx,
                                struct vp_program *program_out,
                                struct vp_err *err);
void vp_program_release(struct vp_program *program);

/* The boundary whose values travel through IN, OUT, DIN or DOUT. */
const struct vp_boundary *vp_program_boundary(const struct vp_program *program,
                                              enum vp_space space);

/* The byte offset of a model input in the IN message, or VP_NONE. */
int64_t vp_program_input_offset(const struct vp_program *program,
                                enum vp_role role);

#endif
