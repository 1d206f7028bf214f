/* Lowers a stage to a program: emits lists F and R, and decides which values
 * are kept for backward. backward.c emits B and W, grads.c lets gradients share
 * memory, bundle.c cuts them for replicas, memory_layout.c places
 * temporaries.
 *
 * A value that backward reads is kept, or computed again:
 *
 *   by                          marked in vp_lowering     decided by
 *   calls of list R             recomputed                recompute sets
 *   forward calls in list B     recomputed, again         ... recompute_in_b
 *   the B kernel that needs it  recomputed_by_b           its operator
 *   a forward call before W     made_again                its operator
 *
 * `kept` is its place between lists, `home` its place within one list. */
#include "graph/internal.h"

#include <string.h>

static const unsigned need_in[VP_MAX_IN] = { VP_NEED_IN0, VP_NEED_IN1,
                                             VP_NEED_IN2 };
static const unsigned need_aux[VP_MAX_AUX] = { VP_NEED_AUX0, VP_NEED_AUX1 };

static void *alloc_from(struct vp_lowering *lowering, struct vp_arena *arena,
                        size_t n_bytes)
{
    void *p = vp_arena_alloc(arena, n_bytes);

    if (!p)
        lowering->status = VP_ERR_NOMEM;
    return p;
}

void *vp_lowering_alloc(struct vp_lowering *lowering, size_t n_bytes)
{
    return alloc_from(lowering, &lowering->program->arena, n_bytes);
}

void *vp_lowering_work(struct vp_lowering *lowering, size_t n_bytes)
{
    return alloc_from(lowering, &lowering->arena, n_bytes);
}

/* Returns the array, or a copy of twice the capacity if it is full; NULL when
 * out of memory. */
static void *grow(struct vp_lowering *lowering, void *items, size_t item_bytes,
                  int n, int *cap)
{
    int wider = *cap ? *cap * 2 : 256;
    void *moved;

    if (n < *cap)
        return items;
    moved = vp_lowering_work(lowering, (size_t)wider * item_bytes);
    if (!moved)
        return NULL;
    if (n > 0)
        memcpy(moved, items, (size_t)n * item_bytes);
    *cap = wider;
    return moved;
}

struct vp_ref vp_lowering_temp(struct vp_lowering *lowering, int64_t n_bytes)
{
    struct vp_temp *temps = grow(lowering, lowering->temps, sizeof(*temps),
                                 lowering->n_temps, &lowering->cap_temps);

    if (!temps)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    lowering->temps = temps;
    temps[lowering->n_temps] = (struct vp_temp){
        .n_bytes = (int64_t)vp_align_up((size_t)n_bytes, VP_TENSOR_ALIGN)
    };
    return (struct vp_ref){ VP_SPACE_WORK, lowering->n_temps++ };
}

struct vp_call *vp_lowering_emit(struct vp_lowering *lowering,
                                 enum vp_list list, const struct vp_op *op,
                                 enum vp_phase phase)
{
    static struct vp_call dummy;
    struct vp_program *program = lowering->program;
    struct vp_call *calls, *call;
    size_t scratch = 0;

    calls = grow(lowering, program->calls[list], sizeof(*calls),
                 program->n_calls[list], &lowering->cap_calls[list]);
    if (!calls)
        return &dummy;
    program->calls[list] = calls;
    call = &calls[program->n_calls[list]++];
    *call = (struct vp_call){ .op = op, .phase = phase };
    if (lowering->scratch)
        scratch = lowering->scratch(lowering->scratch_ctx, lowering->graph, op,
                                    phase);
    if (scratch > 0)
        call->scratch = vp_lowering_temp(lowering, (int64_t)scratch);
    if (op->kind != VP_OP_COPY && op->kind != VP_OP_GROUP_COPY)
        program->flops[list] += vp_op_flops(lowering->graph, op, phase);
    return call;
}

static struct vp_ref place_of(const struct vp_lowering *lowering, vp_val v)
{
    if (v == VP_NONE)
        return (struct vp_ref){ VP_SPACE_NONE, 0 };
    return lowering->home[v];
}

/* Returns the values of its operator that a call reads or writes, as VP_NEED
 * bits. The call must not refer to others: their memory may have been
 * reused. */
