/* Reverse-mode differentiation of a stage: emits its lists B and W.
 *
 * The gradient of a value with several readers starts from what the next stage
 * sent, and the terms of its readers are added in reverse order, whether or not
 * a cut lies between them: so the bits do not depend on the partition.
 *
 * An add operator passes the gradient of its sum to both inputs without
 * copying: several values then share one buffer. A gradient may be added to in
 * a shared buffer only if no other value's gradient is read from it later;
 * otherwise it is copied first.
 *
 * A W call that reads a value which some B call recomputes is delayed until
 * after that B call. */
#include "graph/internal.h"

#include <stdlib.h>

struct backward {
    struct vp_lowering *lowering;
    const struct vp_graph *graph;
    struct vp_ref *grad; /* per value: place of its gradient; NONE: not begun */
    struct ring *rings;  /* per value: the values that share this place */
    struct vp_ref *din;  /* per value: its place in the DIN message */
    int now;             /* the operator being differentiated */

    /* Delayed W calls, in the order in which they were delayed. */
    struct delayed *delayed;
    int n_delayed; /* entries of `delayed`, emitted ones included */
    int n_waiting; /* those that are not emitted yet */
    bool *waits;   /* per operator: its W call is delayed */
    int *waiters;  /* per value: first call that waits for it, or VP_NONE */
    vp_val *made;  /* values recomputed since the last emit_ready() */
    int n_made;
    int *ready; /* work array of emit_ready() */
};

/* A circular list of the values that share a buffer. */
struct ring {
    vp_val next, previous;
};

/* A W call that waits for a value. */
struct delayed {
    const struct vp_op *op;
    struct vp_ref dz;
    int next; /* next call that waits for the same value, or VP_NONE */
};

static const unsigned need_in[VP_MAX_IN] = { VP_NEED_IN0, VP_NEED_IN1,
                                             VP_NEED_IN2 };
static const unsigned need_aux[VP_MAX_AUX] = { VP_NEED_AUX0, VP_NEED_AUX1 };

/* Returns true if any slot recomputes `op`. */
static bool is_recomputed(const struct backward *bw, const struct vp_op *op)
{
    const struct vp_stage_spec *spec = bw->lowering->spec;

    return vp_recompute_runs(bw->graph, spec->first_block,
                             spec->any_recompute ? spec->any_recompute
                                                 : spec->recompute,
                             vp_spec_keeps_gathered(spec), op);
}

static bool is_made_by_r(const struct backward *bw, vp_val v)
{
    int producer = bw->graph->values[v].producer;

    return producer >= bw->lowering->first_op &&
           producer < bw->lowering->end_op &&
           !vp_graph_is_output(bw->graph, v) &&
           is_recomputed(bw, &bw->graph->ops[producer]);
}

/* Returns true if the W call of `op` reads a value that R computes, in any
 * slot. */
static bool w_reads_recomputed(const struct backward *bw,
                               const struct vp_op *op)
{
    for (int i = 0; i < VP_MAX_IN; i++) {
        vp_val v = vp_lowering_source(bw->lowering, op->in[i]);

        if (v != VP_NONE && (vp_op_defs[op->kind].needs_w & need_in[i]) &&
            is_made_by_r(bw, v) && !bw->lowering->recomputed_by_b[v])
            return true;
    }
    return false;
}

/* Returns true if the W call of `op` is in list W: that of a matrix product,
 * with split_w. W calls of other operators are in list B: they take too little
 * time to keep gradients for them. So are W calls of recomputed operators, and
 * of readers of their results, unless w_recomputed keeps what R computed until
 * W. */
static bool runs_w_later(const struct backward *bw, const struct vp_op *op)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];
    const struct vp_stage_spec *spec = bw->lowering->spec;

    return spec->split_w && def->has_w && def->flops &&
           ((spec->w_recomputed && !spec->recompute_in_b) ||
            (!is_recomputed(bw, op) && !w_reads_recomputed(bw, op)));
}

/* Returns true if the gradient of `v` is read by the operator being
 * differentiated or by a later call. */
