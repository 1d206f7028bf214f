/* Time and memory of every choice of a block. Bytes are found by lowering the
 * block together with its successor and subtracting the successor alone. Sums
 * of these are estimates of a stage, which trial_fit.c corrects by exact
 * bytes. */
#include "plan/trial.h"

#include <stdlib.h>

/* ---- Lowering ----------------------------------------------------------- */

static enum vp_status lower(struct vp_search *search, struct vp_form form,
                            int first, int n, const uint64_t *sets,
                            const uint64_t *swaps, struct vp_stage_sizes *out,
                            struct vp_err *err)
{
    const struct vp_stage_choices
        choices = { .spec = {
                        .first_block = first,
                        .n_blocks = n,
                        .recompute = sets,
                        .swap = swaps,
                        .recompute_in_b = form.in_b,
                        .split_w = form.split,
                        .w_linger = search->work.device.w_linger,
                    } };

    return vp_pricer_sizes(search->pricer, &choices, out, err);
}

enum vp_status vp_search_fill_sizes(struct vp_search *search,
                                    struct vp_err *err)
{
    const struct vp_form plain = { false, false, false };

    for (int b = 0; b < search->n_blocks; b++)
        VP_TRY(lower(search, plain, b, 1, NULL, NULL, &search->blocks[b].alone,
                     err));
    return VP_OK;
}

/* ---- Choices ------------------------------------------------------------ */

/* Sets the sizes of a choice of block b. */
static enum vp_status measure(struct vp_search *search, struct vp_form form,
                              int b, struct vp_block_choice *choice,
                              struct vp_err *err)
{
    bool last = b + 1 == search->n_blocks;
    uint64_t sets[2] = { choice->recompute, 0 };
    uint64_t swaps[2] = { choice->swap, 0 };
    struct vp_stage_sizes both, next = { .has_floats = false };
    double left, all;

    VP_TRY(lower(search, form, b, last ? 1 : 2, sets,
                 choice->swap ? swaps : NULL, &both, err));
    if (!last)
        VP_TRY(lower(search, form, b + 1, 1, sets + 1, NULL, &next, err));
    choice->slot = both.slot_bytes[VP_SLOT_REST] -
                   next.slot_bytes[VP_SLOT_REST];
    choice->recomputed = both.n_bytes[VP_SPACE_RECOMPUTED];
    choice->work = both.n_bytes[VP_SPACE_WORK];
    choice->swapped = both.n_bytes[VP_SPACE_SWAPPED];
    left = both.flops[VP_SLOT_REST][VP_LIST_W] -
           next.flops[VP_SLOT_REST][VP_LIST_W];
    all = vp_graph_phase_flops(&search->work.graphs[0], b, 1, VP_PHASE_W);
    choice->moved_w = form.split ? all - left : 0.0;
    if (all > 0.0)
        choice->moved_seconds = search->costs.blocks[b].alone.w *
                                choice->moved_w / all;
    return VP_OK;
}

static uint64_t block_ops(const struct vp_graph *graph, int b)
{
    int n = graph->blocks[b].n_ops;

    return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* Returns the seconds that copies of a block's swapped values add: almost none
 * as long as they are shorter than the block's own work, which hides them. */
static double copy_seconds(const struct vp_search *search, int b, int64_t bytes)
{
    const double share = 0.02;
    const struct vp_device_profile *profile = search->profile;
    const struct vp_block_seconds *own = &search->costs.blocks[b].alone;
    double out = (double)bytes / profile->copy_out_both;
    double in = (double)bytes / profile->copy_in_both;
    double copy = out > in ? out : in, work = own->f + own->b + own->w;

    return share * copy + (copy > work ? copy - work : 0.0);
}

/* Adds choices that swap all saved values of a block, except those that the
 * first candidates recompute. */
static enum vp_status add_swaps(struct vp_search *search, struct vp_form form,
                                int b, const uint64_t *sets, int n_sets,
                                struct vp_block_row *row, struct vp_err *err)
{
    for (int i = 0; i < 3 && i <= n_sets; i++) {
        struct vp_block_choice *choice = &row->choices[row->n_choices];

        *choice = (struct vp_block_choice){
            .recompute = i == 0 ? 0 : sets[i - 1],
            .swap = block_ops(&search->work.graphs[0], b),
        };
        VP_TRY(measure(search, form, b, choice, err));
        choice->seconds = vp_cost_recompute(&search->costs, b,
                                            choice->recompute) +
                          copy_seconds(search, b, choice->swapped);
        row->n_choices += choice->swapped > 0;
    }
    return VP_OK;
}

static enum vp_status fill_row(struct vp_search *search, struct vp_form form,
                               int b, struct vp_block_row *row,
                               struct vp_err *err)
{
    const struct vp_graph *graph = &search->work.graphs[0];
    uint64_t sets[VP_PROFILE_MAX_SETS];
    int n = vp_profile_candidates(graph, b, sets);

    *row = (struct vp_block_row){ .n_choices = 1 };
    VP_TRY(measure(search, form, b, &row->choices[0], err));
    for (int i = 0; i < n; i++) {
        struct vp_block_choice *choice = &row->choices[row->n_choices];

        *choice = (struct vp_block_choice){
            .recompute = sets[i],
            .seconds = vp_cost_recompute(&search->costs, b, sets[i]),
        };
        VP_TRY(measure(search, form, b, choice, err));
        row->n_choices++;
    }
    return form.swap ? add_swaps(search, form, b, sets, n, row, err) : VP_OK;
}

static bool same_key(const struct vp_block_key *a, const struct vp_block_key *b)
{
    return a->low == b->low && a->high == b->high;
}

/* Returns an earlier block with the same key and the same successor; -1:
 * none. */
static int find_twin(const struct vp_search *search, int b)
{
    const struct vp_block_key *keys = search->keys;

    for (int i = 1; i < b && b + 1 < search->n_blocks; i++)
        if (same_key(&keys[i], &keys[b]) &&
            same_key(&keys[i + 1], &keys[b + 1]))
            return i;
    return -1;
}

enum vp_status vp_search_fill_rows(struct vp_search *search,
                                   struct vp_form form, struct vp_err *err)
{
    struct vp_block_row **rows = &search->rows[vp_form_index(form)];

    if (*rows)
        return VP_OK;
    *rows = calloc((size_t)search->n_blocks, sizeof(**rows));
    if (!*rows)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    for (int b = 0; b < search->n_blocks; b++) {
        int twin = find_twin(search, b);

        if (twin >= 0)
            (*rows)[b] = (*rows)[twin];
        else
            VP_TRY(fill_row(search, form, b, &(*rows)[b], err));
    }
    return VP_OK;
}