static unsigned find_needs(const struct vp_call *call)
{
    const struct vp_op_def *def = &vp_op_defs[call->op->kind];

    if (call->phase == VP_PHASE_F)
        return ~0u;
    return call->phase == VP_PHASE_B ? def->needs_b : def->needs_w;
}

void vp_lowering_operands(struct vp_lowering *lowering, struct vp_call *call)
{
    const struct vp_op *op = call->op;
    unsigned needs = find_needs(call);

    for (int i = 0; i < VP_MAX_IN; i++)
        if (needs & need_in[i])
            call->in[i] = place_of(lowering, op->in[i]);
    if (needs & VP_NEED_OUT)
        call->out = place_of(lowering, op->out);
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (needs & need_aux[i])
            call->aux[i] = place_of(lowering, op->aux[i]);
    for (int i = 0; i < VP_MAX_PARAM; i++)
        call->par[i] = vp_layout_param(lowering, op->par[i]);
}

const struct vp_op *vp_lowering_own_op(struct vp_lowering *lowering,
                                       enum vp_op_kind kind, vp_val v,
                                       const struct vp_op *like)
{
    struct vp_op *op = vp_lowering_alloc(lowering, sizeof(*op));

    if (!op)
        return like;
    *op = (struct vp_op){ .kind = kind,
                          .id = like->id,
                          .stream = like->stream,
                          .line = like->line,
                          .block = like->block,
                          .in = { v, VP_NONE, VP_NONE },
                          .par = { VP_NONE, VP_NONE, VP_NONE },
                          .out = v,
                          .aux = { VP_NONE, VP_NONE },
                          .attr = { .batch = like->attr.batch } };
    return op;
}

/* ---- Values that backward needs ----------------------------------------- */

static void mark(bool *marks, vp_val v)
{
    if (v != VP_NONE)
        marks[v] = true;
}

static void mark_needs(const struct vp_op *op, unsigned needs, bool *marks)
{
    for (int i = 0; i < VP_MAX_IN; i++)
        if (needs & need_in[i])
            mark(marks, op->in[i]);
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (needs & need_aux[i])
            mark(marks, op->aux[i]);
    if (needs & VP_NEED_OUT)
        mark(marks, op->out);
}

/* Marks the values that the stage's B or W kernels read. */
static void mark_phase(const struct vp_lowering *lowering, enum vp_phase phase,
                       bool *marks)
{
    const struct vp_graph *graph = lowering->graph;

    for (int i = lowering->first_op; i < lowering->end_op; i++) {
        const struct vp_op *op = &graph->ops[i];
        const struct vp_op_def *def = &vp_op_defs[op->kind];

        if (graph->values[op->out].needs_grad)
            mark_needs(op, phase == VP_PHASE_B ? def->needs_b : def->needs_w,
                       marks);
    }
}

/* For operators that run again before W (all_gather), backward keeps the input
 * instead of the result. Only W calls read the result: it is the input of
 * products. */
static void mark_made_again(struct vp_lowering *lowering, bool *marks)
{
    const struct vp_graph *graph = lowering->graph;

    for (int i = lowering->first_op; i < lowering->end_op; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (vp_spec_keeps_gathered(lowering->spec) ||
            !vp_op_defs[op->kind].made_again || !marks[op->out])
            continue;
        lowering->made_again[op->out] = true;
        marks[op->out] = false;
        marks[op->in[0]] = true;
    }
}

/* Marks the values that backward reads, except those that B calls write again:
 * values that only W reads and that the B kernel of their operator can write.
 * The choice must be the same for every cut, since a B kernel may round
 * differently from that of F. */
static void mark_backward(struct vp_lowering *lowering, bool *marks)
{
    const struct vp_graph *graph = lowering->graph;
    bool *recomputed_by_b = lowering->recomputed_by_b;

    mark_phase(lowering, VP_PHASE_B, marks);
    for (int i = lowering->first_op; i < lowering->end_op; i++) {
        const struct vp_op *op = &graph->ops[i];

        recomputed_by_b[op->out] = !lowering->spec->keep_all &&
                                   !marks[op->out] &&
                                   vp_op_can_recompute_out(op) &&
                                   graph->values[op->in[0]].needs_grad;
    }
    mark_phase(lowering, VP_PHASE_W, marks);
    mark_made_again(lowering, marks);
    for (vp_val v = 0; v < graph->n_values; v++) {
        recomputed_by_b[v] = recomputed_by_b[v] && marks[v];
        marks[v] = marks[v] && !recomputed_by_b[v];
    }
}