static bool will_be_read(const struct backward *bw, vp_val v)
{
    int producer = bw->graph->values[v].producer;
    const struct vp_op *op;

    if (producer < bw->lowering->first_op)
        return true; /* it leaves the stage */
    if (producer <= bw->now)
        return true;
    op = &bw->graph->ops[producer];
    return (runs_w_later(bw, op) || bw->waits[producer]) && !vp_op_has_dz(op);
}

static void leave_ring(struct backward *bw, vp_val v)
{
    struct ring *rings = bw->rings;

    rings[rings[v].previous].next = rings[v].next;
    rings[rings[v].next].previous = rings[v].previous;
    rings[v] = (struct ring){ v, v };
}

/* Inserts `v`, which is in no ring, after `other`. */
static void join_ring(struct backward *bw, vp_val v, vp_val other)
{
    struct ring *rings = bw->rings;

    rings[v] = (struct ring){ rings[other].next, other };
    rings[rings[v].next].previous = v;
    rings[other].next = v;
}

/* Returns true if the gradient of another value will be read from the buffer of
 * `v`. Removes values from the ring whose gradients will not be read. */
static bool is_shared(struct backward *bw, vp_val v)
{
    vp_val next;

    for (vp_val u = bw->rings[v].next; u != v; u = next) {
        next = bw->rings[u].next;
        if (will_be_read(bw, u))
            return true;
        leave_ring(bw, u);
    }
    return false;
}

/* dst = src, or dst += src: gradients of value `v`. */
static void emit_copy(struct backward *bw, vp_val v, struct vp_ref dst,
                      struct vp_ref src, bool add)
{
    const struct vp_op *like = &bw->graph->ops[bw->now];
    struct vp_call *call = vp_lowering_emit(
        bw->lowering, VP_LIST_B,
        vp_lowering_own_op(bw->lowering, VP_OP_COPY, v, like), VP_PHASE_B);

    call->dout = src;
    call->din[0] = dst;
    call->din_add[0] = add;
}

static struct vp_ref new_grad(struct backward *bw, vp_val v)
{
    if (vp_ref_is(bw->din[v]))
        return bw->din[v];
    return vp_lowering_temp(bw->lowering, vp_value_bytes(bw->graph, v));
}

/* Makes sure that the gradient of `v` may be added to: copies it if it is
 * shared. */
static void make_private(struct backward *bw, vp_val v)
{
    struct vp_ref old = bw->grad[v];

    if (!is_shared(bw, v))
        return;
    leave_ring(bw, v);
    bw->grad[v] = new_grad(bw, v);
    emit_copy(bw, v, bw->grad[v], old, false);
}

static void differentiate_add(struct backward *bw, const struct vp_op *op)
{
    struct vp_ref dout = bw->grad[op->out];

    for (int i = 0; i < 2; i++) {
        vp_val v = op->in[i];

        if (v == VP_NONE || !bw->graph->values[v].needs_grad)
            continue;
        if (vp_ref_is(bw->grad[v])) {
            make_private(bw, v);
            emit_copy(bw, v, bw->grad[v], dout, true);
        } else if (vp_ref_is(bw->din[v])) {
            bw->grad[v] = bw->din[v];
            emit_copy(bw, v, bw->grad[v], dout, false);
        } else {
            bw->grad[v] = dout;
            join_ring(bw, v, op->out);
        }
    }
}

/* Returns the place of dz: that of dout, unless dout is also read for another
 * value. */
static struct vp_ref place_dz(struct backward *bw, const struct vp_op *op)
{
    if (!vp_op_has_dz(op))
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    if (bw->grad[op->out].space == VP_SPACE_WORK && !is_shared(bw, op->out))
        return bw->grad[op->out];
    return vp_lowering_temp(bw->lowering, vp_value_bytes(bw->graph, op->out));
}

/* Returns true if the gradient of `v` may overwrite `v`. Not if R computed `v`
 * and its producer passes the gradient on to its inputs, whose W calls may run
 * after the memory of R's results is reused. */
