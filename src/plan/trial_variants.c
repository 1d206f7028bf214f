/* Lists the schedules that a search tries. */
#include "plan/trial.h"

#include <string.h>

enum { MOST_CHUNKS = 4 };

struct variants {
    const struct vp_search *search;
    const struct vp_search_input *input;
    struct vp_variant *at;
    int n;
};

/* Adds a variant, if recomputation is free with both of its forms. */
static void add(struct variants *to, struct vp_variant variant)
{
    const struct vp_plan *base = to->input->base;
    int n_stages = (base->n_stages > 0 ? base->n_stages : 1) * variant.n_chunks;

    if (n_stages > VP_MAX_STAGES || n_stages > to->search->n_blocks)
        return;
    /* Ratios and buffers are given per stage of the base plan. */
    if (!to->input->free_recompute &&
        (base->recompute_ratio || base->swap_ratio || base->swap_buffers) &&
        n_stages != vp_plan_n_stages(base))
        return;
    for (int in_b = 0; in_b < 2; in_b++) {
        if (!to->input->free_recompute && in_b != base->recompute_in_b)
            continue;
        if (to->n == VP_SEARCH_MAX_VARIANTS)
            return;
        variant.in_b = in_b;
        to->at[to->n++] = variant;
    }
}

/* Adds a variant for each memory of a rank, in chunks: three quarters of that
 * of 1f1b, and half. */
static void add_memories(struct variants *to, struct vp_variant variant)
{
    int p = to->input->base->n_stages;

    variant.memory = 0;
    if (p < 2)
        return;
    variant.memory = (3 * p + 1) / 2;
    add(to, variant);
    variant.memory = p > 2 ? p : 0;
    if (variant.memory > 0)
        add(to, variant);
}

static void add_generator(struct variants *to,
                          const struct vp_generator *generator)
{
    struct vp_variant variant = { .generator = generator, .n_chunks = 1 };
    const struct vp_generator *given = vp_generator_find(
        to->input->base->schedule);
    bool one_rank = to->input->base->n_stages < 2;

    if (generator->forward_only || generator->planned ||
        generator->stream != to->input->stream)
        return;
    /* Streams differ in when weights are updated, so the given one is kept. */
    if (given && given->stream && generator->stream && generator != given)
        return;
    if (one_rank && to->n > 0)
        return; /* nothing can overlap: all schedules are equal */
    variant.v_shape = generator->v_shape;
    if (generator->v_shape) {
        variant.n_chunks = 2;
        if (one_rank)
            return;
        if (generator->memory)
            add_memories(to, variant);
        else
            add(to, variant);
    } else if (generator->chunks) {
        for (int c = 2; c <= MOST_CHUNKS && !one_rank; c++) {
            variant.n_chunks = c;
            add(to, variant);
        }
    } else {
        add(to, variant);
    }
}

/* Adds the schedule of the base plan unchanged. */
static void add_given(struct variants *to)
{
    const struct vp_plan *base = to->input->base;
    const struct vp_generator *generator = vp_generator_find(
        base->schedule ? base->schedule : "1f1b");

    add(to, (struct vp_variant){
                .generator = generator,
                .n_chunks = base->n_chunks > 0 ? base->n_chunks : 1,
                .v_shape = generator->v_shape || base->schedule_v,
                .memory = base->schedule_memory,
            });
}

int vp_search_variants(const struct vp_search *search,
                       const struct vp_search_input *input,
                       struct vp_variant out[VP_SEARCH_MAX_VARIANTS])
{
    struct variants to = { search, input, out, 0 };
    bool cut = !input->free_partition && input->base->n_chunks > 1;

    if (!input->free_schedule || cut) {
        add_given(&to);
        return to.n;
    }
    for (int i = 0; vp_generator_at(i); i++) {
        const struct vp_generator *generator = vp_generator_at(i);

        /* A partition that is given has no chunks. */
        if (input->free_partition ||
            (!generator->chunks && !generator->v_shape))
            add_generator(&to, generator);
    }
    return to.n;
}
