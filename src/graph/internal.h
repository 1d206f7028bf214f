/* Private to graph: the pieces of lowering. */
#ifndef VP_GRAPH_INTERNAL_H
#define VP_GRAPH_INTERNAL_H

#include "graph/opdef.h"
#include "graph/program.h"
#include "graph/recompute.h"

/* A buffer that is needed for some calls. Until the memory plan is made, refs into
 * WORK hold the number of a temporary in place of an offset. */
struct vp_temp {
    int64_t n_bytes;
    bool carried;   /* from one list to another: goes to SLOT in any case */
    int64_t offset; /* set by the plan */
};

struct vp_lowering {
    const struct vp_graph *graph;
    const struct vp_stage_spec *spec; /* the program's */
    struct vp_program *program;
    struct vp_arena arena; /* of what only lowering needs */
    vp_scratch_fn scratch;
    const void *scratch_ctx;

    int first_op, end_op;

    /* Per value. */
    struct vp_ref *boundary_in, *boundary_out; /* places in the messages */
    struct vp_ref *kept;   /* SLOT or RECOMPUTED place, if backward reads it */
    struct vp_ref *home;   /* where the list being emitted has it */
    bool *recomputed_by_b; /* B writes it once more, for W */
    bool *made_again;      /* W reads it, and a call before W makes it again */
    bool *backward;        /* B or W reads it, and B does not write it */
    int *entry_of; /* per parameter: its place in the layout, or VP_NONE */

    bool *recomputed; /* per operator: it runs again */
    /* With recompute_in_b: */
    struct vp_ref *again; /* per value: where what runs again has it */
    bool *due;            /* per operator: it runs again next */

    struct vp_temp *temps;
    int n_temps, cap_temps;
    int cap_calls[VP_LIST_COUNT];
    enum vp_status status; /* VP_ERR_NOMEM sticks */
};

static inline bool vp_ref_is(struct vp_ref ref)
{
    return ref.space != VP_SPACE_NONE;
}

static inline bool vp_ref_same(struct vp_ref a, struct vp_ref b)
{
    return a.space == b.space && a.offset == b.offset;
}

static inline bool vp_spec_keeps_gathered(const struct vp_stage_spec *spec)
{
    return spec->keep_all || spec->keep_gathered;
}

/* True for operators whose results are not kept: R makes what B needs of them
 * again. */
static inline bool vp_lowering_is_recomputed(const struct vp_lowering *lowering,
                                             const struct vp_op *op)
{
    return vp_recompute_runs(lowering->graph, lowering->spec->first_block,
                             lowering->spec->recompute,
                             vp_spec_keeps_gathered(lowering->spec), op);
}

/* What W reads in place of `v`: what `v` is made again of, if it is. */
static inline vp_val vp_lowering_source(const struct vp_lowering *lowering,
                                        vp_val v)
{
    if (v == VP_NONE || !lowering->made_again[v])
        return v;
    return lowering->graph->ops[lowering->graph->values[v].producer].in[0];
}

/* True for what backward finds where R left it; F's copy is a temporary. */
static inline bool vp_lowering_left_by_r(const struct vp_lowering *lowering,
                                         vp_val v)
{
    const struct vp_graph *graph = lowering->graph;
    int producer = graph->values[v].producer;

    return producer >= lowering->first_op && producer < lowering->end_op &&
           !vp_graph_is_output(graph, v) &&
           vp_lowering_is_recomputed(lowering, &graph->ops[producer]);
}

/* Zeroed memory that lives as long as the program, or as the lowering; NULL
 * sets lowering->status. */
void *vp_lowering_alloc(struct vp_lowering *lowering, size_t n_bytes);
void *vp_lowering_work(struct vp_lowering *lowering, size_t n_bytes);
struct vp_ref vp_lowering_temp(struct vp_lowering *lowering, int64_t n_bytes);
/* Appends a call with operator, phase, scratch; the caller fills in refs. The
 * pointer is valid until the next emit. Never NULL (a dummy after NOMEM). */
struct vp_call *vp_lowering_emit(struct vp_lowering *lowering,
                                 enum vp_list list, const struct vp_op *op,
                                 enum vp_phase phase);
/* Sets in, aux and parameters of a call from `home`, and out if it is written
 * or read. */
void vp_lowering_operands(struct vp_lowering *lowering, struct vp_call *call);
/* Computes `v` again inside of B, if it has to be, and what that needs. */
void vp_lowering_recompute(struct vp_lowering *lowering, vp_val v);
/* An operator that lowering inserts, COPY or GROUP_COPY of value `v`, named after
 * `like`. */
const struct vp_op *vp_lowering_own_op(struct vp_lowering *lowering,
                                       enum vp_op_kind kind, vp_val v,
                                       const struct vp_op *like);

/* Finds the operators of the stage. */
void vp_lowering_find_range(struct vp_lowering *lowering);
/* Finds what is kept between F and backward, in `marks` (per value, all false
 * before), and what runs again. */
enum vp_status vp_lowering_find_kept(struct vp_lowering *lowering, bool *marks);

/* layout.c */
enum vp_status vp_layout_make(struct vp_lowering *lowering);
/* Refuses bases of the spec that are not aligned, or pieces that overlap. */
enum vp_status vp_layout_check(const struct vp_lowering *lowering,
                               struct vp_err *err);
enum vp_status vp_boundaries_make(struct vp_lowering *lowering);
struct vp_ref vp_layout_param(const struct vp_lowering *lowering, vp_par par);
struct vp_ref vp_layout_grad(const struct vp_lowering *lowering, vp_par par);

/* backward.c */
void vp_lower_backward(struct vp_lowering *lowering);

/* bundle.c: cuts the gradients, and finds when they are final. */
enum vp_status vp_bundles_make(struct vp_lowering *lowering);

/* memory_layout.c: gives every temporary its offset and patches all calls. */
enum vp_status vp_memory_layout_make(struct vp_lowering *lowering);

/* Bytes that are needed for some time. */
struct vp_lifetime {
    int id;              /* the caller's */
    int64_t first, last; /* by any clock; inclusive */
    int64_t n_bytes;
    int64_t offset;
};

/* lifetimes.c: gives `n` lifetimes their offsets, largest first, each the lowest one
 * that is free all the time, and finds the bytes that they need together. Sorts
 * `lives`. */
enum vp_status vp_lifetimes_place(struct vp_lifetime *lives, int n,
                                  int64_t *n_bytes_out);

/* grads.c: gives gradients that are used up new offsets, and patches calls. */
enum vp_status vp_grads_place(struct vp_lowering *lowering);

#endif
