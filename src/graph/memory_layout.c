/* Places temporaries: buffers whose lifetimes do not overlap share memory.
 *
 * A buffer lives from the first to the last call that uses it. Calls that a
 * backend may run as one extend its life to the end of their run, and W calls
 * by w_linger calls. lifetimes.c finds the offsets. The lists of a minibatch
 * run in the order F, R, B, W, and calls are numbered through all of them.
 * Buffers of a single list go to WORK; those that are carried from one list to
 * another go to SLOT, where the gradients that B leaves for W can reuse memory
 * of values that only B reads. */
#include "graph/internal.h"

/* Calls `fn` for every ref of a call. */
static void each_ref(struct vp_call *call,
                     void (*fn)(void *ctx, struct vp_ref *ref), void *ctx)
{
    for (int i = 0; i < VP_MAX_IN; i++) {
        fn(ctx, &call->in[i]);
        fn(ctx, &call->din[i]);
    }
    for (int i = 0; i < VP_MAX_AUX; i++)
        fn(ctx, &call->aux[i]);
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        fn(ctx, &call->par[i]);
        fn(ctx, &call->dpar[i]);
    }
    fn(ctx, &call->out);
    fn(ctx, &call->dout);
    fn(ctx, &call->dz);
    fn(ctx, &call->recomputed_out);
    fn(ctx, &call->scratch);
}

/* The temporaries that are placed together. */
enum members {
    ALL,
    CARRIED,     /* from one list to another */
    OF_ONE_LIST, /* all others */
};

struct scan {
    const struct vp_temp *temps;
    struct vp_lifetime *lives; /* per temporary */
    enum members members;
    int call;
};

static bool is_member(const struct vp_temp *temp, enum members members)
{
    return members == ALL || temp->carried == (members == CARRIED);
}

/* Extends the lifetime of a temporary to scan->call. */
static void note_use(void *ctx, struct vp_ref *ref)
{
    struct scan *scan = ctx;
    struct vp_lifetime *life;

    if (ref->space != VP_SPACE_WORK ||
        !is_member(&scan->temps[ref->offset], scan->members))
        return;
    life = &scan->lives[ref->offset];
    if (life->first < 0)
        life->first = scan->call;
    if (life->last < scan->call)
        life->last = scan->call;
}

static bool runs_alone(const struct vp_call *call)
{
    const struct vp_op_def *def = &vp_op_defs[call->op->kind];

    return def->flops || (def->runs_alone && call->phase != VP_PHASE_W);
}

/* Returns the last call that a backend may run together with call `i`: the last
 * one before the next call that runs alone. */
static int end_of_run(const struct vp_program *program, enum vp_list list,
                      int i)
{
    const struct vp_call *calls = program->calls[list];

    if (runs_alone(&calls[i]))
        return i;
    while (i + 1 < program->n_calls[list] && !runs_alone(&calls[i + 1]))
        i++;
    return i;
}

/* Records the uses of temporaries by the calls of a list, numbered from `base`
 * on. */
static void scan_list(struct scan *scan, const struct vp_program *program,
                      enum vp_list list, int base)
{
    for (int i = 0, end = -1; i < program->n_calls[list]; i++) {
        struct vp_call *call = &program->calls[list][i];

        end = i > end ? end_of_run(program, list, i) : end;
        scan->call = base + i;
        each_ref(call, note_use, scan);
        scan->call = base + end;
        /* It may run concurrently with the calls after it. */
        if (call->phase == VP_PHASE_W)
            scan->call += program->spec.w_linger;
        each_ref(call, note_use, scan);
    }
}

/* Collects the lifetimes of `members` in lists [first, end), which run one
 * after the other, at the front of `lives`. Returns their number. */
