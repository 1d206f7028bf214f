/* Reverse-mode differentiation of a stage into its B and W lists.
 *
 * The gradient of a value with several uses starts from what the next stage
 * sent and adds use by use in reverse order, whether or not a cut lies between
 * the uses: so the bits do not depend on the partition.
 *
 * An addition hands the gradient of its sum to both inputs without copying:
 * several values then share one buffer. Adding to a shared buffer is allowed
 * once no other value's gradient is read from it; before that, it is copied.
 *
 * A W call that reads a value made again waits for the B call that makes it. */
#include "graph/internal.h"

#include <stdlib.h>

struct backward {
    struct vp_lowering *lowering;
    const struct vp_graph *graph;
    struct vp_ref
        *grad;          /* per value: where its gradient is, NONE: no use yet */
    struct ring *rings; /* per value: those whose gradient is in that place */
    struct vp_ref *din; /* per value: its place in the DIN message */
    int now;            /* the operator being differentiated */

    /* W calls that wait for a value, in the order in which they came. */
    struct owed *owed;
    int n_owed, n_waiting;
    bool *waits;     /* per operator: its W call does */
    int *first_owed; /* per value: one that waits for it, or VP_NONE */
    vp_val *made;    /* values made again since the last settle() */
    int n_made;
    int *ready; /* room for those of settle() */
};

/* Values that share a buffer, in a circle. */
struct ring {
    vp_val next, previous;
};

struct owed {
    const struct vp_op *op;
    struct vp_ref dz;
    int next; /* waits for the same value; or VP_NONE */
};

static const unsigned need_in[VP_MAX_IN] = { VP_NEED_IN0, VP_NEED_IN1,
                                             VP_NEED_IN2 };
static const unsigned need_aux[VP_MAX_AUX] = { VP_NEED_AUX0, VP_NEED_AUX1 };

/* True for operators that some slot recomputes. */
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

/* True if W reads a value that R makes, for some slot. */
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

/* W of products runs in its own list, after B. That of other operators takes too
 * little time to keep their gradients for it, and runs with B. So does W of
 * recomputed operators, and of those that read their results, if what R made is
 * gone when W runs. */
static bool runs_w_later(const struct backward *bw, const struct vp_op *op)
{
    const struct vp_op_def *def = &vp_op_defs[op->kind];
    const struct vp_stage_spec *spec = bw->lowering->spec;

    return spec->split_w && def->has_w && def->flops &&
           ((spec->w_recomputed && !spec->recompute_in_b) ||
            (!is_recomputed(bw, op) && !w_reads_recomputed(bw, op)));
}

/* Will the gradient of `v` be read after the operator being differentiated,
 * or by it? */
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

/* Puts `v`, which is alone, behind `other`. */
static void join_ring(struct backward *bw, vp_val v, vp_val other)
{
    struct ring *rings = bw->rings;

    rings[v] = (struct ring){ rings[other].next, other };
    rings[rings[v].next].previous = v;
    rings[other].next = v;
}

/* Does another value need what the buffer of `v` holds? Gradients that will
 * not be read are never asked about again: they leave. */
static bool shared(struct backward *bw, vp_val v)
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