static bool may_overwrite(const struct backward *bw, vp_val v)
{
    int producer = bw->graph->values[v].producer;

    if (vp_ref_is(bw->din[v]))
        return false;
    return !vp_lowering_left_by_r(bw->lowering, v) ||
           !vp_op_defs[bw->graph->ops[producer].kind].passes_grad;
}

/* Finds the places of the inputs' gradients, and whether the call adds to them.
 * May emit copies, so it must run before the operator's own call is emitted. */
static void prepare_inputs(struct backward *bw, const struct vp_op *op,
                           struct vp_ref *din, bool *add)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];

    for (int i = 0; i < VP_MAX_IN; i++) {
        vp_val v = op->in[i];

        if (v == VP_NONE || !(def->grad_in & need_in[i]) ||
            !bw->graph->values[v].needs_grad)
            continue;
        add[i] = vp_ref_is(bw->grad[v]);
        if (add[i])
            make_private(bw, v);
        else if (i == 0 && def->b_overwrites_in0 && may_overwrite(bw, v))
            bw->grad[v] = bw->lowering->home[v];
        else
            bw->grad[v] = new_grad(bw, v);
        din[i] = bw->grad[v];
    }
}

/* din (+)= the sum of `part` over the members of the group. */
static void emit_group_copy(struct backward *bw, const struct vp_op *op,
                            struct vp_ref part, struct vp_ref din, bool add)
{
    struct vp_call *call = vp_lowering_emit(
        bw->lowering, VP_LIST_B,
        vp_lowering_own_op(bw->lowering, VP_OP_GROUP_COPY, op->in[0], op),
        VP_PHASE_B);

    call->dout = part;
    call->din[0] = din;
    call->din_add[0] = add;
}

static void emit_b(struct backward *bw, const struct vp_op *op,
                   struct vp_ref dz)
{
    struct vp_ref din[VP_MAX_IN] = { { VP_SPACE_NONE, 0 } };
    bool add[VP_MAX_IN] = { false };
    bool any = vp_ref_is(dz), add_sum = false, sums;
    struct vp_ref sum;
    struct vp_call *call;

    prepare_inputs(bw, op, din, add);
    for (int i = 0; i < VP_MAX_IN; i++)
        any |= vp_ref_is(din[i]);
    if (!any)
        return;
    sum = din[0];
    sums = vp_ref_is(sum) && vp_op_sums_gradient(bw->graph, op);
    if (sums && add[0]) { /* the gradient so far is a sum over the group */
        add_sum = true;
        add[0] = false;
        din[0] = vp_lowering_temp(bw->lowering,
                                  vp_value_bytes(bw->graph, op->in[0]));
    }
    call = vp_lowering_emit(bw->lowering, VP_LIST_B, op, VP_PHASE_B);
    vp_lowering_operands(bw->lowering, call);
    call->dout = bw->grad[op->out];
    call->dz = dz;
    for (int i = 0; i < VP_MAX_IN; i++) {
        call->din[i] = din[i];
        call->din_add[i] = add[i];
    }
    if (bw->lowering->recomputed_by_b[op->out]) {
        call->recomputed_out = bw->lowering->home[op->out] = vp_lowering_temp(
            bw->lowering, vp_value_bytes(bw->graph, op->out));
        bw->made[bw->n_made++] = op->out;
    }
    if (sums)
        emit_group_copy(bw, op, din[0], sum, add_sum);
}

/* Keeps a temporary of list B for list W. */
static void carry(struct backward *bw, struct vp_ref ref)
{
    if (ref.space == VP_SPACE_WORK)
        bw->lowering->temps[ref.offset].carried = true;
}

/* Emits the forward call of the producer of `v` in the list of the W call that
 * reads `v`: only its input is kept until then. Returns the place of `v`. */
static struct vp_ref make_again(struct backward *bw, enum vp_list list,
                                vp_val v)
{
    const struct vp_op *op = &bw->graph->ops[bw->graph->values[v].producer];
    struct vp_ref in = bw->lowering->home[op->in[0]];
    struct vp_ref out = vp_lowering_temp(bw->lowering,
                                         vp_value_bytes(bw->graph, v));
    struct vp_call *call = vp_lowering_emit(bw->lowering, list, op, VP_PHASE_F);

    call->in[0] = in;
    call->out = out;
    call->out_stays = true;
    if (list == VP_LIST_W)
        carry(bw, in);
    return out;
}

