/* What a kernel is given: resolved addresses and the operator's attributes.
 *
 *   F  writes out and aux.
 *   B  writes each non-NULL din (or adds, where din_add says so); a linear
 *      with an activation writes dz first. dz may be the memory of dout. Where
 *      `recomputed_out` is given, and din[0] then is, what F wrote to out is written
 *      there once more.
 *   W  writes each non-NULL dpar, or adds to it when mb->accumulate; reads dz
 *      where the operator has one, else dout.
 * Constant and absent tensors are NULL. Ids, labels and masks are int32_t;
 * other values have the type that the graph says, weights the graph's dtype,
 * and gradients of weights are floats. (The CPU's f64 twins take double for
 * all of these.) */
#ifndef VP_BACKEND_ARGS_H
#define VP_BACKEND_ARGS_H

#include "backend/backend.h"

struct vp_pool;

struct vp_kargs {
    const struct vp_graph *graph;
    const struct vp_op *op;
    const struct vp_mb *mb;
    const struct vp_members *members; /* NULL: one member */
    struct vp_pool *pool;             /* CPU; the twins ignore it */
    const void *in[VP_MAX_IN];
    void *out;             /* const in B and W */
    void *aux[VP_MAX_AUX]; /* const in B and W */
    const void *par[VP_MAX_PARAM];
    const void *dout;
    void *din[VP_MAX_IN];
    bool din_add[VP_MAX_IN];
    void *dz;
    void *recomputed_out; /* no other tensor's memory */
    void *dpar[VP_MAX_PARAM];
    void *scratch;
};

/* Everything but the pool. */
void vp_kargs_resolve(const struct vp_graph *graph, const struct vp_call *call,
                      const struct vp_launch *launch, struct vp_kargs *args);

static inline const struct vp_value *vp_arg_value(const struct vp_kargs *args,
                                                  vp_val value)
{
    return &args->graph->values[value];
}

/* The first column of this member's slice of `value` in the whole one. */
static inline int64_t vp_arg_first_col(const struct vp_kargs *args,
                                       vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);

    return args->members && v->spread == VP_SPREAD_COLS
               ? args->members->me * v->cols
               : 0;
}

/* The first row of this member's slice of `value` in the whole one. */
static inline int64_t vp_arg_first_row(const struct vp_kargs *args,
                                       vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);

    return args->members && v->spread == VP_SPREAD_ROWS
               ? args->members->me * v->rows
               : 0;
}

/* Rows of a slice that are in the whole value; the rest is padding. */
static inline int64_t vp_arg_n_rows(const struct vp_kargs *args, vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);
    int64_t left = v->whole_rows - vp_arg_first_row(args, value);

    return left < 0 ? 0 : left < v->rows ? left : v->rows;
}

/* Attention: the number of this member's first head. */
static inline int vp_arg_first_head(const struct vp_kargs *args)
{
    return args->members &&
                   vp_arg_value(args, args->op->out)->spread == VP_SPREAD_COLS
               ? args->members->me * args->op->attr.heads
               : 0;
}

/* Columns of a slice of logits that stand for ids: the last slices may have more. */
static inline int64_t vp_arg_n_ids(const struct vp_kargs *args)
{
    int64_t cols = vp_arg_value(args, args->op->in[0])->cols;
    int64_t left = args->op->attr.n_ids -
                   vp_arg_first_col(args, args->op->in[0]);

    return left < 0 ? 0 : left < cols ? left : cols;
}

#endif