static int find_lives(const struct vp_lowering *lowering, enum members members,
                      int first, int end, struct vp_lifetime *lives)
{
    const struct vp_program *program = lowering->program;
    struct scan scan = { .temps = lowering->temps,
                         .lives = lives,
                         .members = members };
    int n = 0, base = 0;

    for (int i = 0; i < lowering->n_temps; i++)
        lives[i] = (struct vp_lifetime){
            .id = i,
            .first = -1,
            .last = -1,
            .n_bytes = lowering->temps[i].n_bytes
        };
    for (int list = first; list < end; list++) {
        scan_list(&scan, program, (enum vp_list)list, base);
        base += program->n_calls[list];
    }
    for (int i = 0; i < lowering->n_temps; i++)
        if (lives[i].first >= 0)
            lives[n++] = lives[i];
    return n;
}

/* Places `members` in lists [first, end). Returns the bytes of all in
 * *n_bytes_out. */
static enum vp_status plan_lists(struct vp_lowering *lowering,
                                 enum members members, int first, int end,
                                 struct vp_lifetime *lives,
                                 int64_t *n_bytes_out)
{
    int n = find_lives(lowering, members, first, end, lives);

    VP_TRY(vp_lifetimes_place(lives, n, n_bytes_out));
    for (int i = 0; i < n; i++)
        lowering->temps[lives[i].id].offset = lives[i].offset;
    return VP_OK;
}

/* Replaces the index of a temporary by its place. */
static void patch(void *ctx, struct vp_ref *ref)
{
    const struct vp_lowering *lowering = ctx;
    bool one_slot = lowering->spec->one_slot;
    const struct vp_temp *temp;

    if (ref->space != VP_SPACE_WORK)
        return;
    temp = &lowering->temps[ref->offset];
    ref->space = temp->carried || one_slot ? VP_SPACE_SLOT : VP_SPACE_WORK;
    ref->offset = temp->offset;
}

/* Places `members` of all lists in SLOT, after the outputs of the graph. */
static enum vp_status plan_slot(struct vp_lowering *lowering,
                                enum members members, struct vp_lifetime *lives)
{
    int64_t *slot = &lowering->program->n_bytes[VP_SPACE_SLOT];
    int64_t n_bytes;

    VP_TRY(plan_lists(lowering, members, 0, VP_LIST_COUNT, lives, &n_bytes));
    for (int i = 0; i < lowering->n_temps; i++)
        if (is_member(&lowering->temps[i], members))
            lowering->temps[i].offset += *slot;
    *slot += n_bytes;
    return VP_OK;
}

/* Places the temporaries of each list in WORK, which is as large as the list
 * with the most bytes needs. */
static enum vp_status plan_work(struct vp_lowering *lowering,
                                struct vp_lifetime *lives)
{
    int64_t *work = &lowering->program->n_bytes[VP_SPACE_WORK];

    for (int list = 0; list < VP_LIST_COUNT; list++) {
        int64_t n_bytes;

        VP_TRY(
            plan_lists(lowering, OF_ONE_LIST, list, list + 1, lives, &n_bytes));
        if (n_bytes > *work)
            *work = n_bytes;
    }
    return VP_OK;
}

/* Makes WORK large enough for the partial gradients that members add up between
 * lists. */
static void add_partial_grads(struct vp_program *program)
{
    int64_t *work = &program->n_bytes[VP_SPACE_WORK];
    size_t n_bytes = (size_t)program->layout.n_partial * sizeof(float);
    int64_t needed = (int64_t)vp_align_up(n_bytes, VP_TENSOR_ALIGN);

    if (!program->spec.forward_only && needed > *work)
        *work = needed;
}

enum vp_status vp_memory_layout_make(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    size_t n = (size_t)lowering->n_temps + 1;
    struct vp_lifetime *lives = vp_lowering_work(lowering, n * sizeof(*lives));

    if (lowering->status != VP_OK)
        return lowering->status;
    if (lowering->spec->one_slot) {
        VP_TRY(plan_slot(lowering, ALL, lives));
    } else {
        VP_TRY(plan_slot(lowering, CARRIED, lives));
        VP_TRY(plan_work(lowering, lives));
    }
    add_partial_grads(program);
    for (int list = 0; list < VP_LIST_COUNT; list++)
        for (int i = 0; i < program->n_calls[list]; i++)
            each_ref(&program->calls[list][i], patch, lowering);
    return VP_OK;
}
