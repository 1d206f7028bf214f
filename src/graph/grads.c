/* Memory of gradients that the optimizer consumes during backward.
 *
 * If the backend updates weights within backward, a matrix is updated soon
 * after the last W call that writes its gradient. Gradients of earlier layers
 * then reuse the memory:
 *
 *   W 23 | W 22 | W 21 | W 20 | W 19 | ...
 *   a    | a    | a    | d    | d    |     linger: two gradients
 *        | b    | b    | b    | e    |
 *        |      | c    | c    | c    |
 *
 * The backend decides when it updates, and delays a W call whose memory is
 * still in use. To make that rare, a gradient lingers: its memory is reused
 * only after grad_linger bytes of other gradients were written. Time is counted
 * in these bytes, so places depend only on the order of W calls, which is the
 * same in all buckets.
 *
 * Gradients of tied weights are added up after backward, so their memory is not
 * reused. Neither is that of vectors: they are small, and B kernels may write
 * them before W. */
#include "graph/internal.h"

static bool is_tied(const struct vp_param *param)
{
    return param->has_copies || param->tied_to != VP_NONE;
}

static bool is_vector(const struct vp_param *param)
{
    return param->rows == 1 || param->cols == 1;
}

static int64_t bytes_of(const struct vp_param *param)
{
    size_t n = (size_t)(param->rows * param->cols);

    return (int64_t)vp_align_up(n * sizeof(float), VP_TENSOR_ALIGN);
}

/* Returns the lifetime of gradient `i` of a call, or NULL if it is not of a
 * matrix. */
static struct vp_lifetime *find_life(const struct vp_lowering *lowering,
                                     const struct vp_call *call, int i,
                                     struct vp_lifetime *lives)
{
    vp_par par = call->op->par[i];

    if (!vp_ref_is(call->dpar[i]) || is_vector(&lowering->graph->params[par]))
        return NULL;
    return &lives[lowering->entry_of[par]];
}

/* Updates the lifetimes of the gradients that a call writes. `*now` counts the
 * bytes written so far. */
static void note_call(const struct vp_lowering *lowering,
                      const struct vp_call *call, struct vp_lifetime *lives,
                      int64_t *now)
{
    int64_t begin = *now;

    for (int i = 0; i < VP_MAX_PARAM; i++) {
        const struct vp_lifetime *life = find_life(lowering, call, i, lives);

        *now += life ? life->n_bytes : 0;
    }
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        struct vp_lifetime *life = find_life(lowering, call, i, lives);

        if (!life)
            continue;
        if (life->first < 0)
            life->first = begin;
        life->last = is_tied(&lowering->graph->params[call->op->par[i]])
                         ? INT64_MAX
                         : *now + lowering->spec->grad_linger;
    }
}

/* Collects the lifetimes of all gradients at the front of `lives`; constants
 * have no gradient. Returns their number. */
static int find_lives(const struct vp_lowering *lowering,
                      struct vp_lifetime *lives)
{
    const struct vp_program *program = lowering->program;
    const struct vp_layout *layout = &program->layout;
    int64_t now = 0;
    int n = 0;

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];

        lives[i] = (struct vp_lifetime){
            .id = i,
            .first = -1,
            .last = INT64_MAX,
            .n_bytes = bytes_of(&lowering->graph->params[entry->par]),
        };
    }
    for (int i = 0; i < program->n_calls[VP_LIST_B]; i++)
        note_call(lowering, &program->calls[VP_LIST_B][i], lives, &now);
    for (int i = 0; i < layout->n_entries; i++)
        if (layout->entries[i].grad_offset != VP_NONE)
            lives[n++] = lives[i];
    return n;
}

/* Writes the new offsets into a call. */
static void patch(const struct vp_lowering *lowering, struct vp_call *call)
{
    for (int i = 0; i < VP_MAX_PARAM; i++)
        if (vp_ref_is(call->dpar[i]))
            call->dpar[i] = vp_layout_grad(lowering, call->op->par[i]);
}

enum vp_status vp_grads_place(struct vp_lowering *lowering)
{
    struct vp_program *program = lowering->program;
    struct vp_layout *layout = &program->layout;
    size_t n_bytes = ((size_t)layout->n_entries + 1) *
                     sizeof(struct vp_lifetime);
    struct vp_lifetime *lives = vp_lowering_work(lowering, n_bytes);
    int n;

    if (lowering->status != VP_OK)
        return lowering->status;
    VP_BUG_ON(lowering->spec->split_w || lowering->spec->bundle_bytes > 0);
    n = find_lives(lowering, lives);
    VP_TRY(vp_lifetimes_place(lives, n, &layout->grad_bytes));
    for (int i = 0; i < n; i++)
        layout->entries[lives[i].id].grad_offset = lives[i].offset;
    for (int i = 0; i < program->n_calls[VP_LIST_B]; i++)
        patch(lowering, &program->calls[VP_LIST_B][i]);
    return VP_OK;
}
