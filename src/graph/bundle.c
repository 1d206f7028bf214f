/* Cutting the gradients of a stage into bundles. Backward goes from the end of
 * the model to its start, and so do they: the first ones are final early. */
#include "graph/lower.h"

/* The gradient nearest before `end`, or NULL. */
static const struct vp_layout_entry *entry_before(
    const struct vp_layout *layout, int64_t end)
{
    const struct vp_layout_entry *found = NULL;

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];

        if (entry->grad_offset != VP_NONE && entry->grad_offset < end &&
            (!found || entry->grad_offset > found->grad_offset))
            found = entry;
    }
    return found;
}

static void put(struct vp_program *program, int64_t begin, int64_t end)
{
    program->bundles[program->n_bundles++] = (struct vp_bundle){
        .begin = begin, .end = end, .list = VP_LIST_B
    };
}

/* Cuts one large parameter into pieces of the same size, nearly. */
static void put_pieces(struct vp_program *program, int64_t begin, int64_t end,
                       int64_t limit)
{
    int64_t unit = VP_TENSOR_ALIGN;
    int64_t n_units = (end - begin) / unit;
    int64_t n = (end - begin + limit - 1) / limit;

    for (int64_t i = n - 1; i >= 0; i--)
        put(program, begin + n_units * i / n * unit,
            begin + n_units * (i + 1) / n * unit);
}

/* Whole parameters, as many as fit the limit; one that is larger is cut. There
 * is always a bundle, if only an empty one: replicas meet there. */
static void cut(struct vp_program *program, int64_t limit)
{
    const struct vp_layout *layout = &program->layout;
    int64_t begin = layout->grad_bytes, end = begin;

    while (begin > 0) {
        int64_t next = entry_before(layout, begin)->grad_offset;

        if (begin < end && end - next > limit) {
            put(program, begin, end);
            end = begin;
        }
        if (begin - next > limit) {
            put_pieces(program, next, begin, limit);
            end = next;
        }
        begin = next;
    }
    if (begin < end || program->n_bundles == 0)
        put(program, begin, end);
    for (int i = 0, j = program->n_bundles - 1; i < j; i++, j--) {
        struct vp_bundle first = program->bundles[i];

        program->bundles[i] = program->bundles[j];
        program->bundles[j] = first;
    }
}

/* The bundles that a call writes are final no sooner than after it. */
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
        for (int b = 0; b < program->n_bundles; b++) {
            struct vp_bundle *bundle = &program->bundles[b];

            if (bundle->begin >= end || bundle->end <= ref.offset)
                continue;
            bundle->list = list;
            bundle->n_calls = index + 1;
        }
    }
}

static bool final_before(const struct vp_bundle *a, const struct vp_bundle *b)
{
    return a->list != b->list ? a->list < b->list : a->n_calls < b->n_calls;
}

static void sort(struct vp_program *program)
{
    int *order = program->bundle_order;

    for (int i = 0; i < program->n_bundles; i++) {
        int at = i;

        while (at > 0 && final_before(&program->bundles[i],
                                      &program->bundles[order[at - 1]])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

enum vp_status vp_bundles_make(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    int64_t limit = (int64_t)vp_align_up((size_t)lowering->spec->bundle_bytes,
                                         VP_TENSOR_ALIGN);
    size_t most = (size_t)program->layout.n_entries + 1 +
                  2 * (size_t)(program->layout.grad_bytes / limit);

    program->bundles = vp_lowering_alloc(lowering,
                                         most * sizeof(*program->bundles));
    program->bundle_order = vp_lowering_alloc(
        lowering, most * sizeof(*program->bundle_order));
    if (lowering->status != VP_OK)
        return lowering->status;
    cut(program, limit);
    for (int i = 0; i < program->n_calls[VP_LIST_B]; i++)
        note_call(program, VP_LIST_B, i);
    for (int i = 0; i < program->n_calls[VP_LIST_W]; i++)
        note_call(program, VP_LIST_W, i);
    sort(program);
    return VP_OK;
}