static bool makes_marked(const struct vp_op *op, const bool *marks)
{
    bool makes = marks[op->out];

    for (int i = 0; i < VP_MAX_AUX; i++)
        makes |= op->aux[i] != VP_NONE && marks[op->aux[i]];
    return makes;
}

/* Finds the operators that run again: those of the sets that compute a marked
 * value. Marks their inputs, too. */
static void mark_recomputed(const struct vp_lowering *lowering, bool *marks)
{
    for (int i = lowering->end_op - 1; i >= lowering->first_op; i--) {
        const struct vp_op *op = &lowering->graph->ops[i];

        if (!vp_lowering_is_recomputed(lowering, op) ||
            !makes_marked(op, marks))
            continue;
        lowering->recomputed[i] = true;
        for (int j = 0; j < VP_MAX_IN; j++)
            mark(marks, op->in[j]);
    }
}

static struct vp_ref reserve(struct vp_program *program, enum vp_space space,
                             int64_t n_bytes)
{
    struct vp_ref ref = { space, program->n_bytes[space] };

    program->n_bytes[space] += (int64_t)vp_align_up((size_t)n_bytes,
                                                    VP_TENSOR_ALIGN);
    return ref;
}

static struct vp_ref carried_temp(struct vp_lowering *lowering, int64_t n_bytes)
{
    struct vp_ref ref = vp_lowering_temp(lowering, n_bytes);

    if (vp_ref_is(ref))
        lowering->temps[ref.offset].carried = true;
    return ref;
}

static bool is_swapped(const struct vp_lowering *lowering, vp_val v)
{
    const struct vp_graph *graph = lowering->graph;

    return vp_recompute_has(graph, lowering->spec->first_block,
                            lowering->spec->swap,
                            &graph->ops[graph->values[v].producer]);
}

/* Gives every marked value of this stage its place between F and B, or between
 * R and B. A marked value that backward does not read is read by R. Outputs
 * have memory of their own, since the host may read them at any time. */
static void place_kept(struct vp_lowering *lowering, const bool *marks)
{
    bool in_b = lowering->spec->recompute_in_b;
    const struct vp_graph *graph = lowering->graph;

    for (vp_val v = 0; v < graph->n_values; v++) {
        int producer = graph->values[v].producer;
        bool by_r = vp_lowering_left_by_r(lowering, v);
        int64_t n_bytes = vp_value_bytes(graph, v);

        if (producer < lowering->first_op || producer >= lowering->end_op)
            continue;
        if (graph->values[v].persists) {
            lowering->kept[v] = reserve(lowering->program, VP_SPACE_CACHE,
                                        n_bytes);
            continue;
        }
        if (!vp_graph_is_output(graph, v) &&
            !(by_r ? lowering->backward[v] && !in_b : marks[v]))
            continue;
        if (vp_graph_is_output(graph, v))
            lowering->kept[v] = reserve(lowering->program, VP_SPACE_SLOT,
                                        n_bytes);
        else if (by_r && !lowering->spec->one_slot)
            lowering->kept[v] = reserve(lowering->program, VP_SPACE_RECOMPUTED,
                                        n_bytes);
        else if (!by_r && is_swapped(lowering, v))
            lowering->kept[v] = reserve(lowering->program, VP_SPACE_SWAPPED,
                                        n_bytes);
        else
            lowering->kept[v] = carried_temp(lowering, n_bytes);
    }
}

/* ---- Forward and recompute ---------------------------------------------- */

/* Sets the place of value `v` in `list`, unless it is set. */
static void find_home(struct vp_lowering *lowering, enum vp_list list, vp_val v)
{
    struct vp_ref *home;

    if (v == VP_NONE)
        return;
    home = &lowering->home[v];
    if (vp_ref_is(*home))
        return;
    *home = lowering->boundary_in[v];
    if (!vp_ref_is(*home) &&
        (list != VP_LIST_F || !vp_lowering_left_by_r(lowering, v)))
        *home = lowering->kept[v];
    if (!vp_ref_is(*home) && list == VP_LIST_F)
        *home = lowering->boundary_out[v];
    if (!vp_ref_is(*home))
        *home = vp_lowering_temp(lowering, vp_value_bytes(lowering->graph, v));
}

