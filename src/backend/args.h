/* Arguments of a kernel: resolved addresses and the operator's attributes.
 *
 *   F  writes out and aux.
 *   B  writes each non-NULL din, or adds to it if din_add is true. A linear with
 *      an activation writes dz first; dz may be the memory of dout. If
 *      recomputed_out is not NULL, B also writes there the values that F wrote to
 *      out; din[0] is never NULL in that case.
 *   W  writes each non-NULL dpar, or adds to it if mb->accumulate; reads dz if the
 *      operator has one, else dout.
 * A pointer to a constant or absent tensor is NULL. Ids, labels and masks are
 * int32_t; other values have the dtype of their struct vp_value, weights have
 * the graph's dtype, and gradients of weights are float. (The CPU's reference
 * kernels in double take double for all of these.) */
#ifndef VP_BACKEND_ARGS_H
#define VP_BACKEND_ARGS_H

#include "backend/backend.h"

struct vp_pool;

struct vp_kargs {
    const struct vp_graph *graph;
    const struct vp_op *op;
    const struct vp_mb *mb;
    const struct vp_members *members; /* NULL: one member */
    struct vp_pool *pool;             /* CPU; unused by reference kernels */
    const void *in[VP_MAX_IN];
    void *out;             /* const in B and W */
    void *aux[VP_MAX_AUX]; /* const in B and W */
    const void *par[VP_MAX_PARAM];
    const void *dout;
    void *din[VP_MAX_IN];
    bool din_add[VP_MAX_IN];
    void *dz;
    void *recomputed_out; /* shares memory with no other tensor */
    void *dpar[VP_MAX_PARAM];
    void *scratch;
};

/* Sets all of `args` for one call of a list except `pool`, which becomes NULL.
 * Offsets of the call become addresses in the spaces of `launch`. */
void vp_kargs_resolve(const struct vp_graph *graph, const struct vp_call *call,
                      const struct vp_launch *launch, struct vp_kargs *args);

static inline const struct vp_value *vp_arg_value(const struct vp_kargs *args,
                                                  vp_val value)
{
    return &args->graph->values[value];
}

/* Returns the column of the whole value at which this member's slice begins. */
static inline int64_t vp_arg_first_col(const struct vp_kargs *args,
                                       vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);

    return args->members && v->spread == VP_SPREAD_COLS
               ? args->members->me * v->cols
               : 0;
}

/* Returns the row of the whole value at which this member's slice begins. */
static inline int64_t vp_arg_first_row(const struct vp_kargs *args,
                                       vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);

    return args->members && v->spread == VP_SPREAD_ROWS
               ? args->members->me * v->rows
               : 0;
}

/* Returns the number of rows of this member's slice without padding. */
static inline int64_t vp_arg_n_rows(const struct vp_kargs *args, vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);
    int64_t left = v->whole_rows - vp_arg_first_row(args, value);

    return left < 0 ? 0 : left < v->rows ? left : v->rows;
}

/* Attention: returns the index of this member's first head in the whole
 * model. */
static inline int vp_arg_first_head(const struct vp_kargs *args)
{
    return args->members &&
                   vp_arg_value(args, args->op->out)->spread == VP_SPREAD_COLS
               ? args->members->me * args->op->attr.heads
               : 0;
}

/* Cross entropy: returns the number of columns of this member's slice of logits
 * that belong to ids; the last slices may end in padding. */
static inline int64_t vp_arg_n_ids(const struct vp_kargs *args)
{
    int64_t cols = vp_arg_value(args, args->op->in[0])->cols;
    int64_t left = args->op->attr.n_ids -
                   vp_arg_first_col(args, args->op->in[0]);

    return left < 0 ? 0 : left < cols ? left : cols;
}

#endif
