/* Private to src/graph: state and functions that the steps of lowering
 * share. */
#ifndef VP_GRAPH_INTERNAL_H
#define VP_GRAPH_INTERNAL_H

#include "graph/opdef.h"
#include "graph/program.h"
#include "graph/recompute.h"

/* A buffer that some calls need. Until memory_layout.c has run, the offset of a
 * ref into WORK is the index of a temporary. */
struct vp_temp {
    int64_t n_bytes;
    bool carried;   /* from one list to another: always placed in SLOT */
    int64_t offset; /* set by memory_layout.c */
};

struct vp_lowering {
    const struct vp_graph *graph;
    const struct vp_stage_spec *spec; /* the program's */
    struct vp_program *program;
    struct vp_arena arena; /* memory that is freed after lowering */
    vp_scratch_fn scratch;
    const void *scratch_ctx;

    int first_op, end_op;

    /* Per value. */
    struct vp_ref *boundary_in, *boundary_out; /* places in the messages */
    struct vp_ref *kept;   /* place between lists, if R, B or W reads it */
    struct vp_ref *home;   /* place in the list that is being emitted */
    bool *recomputed_by_b; /* its operator's B call writes it again, for W */
    bool *made_again;      /* W reads it after a forward call recomputed it */
    bool *backward;        /* B or W reads it, and B does not write it */
    int *entry_of; /* per parameter: its index in the layout, or VP_NONE */

    bool *recomputed; /* per operator: it runs again in R or B */
    /* With recompute_in_b: */
    struct vp_ref *again; /* per value: `home` for the recomputing calls */
    bool *due;            /* per operator: it is to be recomputed next */

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

/* Returns true if the results of `op` are not kept: R recomputes those that B
 * needs. */
static inline bool vp_lowering_is_recomputed(const struct vp_lowering *lowering,
                                             const struct vp_op *op)
{
    return vp_recompute_runs(lowering->graph, lowering->spec->first_block,
                             lowering->spec->recompute,
                             vp_spec_keeps_gathered(lowering->spec), op);
}

/* Returns the value that is kept for W to read `v`: the input of its producer
 * if `v` is made again, else `v`. */
static inline vp_val vp_lowering_source(const struct vp_lowering *lowering,
                                        vp_val v)
{
    if (v == VP_NONE || !lowering->made_again[v])
        return v;
    return lowering->graph->ops[lowering->graph->values[v].producer].in[0];
}

/* Returns true if backward reads `v` where R wrote it; F's copy is a
 * temporary. */
static inline bool vp_lowering_left_by_r(const struct vp_lowering *lowering,
                                         vp_val v)
{
    const struct vp_graph *graph = lowering->graph;
    int producer = graph->values[v].producer;

    return producer >= lowering->first_op && producer < lowering->end_op &&
           !vp_graph_is_output(graph, v) &&
           vp_lowering_is_recomputed(lowering, &graph->ops[producer]);
}

/* Return zeroed memory that lives as long as the program, or as the lowering.
 * When out of memory they return NULL and set lowering->status. */
void *vp_lowering_alloc(struct vp_lowering *lowering, size_t n_bytes);
void *vp_lowering_work(struct vp_lowering *lowering, size_t n_bytes);
/* Adds a temporary. Returns a ref into WORK with its index; VP_SPACE_NONE when
 * out of memory. */
struct vp_ref vp_lowering_temp(struct vp_lowering *lowering, int64_t n_bytes);
/* Appends a call with operator, phase and scratch; the caller fills in the
 * other refs. The result is valid until the next emit, and never NULL: when out
 * of memory it is a dummy. */
struct vp_call *vp_lowering_emit(struct vp_lowering *lowering,
                                 enum vp_list list, const struct vp_op *op,
                                 enum vp_phase phase);
/* Sets the tensors that the call reads or writes (in, out, aux) from `home`,
 * and its parameters. */
void vp_lowering_operands(struct vp_lowering *lowering, struct vp_call *call);
/* With recompute_in_b: appends to B the calls that recompute `v`, if it is not
 * there. */
void vp_lowering_recompute(struct vp_lowering *lowering, vp_val v);
/* Makes an operator that lowering inserts: a COPY or GROUP_COPY of value `v`,
 * with block, line and id of `like`. Returns `like` when out of memory. */
const struct vp_op *vp_lowering_own_op(struct vp_lowering *lowering,
                                       enum vp_op_kind kind, vp_val v,
                                       const struct vp_op *like);

/* Sets first_op and end_op, the operators of the stage. */
void vp_lowering_find_range(struct vp_lowering *lowering);
/* Sets marks[v], per value and all false before, for the values that R, B or W
 * reads; and the arrays of `lowering` about what is recomputed. */
enum vp_status vp_lowering_find_kept(struct vp_lowering *lowering, bool *marks);

/* layout.c: places of parameters and gradients, and the boundaries of the
 * stage. */
enum vp_status vp_layout_make(struct vp_lowering *lowering);
/* Refuses bases of the spec that are not aligned, and pieces that overlap. */
enum vp_status vp_layout_check(const struct vp_lowering *lowering,
                               struct vp_err *err);
enum vp_status vp_boundaries_make(struct vp_lowering *lowering);
struct vp_ref vp_layout_param(const struct vp_lowering *lowering, vp_par par);
struct vp_ref vp_layout_grad(const struct vp_lowering *lowering, vp_par par);

/* backward.c: emits lists B and W. */
void vp_lower_backward(struct vp_lowering *lowering);

/* bundle.c: cuts GRAD into bundles, and finds the call after which each is
 * final. */
enum vp_status vp_bundles_make(struct vp_lowering *lowering);

/* memory_layout.c: places all temporaries and writes their offsets into all
 * calls. */
enum vp_status vp_memory_layout_make(struct vp_lowering *lowering);

/* Memory that is needed for an interval of time. */
struct vp_lifetime {
    int id;              /* chosen by the caller */
    int64_t first, last; /* in any unit of time; inclusive */
    int64_t n_bytes;
    int64_t offset; /* set by vp_lifetimes_place() */
};

/* lifetimes.c: places `n` lifetimes, largest first, each at the lowest offset
 * that is free during all of it. Sorts `lives`. Returns the bytes of all in
 * *n_bytes_out. */
enum vp_status vp_lifetimes_place(struct vp_lifetime *lives, int n,
                                  int64_t *n_bytes_out);

/* grads.c: lets gradients that the optimizer consumes during backward share
 * memory, and writes their new offsets into the layout and the calls. */
enum vp_status vp_grads_place(struct vp_lowering *lowering);

#endif
