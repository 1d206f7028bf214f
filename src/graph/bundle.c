/* Cuts the gradients of a stage into bundles, which replicas all-reduce while
 * backward goes on. Backward runs from the end of the model to its start, so
 * bundles of the last layers are final first. */
#include "graph/internal.h"

#include <stdlib.h>

static int by_offset(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Lists the offsets at which gradients begin, ascending. Returns their
 * number. */
static int list_begins(const struct vp_layout *layout, int64_t *begins)
{
    int n = 0;

    for (int i = 0; i < layout->n_entries; i++)
        if (layout->entries[i].grad_offset != VP_NONE)
            begins[n++] = layout->entries[i].grad_offset;
    qsort(begins, (size_t)n, sizeof(*begins), by_offset);
    return n;
}

static void add_bundle(struct vp_program *program, int64_t begin, int64_t end)
{
    program->bundles[program->n_bundles++] = (struct vp_bundle){
        .begin = begin, .end = end, .list = VP_LIST_B
    };
}

/* Cuts the gradient of one large parameter into bundles of nearly equal
 * size. */
static void add_pieces(struct vp_program *program, int64_t begin, int64_t end,
                       int64_t limit)
{
    int64_t unit = VP_TENSOR_ALIGN;
    int64_t n_units = (end - begin) / unit;
    int64_t n = (end - begin + limit - 1) / limit;

    for (int64_t i = n - 1; i >= 0; i--)
        add_bundle(program, begin + n_units * i / n * unit,
                   begin + n_units * (i + 1) / n * unit);
}

/* A bundle has the gradients of whole parameters up to `limit` bytes; a larger
 * gradient is cut. There is always at least one bundle, which may be empty:
 * replicas synchronise in it. */
static void cut_grads(struct vp_program *program, int64_t limit,
                      int64_t *begins)
{
    int64_t begin = program->layout.grad_bytes, end = begin;

    for (int i = list_begins(&program->layout, begins) - 1; i >= 0; i--) {
        int64_t next = begins[i];

        if (begin < end && end - next > limit) {
            add_bundle(program, begin, end);
            end = begin;
        }
        if (begin - next > limit) {
            add_pieces(program, next, begin, limit);
            end = next;
        }
        begin = next;
    }
    if (begin < end || program->n_bundles == 0)
        add_bundle(program, begin, end);
    for (int i = 0, j = program->n_bundles - 1; i < j; i++, j--) {
        struct vp_bundle first = program->bundles[i];

        program->bundles[i] = program->bundles[j];
        program->bundles[j] = first;
    }
}

/* Returns the first bundle that ends after `offset`. */
static int find_bundle(const struct vp_program *program, int64_t offset)
{
    int begin = 0, end = program->n_bundles;

    while (begin < end) {
        int middle = begin + (end - begin) / 2;

        if (program->bundles[middle].end > offset)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

/* Records that the bundles which a call writes are not final before it has
 * run. */
static void note_call(struct vp_program *program, enum vp_list list, int index)
{
    const struct vp_call *call = &program->calls[list][index];

    for (int i = 0; i < VP_MAX_PARAM; i++) {
        struct vp_ref ref = call->dpar[i];
        const struct vp_param *param;
        int64_t end;

        if (!vp_ref_is(ref))
            continue;
        param = &program->graph->params[call->op->par[i]];
        end = ref.offset + param->rows * param->cols * (int64_t)sizeof(float);
        for (int b = find_bundle(program, ref.offset);
             b < program->n_bundles && program->bundles[b].begin < end; b++) {
            program->bundles[b].list = list;
            program->bundles[b].n_calls = index + 1;
        }
    }
}

/* The call after which a bundle is final: see struct vp_bundle. */
struct moment {
    enum vp_list list;
    int n_calls, bundle;
};

static int by_moment(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->list != y->list)
        return x->list < y->list ? -1 : 1;
    if (x->n_calls != y->n_calls)
        return x->n_calls < y->n_calls ? -1 : 1;
    return (x->bundle > y->bundle) - (x->bundle < y->bundle);
}

static void sort_bundles(struct vp_program *program, struct moment *moments)
{
    for (int i = 0; i < program->n_bundles; i++)
        moments[i] = (struct moment){ program->bundles[i].list,
                                      program->bundles[i].n_calls, i };
    qsort(moments, (size_t)program->n_bundles, sizeof(*moments), by_moment);
    for (int i = 0; i < program->n_bundles; i++)
        program->bundle_order[i] = moments[i].bundle;
}

enum vp_status vp_bundles_make(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    int64_t limit = (int64_t)vp_align_up((size_t)lowering->spec->bundle_bytes,
                                         VP_TENSOR_ALIGN);
    size_t most = (size_t)program->layout.n_entries + 1 +
                  2 * (size_t)(program->layout.grad_bytes / limit);
    int64_t *begins = vp_lowering_work(lowering, most * sizeof(*begins));
    struct moment *moments = vp_lowering_work(lowering,
                                              most * sizeof(*moments));

    program->bundles = vp_lowering_alloc(lowering,
                                         most * sizeof(*program->bundles));
    program->bundle_order = vp_lowering_alloc(
        lowering, most * sizeof(*program->bundle_order));
    if (lowering->status != VP_OK)
        return lowering->status;
    cut_grads(program, limit, begins);
    for (int i = 0; i < program->n_calls[VP_LIST_B]; i++)
        note_call(program, VP_LIST_B, i);
    for (int i = 0; i < program->n_calls[VP_LIST_W]; i++)
        note_call(program, VP_LIST_W, i);
    sort_bundles(program, moments);
    return VP_OK;
}
