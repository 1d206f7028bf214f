/* The memory plan: temporaries that are never alive together share bytes.
 *
 * A temporary lives from the first to the last call of its list that names
 * it, scratch a call longer; those of a W see linger(). Largest first, each goes to the lowest offset
 * that is free during its whole life. Temporaries that W reads after B move to
 * the slot. */
#include "graph/lower.h"

#include <stdlib.h>
#include <string.h>

struct life {
    int temp;
    int first, last; /* calls of the list; first < 0: not in this list */
    int64_t n_bytes;
    int64_t offset;
};

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
    fn(ctx, &call->scratch);
}

struct scan {
    const struct vp_temp *temps;
    struct life *lives; /* per temporary */
    int call;
};

static void note_use(void *ctx, struct vp_ref *ref)
{
    struct scan *scan = ctx;
    struct life *life;

    if (ref->space != VP_SPACE_WORK || scan->temps[ref->offset].carried)
        return;
    life = &scan->lives[ref->offset];
    if (life->first < 0)
        life->first = scan->call;
    if (life->last < scan->call)
        life->last = scan->call;
}

/* A W that a backend runs beside the list may end some calls later, and its
 * scratch is used together with the call before it. */
static void linger(const struct vp_lowering *lowering, struct vp_call *call,
                   struct scan *scan)
{
    int index = scan->call;
    struct vp_ref scratch = call->scratch;

    if (call->phase != VP_PHASE_W || lowering->spec->w_linger == 0)
        return;
    scan->call += lowering->spec->w_linger;
    each_ref(call, note_use, scan);
    if (scratch.space == VP_SPACE_WORK && index > 0)
        scan->lives[scratch.offset].first = index - 1;
}

/* Collects the lives of one list at the front of `lives`; returns how many. */
static int find_lives(const struct vp_lowering *lowering, enum vp_list list,
                      struct life *lives)
{
    const struct vp_program *program = lowering->program;
    struct scan scan = { .temps = lowering->temps, .lives = lives };
    int n = 0;

    for (int i = 0; i < lowering->n_temps; i++)
        lives[i] = (struct life){ .temp = i,
                                  .first = -1,
                                  .last = -1,
                                  .n_bytes = lowering->temps[i].n_bytes };
    for (int i = 0; i < program->n_calls[list]; i++) {
        scan.call = i;
        each_ref(&program->calls[list][i], note_use, &scan);
        linger(lowering, &program->calls[list][i], &scan);
        /* A backend may run the next call together with this one. */
        scan.call = i + 1;
        note_use(&scan, &program->calls[list][i].scratch);
    }
    for (int i = 0; i < lowering->n_temps; i++)
        if (lives[i].first >= 0)
            lives[n++] = lives[i];
    return n;
}

static int larger_first(const void *a, const void *b)
{
    const struct life *x = a, *y = b;

    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? 1 : -1;
    return (x->temp > y->temp) - (x->temp < y->temp);
}

/* `placed` is sorted by offset; inserts `life` at the lowest free place. */
static void place(struct life *placed, int n_placed, struct life life)
{
    int at = n_placed;

    life.offset = 0;
    for (int i = 0; i < n_placed; i++) {
        const struct life *other = &placed[i];

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

/* Plans one list; returns the bytes of WORK it needs. */
static int64_t plan_list(struct vp_lowering *lowering, enum vp_list list,
                         struct life *lives, struct life *placed)
{
    int n = find_lives(lowering, list, lives);
    int64_t end = 0;

    qsort(lives, (size_t)n, sizeof(*lives), larger_first);
    for (int i = 0; i < n; i++)
        place(placed, i, lives[i]);
    for (int i = 0; i < n; i++) {
        lowering->temps[placed[i].temp].offset = placed[i].offset;
        if (placed[i].offset + placed[i].n_bytes > end)
            end = placed[i].offset + placed[i].n_bytes;
    }
    return end;
}

static void patch(void *ctx, struct vp_ref *ref)
{
    const struct vp_lowering *lowering = ctx;
    const struct vp_temp *temp;

    if (ref->space != VP_SPACE_WORK)
        return;
    temp = &lowering->temps[ref->offset];
    ref->space = temp->carried ? VP_SPACE_SLOT : VP_SPACE_WORK;
    ref->offset = temp->offset;
}

enum vp_status vp_plan_memory(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    size_t n = (size_t)lowering->n_temps + 1;
    struct life *lives = vp_lowering_alloc(lowering, n * sizeof(*lives));
    struct life *placed = vp_lowering_alloc(lowering, n * sizeof(*placed));

    if (lowering->status != VP_OK)
        return lowering->status;
    for (int i = 0; i < lowering->n_temps; i++) {
        if (!lowering->temps[i].carried)
            continue;
        lowering->temps[i].offset = program->n_bytes[VP_SPACE_SLOT];
        program->n_bytes[VP_SPACE_SLOT] += lowering->temps[i].n_bytes;
    }
    for (int list = 0; list < VP_LIST_COUNT; list++) {
        int64_t end = plan_list(lowering, (enum vp_list)list, lives, placed);

        if (end > program->n_bytes[VP_SPACE_WORK])
            program->n_bytes[VP_SPACE_WORK] = end;
    }
    for (int list = 0; list < VP_LIST_COUNT; list++)
        for (int i = 0; i < program->n_calls[list]; i++)
            each_ref(&program->calls[list][i], patch, lowering);
    return VP_OK;
}