static void forget_homes(struct vp_lowering *lowering)
{
    memset(lowering->home, 0,
           (size_t)lowering->graph->n_values * sizeof(*lowering->home));
}

static bool is_temporary(const struct vp_lowering *lowering, vp_val v)
{
    return lowering->home[v].space == VP_SPACE_WORK &&
           !vp_ref_same(lowering->home[v], lowering->kept[v]);
}

static void emit_forward(struct vp_lowering *lowering, enum vp_list list,
                         const struct vp_op *op)
{
    struct vp_call *call;

    for (int i = 0; i < VP_MAX_IN; i++)
        find_home(lowering, list, op->in[i]);
    find_home(lowering, list, op->out);
    for (int i = 0; i < VP_MAX_AUX; i++)
        find_home(lowering, list, op->aux[i]);
    call = vp_lowering_emit(lowering, list, op, VP_PHASE_F);
    vp_lowering_operands(lowering, call);
    call->out_stays = !is_temporary(lowering, op->out) ||
                      (list == VP_LIST_B && lowering->backward[op->out]);
}

/* Emits copies of values that leave the stage but were not computed in the
 * message buffer: those that pass through the stage, and those that its
 * backward reads. */
static void emit_passing(struct vp_lowering *lowering)
{
    const struct vp_boundary *out = &lowering->program->out;
    const struct vp_op *last = &lowering->graph->ops[lowering->end_op - 1];

    for (int i = 0; i < out->n_entries; i++) {
        vp_val v = out->entries[i].value;
        struct vp_call *call;

        find_home(lowering, VP_LIST_F, v);
        if (lowering->home[v].space == VP_SPACE_OUT)
            continue;
        call = vp_lowering_emit(
            lowering, VP_LIST_F,
            vp_lowering_own_op(lowering, VP_OP_COPY, v, last), VP_PHASE_F);
        call->in[0] = lowering->home[v];
        call->out = lowering->boundary_out[v];
    }
}

static void lower_forward(struct vp_lowering *lowering)
{
    const struct vp_graph *graph = lowering->graph;

    forget_homes(lowering);
    for (int i = lowering->first_op; i < lowering->end_op; i++)
        emit_forward(lowering, VP_LIST_F, &graph->ops[i]);
    emit_passing(lowering);
    if (lowering->spec->forward_only)
        return;

    forget_homes(lowering);
    for (int i = lowering->first_op; i < lowering->end_op; i++)
        if (lowering->recomputed[i] && !lowering->spec->recompute_in_b)
            emit_forward(lowering, VP_LIST_R, &graph->ops[i]);

    /* Backward reads values where F or R wrote them, or recomputes them. */
    forget_homes(lowering);
    for (vp_val v = 0; v < graph->n_values; v++)
        if (!lowering->recomputed_by_b[v])
            lowering->home[v] = vp_ref_is(lowering->boundary_in[v])
                                    ? lowering->boundary_in[v]
                                    : lowering->kept[v];
}

/* ---- Recomputation inside of B ------------------------------------------ */

/* Marks in `due`, which is all false before, operator `last` and the operators
 * that must run again before it. Returns the first of them. */
static int find_due(struct vp_lowering *lowering, int last, bool *due)
{
    const struct vp_graph *graph = lowering->graph;
    int n_open = 1, first = last;

    due[last] = true;
    for (int i = last; n_open > 0; i--) {
        if (!due[i])
            continue;
        first = i;
        n_open--;
        for (int j = 0; j < VP_MAX_IN; j++) {
            vp_val v = graph->ops[i].in[j];
            int producer = v == VP_NONE ? VP_NONE : graph->values[v].producer;

            if (producer == VP_NONE || vp_ref_is(lowering->again[v]) ||
                !vp_lowering_left_by_r(lowering, v) || due[producer])
                continue;
            due[producer] = true;
            n_open++;
        }
    }
    return first;
}

/* Lets backward read `v` where it was recomputed. */
static void hand_over(struct vp_lowering *lowering, vp_val v)
{
    if (v != VP_NONE && lowering->backward[v])
        lowering->home[v] = lowering->again[v];
}

