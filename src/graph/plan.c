/* The memory plan: temporaries that are never alive together share bytes.
 *
 * A temporary lives from the first to the last call of its list that names it,
 * or to the end of a run of calls that may be made one; those of a W linger.
 * Largest first, each goes to the lowest offset that is free during its whole
 * life. Temporaries that W reads after B move to the slot. */
#include "graph/lower.h"

#include <stdlib.h>
#include <string.h>

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
    fn(ctx, &call->again);
    fn(ctx, &call->scratch);
}

struct scan {
    const struct vp_temp *temps;
    struct vp_life *lives; /* per temporary */
    bool all;              /* those that are carried, too */
    int call;
};

static void note_use(void *ctx, struct vp_ref *ref)
{
    struct scan *scan = ctx;
    struct vp_life *life;

    if (ref->space != VP_SPACE_WORK ||
        (scan->temps[ref->offset].carried && !scan->all))
        return;
    life = &scan->lives[ref->offset];
    if (life->first < 0)
        life->first = scan->call;
    if (life->last < scan->call)
        life->last = scan->call;
}

/* The last of the calls that a backend may run together with call `i`: it and
 * those that follow up to the next product. */
static int end_of_run(const struct vp_program *program, enum vp_list list,
                      int i)
{
    const struct vp_call *calls = program->calls[list];

    if (vp_op_defs[calls[i].op->kind].flops)
        return i;
    while (i + 1 < program->n_calls[list] &&
           !vp_op_defs[calls[i + 1].op->kind].flops)
        i++;
    return i;
}

/* Notes what the calls of a list name; its first call is number `base`. */
static void scan_list(struct scan *scan, const struct vp_program *program,
                      enum vp_list list, int base)
{
    for (int i = 0; i < program->n_calls[list]; i++) {
        struct vp_call *call = &program->calls[list][i];

        scan->call = base + i;
        each_ref(call, note_use, scan);
        scan->call = base + end_of_run(program, list, i);
        /* It may run beside the calls after it. */
        if (call->phase == VP_PHASE_W)
            scan->call += program->spec.w_linger;
        each_ref(call, note_use, scan);
    }
}

/* Collects the lives in lists [first, end), which run one after the other, at
 * the front of `lives`; returns how many. */
static int find_lives(const struct vp_lowering *lowering, int first, int end,
                      struct vp_life *lives)
{
    const struct vp_program *program = lowering->program;
    struct scan scan = { .temps = lowering->temps,
                         .lives = lives,
                         .all = lowering->spec->one_slot };
    int n = 0, base = 0;

    for (int i = 0; i < lowering->n_temps; i++)
        lives[i] = (struct vp_life){ .id = i,
                                     .first = -1,
                                     .last = -1,
                                     .n_bytes = lowering->temps[i].n_bytes };
    for (int list = first; list < end; list++) {
        scan_list(&scan, program, (enum vp_list)list, base);
        base += program->n_calls[list];
    }
    for (int i = 0; i < lowering->n_temps; i++)
        if (lives[i].first >= 0)
            lives[n++] = lives[i];
    return n;
}

static int larger_first(const void *a, const void *b)
{
    const struct vp_life *x = a, *y = b;

    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* `placed` is sorted by offset; inserts `life` at the lowest free place. */
static void place(struct vp_life *placed, int n_placed, struct vp_life life)
{
    int at = n_placed;

    life.offset = 0;
    for (int i = 0; i < n_placed; i++) {
        const struct vp_life *other = &placed[i];

        if (other->last < life.first || other->first > life.last)
            continue;
        if (other->offset >= life.offset + life.n_bytes)
            break;
        if (other->offset + other->n_bytes > life.offset)
            life.offset = other->offset + other->n_bytes;
    }
    while (at > 0 && placed[at - 1].offset > life.offset)
        at--;
    memmove(&placed[at + 1], &placed[at],
            (size_t)(n_placed - at) * sizeof(*placed));
    placed[at] = life;
}

int64_t vp_plan_lives(struct vp_life *lives, int n, struct vp_life *placed)
{
    int64_t n_bytes = 0;

    qsort(lives, (size_t)n, sizeof(*lives), larger_first);
    for (int i = 0; i < n; i++)
        place(placed, i, lives[i]);
    for (int i = 0; i < n; i++)
        if (placed[i].offset + placed[i].n_bytes > n_bytes)
            n_bytes = placed[i].offset + placed[i].n_bytes;
    return n_bytes;
}

/* Plans lists [first, end); returns the bytes that they need. */
static int64_t plan_lists(struct vp_lowering *lowering, int first, int end,
                          struct vp_life *lives, struct vp_life *placed)
{
    int n = find_lives(lowering, first, end, lives);
    int64_t n_bytes = vp_plan_lives(lives, n, placed);

    for (int i = 0; i < n; i++)
        lowering->temps[placed[i].id].offset = placed[i].offset;
    return n_bytes;
}

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

/* What is carried gets bytes of its own in SLOT; WORK has room for the list
 * that needs most. */
static void plan_apart(struct vp_lowering *lowering, struct vp_life *lives,
                       struct vp_life *placed)
{
    int64_t *slot = &lowering->program->n_bytes[VP_SPACE_SLOT];
    int64_t *work = &lowering->program->n_bytes[VP_SPACE_WORK];

    for (int i = 0; i < lowering->n_temps; i++) {
        if (!lowering->temps[i].carried)
            continue;
        lowering->temps[i].offset = *slot;
        *slot += lowering->temps[i].n_bytes;
    }
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        int64_t n_bytes = plan_lists(lowering, list, list + 1, lives, placed);

        if (n_bytes > *work)
            *work = n_bytes;
    }
}

/* All lists of a minibatch share SLOT, behind the loss. */
static void plan_together(struct vp_lowering *lowering, struct vp_life *lives,
                          struct vp_life *placed)
{
    int64_t *slot = &lowering->program->n_bytes[VP_SPACE_SLOT];
    int64_t n_bytes = plan_lists(lowering, 0, VP_LIST_COUNT, lives, placed);

    for (int i = 0; i < lowering->n_temps; i++)
        lowering->temps[i].offset += *slot;
    *slot += n_bytes;
}

enum vp_status vp_plan_memory(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    size_t n = (size_t)lowering->n_temps + 1;
    struct vp_life *lives = vp_lowering_alloc(lowering, n * sizeof(*lives));
    struct vp_life *placed = vp_lowering_alloc(lowering, n * sizeof(*placed));

    if (lowering->status != VP_OK)
        return lowering->status;
    if (lowering->spec->one_slot)
        plan_together(lowering, lives, placed);
    else
        plan_apart(lowering, lives, placed);
    for (int list = 0; list < VP_LIST_COUNT; list++)
        for (int i = 0; i < program->n_calls[list]; i++)
            each_ref(&program->calls[list][i], patch, lowering);
    return VP_OK;
}