static void emit_w(struct backward *bw, const struct vp_op *op,
                   struct vp_ref dz)
{
    bool later = runs_w_later(bw, op);
    enum vp_list list = later ? VP_LIST_W : VP_LIST_B;
    bool again = op->in[0] != VP_NONE && bw->lowering->made_again[op->in[0]];
    struct vp_ref in = { VP_SPACE_NONE, 0 };
    struct vp_call *call;
    bool any = false;

    for (int i = 0; i < VP_MAX_PARAM; i++)
        any |= op->par[i] != VP_NONE && !bw->graph->params[op->par[i]].constant;
    if (!any)
        return;
    if (again)
        in = make_again(bw, list, op->in[0]);
    call = vp_lowering_emit(bw->lowering, list, op, VP_PHASE_W);
    vp_lowering_operands(bw->lowering, call);
    call->dz = dz;
    if (!vp_ref_is(dz))
        call->dout = bw->grad[op->out];
    if (later) {
        carry(bw, vp_ref_is(dz) ? dz : call->dout);
        for (int i = 0; i < VP_MAX_IN; i++)
            carry(bw, call->in[i]);
    }
    if (again)
        call->in[0] = in;
    for (int i = 0; i < VP_MAX_PARAM; i++)
        call->dpar[i] = vp_layout_grad(bw->lowering, op->par[i]);
}

/* Returns a value that the W call of `op` reads and that B has not recomputed
 * yet, or VP_NONE. */
static vp_val missing_input(const struct backward *bw, const struct vp_op *op)
{
    for (int i = 0; i < VP_MAX_IN; i++) {
        vp_val v = vp_lowering_source(bw->lowering, op->in[i]);

        if (v != VP_NONE && (vp_op_defs[op->kind].needs_w & need_in[i]) &&
            bw->lowering->recomputed_by_b[v] &&
            !vp_ref_is(bw->lowering->home[v]))
            return v;
    }
    return VP_NONE;
}

static void wait_for(struct backward *bw, int call, vp_val v)
{
    bw->delayed[call].next = bw->waiters[v];
    bw->waiters[v] = call;
}

static void delay_w(struct backward *bw, const struct vp_op *op,
                    struct vp_ref dz)
{
    bw->delayed[bw->n_delayed] = (struct delayed){ .op = op, .dz = dz };
    bw->waits[op - bw->graph->ops] = true;
    bw->n_waiting++;
    wait_for(bw, bw->n_delayed++, missing_input(bw, op));
}

static int ascending(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Emits the delayed W calls whose values have all been recomputed. */
static void emit_ready(struct backward *bw)
{
    int n_ready = 0;

    for (int i = 0; i < bw->n_made; i++) {
        int call = bw->waiters[bw->made[i]], next;

        for (; call != VP_NONE; call = next) {
            vp_val v = missing_input(bw, bw->delayed[call].op);

            next = bw->delayed[call].next;
            if (v == VP_NONE)
                bw->ready[n_ready++] = call;
            else
                wait_for(bw, call, v);
        }
        bw->waiters[bw->made[i]] = VP_NONE;
    }
    bw->n_made = 0;
    if (n_ready > 1)
        qsort(bw->ready, (size_t)n_ready, sizeof(*bw->ready), ascending);
    for (int i = 0; i < n_ready; i++) {
        const struct delayed *call = &bw->delayed[bw->ready[i]];

        bw->waits[call->op - bw->graph->ops] = false;
        emit_w(bw, call->op, call->dz);
    }
    bw->n_waiting -= n_ready;
}

/* Recomputes the values that B and W of `op` read, if they are not there. */
static void prepare_operands(struct backward *bw, const struct vp_op *op)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];
    unsigned needs = def->needs_b | def->needs_w;

    for (int i = 0; i < VP_MAX_IN; i++)
        if (needs & need_in[i])
            vp_lowering_recompute(bw->lowering,
                                  vp_lowering_source(bw->lowering, op->in[i]));
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (needs & need_aux[i])
            vp_lowering_recompute(bw->lowering, op->aux[i]);
    if (needs & VP_NEED_OUT)
        vp_lowering_recompute(bw->lowering, op->out);
}