/* Emits the call of `op` in B that recomputes its results. */
static void run_again(struct vp_lowering *lowering, const struct vp_op *op)
{
    struct vp_ref *home = lowering->home;

    lowering->home = lowering->again;
    emit_forward(lowering, VP_LIST_B, op);
    lowering->home = home;
    hand_over(lowering, op->out);
    for (int i = 0; i < VP_MAX_AUX; i++)
        hand_over(lowering, op->aux[i]);
}

void vp_lowering_recompute(struct vp_lowering *lowering, vp_val v)
{
    const struct vp_graph *graph = lowering->graph;
    int last;

    if (!lowering->spec->recompute_in_b || v == VP_NONE ||
        !lowering->backward[v] || vp_ref_is(lowering->home[v]) ||
        !vp_lowering_left_by_r(lowering, v))
        return;
    last = graph->values[v].producer;
    for (int i = find_due(lowering, last, lowering->due); i <= last; i++) {
        if (lowering->due[i])
            run_again(lowering, &graph->ops[i]);
        lowering->due[i] = false;
    }
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status check_spec(const struct vp_graph *graph,
                                 const struct vp_stage_spec *spec,
                                 struct vp_err *err)
{
    if (spec->first_block < 0 || spec->n_blocks < 1 ||
        spec->first_block + spec->n_blocks > graph->n_blocks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "stage of blocks %d..%d: the model has blocks 0..%d",
                          spec->first_block,
                          spec->first_block + spec->n_blocks - 1,
                          graph->n_blocks - 1);
    if (!(graph->outputs & VP_OUTPUT_LOSS) && !spec->forward_only)
        return vp_err_set(err, VP_ERR_INVALID,
                          "a graph that ends in logits cannot be trained; "
                          "build it with a loss");
    if (spec->swap)
        VP_TRY(vp_recompute_check(graph, spec->first_block, spec->n_blocks,
                                  spec->swap, err));
    if (!spec->recompute)
        return VP_OK;
    return vp_recompute_check(graph, spec->first_block, spec->n_blocks,
                              spec->recompute, err);
}

void vp_lowering_find_range(struct vp_lowering *lowering)
{
    const struct vp_graph *graph = lowering->graph;
    const struct vp_stage_spec *spec = lowering->spec;
    const struct vp_block *first = &graph->blocks[spec->first_block];
    const struct vp_block *last = first + spec->n_blocks - 1;

    lowering->first_op = first->first_op;
    lowering->end_op = last->first_op + last->n_ops;
}

static void *copy_list(struct vp_lowering *lowering, const void *list,
                       size_t n_bytes)
{
    void *copy = list ? vp_lowering_alloc(lowering, n_bytes) : NULL;

    if (copy)
        memcpy(copy, list, n_bytes);
    return copy;
}

/* Replaces the arrays of the spec by copies that the program owns. */
static enum vp_status copy_lists(struct vp_lowering *lowering)
{
    struct vp_stage_spec *spec = &lowering->program->spec;
    size_t n = (size_t)spec->n_blocks;

    spec->recompute = copy_list(lowering, spec->recompute,
                                n * sizeof(*spec->recompute));
    spec->any_recompute = copy_list(lowering, spec->any_recompute,
                                    n * sizeof(*spec->any_recompute));
    spec->swap = copy_list(lowering, spec->swap, n * sizeof(*spec->swap));
    spec->bases = copy_list(lowering, spec->bases, n * sizeof(*spec->bases));
    return lowering->status;
}

/* Moves the finished calls to memory of the program. */
static enum vp_status keep_calls(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;

    for (int list = 0; list < VP_LIST_COUNT; list++) {
        size_t n_bytes = (size_t)program->n_calls[list] *
                         sizeof(struct vp_call);
        struct vp_call *calls = vp_lowering_alloc(lowering, n_bytes);

        if (!calls)
            return VP_ERR_NOMEM;
        if (n_bytes > 0)
            memcpy(calls, program->calls[list], n_bytes);
        program->calls[list] = calls;
    }
    return VP_OK;
}

enum vp_status vp_lowering_find_kept(struct vp_lowering *lowering, bool *marks)
{
    size_t n_values = (size_t)lowering->graph->n_values;

    lowering->backward = vp_lowering_work(lowering, n_values);
    lowering->recomputed_by_b = vp_lowering_work(lowering, n_values);
    lowering->made_again = vp_lowering_work(lowering, n_values);
    lowering->recomputed = vp_lowering_work(lowering,
                                            (size_t)lowering->graph->n_ops);
    if (lowering->status != VP_OK || lowering->spec->forward_only)
        return lowering->status;
    mark_backward(lowering, lowering->backward);
    memcpy(marks, lowering->backward, n_values);
    mark_recomputed(lowering, marks);
    return VP_OK;
}

static enum vp_status lower_lists(struct vp_lowering *lowering)
{
    size_t n_values = (size_t)lowering->graph->n_values;
    size_t n_ops = (size_t)lowering->graph->n_ops;
    bool *marks = vp_lowering_work(lowering, n_values);

    lowering->due = vp_lowering_work(lowering, n_ops);
    lowering->again = vp_lowering_work(lowering,
                                       n_values * sizeof(*lowering->again));
    lowering->boundary_in = vp_lowering_work(
        lowering, n_values * sizeof(*lowering->boundary_in));
    lowering->boundary_out = vp_lowering_work(
        lowering, n_values * sizeof(*lowering->boundary_out));
    lowering->kept = vp_lowering_work(lowering,
                                      n_values * sizeof(*lowering->kept));
    lowering->home = vp_lowering_work(lowering,
                                      n_values * sizeof(*lowering->home));
    if (lowering->status != VP_OK)
        return lowering->status;

    VP_TRY(vp_boundaries_make(lowering));
    VP_TRY(vp_lowering_find_kept(lowering, marks));
    place_kept(lowering, marks);
    lower_forward(lowering);
    if (!lowering->spec->forward_only)
        vp_lower_backward(lowering);
    if (lowering->status != VP_OK)
        return lowering->status;
    if (lowering->spec->grad_linger > 0)
        VP_TRY(vp_grads_place(lowering));
    if (lowering->spec->bundle_bytes > 0 && !lowering->spec->forward_only)
        VP_TRY(vp_bundles_make(lowering));
    VP_TRY(vp_memory_layout_make(lowering));
    return keep_calls(lowering);
}

static void note_sizes(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    const struct vp_graph *graph = lowering->graph;

    program->n_bytes[VP_SPACE_PARAM] = program->layout.param_bytes;
    program->n_bytes[VP_SPACE_IN] = program->in.n_bytes;
    program->n_bytes[VP_SPACE_OUT] = program->out.n_bytes;
    if (!program->spec.forward_only) {
        program->n_bytes[VP_SPACE_GRAD] = program->layout.grad_bytes;
        program->n_bytes[VP_SPACE_DIN] = program->din.n_bytes;
        program->n_bytes[VP_SPACE_DOUT] = program->dout.n_bytes;
    }
    if (lowering->end_op < graph->n_ops)
        return;
    if (graph->outputs & VP_OUTPUT_LOSS)
        program->loss = lowering->kept[graph->loss];
    if (graph->outputs & VP_OUTPUT_LOGITS)
        program->logits = lowering->kept[graph->logits];
}

enum vp_status vp_program_lower(const struct vp_graph *graph,
                                const struct vp_stage_spec *spec,
                                vp_scratch_fn scratch, const void *scratch_ctx,
                                struct vp_program *program_out,
                                struct vp_err *err)
{
    struct vp_program program = { .graph = graph, .spec = *spec };
    struct vp_lowering lowering = { .graph = graph,
                                    .spec = &program.spec,
                                    .program = &program,
                                    .scratch = scratch,
                                    .scratch_ctx = scratch_ctx };
    enum vp_status st;

    VP_TRY(check_spec(graph, spec, err));
    vp_lowering_find_range(&lowering);
    st = copy_lists(&lowering);
    if (st == VP_OK)
        st = vp_layout_make(&lowering);
    if (st == VP_OK)
        st = vp_layout_check(&lowering, err);
    if (st == VP_OK)
        st = lower_lists(&lowering);
    if (st == VP_OK)
        note_sizes(&lowering);
    vp_arena_release(&lowering.arena);
    if (st != VP_OK) {
        vp_arena_release(&program.arena);
        return st == VP_ERR_INVALID
                   ? st
                   : vp_err_set(err, st, "lowering a stage: %s",
                                vp_status_name(st));
    }
    *program_out = program;
    return VP_OK;
}

void vp_program_release(struct vp_program *program)
{
    vp_arena_release(&program->arena);
    *program = (struct vp_program){ .graph = NULL };
}