/* Makes the gradient of `v` a buffer that may be added to. */
static void make_private(struct backward *bw, vp_val v)
{
    struct vp_ref old = bw->grad[v];

    if (!shared(bw, v))
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

/* dz takes the place of dout unless dout is read for another value, too. */
static struct vp_ref place_dz(struct backward *bw, const struct vp_op *op)
{
    if (!vp_op_has_dz(op))
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    if (bw->grad[op->out].space == VP_SPACE_WORK && !shared(bw, op->out))
        return bw->grad[op->out];
    return vp_lowering_temp(bw->lowering, vp_value_bytes(bw->graph, op->out));
}

/* May the gradient of `v` take the place of `v`? A sum hands it on to its
 * inputs, whose W may run when what R made is gone. */
static bool may_overwrite(const struct backward *bw, vp_val v)
{
    int producer = bw->graph->values[v].producer;

    if (vp_ref_is(bw->din[v]))
        return false;
    return !vp_lowering_left_by_r(bw->lowering, v) ||
           !vp_op_defs[bw->graph->ops[producer].kind].passes_grad;
}

/* Prepares the gradients of the inputs. Copies are emitted here, so this
 * comes before the operator's own call. */
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
    if (sums && add[0]) { /* what is there already is whole */
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

/* What W reads later outlives the B list. */
static void carry(struct backward *bw, struct vp_ref ref)
{
    if (ref.space == VP_SPACE_WORK)
        bw->lowering->temps[ref.offset].carried = true;
}

/* Runs the operator that makes `v` again, in the list of the W call that reads it:
 * what is carried to W is the input. */
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

/* A value that the W call of `op` reads and that is not made again yet, or
 * VP_NONE. */
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

static void wait_for(struct backward *bw, int owed, vp_val v)
{
    bw->owed[owed].next = bw->first_owed[v];
    bw->first_owed[v] = owed;
}

static void owe_w(struct backward *bw, const struct vp_op *op, struct vp_ref dz)
{
    bw->owed[bw->n_owed] = (struct owed){ .op = op, .dz = dz };
    bw->waits[op - bw->graph->ops] = true;
    bw->n_waiting++;
    wait_for(bw, bw->n_owed++, missing_input(bw, op));
}

static int ascending(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Emits the W calls that need not wait any longer. */
static void settle(struct backward *bw)
{
    int n_ready = 0;

    for (int i = 0; i < bw->n_made; i++) {
        int owed = bw->first_owed[bw->made[i]], next;

        for (; owed != VP_NONE; owed = next) {
            vp_val v = missing_input(bw, bw->owed[owed].op);

            next = bw->owed[owed].next;
            if (v == VP_NONE)
                bw->ready[n_ready++] = owed;
            else
                wait_for(bw, owed, v);
        }
        bw->first_owed[bw->made[i]] = VP_NONE;
    }
    bw->n_made = 0;
    if (n_ready > 1)
        qsort(bw->ready, (size_t)n_ready, sizeof(*bw->ready), ascending);
    for (int i = 0; i < n_ready; i++) {
        const struct owed *owed = &bw->owed[bw->ready[i]];

        bw->waits[owed->op - bw->graph->ops] = false;
        emit_w(bw, owed->op, owed->dz);
    }
    bw->n_waiting -= n_ready;
}

/* Computes again what B and W of `op` read, unless it is there. */
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
    /* W calls that waited come next to products: calls that go over rows stay
     * together, as backends run them as one. */
    if (def->flops)
        settle(bw);
    dz = place_dz(bw, op);
    if (def->has_b)
        emit_b(bw, op, dz);
    if (def->has_w && missing_input(bw, op) == VP_NONE)
        emit_w(bw, op, dz);
    else if (def->has_w)
        owe_w(bw, op, dz);
    if (def->flops)
        settle(bw);
}

/* Gradients that arrive start the sums; one that only passes through, or is
 * added to here, continues in the message to the previous stage. */
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
    bw->owed = vp_lowering_work(lowering, n_ops * sizeof(*bw->owed));
    bw->ready = vp_lowering_work(lowering, n_ops * sizeof(*bw->ready));
    bw->waits = vp_lowering_work(lowering, n_ops);
    bw->made = vp_lowering_work(lowering, n_values * sizeof(*bw->made));
    bw->first_owed = vp_lowering_work(lowering,
                                      n_values * sizeof(*bw->first_owed));
    if (lowering->status != VP_OK)
        return lowering->status;
    for (vp_val v = 0; v < lowering->graph->n_values; v++) {
        bw->rings[v] = (struct ring){ v, v };
        bw->first_owed[v] = VP_NONE;
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
    settle(&bw);
    VP_BUG_ON(bw.n_waiting > 0);
}