static void differentiate(struct backward *bw, const struct vp_op *op)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];
    struct vp_ref dz;

    if (!bw->graph->values[op->out].needs_grad)
        return;
    VP_BUG_ON(op->out != bw->graph->loss && !vp_ref_is(bw->grad[op->out]));
    if (def->passes_grad) {
        if (def->has_w)
            emit_w(bw, op, (struct vp_ref){ VP_SPACE_NONE, 0 });
        differentiate_add(bw, op);
        return;
    }
    prepare_operands(bw, op);
    /* Delayed W calls are emitted only next to products: row-wise calls stay
     * together, and backends can run them as one. */
    if (def->flops)
        emit_ready(bw);
    dz = place_dz(bw, op);
    if (def->has_b)
        emit_b(bw, op, dz);
    if (def->has_w && missing_input(bw, op) == VP_NONE)
        emit_w(bw, op, dz);
    else if (def->has_w)
        delay_w(bw, op, dz);
    if (def->flops)
        emit_ready(bw);
}

/* Gradients from the next stage are the first terms of the sums. One that also
 * goes to the previous stage is copied to that message, where this stage adds
 * its terms. */
static void start_from_dout(struct backward *bw)
{
    const struct vp_program *program = bw->lowering->program;

    bw->now = bw->lowering->end_op - 1;
    for (int i = 0; i < program->din.n_entries; i++)
        bw->din[program->din.entries[i].value] = (struct vp_ref){
            VP_SPACE_DIN, program->din.entries[i].offset
        };
    for (int i = 0; i < program->dout.n_entries; i++) {
        const struct vp_boundary_value *entry = &program->dout.entries[i];
        struct vp_ref arrived = { VP_SPACE_DOUT, entry->offset };

        bw->grad[entry->value] = arrived;
        if (vp_ref_is(bw->din[entry->value])) {
            bw->grad[entry->value] = bw->din[entry->value];
            emit_copy(bw, entry->value, bw->din[entry->value], arrived, false);
        }
    }
}

static enum vp_status allocate(struct backward *bw)
{
    struct vp_lowering *lowering = bw->lowering;
    size_t n_values = (size_t)lowering->graph->n_values;
    size_t n_ops = (size_t)lowering->graph->n_ops;

    bw->grad = vp_lowering_work(lowering, n_values * sizeof(*bw->grad));
    bw->rings = vp_lowering_work(lowering, n_values * sizeof(*bw->rings));
    bw->din = vp_lowering_work(lowering, n_values * sizeof(*bw->din));
    bw->delayed = vp_lowering_work(lowering, n_ops * sizeof(*bw->delayed));
    bw->ready = vp_lowering_work(lowering, n_ops * sizeof(*bw->ready));
    bw->waits = vp_lowering_work(lowering, n_ops);
    bw->made = vp_lowering_work(lowering, n_values * sizeof(*bw->made));
    bw->waiters = vp_lowering_work(lowering, n_values * sizeof(*bw->waiters));
    if (lowering->status != VP_OK)
        return lowering->status;
    for (vp_val v = 0; v < lowering->graph->n_values; v++) {
        bw->rings[v] = (struct ring){ v, v };
        bw->waiters[v] = VP_NONE;
    }
    return VP_OK;
}

void vp_lower_backward(struct vp_lowering *lowering)
{
    struct backward bw = { .lowering = lowering, .graph = lowering->graph };

    if (allocate(&bw) != VP_OK)
        return;
    start_from_dout(&bw);
    for (int i = lowering->end_op - 1; i >= lowering->first_op; i--) {
        bw.now = i;
        differentiate(&bw, &lowering->graph->ops[i]);
    }
    emit_ready(&bw);
    VP_BUG_ON(bw.n_waiting > 0);
}
